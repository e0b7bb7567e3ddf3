// x402-fetch as a client: see ../pay.mjs. Users of this package read no other header.
import { privateKeyToAccount } from 'viem/accounts';
import { decodeXPaymentResponse, wrapFetchWithPayment } from 'x402-fetch';
import { TIME_LIMIT, ofFetch, pay } from '../pay.mjs';

// A bare account: a wallet client would bring the public nodes of its chain.
const paying = wrapFetchWithPayment(fetch, privateKeyToAccount(process.env.PRIVATE_KEY));
await pay(['x-payment-response'], async ({ url, body, headers }) =>
  ofFetch(await paying(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(TIME_LIMIT) }), decodeXPaymentResponse),
);
