// x402-axios as a client: see ../pay.mjs.
import axios from 'axios';
import { privateKeyToAccount } from 'viem/accounts';
import { decodeXPaymentResponse, withPaymentInterceptor } from 'x402-axios';
import { forAxios, ofAxios, pay } from '../pay.mjs';

const paying = withPaymentInterceptor(axios.create(forAxios), privateKeyToAccount(process.env.PRIVATE_KEY));
await pay(['x-payment-response'], ({ url, body, headers }) => ofAxios(paying.post(url, body, { headers }), decodeXPaymentResponse));
