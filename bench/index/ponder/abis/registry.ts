import { parseAbi } from "viem";

export const registryAbi = parseAbi([
  "event ToolRegistered(uint256 indexed toolId, address indexed creator, address indexed accessPredicate, string metadataURI, bytes32 manifestHash)",
  "event ToolMetadataUpdated(uint256 indexed toolId, string newURI, bytes32 newHash)",
  "event AccessPredicateUpdated(uint256 indexed toolId, address indexed newPredicate)",
  "event ToolDeregistered(uint256 indexed toolId)",
]);
