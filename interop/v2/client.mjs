// @x402/fetch as a client: see ../pay.mjs.
import { decodePaymentResponseHeader, wrapFetchWithPayment } from '@x402/fetch';
import { TIME_LIMIT, ofFetch, pay } from '../pay.mjs';
import { payer } from './payer.mjs';

await pay(['payment-response', 'x-payment-response'], async ({ url, body, headers, id }) => {
  const paying = wrapFetchWithPayment(fetch, payer(id));
  return ofFetch(await paying(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(TIME_LIMIT) }), decodePaymentResponseHeader);
});
