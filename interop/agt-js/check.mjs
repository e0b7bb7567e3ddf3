// Reads exports of agent manifests with packages of those formats: node check.mjs FOLDER
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { AgentCard } from "@a2a-js/sdk";
import { parse as parseAid } from "@agentcommunity/aid";
import { decodeAddress } from "@wonderland/interop-addresses";

const root = process.argv[2];
const counts = {};
let failures = 0;
const read = (...path) => {
  const file = join(root, ...path);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
};
const expect = async (what, check) => {
  try {
    await check();
    counts[what] = (counts[what] ?? 0) + 1;
  } catch (error) {
    failures++;
    console.error(`WRONG: ${what}: ${String(error.message ?? error).slice(0, 600)}`);
  }
};
/** ProtoJSON leaves default values out; so does this, to compare what both sides say. */
const withoutDefaults = (value) => {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([key, member]) => [key, withoutDefaults(member)]);
  return Object.fromEntries(entries.filter(([, member]) => member !== false && member !== "" && !(Array.isArray(member) && member.length === 0)));
};
/** The character-strings of a TXT record in a zone file (RFC 1035 §5.1), joined. */
const record = (line) => {
  const bytes = [];
  for (const [, string] of line.matchAll(/"((?:[^"\\]|\\.)*)"/g)) {
    for (const [, decimal, escaped, plain] of string.matchAll(/\\(\d{3})|\\(.)|([^\\])/g)) {
      bytes.push(decimal ? Number(decimal) : (escaped ?? plain).charCodeAt(0));
    }
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
};

// A reader that accepts everything would prove nothing.
await expect("aid: @agentcommunity/aid refuses other records", () => {
  for (const text of ["v=aid1;u=http://a.example.com/;p=mcp", "v=aid1;u=https://a.example.com/;p=http", `v=aid1;u=https://a.example.com/;p=mcp;s=${"n".repeat(61)}`]) {
    assert.throws(() => parseAid(text), undefined, text);
  }
});

for (const name of readdirSync(root)) {
  for (const kind of readdirSync(join(root, name))) {
    const card = read(name, kind, "a2a", "agent-card.json");
    if (card) {
      await expect("a2a: @a2a-js/sdk reads every field", () => {
        const ours = JSON.parse(card);
        assert.deepEqual(withoutDefaults(AgentCard.toJSON(AgentCard.fromJSON(ours))), withoutDefaults(ours));
      });
    }
    const zone = read(name, kind, "aid", "aid.zone");
    for (const line of zone?.trimEnd().split("\n") ?? []) {
      const text = record(line);
      // The package on npm knows aid1 alone. Its authors' package on PyPI reads both versions as they are: check.py.
      if (text.startsWith("v=aid2;")) {
        await expect("aid: @agentcommunity/aid refuses aid2", () => assert.throws(() => parseAid(text), /aid2/));
        continue;
      }
      await expect("aid: @agentcommunity/aid accepts aid1", () => {
        const parsed = parseAid(text);
        assert.ok(text.includes(`;p=${parsed.proto}`) && text.includes(`u=${parsed.uri};`));
        assert.match(line, /^_agent\.(_[a-z0-9]+\.)?[a-z0-9.-]+\. \d+ IN TXT "/);
        assert.ok(!parsed.uri.includes("evil"), "a text became an endpoint");
      });
    }
    const records = read(name, kind, "ensip26", "ens-records.json");
    if (records) {
      await expect("ensip26: keys and values", () => {
        const keys = JSON.parse(records).map(({ key, value }) => (assert.ok(typeof value === "string" && value), key));
        assert.equal(new Set(keys).size, keys.length, "a key appears twice");
        for (const key of keys) assert.match(key, /^agent-context$|^agent-endpoint\[[a-z0-9-]+\]$|^agent-registration\[0x[0-9a-f]+\]\[\d+\]$/);
      });
      for (const { key } of JSON.parse(records).filter(({ key }) => key.startsWith("agent-registration"))) {
        await expect("ensip26: @wonderland/interop-addresses reads the registry", async () => {
          const registry = decodeAddress(key.match(/\[(0x[0-9a-f]+)\]/)[1]);
          assert.equal(registry.address.toLowerCase(), "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432");
          assert.ok(registry.chainType === "eip155" && ["1", "8453"].includes(registry.chainReference), JSON.stringify(registry));
        });
      }
    }
  }
}
for (const [what, number] of Object.entries(counts).sort()) console.log(`${what.padEnd(64)} ${number}`);
process.exit(failures ? 1 : 0);
