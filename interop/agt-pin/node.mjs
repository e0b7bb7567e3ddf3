// A js-ipfs node without peers that serves the RPC of Kubo on a free port of this machine. It prints one line of JSON with the port, and ends
// when its standard input does. Its repository is a folder that goes with it.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from 'ipfs-core';
import { HttpApi } from 'ipfs-http-server';

const repo = await mkdtemp(path.join(tmpdir(), 'toolcrib-ipfs-'));
const ipfs = await create({
  repo,
  offline: true,
  silent: true,
  preload: { enabled: false },
  config: {
    Addresses: { Swarm: [], API: '/ip4/127.0.0.1/tcp/0', Gateway: '', RPC: '' },
    Bootstrap: [],
    Discovery: { MDNS: { Enabled: false }, webRTCStar: { Enabled: false } },
  },
});
const api = new HttpApi(ipfs);
await api.start();
console.log(JSON.stringify({ port: api._apiServers[0].info.port }));
process.stdin.resume().on('end', async () => {
  await rm(repo, { recursive: true, force: true });
  process.exit(0);
});
