// A server on the SDK for TypeScript, whose tool returns its arguments: `node server.mjs`, on standard input and output.
// The packages are those that `interop/mcp/run setup` installs.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(new URL('../../interop/mcp/package.json', import.meta.url));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Server } = await load('@modelcontextprotocol/sdk/server/index.js');
const { StdioServerTransport } = await load('@modelcontextprotocol/sdk/server/stdio.js');
const { CallToolRequestSchema, ListToolsRequestSchema } = await load('@modelcontextprotocol/sdk/types.js');

const server = new Server({ name: 'plain', version: '1.0.0' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: [{ name: 'echo_run', description: 'Runs.', inputSchema: { type: 'object' } }],
}));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
  content: [{ type: 'text', text: JSON.stringify(params.arguments) }],
  structuredContent: params.arguments,
}));
await server.connect(new StdioServerTransport());
