// What every server here does: listen on a free port of this machine, say which, and exit when standard input closes.
// With TLS_CERT and TLS_KEY (PEM) it speaks https.
import http from 'node:http';
import https from 'node:https';

export function serve(app) {
  const { TLS_CERT: cert, TLS_KEY: key, PORT: port = 0 } = process.env;
  const server = cert ? https.createServer({ cert, key }, app) : http.createServer(app);
  server.listen(Number(port), '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
  process.stdin.resume().on('end', () => process.exit(0));
}

/** A listener for `serve` around a handler of fetch's requests and answers, for frameworks that have no other. */
export function listener(handle) {
  return async (request, response) => {
    try {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
      const scheme = request.socket.encrypted ? 'https' : 'http';
      const answer = await handle(`${scheme}://${request.headers.host}${request.url}`, { method: request.method, headers: request.headers, body });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(Buffer.from(await answer.arrayBuffer()));
    } catch (error) {
      console.error(error);
      response.writeHead(500).end();
    }
  };
}

/** Handlers of the servers' tool: counts words, and its own runs. */
export function wordCount() {
  const stats = { handled: 0 };
  const count = (method, text) => {
    stats.handled++;
    return { words: String(text ?? '').split(/\s+/).filter(Boolean).length, method };
  };
  return { stats, count };
}
