// The extension sign-in-with-x of @x402/extensions answers one POST: node siwx-client.mjs URL. Key in PRIVATE_KEY, body in BODY. URL is
// what the server calls itself; VIA is where it is. MODE is `fetch` (wrapFetchWithSIWx) or `hook` (an extension of @x402/fetch).
// Prints one line of JSON: status, body, again (the status when the same header is sent a second time), error.
import { x402Client, x402HTTPClient } from '@x402/core/client';
import { createSIWxClientExtension, wrapFetchWithSIWx } from '@x402/extensions/sign-in-with-x';
import { wrapFetchWithPayment } from '@x402/fetch';
import { privateKeyToAccount } from 'viem/accounts';

const signer = privateKeyToAccount(process.env.PRIVATE_KEY);
const { VIA, BODY, MODE = 'fetch' } = process.env;
const line = { status: 0, body: null, again: null, error: null };
let sent = null;

const onward = async (input, init) => {
  const request = new Request(input, init);
  const headers = new Headers(request.headers);
  if (headers.has('sign-in-with-x')) sent = headers.get('sign-in-with-x');
  const body = await request.text();
  const { pathname } = new URL(request.url);
  const answer = await fetch(VIA + pathname, { method: request.method, headers, body, signal: AbortSignal.timeout(30_000) });
  const copy = new Response(await answer.arrayBuffer(), { status: answer.status, headers: answer.headers });
  // A response that was made by hand has no URL of its own.
  Object.defineProperty(copy, 'url', { value: request.url });
  return copy;
};

try {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: BODY };
  let call = wrapFetchWithSIWx(onward, signer);
  if (MODE === 'hook') {
    const client = new x402Client().registerExtension(createSIWxClientExtension({ signers: [signer] }));
    call = wrapFetchWithPayment(onward, new x402HTTPClient(client));
  }
  const answer = await call(process.argv[2], init);
  line.status = answer.status;
  const text = await answer.text();
  try {
    line.body = JSON.parse(text);
  } catch {
    line.body = text;
  }
  if (sent) {
    const headers = { 'content-type': 'application/json', 'sign-in-with-x': sent };
    line.again = (await onward(process.argv[2], { ...init, headers })).status;
  }
} catch (error) {
  line.error = String(error?.message ?? error);
}
console.log(JSON.stringify(line));
