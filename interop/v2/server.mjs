// @x402/express: FACILITATOR_URL, PAY_TO. POST and GET /paid (0.01 USDC) and /free (0), GET /stats.
import { HTTPFacilitatorClient } from '@x402/core/server';
import { ExactEvmScheme } from '@x402/evm/exact/server';
import { paymentMiddleware, x402ResourceServer } from '@x402/express';
import express from 'express';
import { serve } from '../child.mjs';
import { USDC } from './usdc.mjs';

const facilitator = new HTTPFacilitatorClient({ url: process.env.FACILITATOR_URL });
const resources = new x402ResourceServer(facilitator).register('eip155:84532', new ExactEvmScheme());
const route = (price) => ({
  accepts: { scheme: 'exact', network: 'eip155:84532', payTo: process.env.PAY_TO, price, maxTimeoutSeconds: 300 },
  description: 'Counts the words of a text',
  mimeType: 'application/json',
});
const nothing = { amount: '0', asset: USDC, extra: { name: 'USDC', version: '2' } };
const routes = { '/paid': route('$0.01'), '/free': route(nothing) };

const stats = { handled: 0 };
const count = (request, response) => {
  stats.handled++;
  const text = String(request.body?.text ?? request.query.text ?? '');
  response.json({ words: text.split(/\s+/).filter(Boolean).length, method: request.method });
};
const app = express().use(express.json());
app.get('/stats', (_, response) => response.json(stats));
app.use(paymentMiddleware(routes, resources));
for (const path of Object.keys(routes)) app.route(path).get(count).post(count);
serve(app);
