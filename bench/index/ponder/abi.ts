export const toolRegistry = [
  {
    type: "event",
    name: "ToolRegistered",
    inputs: [
      { name: "toolId", type: "uint256", indexed: true },
      { name: "creator", type: "address", indexed: true },
      { name: "accessPredicate", type: "address", indexed: true },
      { name: "metadataURI", type: "string", indexed: false },
      { name: "manifestHash", type: "bytes32", indexed: false },
    ],
  },
  {
    type: "event",
    name: "ToolMetadataUpdated",
    inputs: [
      { name: "toolId", type: "uint256", indexed: true },
      { name: "newURI", type: "string", indexed: false },
      { name: "newHash", type: "bytes32", indexed: false },
    ],
  },
  {
    type: "event",
    name: "AccessPredicateUpdated",
    inputs: [
      { name: "toolId", type: "uint256", indexed: true },
      { name: "newPredicate", type: "address", indexed: true },
    ],
  },
  { type: "event", name: "ToolDeregistered", inputs: [{ name: "toolId", type: "uint256", indexed: true }] },
] as const;
