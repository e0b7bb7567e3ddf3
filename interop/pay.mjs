// What every client here does: pays for one POST and prints one line of JSON: status, body, receipt (decoded), header (the name
// under which the receipt came), error.
//
// The URL is the argument; PRIVATE_KEY and BODY are in the environment. With `-` for the URL it reads calls from its input: each line of its input is a
// call {url, body, headers, id}, and each gets a line. `headers` go with both requests; `id` is for the extension payment-identifier.
import { createInterface } from 'node:readline';

export const TIME_LIMIT = 120_000;

/** `call` gives {status, text, header(name), receipt(value)}; `names` are the receipt's headers that its users read. */
export async function pay(names, call) {
  const [target] = process.argv.slice(2);
  if (target !== '-') return print(await one(names, call, { url: target, body: process.env.BODY }));
  console.log('{"ready":true}');
  for await (const line of createInterface({ input: process.stdin })) print(await one(names, call, JSON.parse(line)));
}

async function one(names, call, { url, body, headers = {}, id }) {
  const line = { status: 0, body: null, receipt: null, header: null, error: null };
  try {
    const answer = await call({ url, body, headers: { 'content-type': 'application/json', ...headers }, id });
    line.status = answer.status;
    line.header = names.find((name) => answer.header(name)) ?? null;
    if (line.header) line.receipt = answer.receipt(answer.header(line.header));
    try {
      line.body = JSON.parse(answer.text);
    } catch {
      line.body = answer.text;
    }
  } catch (error) {
    line.error = String(error?.message ?? error);
  }
  return line;
}

const print = (line) => console.log(JSON.stringify(line));

/** The answer of fetch. */
export const ofFetch = async (answer, receipt) => ({ status: answer.status, text: await answer.text(), header: (name) => answer.headers.get(name), receipt });

/** What every call of axios gets: any status is an answer, except the one that its wrapper has to see. */
export const forAxios = { timeout: TIME_LIMIT, proxy: false, validateStatus: (status) => status !== 402 };

/** The answer of axios, or the 402 after a payment, which comes as an error. Axios has parsed JSON already. */
export async function ofAxios(asked, receipt) {
  const { status, data, headers } = await asked.catch((error) => error.response ?? Promise.reject(error));
  return { status, text: typeof data === 'string' ? data : JSON.stringify(data), header: (name) => headers[name], receipt };
}
