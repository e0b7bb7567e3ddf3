// What every server here does: listen on a free port of this machine, say which, and end with whoever started it.

export function serve(app) {
  const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1', (error) => {
    if (error) throw error;
    console.log(JSON.stringify({ port: server.address().port }));
  });
  process.stdin.resume().on('end', () => process.exit(0));
}
