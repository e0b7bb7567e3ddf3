// Route handlers of Next.js behind x402-next (VERSION=1) or @x402/next (VERSION=2), and GET /stats. They get the requests that Next.js
// makes, from a server of Node instead of its own, which would have to be built first.
import Module, { createRequire } from 'node:module';
import { listener, serve, wordCount } from '../child.mjs';

// Both name files of Next.js without their ending, which only its bundler and `require` find.
const require = createRequire(import.meta.url);
const { NextRequest, NextResponse } = require('next/server');
// x402-next asks for a hosted wallet's package, of half a gigabyte, for a route that nothing here has.
const load = Module._load;
Module._load = (name, ...rest) => (name === '@coinbase/cdp-sdk/auth' ? {} : load(name, ...rest));
const { stats, count } = wordCount();
const handler = async (request) => {
  const text = request.method === 'POST' ? (await request.json()).text : request.nextUrl.searchParams.get('text');
  return NextResponse.json(count(request.method, text));
};

async function paid() {
  if (process.env.VERSION === '1') {
    const { withX402 } = require('x402-next');
    const { facilitator, routes } = await import('../v1/routes.mjs');
    return Object.entries(routes).map(([path, route]) => [path, withX402(handler, process.env.PAY_TO, route, facilitator)]);
  }
  const { withX402 } = require('@x402/next');
  const { resources, routes } = await import('../v2/routes.mjs');
  return Object.entries(routes).map(([path, route]) => [path, withX402(handler, route, resources())]);
}

const handlers = new Map(await paid());
handlers.set('/stats', async () => NextResponse.json(stats));
serve(
  listener(async (url, init) => {
    const handle = handlers.get(new URL(url).pathname);
    return handle ? handle(new NextRequest(url, init)) : new NextResponse(null, { status: 404 });
  }),
);
