// What the servers of version 1 sell: FACILITATOR_URL, PAY_TO. POST and GET /paid (0.01 USDC) and /free (0).
const USDC = '0x036CbD53842c5426634e7929541eC2318f3dCF7e';
const route = (price) => ({
  price,
  network: 'base-sepolia',
  config: { description: 'Counts the words of a text', mimeType: 'application/json', maxTimeoutSeconds: 300 },
});
const nothing = { amount: '0', asset: { address: USDC, decimals: 6, eip712: { name: 'USDC', version: '2' } } };
export const routes = { '/paid': route('$0.01'), '/free': route(nothing) };
export const facilitator = { url: process.env.FACILITATOR_URL };
