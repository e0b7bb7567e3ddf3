// @x402/fetch pays for one POST: node client.mjs URL. Key of the payer in PRIVATE_KEY, body in BODY.
// Prints one line of JSON: status, body, receipt (decoded), header (where the receipt stood), error.
import { x402Client, x402HTTPClient } from '@x402/core/client';
import { registerExactEvmScheme } from '@x402/evm/exact/client';
import { wrapFetchWithPayment } from '@x402/fetch';
import { privateKeyToAccount } from 'viem/accounts';

const signer = privateKeyToAccount(process.env.PRIVATE_KEY);
const client = registerExactEvmScheme(new x402Client(), { signer });
const line = { status: 0, body: null, receipt: null, header: null, error: null };
try {
  const answer = await wrapFetchWithPayment(fetch, client)(process.argv[2], {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: process.env.BODY,
    signal: AbortSignal.timeout(30_000),
  });
  line.status = answer.status;
  line.header = ['payment-response', 'x-payment-response'].find((name) => answer.headers.has(name)) ?? null;
  if (line.header) line.receipt = new x402HTTPClient(client).getPaymentSettleResponse((name) => answer.headers.get(name));
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
