// Puts the test USDC where the real one is on Base Sepolia: node usdc.mjs RPC_URL [ACCOUNT=UNITS…]
//
// The clients and servers of other people know tokens by chain and address, so a token of ours would be refused or need
// settings that they do not have. The node must have chain id 84532 and the methods of anvil.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { createTestClient, encodeDeployData, hashDomain, http, publicActions, walletActions, zeroHash } from 'viem';
import { baseSepolia } from 'viem/chains';

export const USDC = '0x036CbD53842c5426634e7929541eC2318f3dCF7e';
const DOMAIN = { name: 'USDC', version: '2', chainId: 84532, verifyingContract: USDC };
const FIELDS = [
  { name: 'name', type: 'string' },
  { name: 'version', type: 'string' },
  { name: 'chainId', type: 'uint256' },
  { name: 'verifyingContract', type: 'address' },
];
// What the constructor writes (name, symbol, version) is in the first slots; the rest of the storage is empty then.
const CONSTRUCTED_SLOTS = 12;

export const artifact = JSON.parse(readFileSync(new URL('../../contracts/artifacts/TestUSDC.json', import.meta.url)));

export function connect(rpcUrl) {
  const transport = http(rpcUrl, { timeout: 10_000 });
  return createTestClient({ mode: 'anvil', chain: baseSepolia, transport, pollingInterval: 50 }).extend(publicActions).extend(walletActions);
}

export async function putUsdc(client, balances) {
  const [deployer] = await client.getAddresses();
  const send = async (request) => {
    const hash = await client.sendTransaction({ account: deployer, gas: 8_000_000n, ...request });
    const receipt = await client.waitForTransactionReceipt({ hash, timeout: 10_000 });
    if (receipt.status !== 'success') throw new Error(`transaction ${hash} failed`);
    return receipt;
  };
  const bytecode = artifact.bytecode.object ?? artifact.bytecode;
  const data = encodeDeployData({ abi: artifact.abi, bytecode, args: ['USDC', '2'] });
  const { contractAddress } = await send({ data });
  await client.setCode({ address: USDC, bytecode: await client.getCode({ address: contractAddress }) });
  for (let slot = 0; slot < CONSTRUCTED_SLOTS; slot++) {
    const index = `0x${slot.toString(16)}`;
    const value = await client.getStorageAt({ address: contractAddress, slot: index });
    if (value && value !== zeroHash) await client.setStorageAt({ address: USDC, index, value });
  }
  const separator = await client.readContract({ address: USDC, abi: artifact.abi, functionName: 'DOMAIN_SEPARATOR' });
  const wanted = hashDomain({ domain: DOMAIN, types: { EIP712Domain: FIELDS } });
  if (separator !== wanted) throw new Error(`signing domain ${separator}, not ${wanted}`);
  for (const [account, units] of balances) {
    const hash = await client.writeContract({ account: deployer, address: USDC, abi: artifact.abi, functionName: 'mint', args: [account, units], gas: 200_000n });
    await client.waitForTransactionReceipt({ hash, timeout: 10_000 });
  }
}

export const balanceOf = (client, account) =>
  client.readContract({ address: USDC, abi: artifact.abi, functionName: 'balanceOf', args: [account] });

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [rpcUrl, ...balances] = process.argv.slice(2);
  await putUsdc(connect(rpcUrl), balances.map((pair) => pair.split('=')).map(([account, units]) => [account, BigInt(units)]));
  console.log(JSON.stringify({ token: USDC }));
}
