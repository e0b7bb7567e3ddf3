// The public SDK. It has no part for tools, so its instant keys and its general requests are used, with nothing changed but the base URL.
import { OpenSeaAPI } from "@opensea/sdk";

const apiBaseUrl = process.argv[2];
const check = (holds, what) => {
  if (!holds) throw new Error(what);
};
const key = await OpenSeaAPI.requestInstantApiKey(apiBaseUrl);
const apiKey = key.api_key ?? key.apiKey;
check(typeof apiKey === "string" && apiKey.length > 0, `keys: ${Object.keys(key)}`);
const api = new OpenSeaAPI({ apiKey, apiBaseUrl });
const list = await api.get("/api/v2/tools", { sort_by: "newest", limit: 3 });
check(list.tools.length === 3, "list");
const found = await api.get("/api/v2/tools/search", { query: "weather", access_type: "open" });
check(found.results.length > 0, "search");
// It gives answers in camel case.
const { registryChain, registryAddr, toolId } = list.tools[0];
const tool = await api.get(`/api/v2/tools/${registryChain}/${registryAddr}/${toolId}`);
check(tool.toolId === toolId && tool.verified === true, "get");
console.log(JSON.stringify({ client: "@opensea/sdk", ok: true }));
