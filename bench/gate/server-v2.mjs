// @x402/express with a facilitator in its own process: TOOLCRIB_INTEROP=… node server-v2.mjs prints its port. POST /free costs nothing.
import { ASSET, DOMAIN, PAY_TO, checker, count, nothingMoved, packages, serve } from './local.mjs';

const NETWORK = 'eip155:8453';
const from = packages('v2');
const express = from('express');
const { paymentMiddleware, x402ResourceServer } = from('@x402/express');
const { ExactEvmScheme } = from('@x402/evm/exact/server');
const check = checker(from('viem'));

const facilitator = {
  getSupported: async () => ({ kinds: [{ x402Version: 2, scheme: 'exact', network: NETWORK }], extensions: [], signers: {} }),
  verify: (payment, requirements) => check(payment, requirements.amount),
  settle: async (payment) => nothingMoved(payment, NETWORK),
};
const price = { amount: '0', asset: ASSET, extra: DOMAIN };
const accepts = { scheme: 'exact', network: NETWORK, payTo: PAY_TO, price, maxTimeoutSeconds: 300 };
const routes = { 'POST /free': { accepts, description: 'Counts words', mimeType: 'application/json' } };
const resources = new x402ResourceServer(facilitator).register(NETWORK, new ExactEvmScheme());
const app = express().use(express.json()).use(paymentMiddleware(routes, resources));
app.post('/free', count);
serve(app);
