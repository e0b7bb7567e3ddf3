// Puts Multicall3 where it is on public chains: node multicall3.mjs RPC_URL. The reference facilitator simulates deployments of wallets
// through it. The node must have the methods of anvil. Prints one line of JSON: bytes, error.
import { createTestClient, http, publicActions } from 'viem';
import { baseSepolia } from 'viem/chains';
import { multicall3Bytecode } from './node_modules/viem/_esm/constants/contracts.js';

const line = { bytes: 0, error: null };
try {
  const transport = http(process.argv[2], { timeout: 10_000 });
  const client = createTestClient({ mode: 'anvil', chain: baseSepolia, transport }).extend(publicActions);
  // What a deployment would leave is what a call without a recipient returns.
  const { data: bytecode } = await client.call({ data: multicall3Bytecode });
  await client.setCode({ address: baseSepolia.contracts.multicall3.address, bytecode });
  line.bytes = (bytecode.length - 2) / 2;
} catch (error) {
  line.error = String(error?.message ?? error);
}
console.log(JSON.stringify(line));
