// What every server here does: listen on a free port of this machine, say which, and end with whoever started it.
// With TLS_CERT and TLS_KEY (PEM) it speaks https.
import http from 'node:http';
import https from 'node:https';

export function serve(app) {
  const { TLS_CERT: cert, TLS_KEY: key, PORT: port = 0 } = process.env;
  const server = cert ? https.createServer({ cert, key }, app) : http.createServer(app);
  server.listen(Number(port), '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
  process.stdin.resume().on('end', () => process.exit(0));
}
