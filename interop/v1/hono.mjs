// x402-hono: what routes.mjs says, and GET /stats.
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { paymentMiddleware } from 'x402-hono';
import { serve, wordCount } from '../child.mjs';
import { facilitator, routes } from './routes.mjs';

const { stats, count } = wordCount();
const app = new Hono();
app.get('/stats', (c) => c.json(stats));
app.use(paymentMiddleware(process.env.PAY_TO, routes, facilitator));
for (const path of Object.keys(routes)) {
  app.get(path, (c) => c.json(count('GET', c.req.query('text'))));
  app.post(path, async (c) => c.json(count('POST', (await c.req.json()).text)));
}
serve(getRequestListener(app.fetch));
