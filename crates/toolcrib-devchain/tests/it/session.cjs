// A session with viem: node session.cjs HTTP_URL WS_URL. TOOLCRIB_NODE_MODULES is the folder that viem is installed in.
const { createRequire } = require('node:module');
const assert = require('node:assert/strict');
const from = createRequire(process.env.TOOLCRIB_NODE_MODULES + '/');
const viem = from('viem');
const { mnemonicToAccount } = from('viem/accounts');
const { foundry } = from('viem/chains');

const [http, ws] = process.argv.slice(2);
const LOGGER_INIT =
  '0x602280600b6000396000f336156016576000358060005580600052602060' + '00a1005b60005460005260206000f3';
const REVERTER = '0x63deadbeef60e01b60005260046000fd';
const word = (n) => viem.toHex(n, { size: 32 });

async function main() {
  const account = mnemonicToAccount('test test test test test test test test test test test junk');
  const transport = viem.http(http, { batch: true });
  const client = viem.createPublicClient({ chain: foundry, transport, pollingInterval: 50 });
  const wallet = viem.createWalletClient({ account, chain: foundry, transport });
  const test = viem.createTestClient({ mode: 'anvil', chain: foundry, transport });
  const socket = viem.createPublicClient({ chain: foundry, transport: viem.webSocket(ws) });
  const mined = async (hash) => client.waitForTransactionReceipt({ hash, timeout: 10_000 });

  assert.equal(await client.getChainId(), 31337);
  const heads = [];
  const unwatch = socket.watchBlocks({ onBlock: (block) => heads.push(block.number), onError: (error) => { throw error; } });

  const deployed = await mined(await wallet.deployContract({ abi: [], bytecode: LOGGER_INIT }));
  assert.equal(deployed.status, 'success');
  const logger = deployed.contractAddress;

  for (const type of ['legacy', 'eip2930', 'eip1559']) {
    const fees = type === 'eip1559' ? {} : { gasPrice: viem.parseGwei('3') };
    const accessList = type === 'eip2930' ? { accessList: [{ address: logger, storageKeys: [word(0)] }] } : {};
    const receipt = await mined(await wallet.sendTransaction({ to: logger, data: word(5), type, ...fees, ...accessList }));
    assert.equal(receipt.type, type);
    assert.equal(receipt.logs.length, 1);
  }
  assert.equal((await client.call({ to: logger })).data, word(5));

  // EIP-7702: the second account lends itself the logger's code.
  const second = mnemonicToAccount('test test test test test test test test test test test junk', { addressIndex: 1 });
  const authorization = await wallet.signAuthorization({ account: second, contractAddress: logger });
  const lent = await mined(await wallet.sendTransaction({ authorizationList: [authorization], to: second.address, data: word(6) }));
  assert.equal(lent.status, 'success');
  assert.equal(await client.getCode({ address: second.address }), '0xef0100' + logger.slice(2).toLowerCase());

  const logs = await client.getLogs({ address: logger, fromBlock: 0n });
  assert.equal(logs.length, 3);

  const reverter = '0x00000000000000000000000000000000000000aa';
  await test.setCode({ address: reverter, bytecode: REVERTER });
  const reverted = await client.call({ to: reverter }).catch((error) => error.walk((cause) => cause.data !== undefined));
  assert.equal(reverted.data, '0xdeadbeef');
  await assert.rejects(client.estimateGas({ account, to: reverter }), viem.EstimateGasExecutionError);

  const low = await wallet.sendTransaction({ to: logger, nonce: 0, gas: 50_000n }).catch((error) => error);
  assert.ok(low.walk((cause) => cause instanceof viem.NonceTooLowError) , String(low));
  const poor = await wallet.sendTransaction({ to: logger, value: viem.parseEther('99999'), gas: 50_000n }).catch((error) => error);
  assert.ok(poor.walk((cause) => cause instanceof viem.InsufficientFundsError), String(poor));

  const filter = await client.createBlockFilter();
  const id = await test.snapshot();
  const before = await client.getBlockNumber({ cacheTime: 0 });
  await test.mine({ blocks: 3, interval: 10 });
  assert.equal((await client.getFilterChanges({ filter })).length, 3);
  await test.revert({ id });
  assert.equal(await client.getBlockNumber({ cacheTime: 0 }), before);
  await test.increaseTime({ seconds: 100 });
  await test.setBalance({ address: reverter, value: 7n });
  assert.equal(await client.getBalance({ address: reverter }), 7n);
  const fees = await client.estimateFeesPerGas();
  assert.ok(fees.maxFeePerGas > fees.maxPriorityFeePerGas);
  assert.equal((await client.getFeeHistory({ blockCount: 2, rewardPercentiles: [50] })).reward.length, 2);

  for (let tries = 0; heads.length < 4 && tries < 100; tries += 1) await new Promise((done) => setTimeout(done, 20));
  assert.ok(heads.length >= 4, `heads: ${heads}`);
  unwatch();
  console.log('viem: done');
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
