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
const STARTING_TIME = 20_000;
const CALL_TIME = 60_000;

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const clients = {
  '@x402/fetch': [process.execPath, here('client.mjs')],
  'x402-fetch': [process.execPath, here('../v1/client.mjs')],
  'x402 (Python)': [here('../python/venv/bin/python'), here('../python/client.py')],
  'x402-reqwest': [here('../rust/foreign-client')],
};
const servers = {
  '@x402/express': { script: here('server.mjs'), header: 'payment-response', network: 'eip155:84532' },
  'x402-express': { script: here('../v1/server.mjs'), header: 'x-payment-response', network: 'base-sepolia' },
};
// A client of version 1 finds no challenge in the body of a server of version 2.
const fails = (client, server) => client === 'x402-fetch' && server === '@x402/express';

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

async function call([command, ...args], url, key) {
  const env = { PATH: process.env.PATH, PRIVATE_KEY: key, BODY: '{"text":"one two three"}' };
  const child = spawn(command, [...args, url], { env, stdio: ['ignore', 'pipe', 'inherit'], timeout: CALL_TIME });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  await once(child, 'close');
  return JSON.parse(output);
}

async function main() {
  for (const command of Object.values(clients)) assert(existsSync(command[0]), `${command[0]} is missing: run interop/setup`);
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

  for (const [server, { script, header, network }] of Object.entries(servers)) {
    const url = await serve(script, { FACILITATOR_URL: facilitator, PAY_TO });
    const handled = async () => (await (await fetch(`${url}/stats`)).json()).handled;
    for (const [client, command] of Object.entries(clients)) {
      for (const [route, price] of [['paid', PRICE], ['free', 0n]]) {
        const what = `${client} against ${server}, ${route}`;
        const before = [await balanceOf(chain, payer), await balanceOf(chain, PAY_TO), (await stats()).settled, await handled()];
        const { status, body, receipt, header: found, error } = await call(command, `${url}/${route}`, PAYER);
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
      const poor = await call(command, `${url}/paid`, POOR);
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
