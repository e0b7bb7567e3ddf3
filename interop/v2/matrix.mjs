// Other people's clients against other people's servers, through the reference facilitator: node matrix.mjs
//
// Says what works before anything of ours is in between, so that a failure elsewhere can be told from a change of theirs.
// The chain is the node at RPC_URL (chain id 84532, methods of anvil), or an anvil of its own from TOOLCRIB_ANVIL.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { privateKeyToAccount } from 'viem/accounts';
import { balanceOf, connect, putUsdc } from './usdc.mjs';

// Keys that every development chain publishes: the facilitator's gas, the payer, one without funds. 
const [GAS, PAYER, POOR] = [
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  '0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a',
  '0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a',
];
const PAY_TO = '0x90F79bf6EB2c4f870365E785982E1f101E93b906';
const PRICE = 10_000n;
const STARTING_TIME = 60_000;
const CALL_TIME = 60_000;

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const node = (path) => [process.execPath, here(path)];
const python = [here('../python/venv/bin/python'), here('../python/client.py')];
const clients = {
  '@x402/fetch': { command: node('client.mjs') },
  '@x402/axios': { command: node('axios.mjs') },
  'x402-fetch': { command: node('../v1/client.mjs'), isOld: true },
  'x402-axios': { command: node('../v1/axios.mjs'), isOld: true },
  'x402 (Python, httpx)': { command: python },
  'x402 (Python, requests)': { command: python, env: { CLIENT: 'requests' } },
  'x402-reqwest': { command: [here('../rust/foreign-client')] },
};
const one = { header: 'x-payment-response', network: 'base-sepolia', env: { VERSION: '1' } };
const two = { header: 'payment-response', network: 'eip155:84532', env: { VERSION: '2' } };
const servers = {
  '@x402/express': { ...two, script: here('server.mjs') },
  '@x402/hono': { ...two, script: here('hono.mjs') },
  '@x402/next': { ...two, script: here('../next/server.mjs') },
  'x402-express': { ...one, script: here('../v1/server.mjs') },
  'x402-hono': { ...one, script: here('../v1/hono.mjs') },
  'x402-next': { ...one, script: here('../next/server.mjs') },
};
// It takes minutes to compile, so it is not always there.
if (!existsSync(clients['x402-reqwest'].command[0])) delete clients['x402-reqwest'];
// A client of version 1 finds no challenge in the body of a server of version 2.
const fails = (client, server) => clients[client].isOld && servers[server].env.VERSION === '2';

const children = [];
function start(command, args, env) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

async function firstMatch(child, pattern) {
  const timer = setTimeout(() => child.kill(), STARTING_TIME);
  for await (const line of createInterface({ input: child.stdout })) {
    const found = pattern.exec(line);
    if (found) {
      clearTimeout(timer);
      child.stdout.resume();
      return found[1];
    }
  }
  throw new Error(`${child.spawnfile} ${child.spawnargs[1] ?? ''} ended before it listened`);
}

async function serve(script, env) {
  return `http://127.0.0.1:${await firstMatch(start(process.execPath, [script], env), /"port":(\d+)/)}`;
}

async function call({ command: [command, ...args], env: more }, url, key) {
  const env = { ...more, PATH: process.env.PATH, PRIVATE_KEY: key, BODY: '{"text":"one two three"}' };
  const child = spawn(command, [...args, url], { env, stdio: ['ignore', 'pipe', 'inherit'], timeout: CALL_TIME });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  await once(child, 'close');
  return JSON.parse(output);
}

async function main() {
  for (const { command } of Object.values(clients)) assert(existsSync(command[0]), `${command[0]} is missing: run interop/setup`);
  let rpcUrl = process.env.RPC_URL;
  if (!rpcUrl) {
    assert(process.env.TOOLCRIB_ANVIL, 'neither RPC_URL nor TOOLCRIB_ANVIL is set');
    const anvil = start(process.env.TOOLCRIB_ANVIL, ['--port', '0', '--chain-id', '84532']);
    rpcUrl = `http://${await firstMatch(anvil, /Listening on (\S+)/)}`;
  }
  const chain = connect(rpcUrl);
  const payer = privateKeyToAccount(PAYER).address;
  await putUsdc(chain, [[payer, 1_000_000n]]);
  const facilitator = await serve(here('facilitator.mjs'), { RPC_URL: rpcUrl, PRIVATE_KEY: GAS });
  const stats = async () => (await fetch(`${facilitator}/stats`)).json();

  for (const [server, { script, header, network, env }] of Object.entries(servers)) {
    const url = await serve(script, { ...env, FACILITATOR_URL: facilitator, PAY_TO });
    const handled = async () => (await (await fetch(`${url}/stats`)).json()).handled;
    for (const [client, program] of Object.entries(clients)) {
      for (const [route, price] of [['paid', PRICE], ['free', 0n]]) {
        const what = `${client} against ${server}, ${route}`;
        const before = [await balanceOf(chain, payer), await balanceOf(chain, PAY_TO), (await stats()).settled, await handled()];
        const { status, body, receipt, header: found, error } = await call(program, `${url}/${route}`, PAYER);
        const after = [await balanceOf(chain, payer), await balanceOf(chain, PAY_TO), (await stats()).settled, await handled()];
        if (fails(client, server)) {
          assert(error, `${what}: worked, which is new`);
          assert.deepEqual(after, before, what);
          console.log(`${what}: fails as known: ${error.slice(0, 80)}`);
          continue;
        }
        assert.equal(error, null, what);
        assert.deepEqual([status, body, found], [200, { words: 3, method: 'POST' }, header], what);
        assert.deepEqual([receipt.success, receipt.network, receipt.payer?.toLowerCase()], [true, network, payer.toLowerCase()], what);
        assert.match(receipt.transaction, /^0x[0-9a-f]{64}$/, what);
        // Theirs settle transfers of nothing on the chain too.
        assert.deepEqual(after, [before[0] - price, before[1] + price, before[2] + 1, before[3] + 1], what);
        console.log(`${what}: 200`);
      }
      if (fails(client, server)) continue;
      const before = [await balanceOf(chain, PAY_TO), (await stats()).settled];
      const poor = await call(program, `${url}/paid`, POOR);
      assert.notEqual(poor.status, 200, `${client} against ${server} without funds`);
      assert.deepEqual([await balanceOf(chain, PAY_TO), (await stats()).settled], before);
      console.log(`${client} against ${server}, without funds: ${poor.status}${poor.error ? ` (${poor.error.slice(0, 60)})` : ''}`);
    }
  }
  console.log(JSON.stringify(await stats()));
}

try {
  await main();
} finally {
  for (const child of children) child.kill();
}
