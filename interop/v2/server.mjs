// @x402/express: what routes.mjs says, and GET /stats.
import { paymentMiddleware } from '@x402/express';
import express from 'express';
import { serve, wordCount } from '../child.mjs';
import { resources, routes } from './routes.mjs';

const { stats, count } = wordCount();
const answer = (request, response) => response.json(count(request.method, request.body?.text ?? request.query.text));
const app = express().use(express.json());
app.get('/stats', (_, response) => response.json(stats));
app.use(paymentMiddleware(routes, resources()));
for (const path of Object.keys(routes)) app.route(path).get(answer).post(answer);
serve(app);
