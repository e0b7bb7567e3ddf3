//! The script that runs handlers in Node: how it reads lines, and the context that handlers get.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

/// The script.
const SHIM: &str = include_str!("../../src/local/runtime/shim.mjs");

/// The installed Nodes: the one in the path, and a newer one if there is one.
fn nodes() -> impl Iterator<Item = PathBuf> {
    std::iter::once(PathBuf::from("node")).chain(toolcrib_testkit::newer_node())
}

/// A handler in its own process, started as the host starts it.
struct Handler {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Handler {
    fn start(node: &PathBuf, source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let entry = folder.path().join("index.mjs");
        fs::write(&entry, source).unwrap();
        let arguments: [OsString; 5] =
            ["--input-type=module".into(), "--eval".into(), SHIM.into(), "--".into(), entry.into_os_string()];
        let mut command = Command::new(node);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, _folder: folder }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next message. If none arrives, the test hangs until its runner stops it.
    fn read(&mut self) -> Json {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Makes a call and returns its answer.
    fn call(&mut self, id: u64, arguments: &Json) -> Json {
        self.write(line(id, arguments, &json!({})).as_bytes());
        self.read()
    }

    /// Closes stdin, waits for the exit, and returns stdout and stderr so far.
    fn end(mut self) -> (String, String) {
        drop(self.stdin.take());
        let (mut rest, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {errors}");
        (rest, errors)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call of the function `run` as the host writes it.
fn line(id: u64, arguments: &Json, values: &Json) -> String {
    let context = json!({"dataDir": "/data", "callId": "c1", "deadlineMs": 1_000});
    let call = json!({
        "v": 1, "id": id, "function": "run", "args": arguments, "credentials": values, "settings": {"size": "large"}, "context": context,
    });
    format!("{call}\n")
}

const ECHO: &str = "export const handlers = { run: async (args) => args };\n";

// req: LOCAL-007
#[test]
fn lines_come_in_any_pieces() {
    for node in nodes() {
        let mut handler = Handler::start(&node, ECHO);
        // Every character that some parser treats as a line end, and a four-byte character that chunks split.
        let odd = json!({"text": "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\r\ng 🤖 é"});
        assert_eq!(handler.call(1, &odd), json!({"id": 1, "result": odd}));
        for byte in line(2, &odd, &json!({})).as_bytes() {
            handler.write(&[*byte]);
            std::thread::sleep(Duration::from_micros(200));
        }
        assert_eq!(handler.read(), json!({"id": 2, "result": odd}));
        // Two lines and the beginning of a third at once, with both line endings.
        let third = line(5, &odd, &json!({}));
        let (begin, rest) = third.split_at(third.find('🤖').unwrap());
        let crlf = line(3, &odd, &json!({})).replace('\n', "\r\n");
        handler.write(format!("{crlf}{}{begin}", line(4, &odd, &json!({}))).as_bytes());
        let answers = [handler.read(), handler.read()].map(|answer| answer["id"].as_u64());
        assert_eq!(answers, [Some(3), Some(4)]);
        handler.write(rest.as_bytes());
        assert_eq!(handler.read(), json!({"id": 5, "result": odd}));
        // An incomplete line is not a call.
        handler.write(line(6, &odd, &json!({})).trim_end().as_bytes());
        assert_eq!(handler.end(), (String::new(), String::new()));
    }
}

#[test]
fn a_long_line_costs_no_more_than_its_bytes() {
    for node in nodes() {
        let mut handler = Handler::start(&node, "export const run = async ({ text }) => text.length;\n");
        let mut timed = |id: u64, bytes: usize| {
            // Pipes hold 64 KiB, so this arrives in hundreds of chunks.
            let call = line(id, &json!({"text": "x".repeat(bytes)}), &json!({}));
            let began = Instant::now();
            handler.write(call.as_bytes());
            assert_eq!(handler.read(), json!({"id": id, "result": bytes}));
            began.elapsed()
        };
        timed(1, 1 << 20);
        let (short, long) = (timed(2, 4 << 20), timed(3, 32 << 20));
        // Eight times the bytes. Joining the line again with each chunk would take 64 times as long.
        assert!(long < short.max(Duration::from_millis(20)) * 32, "{short:?} and {long:?}");
    }
}

/// Returns everything that is visible of the context, in the ways in which handlers and libraries inspect objects.
const LOOK: &str = "
export function run(args, context) {
  const { config, dataDir, callId, deadlineMs, log, progress, signal } = context;
  const { size, ...others } = context;
  const below = Object.create(context);
  const wrapped = new Proxy(context, {});
  const loop = [];
  for (const name in context) loop.push(name);
  const refused = ['config', 'log', 'signal'].filter((name) => { try { context[name] = 1; return false; } catch { return true; } });
  context.size = 'changed';
  log('one', 2);
  progress(1, 2, 'half');
  return {
    config, dataDir, callId, deadlineMs, size, others, loop, refused,
    types: [typeof log, typeof progress, signal instanceof AbortSignal, signal === context.signal, signal.aborted],
    names: Object.keys(context), spread: { ...context }, clone: structuredClone(context), json: JSON.stringify(context),
    isPlain: Object.getPrototypeOf(context) === Object.prototype, own: Object.hasOwn(context, 'config'),
    others2: [below.config.size, wrapped.config.size, below.signal === signal, wrapped.signal === signal, wrapped.callId],
  };
}
";

// req: LOCAL-007
#[test]
fn the_context_is_a_plain_object_of_the_values() {
    for node in nodes() {
        let mut handler = Handler::start(&node, LOOK);
        handler.write(line(7, &json!({}), &json!({"token": "t"})).as_bytes());
        assert_eq!(handler.read(), json!({"id": 7, "log": "one 2"}));
        assert_eq!(handler.read(), json!({"id": 7, "progress": 1, "total": 2, "message": "half"}));
        let changed = json!({"size": "changed", "token": "t"});
        let values = json!({"size": "large", "token": "t"});
        let expected = json!({
            "config": values, "dataDir": "/data", "callId": "c1", "deadlineMs": 1_000, "size": "large", "others": {"token": "t"},
            "loop": ["size", "token"], "refused": ["config", "log", "signal"],
            "types": ["function", "function", true, true, false],
            "names": ["size", "token"], "spread": changed, "clone": changed, "json": r#"{"size":"changed","token":"t"}"#,
            "isPlain": true, "own": true, "others2": ["large", "large", true, true, "c1"],
        });
        assert_eq!(handler.read(), json!({"id": 7, "result": expected}));
        assert_eq!(handler.end(), (String::new(), String::new()));
    }
}

// req: LOCAL-007
#[test]
fn values_come_before_the_rest_of_the_context() {
    let source = "
        export const run = (args, context) =>
          [context.signal, context.log, context.config.log, context.constructor, Object.keys(context), Object.hasOwn(context, '__proto__')];
    ";
    for node in nodes() {
        let mut handler = Handler::start(&node, source);
        // As text, because a JSON parser creates a member of that name.
        let values = r#"{"signal":"s","log":"l","constructor":"c","__proto__":"p"}"#;
        handler.write(line(1, &json!({}), &json!("values")).replace("\"values\"", values).as_bytes());
        let names = json!(["size", "signal", "log", "constructor", "__proto__"]);
        assert_eq!(handler.read(), json!({"id": 1, "result": ["s", "l", "l", "c", names, true]}));
    }
}

#[test]
fn a_cancelled_call_hears_of_it_whenever_it_asks() {
    let source = "
        const pause = (ms) => new Promise((done) => setTimeout(done, ms));
        export async function run({ late }, context) {
          if (!late && !context.signal.aborted) await new Promise((done) => context.signal.addEventListener('abort', done));
          if (late) { context.log('begun'); await pause(300); }
          return [context.signal.aborted, context.signal.reason.name];
        }
    ";
    for node in nodes() {
        let mut handler = Handler::start(&node, source);
        // Cancelling an unknown call has no effect.
        handler.write(b"{\"cancel\":99}\n");
        handler.write(line(1, &json!({}), &json!({})).as_bytes());
        handler.write(b"{\"cancel\":1}\n");
        assert_eq!(handler.read(), json!({"id": 1, "result": [true, "AbortError"]}));
        // The signal is read for the first time after the call was cancelled.
        handler.write(line(2, &json!({"late": true}), &json!({})).as_bytes());
        assert_eq!(handler.read()["log"], "begun");
        handler.write(b"{\"cancel\":2}\n");
        assert_eq!(handler.read(), json!({"id": 2, "result": [true, "AbortError"]}));
        assert_eq!(handler.end(), (String::new(), String::new()));
    }
}

// req: LOCAL-007
#[test]
fn hooks_run_once_and_a_module_that_fails_is_tried_again() {
    let source = "
        let failures = 1;
        export async function init(logger) { logger.info('init'); }
        export async function start(values) { console.log('start', values); if (failures-- > 0) throw new Error('not yet'); }
        export async function stop() { console.log('stop'); }
        export const handlers = { run: async () => { process.stdin.setEncoding('utf8'); return 'é'; } };
    ";
    for node in nodes() {
        let mut handler = Handler::start(&node, source);
        let failed = handler.call(1, &json!({}));
        assert_eq!(failed, json!({"id": 1, "error": {"message": "the handler could not be loaded: not yet"}}));
        for id in 2..5 {
            // A handler that sets the encoding of stdin does no harm.
            assert_eq!(handler.call(id, &json!({"é": "é\u{2028}"})), json!({"id": id, "result": "é"}));
        }
        let (_, errors) = handler.end();
        let said = |word: &str| errors.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!((said("info: init"), said("start { size: 'large' }"), said("stop")), (2, 2, 1), "{errors}");
    }
}
