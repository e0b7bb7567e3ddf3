// A client that knows nothing but the published document: its types are made from it, and only the base URL is ours.
import createClient from "openapi-fetch";
import type { paths } from "./generated/tools.js";

const baseUrl = process.argv[2];
const client = createClient<paths>({ baseUrl });

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

const list = await client.GET("/api/v2/tools", { params: { query: { sort_by: "newest", limit: 3 } } });
check(list.response.status === 200 && list.data !== undefined, `list: ${list.response.status}`);
check(list.data.tools.length === 3 && typeof list.data.next === "string", "list: three tools and a cursor");
const second = await client.GET("/api/v2/tools", { params: { query: { limit: 3, cursor: list.data.next } } });
check(second.data !== undefined && second.data.tools[0].tool_id !== list.data.tools[0].tool_id, "list: the second page");

const first = list.data.tools[0];
const path = { registry_chain: first.registry_chain, registry_addr: first.registry_addr, tool_id: first.tool_id };
const tool = await client.GET("/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}", { params: { path } });
check(tool.data !== undefined && tool.data.display_name.length > 0 && tool.data.pricing_recipients.length === 1, "get");

const found = await client.GET("/api/v2/tools/search", {
  params: { query: { query: "weather", tags: ["data", "weather"], access_type: "open", limit: 5 } },
});
check(found.data !== undefined && found.data.results.length === 5, `search: ${JSON.stringify(found.error)}`);
check(found.data.results.every((result) => result.tags.includes("weather")), "search: both tags");

const activity = await client.GET("/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/activity", {
  params: { path, query: { limit: 10, include_creator_payments: false } },
});
check(activity.data !== undefined && Array.isArray(activity.data.activity), "activity");

const usage = await client.POST("/api/v2/tools/usage", {
  body: {
    verification_type: "x402_settlement",
    tool_chain_id: Number(first.registry_chain),
    tool_registry_address: first.registry_addr,
    tool_onchain_id: Number(first.tool_id),
    latency_ms: 250,
    x402: { caller_address: "0x1111111111111111111111111111111111111111", tx_hash: `0x${"ab".repeat(32)}`, chain_id: 8453 },
  },
});
check(usage.data !== undefined && usage.data.verified === false && usage.data.id.length > 0, `usage: ${JSON.stringify(usage.error)}`);

const key = await client.POST("/api/v2/auth/keys");
check(key.data !== undefined && key.response.status === 201 && key.data.api_key.length > 0, "keys");
const withKey = await client.GET("/api/v2/tools", { headers: { "x-api-key": key.data.api_key } });
check(withKey.response.status === 200, "a key that was just given out");
const unknown = await client.GET("/api/v2/tools", { headers: { "x-api-key": "key-of-another-directory" } });
check(unknown.response.status === 401, "a key of another directory");

const missing = await client.GET("/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}", {
  params: { path: { ...path, tool_id: "999999999" } },
});
check(missing.response.status === 404, "404");
const refused = await client.GET("/api/v2/tools", { params: { query: { limit: 0 } } });
check(refused.response.status === 400, "400");

console.log(JSON.stringify({ client: "openapi-fetch", ok: true }));
