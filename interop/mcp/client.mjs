// Lists the tools of a server over stdio and calls some, with an SDK for TypeScript:
// `client.mjs 1|2-legacy|2-modern PROGRAM TOOL ARGUMENTS [TOOL ARGUMENTS]…`. The variable ANSWER says what a user answers to questions:
// `accept:DECISION`, `decline` or `cancel`; without it the client cannot be asked. Prints a line of JSON for the list and for each call.
// Results are checked by the SDK against the schemas that were listed.
const [mode, command, ...calls] = process.argv.slice(2);
const [action, decision] = (process.env.ANSWER ?? "").split(":");
const old = mode === "1";
const { Client } = await import(old ? "@modelcontextprotocol/sdk/client/index.js" : "client-newest");
const { StdioClientTransport } = await import(old ? "@modelcontextprotocol/sdk/client/stdio.js" : "client-newest/stdio");
const negotiation = { mode: mode === "2-modern" ? { pin: "2026-07-28" } : "legacy" };
const capabilities = action ? { elicitation: {} } : {};
const client = new Client({ name: "interop", version: "1.0.0" }, old ? { capabilities } : { capabilities, versionNegotiation: negotiation });
let asked = 0;
if (action) {
  const request = old ? (await import("@modelcontextprotocol/sdk/types.js")).ElicitRequestSchema : "elicitation/create";
  client.setRequestHandler(request, async () => {
    asked += 1;
    return action === "accept" ? { action, content: { decision } } : { action };
  });
}
await client.connect(new StdioClientTransport({ command, args: [] }));
const { tools } = await client.listTools();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name).sort() }));
for (let place = 0; place < calls.length; place += 2) {
  const [name, text] = calls.slice(place, place + 2);
  asked = 0;
  const result = await client.callTool({ name, arguments: JSON.parse(text) });
  const texts = result.content.map((block) => block.text);
  console.log(JSON.stringify({ name, asked, isError: result.isError ?? false, structured: result.structuredContent ?? null, texts }));
}
await client.close();
