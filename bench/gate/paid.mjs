// @x402/express with paid calls: DOUBLES_URL has a facilitator at /verify and /settle and an upstream at /count. Prints its port.
import { ASSET, DOMAIN, PAY_TO, packages, serve } from './local.mjs';

const NETWORK = 'eip155:8453';
const base = process.env.DOUBLES_URL;
const from = packages('v2');
const express = from('express');
const { paymentMiddleware, x402ResourceServer } = from('@x402/express');
const { HTTPFacilitatorClient } = from('@x402/core/server');
const { ExactEvmScheme } = from('@x402/evm/exact/server');

const price = { amount: '1000', asset: ASSET, extra: DOMAIN };
const accepts = { scheme: 'exact', network: NETWORK, payTo: PAY_TO, price, maxTimeoutSeconds: 300 };
const routes = { 'POST /paid': { accepts, description: 'Counts words', mimeType: 'application/json' } };
const resources = new x402ResourceServer(new HTTPFacilitatorClient({ url: base })).register(NETWORK, new ExactEvmScheme());
const app = express().use(express.json()).use(paymentMiddleware(routes, resources));
app.post('/paid', async (request, response) => {
  // Node keeps the connections of fetch.
  const answer = await fetch(`${base}/count`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request.body),
  });
  response.status(answer.status).json(await answer.json());
});
serve(app);
