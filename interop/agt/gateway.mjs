// A Helia gateway over files that it adds itself. It listens on a free port of this machine, prints one line of JSON with the port and the
// CIDs, and ends when its standard input does. It has no peers: what it does not have, it does not find.
//
// With CAR=path it also has the blocks of that archive, read by another implementation. With FORMAT=ignored it serves files although blocks are asked for, as some gateways do.
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { CarReader } from '@ipld/car';
import { createHeliaLight } from 'helia';
import { unixfs } from '@helia/unixfs';
import { createVerifiedFetch } from '@helia/verified-fetch';
import { fixedSize } from 'ipfs-unixfs-importer/chunker';

const retrieve = async () => {
  throw new Error('offline');
};
const offline = () => ({ name: 'offline', retrieve, createSession: () => ({ name: 'offline', retrieve, addPeer: async () => {} }) });
const helia = await createHeliaLight({ blockBrokers: [offline] });
await helia.start?.();
const fs = unixfs(helia);

const file = new TextEncoder().encode('{"agt":"1.0","domain":"exampleagent.agt"}');
const large = Uint8Array.from({ length: 60_000 }, (_, i) => (i * 31 + 7) & 255);
const small_chunks = { chunker: fixedSize({ chunkSize: 4096 }) };
const cids = {
  raw: await fs.addBytes(file),
  node: await fs.addBytes(file, { rawLeaves: false }),
  over_leaf: await fs.addBytes(file, { reduceSingleLeafToSelf: false }),
  blocks: await fs.addBytes(large, small_chunks),
  node_blocks: await fs.addBytes(large, { ...small_chunks, rawLeaves: false }),
  folder: await fs.addDirectory(),
};

if (process.env.CAR) {
  const reader = await CarReader.fromBytes(await readFile(process.env.CAR));
  [cids.imported] = await reader.getRoots();
  for await (const { cid, bytes } of reader.blocks()) await helia.blockstore.put(cid, bytes);
}

const verifiedFetch = await createVerifiedFetch(helia);
const types = { raw: 'application/vnd.ipld.raw', car: 'application/vnd.ipld.car' };

const server = http.createServer(async (request, response) => {
  try {
    const url = new URL(request.url, 'http://localhost');
    const format = process.env.FORMAT === 'ignored' ? undefined : types[url.searchParams.get('format')];
    const answer = await verifiedFetch(`ipfs://${url.pathname.replace('/ipfs/', '')}`, {
      headers: format ? { accept: format } : {},
      signal: AbortSignal.timeout(10_000),
    });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  } catch (error) {
    console.error(error);
    response.writeHead(502).end();
  }
});
server.listen(0, '127.0.0.1', () => {
  const texts = Object.fromEntries(Object.entries(cids).map(([name, cid]) => [name, cid.toString()]));
  console.log(JSON.stringify({ port: server.address().port, cids: texts }));
});
process.stdin.resume().on('end', () => process.exit(0));
