// x402-express: FACILITATOR_URL, PAY_TO. POST and GET /paid (0.01 USDC) and /free (0), GET /stats.
import express from 'express';
import { paymentMiddleware } from 'x402-express';
import { serve } from '../child.mjs';

const USDC = '0x036CbD53842c5426634e7929541eC2318f3dCF7e';
const route = (price) => ({
  price,
  network: 'base-sepolia',
  config: { description: 'Counts the words of a text', mimeType: 'application/json', maxTimeoutSeconds: 300 },
});
const nothing = { amount: '0', asset: { address: USDC, decimals: 6, eip712: { name: 'USDC', version: '2' } } };
const routes = { '/paid': route('$0.01'), '/free': route(nothing) };

const stats = { handled: 0 };
const count = (request, response) => {
  stats.handled++;
  const text = String(request.body?.text ?? request.query.text ?? '');
  response.json({ words: text.split(/\s+/).filter(Boolean).length, method: request.method });
};
const app = express().use(express.json());
app.get('/stats', (_, response) => response.json(stats));
app.use(paymentMiddleware(process.env.PAY_TO, routes, { url: process.env.FACILITATOR_URL }));
for (const path of Object.keys(routes)) app.route(path).get(count).post(count);
serve(app);
