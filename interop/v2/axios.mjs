// @x402/axios as a client: see ../pay.mjs. It brings a core of its own version, whose classes it checks for.
import { decodePaymentResponseHeader, wrapAxiosWithPayment, x402Client } from '@x402/axios';
import axios from 'axios';
import { forAxios, ofAxios, pay } from '../pay.mjs';
import { payer } from './payer.mjs';

await pay(['payment-response', 'x-payment-response'], ({ url, body, headers, id }) => {
  const paying = wrapAxiosWithPayment(axios.create(forAxios), payer(id, x402Client));
  return ofAxios(paying.post(url, body, { headers }), decodePaymentResponseHeader);
});
