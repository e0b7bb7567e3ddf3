// x402-fetch pays for one POST: node client.mjs URL. Key of the payer in PRIVATE_KEY, body in BODY.
// Prints one line of JSON: status, body, receipt (decoded), header (where the receipt stood), error.
import { privateKeyToAccount } from 'viem/accounts';
import { decodeXPaymentResponse, wrapFetchWithPayment } from 'x402-fetch';

const line = { status: 0, body: null, receipt: null, header: null, error: null };
try {
  // A bare account: a wallet client would bring the public nodes of its chain.
  const pay = wrapFetchWithPayment(fetch, privateKeyToAccount(process.env.PRIVATE_KEY));
  const answer = await pay(process.argv[2], {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: process.env.BODY,
    signal: AbortSignal.timeout(30_000),
  });
  line.status = answer.status;
  // Users of this package read no other name.
  line.header = answer.headers.has('x-payment-response') ? 'x-payment-response' : null;
  if (line.header) line.receipt = decodeXPaymentResponse(answer.headers.get(line.header));
  const text = await answer.text();
  try {
    line.body = JSON.parse(text);
  } catch {
    line.body = text;
  }
} catch (error) {
  line.error = String(error?.message ?? error);
}
console.log(JSON.stringify(line));
