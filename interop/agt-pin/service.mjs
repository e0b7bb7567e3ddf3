// The pinning service of the IPFS project's own tests, on a free port of this machine: it checks requests against the OpenAPI document of the
// specification. It prints one line of JSON with the port, pins what is queued after a moment, and ends when its standard input does.
import { createRequire } from 'node:module';

const { setup } = createRequire(import.meta.url)('mock-ipfs-pinning-service');

// It logs every request.
const { log } = console;
console.log = () => {};
const service = await setup({ token: process.env.TOKEN });
// Nothing else ever changes the state of what is queued.
const status = process.env.FAIL ? 'failed' : 'pinned';
setInterval(() => {
  const { state } = service.locals;
  const pins = [...state.pins].map(([cid, entry]) => [cid, entry.status === 'queued' ? { ...entry, status } : entry]);
  service.locals.state = { ...state, pins: new Map(pins) };
}, 200);
const server = service.listen(0, '127.0.0.1', () => log(JSON.stringify({ port: server.address().port })));
process.stdin.resume().on('end', () => process.exit(0));
