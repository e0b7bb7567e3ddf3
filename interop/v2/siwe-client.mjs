// Authorization: SIWE as the reference SDK sent it before x402, with viem, which built its messages: node siwe-client.mjs URL. Key in
// PRIVATE_KEY, body in BODY, chain in CHAIN_ID. URL is what the server calls itself; VIA is where it is.
// Prints one line of JSON: status, body, again (the status when the same header is sent a second time), error.
import { randomBytes } from 'node:crypto';
import { privateKeyToAccount } from 'viem/accounts';
import { createSiweMessage } from 'viem/siwe';

const account = privateKeyToAccount(process.env.PRIVATE_KEY);
const line = { status: 0, body: null, again: null, error: null };
try {
  const url = new URL(process.argv[2]);
  const now = Date.now();
  const message = createSiweMessage({
    address: account.address,
    domain: url.host,
    uri: url.href,
    statement: 'Authenticate to access this tool',
    version: '1',
    chainId: Number(process.env.CHAIN_ID),
    nonce: randomBytes(16).toString('hex'),
    issuedAt: new Date(now),
    expirationTime: new Date(now + 300_000),
  });
  const token = `${Buffer.from(message).toString('base64url')}.${await account.signMessage({ message })}`;
  const call = () =>
    fetch(process.env.VIA + url.pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `SIWE ${token}` },
      body: process.env.BODY,
      signal: AbortSignal.timeout(30_000),
    });
  const answer = await call();
  line.status = answer.status;
  line.body = await answer.json();
  line.again = (await call()).status;
} catch (error) {
  line.error = String(error?.message ?? error);
}
console.log(JSON.stringify(line));
