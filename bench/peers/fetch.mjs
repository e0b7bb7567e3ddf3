// The Node peer of `cargo bench -p toolcrib-verify`: GET over TLS on a connection of its own, JSON.parse, canonicalize, keccak_256,
// compare. `node:https` instead of `fetch`, which does the same on more CPU and keeps connections.
//
//   argv: port, path of the authority's PEM, expected hash, requests in flight
//   stdin: a number of tools on each line; answers with CPU nanoseconds and wall nanoseconds for them

import { readFileSync } from "node:fs";
import https from "node:https";
import { createInterface } from "node:readline";
import { keccak_256 } from "@noble/hashes/sha3.js";
import canonicalize from "canonicalize";

const [port, authority, expected, inFlight] = process.argv.slice(2);
const encoder = new TextEncoder();
const agent = new https.Agent({ keepAlive: false, maxCachedSessions: 0, ca: readFileSync(authority) });
let next = 0;

// Connections are spread over loopback addresses, so that ports do not run out.
function host() {
  next += 1;
  return `127.${1 + ((next >> 12) & 63)}.${(next >> 6) & 63}.${1 + (next & 63)}`;
}

function get() {
  return new Promise((resolve, reject) => {
    const options = { host: host(), port, servername: "tools.example.com", path: "/.well-known/ai-tool/bench.json", agent };
    https
      .get({ ...options, headers: { Host: "tools.example.com" } }, (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("end", () => (response.statusCode === 200 ? resolve(Buffer.concat(parts)) : reject(response.statusCode)));
        response.on("error", reject);
      })
      .on("error", reject);
  });
}

async function verify() {
  const body = await get();
  const hash = keccak_256(encoder.encode(canonicalize(JSON.parse(body.toString("utf8")))));
  if (Buffer.from(hash).toString("hex") !== expected) throw new Error("the hash differs");
}

async function run(count) {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await verify();
  };
  await Promise.all(Array.from({ length: Number(inFlight) }, worker));
}

for await (const line of createInterface({ input: process.stdin })) {
  const cpu = process.cpuUsage();
  const wall = process.hrtime.bigint();
  await run(Number(line));
  const used = process.cpuUsage(cpu);
  console.log(`${(used.user + used.system) * 1000} ${process.hrtime.bigint() - wall}`);
}
