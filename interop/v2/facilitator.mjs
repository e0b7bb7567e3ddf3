// The reference facilitator (@x402/core with @x402/evm), for both versions: RPC_URL and PRIVATE_KEY of who pays the gas;
// ALLOWED_FACTORIES that may deploy wallets of payers.
// CONFIRMATION_MS is how long it waits for a receipt (20 s), which is what makes it answer before a transaction is mined.
// With NONCES=plain it does not count the nonces of its transactions, as the examples of its authors do not.
// Counts what it is asked at GET /stats, with the reasons of settlements that failed, and what a catalogue would list of the tools that it
// settled for (`extractDiscoveryInfo` of @x402/extensions).
import { x402Facilitator } from '@x402/core/facilitator';
import { toFacilitatorEvmSigner } from '@x402/evm';
import { registerExactEvmScheme } from '@x402/evm/exact/facilitator';
import { extractDiscoveryInfo } from '@x402/extensions';
import express from 'express';
import { createWalletClient, http, nonceManager, publicActions } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { baseSepolia } from 'viem/chains';
import { serve } from '../child.mjs';

const account = privateKeyToAccount(process.env.PRIVATE_KEY, process.env.NONCES === 'plain' ? {} : { nonceManager });
const transport = http(process.env.RPC_URL, { timeout: 60_000 });
const client = createWalletClient({ account, chain: baseSepolia, transport, pollingInterval: 50 }).extend(publicActions);
const confirmationTimeoutMs = Number(process.env.CONFIRMATION_MS ?? 20_000);
const signer = toFacilitatorEvmSigner({ ...client, address: account.address }, { confirmationTimeoutMs });
const eip6492AllowedFactories = process.env.ALLOWED_FACTORIES?.split(',') ?? [];
const facilitator = registerExactEvmScheme(new x402Facilitator(), { signer, networks: 'eip155:84532', eip6492AllowedFactories });

// viem's nonce manager counts from 1: it gives out the number 0 twice, so that two first settlements are in each other's way.
if ((await client.getTransactionCount({ address: account.address })) === 0) {
  const hash = await client.sendTransaction({ to: account.address, value: 0n });
  await client.waitForTransactionReceipt({ hash });
}

/** Beginning and end of a text: exceptions hold the whole transaction in between. */
const short = (text) => String(text ?? '').replace(/^(.{300}).*(.{700})$/s, '$1 … $2');
const stats = { supported: 0, verify: 0, settle: 0, settled: 0, versions: {}, reasons: [], listed: [] };
const app = express().use(express.json({ limit: '256kb' }));
app.get('/stats', (_, response) => response.json(stats));
app.get('/supported', (_, response) => {
  stats.supported++;
  response.json(facilitator.getSupported());
});
for (const path of ['verify', 'settle']) {
  app.post(`/${path}`, async (request, response) => {
    stats[path]++;
    const { paymentPayload, paymentRequirements } = request.body;
    const version = `${path}V${paymentPayload?.x402Version}`;
    stats.versions[version] = (stats.versions[version] ?? 0) + 1;
    try {
      const answer = await facilitator[path](paymentPayload, paymentRequirements);
      if (answer.success) {
        stats.settled++;
        if (stats.listed.length < 1_000) stats.listed.push(extractDiscoveryInfo(paymentPayload, paymentRequirements));
      }
      if (answer.success === false || answer.isValid === false) console.error(path, answer.invalidReason ?? answer.errorReason);
      if (answer.success === false && stats.reasons.length < 1_000) {
        const [reason, message] = [answer.errorReason, answer.errorMessage].map(short);
        stats.reasons.push({ reason, message, transaction: answer.transaction });
      }
      response.json(answer);
    } catch (error) {
      console.error(path, error);
      response.status(500).json({ error: String(error?.message ?? error).slice(0, 500) });
    }
  });
}
serve(app);
