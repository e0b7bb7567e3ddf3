// Turns forge's output into the committed artifacts, and computes the addresses of the deterministic deployment.
//
//   node tools/artifacts.js <forge out> <target>
//
// Everything written here is a function of the sources: sorted keys, no paths, no times, no compiler-internal ids.
"use strict";
const fs = require("fs");
const path = require("path");
const { keccak256 } = require("../node_modules/js-sha3");

// The deterministic deployer (github.com/Arachnid/deterministic-deployment-proxy), at the same address on every chain. Where
// it is missing: fund the signer, then send the transaction, for which no key exists.
const FACTORY = {
  address: "0x4e59b44847b379578588920cA78FbF26c0B4956C",
  deployment: {
    signer: checksum("3fab184622dc19b6109349b94811493bf2a45362"),
    cost: "10000000000000000",
    transaction:
      "0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffff" +
      "ffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba0222222222222222222222222222222222222222222" +
      "2222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222",
  },
};
const SALT = "0x" + "1".padStart(64, "0");

const [out, target] = process.argv.slice(2);
if (!target) throw new Error("usage: node tools/artifacts.js <forge out> <target>");

const contracts = deployable(out);
fs.mkdirSync(path.join(target, "artifacts"), { recursive: true });
for (const { name, artifact } of contracts) {
  fs.writeFileSync(path.join(target, "artifacts", `${name}.json`), stringify(artifact));
}
fs.writeFileSync(path.join(target, "deployments.json"), stringify(deployments(contracts)));

/// Every contract of src/ that has code, by name.
function deployable(folder) {
  const found = new Map();
  for (const file of walk(folder)) {
    const raw = JSON.parse(fs.readFileSync(file, "utf8"));
    const source = raw.metadata ? Object.keys(raw.metadata.settings.compilationTarget)[0] : undefined;
    const code = raw.bytecode?.object ?? "0x";
    if (!source?.startsWith("src/") || code === "0x" || isLibrary(raw)) continue;
    const name = raw.metadata.settings.compilationTarget[source];
    if (found.has(name)) throw new Error(`two contracts are named ${name}`);
    if (Object.keys(raw.bytecode.linkReferences ?? {}).length) throw new Error(`${name} needs linking`);
    found.set(name, {
      name,
      source,
      // How many different values the constructor writes into the code.
      values: Object.keys(raw.deployedBytecode.immutableReferences ?? {}).length,
      artifact: {
        abi: raw.abi,
        bytecode: code,
        contractName: name,
        deployedBytecode: raw.deployedBytecode.object,
        // Where the constructor writes into the deployed code: [start, length], in bytes.
        immutables: Object.values(raw.deployedBytecode.immutableReferences ?? {})
          .flat()
          .map(({ start, length }) => [start, length])
          .sort((a, b) => a[0] - b[0]),
      },
    });
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/// Internal libraries compile to a stub without functions.
function isLibrary(raw) {
  return raw.abi.every((entry) => entry.type === "error") && raw.deployedBytecode.object.length < 300;
}

/// Registry first, then every predicate; predicates take the registry or nothing.
function deployments(all) {
  const registry = all.find(({ name }) => name === "ToolRegistry");
  const at = place(registry, "");
  const entries = { ToolRegistry: at };
  for (const contract of all.filter(({ source }) => source.startsWith("src/predicates/"))) {
    const inputs = contract.artifact.abi.find((entry) => entry.type === "constructor")?.inputs ?? [];
    const takesRegistry = inputs.length === 1 && inputs[0].internalType === "contract IToolRegistry";
    if (inputs.length && !takesRegistry) throw new Error(`${contract.name}: cannot tell its constructor's arguments`);
    entries[contract.name] = place(contract, takesRegistry ? at.address.slice(2).toLowerCase().padStart(64, "0") : "");
  }
  return { contracts: entries, factory: FACTORY, salt: SALT };
}

function place({ artifact, values }, constructorArguments) {
  const initCodeHash = keccak256(bytes(artifact.bytecode + constructorArguments));
  const hash = keccak256(bytes("0xff" + FACTORY.address.slice(2) + SALT.slice(2) + initCodeHash));
  return {
    address: checksum(hash.slice(24)),
    // Of the deployed code; null where the constructor writes more than the registry into it, as with an EIP-712 domain.
    codeHash: values > 1 ? null : codeHash(artifact, constructorArguments),
    constructorArguments: "0x" + constructorArguments,
    initCodeHash: "0x" + initCodeHash,
  };
}

function codeHash(artifact, constructorArguments) {
  const code = bytes(artifact.deployedBytecode);
  if (artifact.immutables.length && !constructorArguments) return null;
  for (const [start, length] of artifact.immutables) {
    if (length !== 32) return null;
    bytes("0x" + constructorArguments).copy(code, start);
  }
  return "0x" + keccak256(code);
}

function bytes(hex) {
  return Buffer.from(hex.slice(2), "hex");
}

function checksum(address) {
  const hash = keccak256(address);
  return "0x" + [...address].map((digit, at) => (parseInt(hash[at], 16) > 7 ? digit.toUpperCase() : digit)).join("");
}

function* walk(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      if (entry.name !== "build-info") yield* walk(file);
    } else if (entry.name.endsWith(".json")) yield file;
  }
}

function stringify(value) {
  return JSON.stringify(sorted(value), null, 2) + "\n";
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  );
}
