// The Node peer: JSON.parse, canonicalize, keccak_256 of @noble/hashes. It obeys the lines that src/peer.rs writes.
//
//   load<TAB>path<TAB>path…   reads the files; answers with their hashes, separated by spaces
//   time<TAB>passes           hashes all files that often; answers with the CPU nanoseconds it took

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { keccak_256 } from "@noble/hashes/sha3.js";
import canonicalize from "canonicalize";

const encoder = new TextEncoder();
let files = [];

function hash(bytes) {
  return keccak_256(encoder.encode(canonicalize(JSON.parse(bytes.toString("utf8")))));
}

function time(passes) {
  const before = process.cpuUsage();
  let sink = 0;
  for (let pass = 0; pass < passes; pass++) {
    for (const bytes of files) sink ^= hash(bytes)[0];
  }
  const used = process.cpuUsage(before);
  if (sink > 255) throw new Error("unreachable");
  return (used.user + used.system) * 1000;
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...rest] = line.split("\t");
  if (command === "load") {
    files = rest.map((path) => readFileSync(path));
    console.log(files.map((bytes) => Buffer.from(hash(bytes)).toString("hex")).join(" "));
  } else {
    console.log(time(Number(rest[0])));
  }
}
