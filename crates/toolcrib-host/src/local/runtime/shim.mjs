// Runs the handlers of a tool: one JSON message per line on standard input, one answer per line on standard output.
//
// Two contracts are served. Handlers of the documentation are named exports `fn(args, context)` with `context.config`,
// `context.dataDir`. Handlers of the code are members of an export `handlers`, called as `fn(args, values)` with all credentials and
// settings as members. The second argument satisfies both: values are its own members, `config` and the others are hidden ones. It is a
// plain object, since handlers pass it on to libraries that copy, wrap or check it.
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';

const write = process.stdout.write.bind(process.stdout);
// Standard output belongs to the protocol, so what handlers print goes to standard error.
process.stdout.write = (...args) => process.stderr.write(...args);
for (const name of ['log', 'info', 'debug', 'warn', 'error', 'trace']) {
  console[name] = (...args) => process.stderr.write(`${format(...args)}\n`);
}

const send = (message) => write(`${JSON.stringify(message)}\n`);
const text = (error) => (error instanceof Error ? error.message : String(error));

const entry = process.argv[1];
const logger = Object.fromEntries(
  ['debug', 'info', 'warn', 'error', 'log', 'trace'].map((level) => [level, (...args) => console.error(`${level}: ${format(...args)}`)]),
);
const services = new Map();
let loaded;
let stopping;

// Loads the module with the first call, so that a module that fails answers instead of ending the process.
function load(values) {
  loaded = (async () => {
    const module = await import(pathToFileURL(entry).href);
    const exports = module.default && typeof module.default === 'object' ? { ...module.default, ...module } : module;
    await exports.init?.(logger, { getService: (name) => services.get(name), registerService: (name, value) => services.set(name, value) });
    await exports.start?.(values, logger);
    stopping = exports.stop;
    return exports;
  })();
  return loaded;
}

function handlerOf(exports, name) {
  const handlers = exports.handlers;
  if (handlers && typeof handlers === 'object' && Object.hasOwn(handlers, name)) return handlers[name];
  return Object.hasOwn(exports, name) ? exports[name] : undefined;
}

function contextOf(call, signalOf) {
  const values = { ...call.settings, ...call.credentials };
  const hidden = {
    config: values,
    dataDir: call.context.dataDir,
    callId: call.context.callId,
    deadlineMs: call.context.deadlineMs,
    log: (...args) => send({ id: call.id, log: format(...args) }),
    progress: (progress, total, message) => send({ id: call.id, progress, total, message }),
  };
  const context = { ...values };
  for (const [name, value] of Object.entries(hidden)) {
    if (!Object.hasOwn(context, name)) Object.defineProperty(context, name, { value, enumerable: false });
  }
  // Most handlers have no use for it.
  if (!Object.hasOwn(context, 'signal')) Object.defineProperty(context, 'signal', { get: signalOf, enumerable: false });
  return context;
}

const running = new Map();

async function answer(call) {
  let made;
  const controller = () => (made ??= new AbortController());
  running.set(call.id, controller);
  try {
    const context = contextOf(call, () => controller().signal);
    let exports;
    try {
      exports = await (loaded ?? load({ ...context }));
    } catch (error) {
      loaded = undefined;
      console.error(error);
      const isTooOld = error?.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.m?ts$/.test(entry);
      const reason = isTooOld ? `TypeScript needs Node 22.18 or newer, and this is ${process.version}` : text(error);
      return { id: call.id, error: { message: `the handler could not be loaded: ${reason}` } };
    }
    const handler = handlerOf(exports, call.function);
    if (typeof handler !== 'function') {
      return { id: call.id, error: { code: 'export_missing', message: `the handler does not export ${call.function}` } };
    }
    const result = await handler(call.args, context);
    return { id: call.id, result: result === undefined ? null : result };
  } catch (error) {
    console.error(error);
    return { id: call.id, error: { message: text(error) } };
  } finally {
    running.delete(call.id);
  }
}

function sendSafely(id, message) {
  try {
    send(message);
  } catch (error) {
    send({ id, error: { message: `the result is not JSON: ${text(error)}` } });
  }
}

process.on('unhandledRejection', (error) => console.error('unhandled rejection:', error));

// Runs the hook once, though the end of the input and a signal may both ask for it.
let ending;
function stop() {
  ending ??= (async () => {
    try {
      await stopping?.();
    } finally {
      process.exit(0);
    }
  })();
}
process.on('SIGTERM', stop);

function take(line) {
  const message = JSON.parse(line);
  if (message.cancel !== undefined) {
    running.get(message.cancel)?.().abort();
    return;
  }
  answer(message).then((reply) => sendSafely(message.id, reply));
}

// Lines end at line feeds alone: `node:readline` also ends them at U+2028 and U+2029, which JSON leaves as they are in strings.
const LINE_FEED = 0x0a;
// The parts of a line whose end has not come yet. One that never ends is no call.
let parts = [];
process.stdin
  .on('data', (chunk) => {
    // Text if a handler has set an encoding.
    let rest = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    for (let end = rest.indexOf(LINE_FEED); end >= 0; end = rest.indexOf(LINE_FEED)) {
      parts.push(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
      const line = parts.length === 1 ? parts[0] : Buffer.concat(parts);
      parts = [];
      take(line.toString());
    }
    if (rest.length > 0) parts.push(rest);
  })
  .on('end', stop)
  .on('close', stop);
