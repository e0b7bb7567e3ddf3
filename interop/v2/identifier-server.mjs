// @x402/express that requires payment identifiers and answers a resend from its store, with the helpers of @x402/extensions: no stock
// middleware does that by itself. FACILITATOR_URL, PAY_TO. POST and GET /paid, GET /stats.
import { decodePaymentSignatureHeader } from '@x402/core/http';
import { paymentMiddleware } from '@x402/express';
import * as identifiers from '@x402/extensions/payment-identifier';
import express from 'express';
import { serve, wordCount } from '../child.mjs';
import { resources, routes } from './routes.mjs';

const { stats, count } = wordCount();
stats.payments = [];
const declared = identifiers.declarePaymentIdentifierExtension(true);
const route = { ...routes['/paid'], extensions: { [identifiers.PAYMENT_IDENTIFIER]: declared } };
const server = resources().registerExtension(identifiers.paymentIdentifierResourceServerExtension);

/** Responses as they were sent, by identifier, each bound to the very payment. */
const sent = new Map();
const recover = (request, response, next) => {
  const header = request.header('payment-signature');
  if (!header) return next();
  const payment = decodePaymentSignatureHeader(header);
  const { id, validation } = identifiers.extractAndValidatePaymentIdentifier(payment);
  const { valid } = identifiers.validatePaymentIdentifierRequirement(payment, true);
  stats.payments.push({ id, valid: valid && validation.valid });
  if (!valid) return response.status(400).json({ error: 'a payment identifier is required' });
  const before = sent.get(id);
  if (before?.header === header) return response.set('PAYMENT-RESPONSE', before.receipt).json(before.body);
  if (before) return response.status(409).json({ error: 'the payment identifier is in use' });
  response.on('finish', () => {
    if (response.statusCode === 200) sent.set(id, { header, receipt: response.get('PAYMENT-RESPONSE'), body: response.locals.body });
  });
  next();
};

const answer = (request, response) => {
  response.locals.body = count(request.method, request.body?.text ?? request.query.text);
  response.json(response.locals.body);
};
const app = express().use(express.json());
app.get('/stats', (_, response) => response.json(stats));
app.use(recover, paymentMiddleware({ '/paid': route }, server));
app.route('/paid').get(answer).post(answer);
serve(app);
