// @x402/express with the extension sign-in-with-x: ORIGIN is what callers connect to. POST and GET /signed ask for a signed message and
// nothing else; each is taken once. GET /stats.
import { ExactEvmScheme } from '@x402/evm/exact/server';
import { paymentMiddleware, x402ResourceServer } from '@x402/express';
import { createSIWxResourceServerExtension, declareSIWxExtension } from '@x402/extensions/sign-in-with-x';
import express from 'express';
import { serve } from '../child.mjs';

const used = new Set();
const storage = {
  hasPaid: () => false,
  recordPayment: () => {},
  hasUsedNonce: (nonce) => used.has(nonce),
  recordNonce: (nonce) => void used.add(nonce),
};
const stats = { handled: 0, events: [] };
const facilitator = {
  verify: async () => ({ isValid: false }),
  settle: async () => ({ success: false }),
  getSupported: async () => ({ kinds: [], extensions: [], signers: {} }),
};
const resources = new x402ResourceServer(facilitator).register('eip155:84532', new ExactEvmScheme());
resources.registerExtension(
  createSIWxResourceServerExtension({ storage, origin: process.env.ORIGIN, onEvent: (event) => stats.events.push(event) }),
);
const routes = {
  '/signed': {
    accepts: [],
    description: 'Counts the words of a text',
    mimeType: 'application/json',
    extensions: declareSIWxExtension({
      network: ['eip155:84532', 'eip155:8453'],
      statement: 'Sign in to count words',
      ...(process.env.SECONDS_GOOD ? { expirationSeconds: Number(process.env.SECONDS_GOOD) } : {}),
    }),
  },
};
const count = (request, response) => {
  stats.handled++;
  const text = String(request.body?.text ?? request.query.text ?? '');
  response.json({ words: text.split(/\s+/).filter(Boolean).length, method: request.method });
};
const app = express().use(express.json());
app.get('/stats', (_, response) => response.json(stats));
app.use(paymentMiddleware(routes, resources, undefined, undefined, false));
for (const path of Object.keys(routes)) app.route(path).get(count).post(count);
serve(app);
