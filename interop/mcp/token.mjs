// Forwards requests to a server on this machine that wants a token, for suites that cannot send one: `token.mjs PORT`, with the token in
// the variable TOOLCRIB_MCP_TOKEN. Prints its own port. Host and origin are left as they are but for the port.
import http from "node:http";

const [port] = process.argv.slice(2);
const server = http.createServer((request, response) => {
  const own = `:${server.address().port}`;
  const headers = { ...request.headers, authorization: `Bearer ${process.env.TOOLCRIB_MCP_TOKEN}` };
  for (const name of ["host", "origin"]) headers[name] &&= headers[name].replace(own, `:${port}`);
  const forwarded = http.request({ host: "127.0.0.1", port, method: request.method, path: request.url, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forwarded.on("error", () => response.destroy());
  response.on("close", () => forwarded.destroy());
  request.pipe(forwarded);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
