// What the servers of version 2 sell: FACILITATOR_URL, PAY_TO. POST and GET /paid (0.01 USDC) and /free (0).
import { HTTPFacilitatorClient, x402ResourceServer } from '@x402/core/server';
import { ExactEvmScheme } from '@x402/evm/exact/server';
import { USDC } from './usdc.mjs';

const route = (price) => ({
  accepts: { scheme: 'exact', network: 'eip155:84532', payTo: process.env.PAY_TO, price, maxTimeoutSeconds: 300 },
  description: 'Counts the words of a text',
  mimeType: 'application/json',
});
const nothing = { amount: '0', asset: USDC, extra: { name: 'USDC', version: '2' } };
export const routes = { '/paid': route('$0.01'), '/free': route(nothing) };

export const resources = () =>
  new x402ResourceServer(new HTTPFacilitatorClient({ url: process.env.FACILITATOR_URL })).register('eip155:84532', new ExactEvmScheme());
