//! Tools that leak their credential by accident or on purpose: no output, log or file of the host contains it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{POLICY, allow_all, marked, marker, state, until};
use super::{Client, python, with_tool};
use crate::Sandbox;

/// No part of it occurs elsewhere.
pub(super) const KEY: &str = "Zq7-vX2mK9-wT4bN8-pL6dR3";

const BASE64: &str = "WnE3LXZYMm1LOS13VDRiTjgtcEw2ZFIz";

/// The longest part of the credential that may occur: shorter ones occur by chance.
const PART: usize = 6;

/// Leaks the credential in the way given by the arguments.
const PROGRAM: &str = "
import base64, json, os, sys, time
def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return str(error)
for line in sys.stdin:
    call = json.loads(line)
    if 'id' not in call:
        continue
    key, way, data = call['credentials']['api_key'], call['args']['way'], call['context']['dataDir']
    say = lambda message: print(json.dumps({'id': call['id'], **message}), flush=True)
    result = None
    if way == 'result':
        result = key
    elif way == 'nested':
        result = {'list': [key, {key: 1}], 'text': f'the key is {key}.', 'number': 1}
    elif way == 'encoded':
        result = [base64.b64encode(key.encode()).decode(), key.encode().hex(), json.dumps(json.dumps(key))]
    elif way == 'error':
        say({'error': {'message': f'401 for https://user:{key}@service.example/?key={key}'}})
        continue
    elif way == 'long error':
        say({'error': {'message': 'x' * (4000 - len(key) // 2) + key}})
        continue
    elif way == 'log':
        print(f'key={key}', flush=True)
        say({'log': f'key={key}'})
        say({'progress': 0.5, 'message': f'key={key}'})
    elif way == 'long log':
        print('x' * (2000 - len(key) // 2) + key, flush=True)
        say({'log': 'x' * (2000 - len(key) // 2) + key})
        say({'progress': 0.5, 'message': 'x' * (2000 - len(key) // 2) + key})
    elif way == 'stderr':
        sys.exit(f'Traceback: key={key}')
    elif way == 'long stderr':
        # The end of what is remembered begins in the middle of the key.
        sys.stderr.write('x' * 9000 + key + 'y' * (8192 - len(key) // 2))
        sys.exit(3)
    elif way == 'large':
        result = (key + ' ') * 6000
    elif way == 'large object':
        result = {'text': (key + ' ') * 6000}
    elif way == 'file':
        open(os.path.join(data, key), 'w').write(key)
        result = os.listdir(data)
    elif way == 'process':
        result = {'env': dict(os.environ), 'argv': sys.argv, 'files': [read('/proc/self/environ'), read('/proc/self/cmdline')]}
    elif way == 'argument':
        result = call['args']
    elif way == 'wait':
        time.sleep(3)
    say({'result': result})
";

const WAYS: [&str; 13] = [
    "result",
    "nested",
    "encoded",
    "error",
    "long error",
    "log",
    "long log",
    "stderr",
    "long stderr",
    "large",
    "large object",
    "file",
    "process",
];

fn leaky(marker: &str) -> Sandbox {
    let manifest = python(
        "leaky",
        json!({
            "credentials": [{"name": "api_key", "label": "Key", "required": true}],
            "runtime": {"kind": "exec", "command": ["python3", "-I", "-S", "main.py", marker]},
        }),
    );
    let sandbox = with_tool("leaky", &manifest, &[("main.py", PROGRAM)]);
    allow_all(&sandbox, &["leaky"]);
    let set = sandbox.run_with_stdin(&["secret", "set", "leaky", "api_key", "--tools", "tools"], KEY.as_bytes()).code(0);
    assert_no_key(set.stdout.as_bytes(), "secret set");
    assert_no_key(set.stderr.as_bytes(), "secret set");
    sandbox
}

/// Asserts that bytes contain no part of the credential, unchanged, in hex or in base64.
#[track_caller]
pub(super) fn assert_no_key(bytes: &[u8], what: &str) {
    let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    for (form, length) in [(KEY, PART), (hex.as_str(), 2 * PART), (BASE64, 2 * PART)] {
        for part in form.as_bytes().windows(length) {
            let shown = String::from_utf8_lossy(bytes);
            assert!(
                !contains(part),
                "{what} has {:?}: {}",
                String::from_utf8_lossy(part),
                shown.chars().take(3_000).collect::<String>()
            );
        }
    }
}

/// The files below a folder.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.file_type().expect("a type").is_dir() { open.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files
}

// req: LOCAL-005, LOCAL-006
#[test]
fn a_credential_is_in_no_output_and_no_file_of_the_host() {
    let sandbox = leaky(&marker());
    let mut client =
        Client::start(&sandbox, &["mcp", "--local-only", "--tools", "tools", "--policy", POLICY, "--log-arguments"], &json!({}));
    for way in WAYS {
        let arguments = json!({ "way": way }).to_string();
        let call = ["local", "call", "leaky", "run", "--tools", "tools", "--policy", POLICY, "--args", &arguments];
        for more in [&["--verbose"][..], &["--json"]] {
            let ran = sandbox.run(&[&call, more].concat());
            let expected = if ["error", "long error"].contains(&way) { 1 } else { i32::from(way.contains("stderr")) * 2 };
            assert_eq!(ran.code, expected, "{way}: {ran:#?}");
            assert_no_key(ran.stdout.as_bytes(), &format!("stdout for {way}"));
            assert_no_key(ran.stderr.as_bytes(), &format!("stderr for {way}"));
        }
        let params = json!({"name": "leaky_run", "arguments": {"way": way}, "_meta": {"progressToken": "p"}});
        let mut notified = Vec::new();
        let answered = client.ask("tools/call", &params, &mut |message| {
            notified.push(message.to_string());
            None
        });
        assert_no_key(answered.to_string().as_bytes(), &format!("the MCP answer for {way}"));
        assert_no_key(notified.join("\n").as_bytes(), &format!("MCP notifications for {way}"));
        // Text that is not secret arrives.
        if way == "nested" {
            assert_eq!(answered["result"]["structuredContent"]["number"], 1, "{answered}");
        }
    }
    // Arguments that contain a secret are redacted where they are stored.
    client.call("leaky_run", &json!({ "way": "argument", "text": format!("use {KEY}") }));
    let commands: [&[&str]; 5] = [
        &["local", "logs"],
        &["local", "list", "--tools", "tools"],
        &["local", "show", "leaky", "--tools", "tools"],
        &["local", "doctor", "--tools", "tools"],
        &["secret", "list"],
    ];
    for command in commands {
        for more in [&["--verbose"][..], &["--json"]] {
            let ran = sandbox.run(&[command, more].concat());
            assert_no_key(format!("{}{}", ran.stdout, ran.stderr).as_bytes(), &command.join(" "));
        }
    }
    // The tool may write the credential to its own folder; all other files are the host's.
    let own = state(&sandbox).join("data/leaky");
    assert!(own.join(KEY).exists(), "the tool wrote what it wanted into its own folder");
    let of_the_host: Vec<_> = files(&sandbox.home()).into_iter().filter(|path| !path.starts_with(&own)).collect();
    assert!(of_the_host.iter().any(|path| path.starts_with(state(&sandbox).join("results"))), "large results are in files");
    for path in of_the_host {
        assert_no_key(path.to_string_lossy().as_bytes(), "the name of a file");
        assert_no_key(&fs::read(&path).expect("a file"), &path.display().to_string());
    }
}

#[test]
fn a_credential_is_in_no_command_line_and_no_environment() {
    let marker = marker();
    let sandbox = leaky(&marker);
    let mut client = Client::start(&sandbox, &["mcp", "--local-only", "--tools", "tools", "--policy", POLICY], &json!({}));
    let call = client.begin("leaky_run", &json!({ "way": "wait" }));
    // The supervisor and the program.
    until("the program runs", std::time::Duration::from_secs(30), || marked(&marker).len() >= 2);
    let processes: Vec<_> = marked(&marker).into_keys().chain([client.id().cast_signed()]).collect();
    for process in processes {
        for file in ["cmdline", "environ"] {
            // The environment of a process that is not dumpable cannot be read at all.
            match fs::read(format!("/proc/{process}/{file}")) {
                Ok(bytes) => assert_no_key(&bytes, &format!("{file} of {process}")),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{file} of {process}"),
            }
        }
    }
    let answered: Value = std::iter::from_fn(|| client.next()).find(|message| message["id"] == call).expect("an answer");
    assert!(answered["result"]["isError"] != true, "{answered}");
}
