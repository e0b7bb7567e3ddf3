// A server of the TypeScript SDK over streamable HTTP, for local tools that call it. Prints its port; ends with its input.
//
//   node server.mjs sessions|stateless|json
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const mode = process.argv[2];
const number = { type: 'number' };
const tools = [{ name: 'add', inputSchema: { type: 'object', properties: { a: number, b: number }, required: ['a', 'b'] } }];

function make() {
  const server = new Server({ name: 'interop', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { sendNotification }) => {
    const progressToken = params._meta?.progressToken;
    if (progressToken !== undefined) {
      await sendNotification({ method: 'notifications/progress', params: { progressToken, progress: 1, total: 2, message: 'half' } });
    }
    const sum = params.arguments.a + params.arguments.b;
    return { content: [{ type: 'text', text: JSON.stringify({ sum }) }], structuredContent: { sum } };
  });
  return server;
}

const sessions = new Map();
const http = createServer(async (request, response) => {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: mode === 'sessions' ? randomUUID : undefined,
      enableJsonResponse: mode === 'json',
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    await make().connect(transport);
  }
  await transport.handleRequest(request, response);
});
http.listen(0, '127.0.0.1', () => console.log(http.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
