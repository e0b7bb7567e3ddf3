// A facilitator's catalogue made of the reference package's own code: what a resource server declares, a payment echoes, and
// `extractDiscoveryInfo` reads, served at /discovery/resources with PAGE items at most. No package serves a catalogue, so the route is ours;
// every item is theirs, and their client has to read the list before it is served.
import { declareDiscoveryExtension, extractDiscoveryInfo, withBazaar } from '@x402/extensions';
import { HTTPFacilitatorClient } from '@x402/core/server';
import express from 'express';
import { serve } from '../child.mjs';

const page = Number(process.env.PAGE ?? 2);
const terms = {
  asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
  scheme: 'exact', maxTimeoutSeconds: 60, extra: { name: 'USD Coin', version: '2' },
};
const offer = { ...terms, network: 'eip155:8453', amount: '20000' };
const described = (url) => ({ url, description: `What ${url} does.`, mimeType: 'application/json', serviceName: 'Wind', tags: ['wind'] });

/** A payment for a resource of version 2, as a client sends it. The method is what the server fills in when it is asked. */
function paid(url, declaration, method) {
  const extensions = declareDiscoveryExtension(declaration);
  if (method) extensions.bazaar.info.input.method = method;
  return [{ x402Version: 2, resource: described(url), accepted: offer, payload: {}, extensions }, offer];
}

const old = {
  ...terms, network: 'base', maxAmountRequired: '500', resource: 'https://tides.example/now', description: 'Tides.', mimeType: 'application/json',
  outputSchema: { input: { type: 'http', method: 'POST', discoverable: true, bodyType: 'json', bodyFields: { port: 'Oslo' } }, output: { level: 1 } },
};
const inputSchema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const payments = [
  paid('https://wind.example/now?city=Oslo#top', { input: { city: 'Oslo' }, inputSchema, output: { example: { wind: 3 } } }, 'GET'),
  paid('https://wind.example/ask', { input: { city: 'Oslo' }, inputSchema, bodyType: 'json' }, 'POST'),
  paid('https://wind.example/mcp', { toolName: 'forecast', description: 'Forecasts.', inputSchema, example: { city: 'Oslo' } }),
  [{ x402Version: 1, scheme: 'exact', network: 'base', payload: {} }, old],
];
const items = payments.map(([payload, requirements]) => {
  const found = extractDiscoveryInfo(payload, requirements);
  if (!found) throw new Error('a payment that the package does not catalogue');
  const { resourceUrl, description, mimeType, serviceName, tags, x402Version, discoveryInfo, extensions } = found;
  const lastUpdated = new Date(1_788_264_000_000).toISOString();
  return {
    resource: resourceUrl, type: discoveryInfo.input.type, x402Version, accepts: [requirements], lastUpdated, description, mimeType, serviceName, tags,
    extensions,
  };
});

const app = express();
app.get('/discovery/resources', (request, response) => {
  const offset = Number(request.query.offset ?? 0);
  const limit = Math.min(Number(request.query.limit ?? 20), page);
  response.json({ x402Version: 2, items: items.slice(offset, offset + limit), pagination: { limit, offset, total: items.length } });
});
const probe = app.listen(0, '127.0.0.1', async () => {
  const client = withBazaar(new HTTPFacilitatorClient({ url: `http://127.0.0.1:${probe.address().port}` }));
  const listed = await client.extensions.bazaar.listResources({ limit: 100, offset: 1 });
  if (listed.items.length !== Math.min(page, items.length - 1)) throw new Error(JSON.stringify(listed));
  probe.close();
  serve(app);
});
