// x402-express with a facilitator in its own process: TOOLCRIB_INTEROP=… node server-v1.mjs prints its port. POST /free costs nothing.
//
// The package knows facilitators by URL alone, so the two requests that it makes of one are answered where they leave.
import { ASSET, DOMAIN, PAY_TO, checker, count, nothingMoved, packages, serve } from './local.mjs';

const FACILITATOR = 'http://facilitator.invalid';
const from = packages('v1');
const express = from('express');
const { paymentMiddleware } = from('x402-express');
const check = checker(from('viem'));

globalThis.fetch = async (url, { body }) => {
  const { paymentPayload, paymentRequirements } = JSON.parse(body);
  switch (String(url)) {
    case `${FACILITATOR}/verify`:
      return Response.json(await check(paymentPayload, paymentRequirements.maxAmountRequired));
    case `${FACILITATOR}/settle`:
      return Response.json(nothingMoved(paymentPayload, 'base'));
    default:
      throw new Error('nothing else is fetched here');
  }
};
const price = { amount: '0', asset: { address: ASSET, decimals: 6, eip712: DOMAIN } };
const config = { description: 'Counts words', mimeType: 'application/json', maxTimeoutSeconds: 300 };
const routes = { 'POST /free': { price, network: 'base', config } };
const app = express().use(express.json()).use(paymentMiddleware(PAY_TO, routes, { url: FACILITATOR }));
app.post('/free', count);
serve(app);
