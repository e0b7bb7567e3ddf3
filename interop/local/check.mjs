// Validates exports with the packages of model vendors: node check.mjs FOLDER
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import Anthropic from "@anthropic-ai/sdk";
import { transformJSONSchema } from "@anthropic-ai/sdk/lib/transform-json-schema";
import { GoogleGenAI } from "@google/genai";
import { asSchema, generateText, stepCountIs } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import OpenAI from "openai";
import { toStrictJsonSchema } from "openai/lib/transform";

const root = process.argv[2];
const counts = {};
let failures = 0;
const count = (what, by = 1) => (counts[what] = (counts[what] ?? 0) + by);
const read = (...path) => {
  const file = join(root, ...path);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
};
const expect = async (what, check) => {
  try {
    await check();
    count(`${what}: ok`);
  } catch (error) {
    failures++;
    console.error(`WRONG: ${what}: ${String(error.message ?? error).slice(0, 600)}`);
  }
};
/** What an SDK puts on the wire, without a network. */
const captured = async (send) => {
  let body;
  const fetch = async (url, init) => {
    body = JSON.parse(init?.body ?? (await url.text()));
    return new Response("{}", { status: 400, headers: { "content-type": "application/json" } });
  };
  await send(fetch).catch(() => {});
  return body;
};
const outcome = (transform, schema) => {
  try {
    return transform(schema);
  } catch {
    return undefined;
  }
};

for (const name of readdirSync(root)) {
  // OpenAI: what is sent is what was exported, and strict schemas are fixed points of their transformation.
  for (const [kind, file] of [["openai", "openai.json"], ["openai-strict", "openai.json"]]) {
    const tools = read(name, kind, file);
    if (!tools) continue;
    await expect(`${kind}: Responses request`, async () => {
      const body = await captured((fetch) => new OpenAI({ apiKey: "k", fetch, maxRetries: 0 }).responses.create({ model: "m", input: "x", tools }));
      assert.deepEqual(body.tools, tools);
    });
    for (const tool of tools.filter((tool) => tool.strict)) {
      await expect("openai-strict: toStrictJsonSchema changes nothing", () => assert.deepEqual(toStrictJsonSchema(tool.parameters), tool.parameters, `${name} ${tool.name}`));
    }
    if (kind === "openai-strict") {
      count("openai-strict: functions kept non-strict", tools.filter((tool) => !tool.strict).length);
      for (const tool of tools.filter((tool) => !tool.strict)) {
        if (outcome(toStrictJsonSchema, tool.parameters)) count(`openai-strict: theirs would accept ${tool.name}`);
      }
    }
  }
  const chat = read(name, "openai-chat", "openai-chat.json");
  if (chat) {
    await expect("openai-chat: Chat request", async () => {
      const body = await captured((fetch) =>
        new OpenAI({ apiKey: "k", fetch, maxRetries: 0 }).chat.completions.create({ model: "m", messages: [{ role: "user", content: "x" }], tools: chat }));
      assert.deepEqual(body.tools, chat);
    });
  }

  // Anthropic: strict schemas are what their transformation gives for the original.
  const plain = read(name, "anthropic", "anthropic.json");
  const strict = read(name, "anthropic-strict", "anthropic.json");
  for (const tools of [plain, strict].filter(Boolean)) {
    await expect("anthropic: request", async () => {
      const body = await captured((fetch) =>
        new Anthropic({ apiKey: "k", fetch, maxRetries: 0 }).messages.create({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "x" }], tools }));
      assert.deepEqual(body.tools, tools);
    });
  }
  for (const tool of strict ?? []) {
    const original = plain.find((other) => other.name === tool.name);
    if (tool.strict) {
      await expect("anthropic-strict: same as transformJSONSchema", () =>
        assert.deepEqual(tool.input_schema, transformJSONSchema(original.input_schema), `${name} ${tool.name}`));
    } else {
      assert.deepEqual(tool.input_schema, original.input_schema);
      count("anthropic-strict: functions kept non-strict");
      count(outcome(transformJSONSchema, original.input_schema) ? "anthropic-strict: of these, theirs would transform" : "anthropic-strict: of these, theirs throws");
    }
  }

  // Gemini: what the SDK sends.
  const gemini = read(name, "gemini", "gemini.json");
  if (gemini) {
    await expect("gemini: generateContent request", async () => {
      const original = globalThis.fetch;
      let body;
      globalThis.fetch = async (url, init) => {
        body = JSON.parse(init.body);
        return new Response("{}", { status: 200, headers: { "content-type": "application/json" } });
      };
      try {
        await new GoogleGenAI({ apiKey: "k" }).models.generateContent({ model: "gemini-x", contents: "x", config: { tools: gemini } });
      } finally {
        globalThis.fetch = original;
      }
      assert.deepEqual(body.tools, gemini);
      for (const { name } of gemini[0].functionDeclarations) assert.match(name, /^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/);
    });
  }

  // AI SDK: the module loads, its schemas are those of the other exports, and a call of a model arrives.
  const module = join(root, name, "ai-sdk", "ai-sdk.mjs");
  if (existsSync(module)) {
    await expect("ai-sdk: module, schemas and a call", async () => {
      const { createTools } = await import(pathToFileURL(resolve(module)));
      const calls = [];
      const tools = createTools(async (...call) => (calls.push(call.slice(0, 3)), "done"));
      assert.equal(Object.getPrototypeOf(tools), Object.prototype);
      for (const declaration of gemini?.[0].functionDeclarations ?? []) {
        const tool = tools[declaration.name.replace(/^_(?=\d)/, "")];
        if (!tool) continue;
        assert.equal(tool.description, declaration.description);
        assert.deepEqual(JSON.parse(JSON.stringify(await asSchema(tool.inputSchema).jsonSchema)), declaration.parametersJsonSchema);
      }
      const [first] = Object.keys(tools);
      if (!first) return;
      const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
      let step = 0;
      const model = new MockLanguageModelV4({
        doGenerate: async () =>
          step++ === 0
            ? { content: [{ type: "tool-call", toolCallId: "1", toolName: first, input: '{"a":1}' }], finishReason: { unified: "tool-calls" }, usage, warnings: [] }
            : { content: [{ type: "text", text: "ok" }], finishReason: { unified: "stop" }, usage, warnings: [] },
      });
      const { text } = await generateText({ model, prompt: "x", tools, stopWhen: stepCountIs(3) });
      assert.equal(text, "ok");
      assert.equal(calls.length, 1);
      assert.deepEqual(calls[0][2], { a: 1 });
      assert.equal(Object.values(createTools()).every((tool) => tool.execute === undefined), true);
    });
  }
}
for (const [what, number] of Object.entries(counts).sort()) console.log(`${what.padEnd(64)} ${number}`);
process.exit(failures ? 1 : 0);
