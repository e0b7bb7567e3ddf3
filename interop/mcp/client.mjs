// Lists the tools of a server over stdio or HTTP and calls some, with an SDK for TypeScript:
// `client.mjs 1|2-legacy|2-modern PROGRAM TOOL ARGUMENTS [TOOL ARGUMENTS]…`. PROGRAM may be a URL, or a configuration file (`.json`) with
// `mcpServers.toolcrib`, as clients have them. The variable ANSWER says what a user answers to questions: `accept:DECISION`, `decline` or
// `cancel`, or several, separated by commas, whose last one is repeated; without it the client cannot be asked. Prints a line of
// JSON for the list and for each call; one that the SDK throws an error for has `threw`. Results are checked by the SDK against the schemas that were listed.
import { readFile } from "node:fs/promises";

const [mode, program, ...calls] = process.argv.slice(2);
const isUrl = program.startsWith("http://");
const { command, args, env } = program.endsWith(".json")
  ? JSON.parse(await readFile(program, "utf8")).mcpServers.toolcrib
  : { command: program, args: [] };
const answers = (process.env.ANSWER ?? "").split(",").filter((answer) => answer);
const old = mode === "1";
const { Client } = await import(old ? "@modelcontextprotocol/sdk/client/index.js" : "client-newest");
const { StdioClientTransport } = await import(old ? "@modelcontextprotocol/sdk/client/stdio.js" : "client-newest/stdio");
const negotiation = { mode: mode === "2-modern" ? { pin: "2026-07-28" } : "legacy" };
const capabilities = answers.length ? { elicitation: {} } : {};
const client = new Client({ name: "interop", version: "1.0.0" }, old ? { capabilities } : { capabilities, versionNegotiation: negotiation });
let prompts = [];
if (answers.length) {
  const request = old ? (await import("@modelcontextprotocol/sdk/types.js")).ElicitRequestSchema : "elicitation/create";
  client.setRequestHandler(request, async ({ params }) => {
    prompts.push(params.message);
    const [action, decision] = (answers.length > 1 ? answers.shift() : answers[0]).split(":");
    return action === "accept" ? { action, content: { decision } } : { action };
  });
}
const http = async () => (await import(old ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "client-newest")).StreamableHTTPClientTransport;
await client.connect(isUrl ? new (await http())(new URL(program)) : new StdioClientTransport({ command, args, env }));
const { tools } = await client.listTools();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name).sort() }));
for (let place = 0; place < calls.length; place += 2) {
  const [name, text] = calls.slice(place, place + 2);
  prompts = [];
  let result;
  try {
    result = await client.callTool({ name, arguments: JSON.parse(text) });
  } catch (error) {
    console.log(JSON.stringify({ name, threw: error.message, status: error.status ?? error.code }));
    continue;
  }
  const texts = result.content.map((block) => block.text);
  const structured = result.structuredContent ?? null;
  console.log(JSON.stringify({ name, asked: prompts.length, isError: result.isError ?? false, structured, texts, prompts }));
}
await client.close();
