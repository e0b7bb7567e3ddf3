import { createConfig } from "ponder";
import { registryAbi } from "./abis/registry";

export default createConfig({
  database: { kind: "postgres", connectionString: process.env.DATABASE_URL },
  chains: { anvil: { id: 31337, rpc: process.env.PONDER_RPC_URL_31337, pollingInterval: 500 } },
  contracts: {
    Registry: {
      abi: registryAbi,
      chain: "anvil",
      address: process.env.REGISTRY as `0x${string}`,
      startBlock: 0,
      endBlock: Number(process.env.END_BLOCK),
    },
  },
});
