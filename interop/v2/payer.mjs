// Who pays, as clients of version 2 know it: PRIVATE_KEY signs, and `id` is added where a server takes the extension payment-identifier.
import { x402Client } from '@x402/core/client';
import { registerExactEvmScheme } from '@x402/evm/exact/client';
import { appendPaymentIdentifierToExtensions } from '@x402/extensions/payment-identifier';
import { privateKeyToAccount } from 'viem/accounts';

const signer = privateKeyToAccount(process.env.PRIVATE_KEY);

export function payer(id, Client = x402Client) {
  const client = registerExactEvmScheme(new Client(), { signer });
  if (id) {
    client.onBeforePaymentCreation(async ({ paymentRequired }) => {
      if (paymentRequired.extensions) appendPaymentIdentifierToExtensions(paymentRequired.extensions, id);
    });
  }
  return client;
}
