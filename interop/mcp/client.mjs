// Lists the tools of a server over stdio and calls one, with an SDK for TypeScript: `client.mjs 1|2-legacy|2-modern PROGRAM TOOL ARGUMENTS`.
// Prints what it saw as one line of JSON. Results are checked by the SDK against the schemas that were listed.
const [mode, command, name, text] = process.argv.slice(2);
const old = mode === "1";
const { Client } = await import(old ? "@modelcontextprotocol/sdk/client/index.js" : "client-newest");
const { StdioClientTransport } = await import(old ? "@modelcontextprotocol/sdk/client/stdio.js" : "client-newest/stdio");
const negotiation = { mode: mode === "2-modern" ? { pin: "2026-07-28" } : "legacy" };
const client = new Client({ name: "interop", version: "1.0.0" }, old ? {} : { versionNegotiation: negotiation });
await client.connect(new StdioClientTransport({ command, args: [] }));
const { tools } = await client.listTools();
const result = await client.callTool({ name, arguments: JSON.parse(text) });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name).sort(), isError: result.isError ?? false, structured: result.structuredContent }));
await client.close();
