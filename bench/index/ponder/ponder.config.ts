import { createConfig } from "ponder";
import { toolRegistry } from "./abi";

const setting = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};

export default createConfig({
  database: { kind: "postgres", connectionString: setting("PONDER_DATABASE") },
  chains: { local: { id: Number(setting("PONDER_CHAIN")), rpc: setting("PONDER_RPC"), pollingInterval: 1_000 } },
  contracts: {
    ToolRegistry: {
      abi: toolRegistry,
      chain: "local",
      address: setting("PONDER_REGISTRY") as `0x${string}`,
      startBlock: Number(process.env.PONDER_FIRST_BLOCK ?? "0"),
    },
  },
});
