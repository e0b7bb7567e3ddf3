// The reference facilitator (@x402/core with @x402/evm), for both versions: RPC_URL and PRIVATE_KEY of who pays the gas.
// Counts what it is asked at GET /stats.
import { x402Facilitator } from '@x402/core/facilitator';
import { toFacilitatorEvmSigner } from '@x402/evm';
import { registerExactEvmScheme } from '@x402/evm/exact/facilitator';
import express from 'express';
import { createWalletClient, http, nonceManager, publicActions } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { baseSepolia } from 'viem/chains';
import { serve } from '../child.mjs';

const account = privateKeyToAccount(process.env.PRIVATE_KEY, { nonceManager });
const transport = http(process.env.RPC_URL, { timeout: 10_000 });
const client = createWalletClient({ account, chain: baseSepolia, transport, pollingInterval: 50 }).extend(publicActions);
const signer = toFacilitatorEvmSigner({ ...client, address: account.address }, { confirmationTimeoutMs: 20_000 });
const facilitator = registerExactEvmScheme(new x402Facilitator(), { signer, networks: 'eip155:84532' });

const stats = { supported: 0, verify: 0, settle: 0, settled: 0, versions: {} };
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
      if (answer.success) stats.settled++;
      if (answer.success === false || answer.isValid === false) console.error(path, answer.invalidReason ?? answer.errorReason);
      response.json(answer);
    } catch (error) {
      console.error(path, error);
      response.status(500).json({ error: String(error?.message ?? error).slice(0, 500) });
    }
  });
}
serve(app);
