//! The programs under attack.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};

/// Descriptors of a server: fewer than the hostile connections.
const DESCRIPTORS: usize = 1_800;

/// A server that runs until it is dropped, and its requests.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// An honest request.
    pub(crate) request: String,
    /// A response of some kilobytes, for a client that never reads.
    pub(crate) large: &'static str,
    /// A path that accepts bodies.
    pub(crate) post: &'static str,
    /// A stream, and how an honest client detects that it was opened.
    pub(crate) stream: &'static str,
    pub(crate) has_streams: bool,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the program in a folder, and returns its first line of JSON.
fn start(folder: &Path, arguments: &[&str]) -> (Child, Value) {
    let program = std::env::var("TOOLCRIB_LOAD_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_toolcrib").to_owned());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\""), &program]).args(arguments).arg("--json");
    command.current_dir(folder).env_clear().env("HOME", folder).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let (mut line, mut rest) = (String::new(), String::new());
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("a line");
    let told = serde_json::from_str(&line).unwrap_or_else(|error| {
        let _ = stdout.read_to_string(&mut rest);
        panic!("{error}: {line}{rest}")
    });
    (child, told)
}

pub(crate) fn directory() -> Program {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, told) = start(folder.path(), &["directory", "--listen", "127.0.0.1:0", "--store", "index.db"]);
    let url = told["data"]["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a URL");
    Program {
        name: "directory",
        address: url.parse().expect("an address"),
        request: "GET /api/v2/tools HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
        large: "/openapi.json",
        post: "/api/v2/tools/usage",
        stream: "/api/v2/changes",
        has_streams: true,
        child,
        _folder: folder,
    }
}

pub(crate) fn gate() -> Program {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = json!({
        "type": "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
        "name": "Tide table",
        "description": "Tells the tide.",
        "endpoint": "https://tools.example.com/tide-table",
        "inputs": { "type": "object", "description": "x".repeat(20_000) },
        "outputs": {},
        "creatorAddress": "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
    });
    std::fs::write(folder.path().join("tool.json"), manifest.to_string()).expect("written");
    let upstream = format!("http://{}/", upstream());
    // High rates, so that rate limits alone do not end the attack.
    let rates = ["--rate", "20000", "--rate-address", "1000"];
    let arguments =
        [&["serve", "tool.json", "--upstream", &upstream, "--listen", "127.0.0.1:0", "--store", "memory"], &rates[..]].concat();
    let (child, told) = start(folder.path(), &arguments);
    let body = r#"{"harbour":"NLRTM"}"#;
    Program {
        name: "gate",
        address: told["address"].as_str().and_then(|text| text.parse().ok()).expect("an address"),
        request: format!(
            "POST /tide-table HTTP/1.1\r\nHost: tools.example.com\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        ),
        large: "/.well-known/ai-tool/tide-table.json",
        post: "/tide-table",
        stream: "/tide-table",
        has_streams: false,
        child,
        _folder: folder,
    }
}

/// A tool that answers at once.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Answers the requests of one connection.
fn answer(mut stream: TcpStream) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            let Ok(read @ 1..) = stream.read(&mut buffer) else { return };
            bytes.extend_from_slice(&buffer[..read]);
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if bytes.len() < end + 4 + length {
            let Ok(read @ 1..) = stream.read(&mut buffer) else { return };
            bytes.extend_from_slice(&buffer[..read]);
            continue;
        }
        bytes.drain(..end + 4 + length);
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"height_cm\":187}";
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
