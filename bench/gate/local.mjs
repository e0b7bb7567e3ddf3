// What both servers here share: packages from interop/, a check of payments in this process, and a port.
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

// As one would run them: express then leaves out what helps while developing.
process.env.NODE_ENV ??= 'production';

export const ASSET = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913';
export const DOMAIN = { name: 'USD Coin', version: '2' };
export const PAY_TO = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266';
const CHAIN_ID = 8453;
const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
};

export const packages = (version) => createRequire(join(resolve(process.env.TOOLCRIB_INTEROP), version, 'package.json'));

// Whether a payment is signed by its payer for this route, now. No chain is asked, and nonces are not remembered, which both is work
// that these servers are spared.
export function checker({ recoverTypedDataAddress }) {
  const domain = { ...DOMAIN, chainId: CHAIN_ID, verifyingContract: ASSET };
  return async ({ payload: { authorization, signature } }, amount) => {
    const { from, to, value, validAfter, validBefore, nonce } = authorization;
    const invalid = (invalidReason) => ({ isValid: false, invalidReason, payer: from });
    const now = BigInt(Math.floor(Date.now() / 1000));
    if (to.toLowerCase() !== PAY_TO.toLowerCase()) return invalid('invalid_exact_evm_payload_recipient_mismatch');
    if (BigInt(value) !== BigInt(amount)) return invalid('invalid_exact_evm_payload_authorization_value');
    if (BigInt(validAfter) > now) return invalid('invalid_exact_evm_payload_authorization_valid_after');
    if (BigInt(validBefore) < now + 6n) return invalid('invalid_exact_evm_payload_authorization_valid_before');
    const message = { from, to, value: BigInt(value), validAfter: BigInt(validAfter), validBefore: BigInt(validBefore), nonce };
    const signer = await recoverTypedDataAddress({ domain, types: TYPES, primaryType: 'TransferWithAuthorization', message, signature });
    return signer.toLowerCase() === from.toLowerCase() ? { isValid: true, payer: from } : invalid('invalid_exact_evm_payload_signature');
  };
}

export const nothingMoved = (payment, network) => ({
  success: true,
  transaction: `0x${'00'.repeat(32)}`,
  network,
  payer: payment.payload.authorization.from,
});

export const count = (request, response) => response.json({ words: request.body.text.split(/\s+/).filter(Boolean).length });

export function serve(app) {
  const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(server.address().port));
  process.stdin.resume().on('end', () => process.exit(0));
}
