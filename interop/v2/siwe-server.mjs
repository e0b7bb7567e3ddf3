// A gate as the reference SDK had it before x402: it answers 401 until `Authorization: SIWE` holds a message for the host of the request
// and its signature, both read and checked by viem. HOST is that host, RPC_URL a node. POST /gated; GET /stats.
import express from 'express';
import { createPublicClient, http } from 'viem';
import { parseSiweMessage } from 'viem/siwe';
import { serve } from '../child.mjs';

const client = createPublicClient({ transport: http(process.env.RPC_URL) });
const stats = { handled: 0, callers: [] };
const refuse = (response, error) =>
  response.status(401).json({ error, hint: 'Include Authorization: SIWE <base64url(message)>.<signature>' });

const app = express().use(express.json());
app.get('/stats', (_, response) => response.json(stats));
app.post('/gated', async (request, response) => {
  const header = request.get('authorization') ?? '';
  const dot = header.lastIndexOf('.');
  if (!header.startsWith('SIWE ') || dot < 0) return refuse(response, 'Predicate gate: SIWE authorization required');
  const message = Buffer.from(header.slice(5, dot), 'base64url').toString('utf-8');
  const read = parseSiweMessage(message);
  if (read.domain !== process.env.HOST) return refuse(response, 'Predicate gate: SIWE domain mismatch');
  if (!read.expirationTime || read.expirationTime < new Date()) return refuse(response, 'Predicate gate: SIWE message expired');
  const signature = header.slice(dot + 1);
  const isValid = await client.verifySiweMessage({ message, signature, domain: process.env.HOST }).catch(() => false);
  if (!isValid) return refuse(response, 'Predicate gate: invalid SIWE signature');
  stats.handled++;
  stats.callers.push({ address: read.address, chainId: read.chainId, uri: read.uri });
  response.json({ words: String(request.body?.text ?? '').split(/\s+/).filter(Boolean).length, method: 'POST' });
});
serve(app);
