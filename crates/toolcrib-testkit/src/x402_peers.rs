//! Third-party x402 programs: found in `interop/`, started on free ports, stopped with the test that started them.

use std::env;
use std::fmt;
use std::io::{self, BufRead as _, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::spawn_blocking;

/// Timeout of starting a server. Node.js loads a hundred packages, which takes long on a busy machine.
const STARTING_TIME: Duration = Duration::from_secs(120);

/// Timeout of a client's call. Clients time out after two minutes themselves.
const CALL_TIME: Duration = Duration::from_secs(180);

/// The folder `interop/`, if it is installed.
#[derive(Debug)]
pub struct Peers {
    folder: PathBuf,
}

/// A third-party client and the command that pays for one `POST`.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name.
    pub name: &'static str,
    /// The x402 version of the challenges that it answers.
    pub version: u64,
    command: Vec<PathBuf>,
    settings: &'static [(&'static str, &'static str)],
}

/// A client process that pays for calls one after the other.
#[derive(Debug)]
pub struct Paying {
    /// The client.
    pub client: Client,
    _child: tokio::process::Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A client's report about its call.
#[derive(Debug)]
pub struct Called {
    /// The status of the last response.
    pub status: u64,
    /// The body of the last response.
    pub body: Value,
    /// The receipt, as that client decodes it.
    pub receipt: Value,
    /// The header with the receipt.
    pub header: Option<String>,
    /// The client's error.
    pub error: Option<String>,
}

/// A third-party server. It is killed when this is dropped, and stops by itself when its standard input ends.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its address.
    pub at: SocketAddr,
}

impl Peers {
    /// Finds the programs. `None`, recorded as a skip of the calling test, if they are not installed.
    pub fn find() -> Option<Self> {
        crate::interop().map(|folder| Self { folder })
    }

    /// Returns the clients in JavaScript and Python.
    pub fn clients(&self) -> Vec<Client> {
        let node = |name, version, script: &str| Client {
            name,
            version,
            command: vec!["node".into(), self.path(script)],
            settings: &[],
        };
        let python = |name, settings| Client {
            name,
            version: 2,
            command: vec![self.path("python/venv/bin/python"), self.path("python/client.py")],
            settings,
        };
        vec![
            node("x402-fetch", 1, "v1/client.mjs"),
            node("@x402/fetch", 2, "v2/client.mjs"),
            python("x402 for Python, httpx", &[]),
            node("x402-axios", 1, "v1/axios.mjs"),
            node("@x402/axios", 2, "v2/axios.mjs"),
            python("x402 for Python, requests", &[("CLIENT", "requests")]),
        ]
    }

    /// Returns the client in Rust. It takes minutes to compile, so it may be missing.
    pub fn rust_client() -> Option<Client> {
        let program = crate::foreign_rust_client()?;
        Some(Client { name: "x402-reqwest", version: 2, command: vec![program], settings: &[] })
    }

    /// Starts the reference facilitator, whose key `key` pays for gas.
    pub async fn facilitator(&self, rpc_url: &str, key: B256) -> Server {
        self.facilitator_with(rpc_url, key, &[]).await
    }

    /// Starts the reference facilitator with further settings.
    pub async fn facilitator_with(&self, rpc_url: &str, key: B256, more: &[(&str, String)]) -> Server {
        let mut settings = vec![("RPC_URL", rpc_url.to_owned()), ("PRIVATE_KEY", key.to_string())];
        settings.extend_from_slice(more);
        self.start("v2/facilitator.mjs", &settings).await
    }

    /// Starts a server from a script.
    pub async fn start(&self, script: &str, settings: &[(&str, String)]) -> Server {
        let mut command = quiet(Path::new("node"));
        command.arg(self.path(script)).envs(settings.iter().map(|(name, value)| (name, value)));
        let script = script.to_owned();
        spawn_blocking(move || Server::start(&mut command, &script)).await.expect("the thread ends")
    }

    /// Runs a script that calls a URL and prints one line of JSON.
    pub async fn run(&self, script: &'static str, url: &str, settings: &[(&str, String)]) -> Value {
        let mut command = quiet(Path::new("node"));
        command.arg(self.path(script)).arg(url).envs(settings.iter().map(|(name, value)| (name, value)));
        let line = spawn_blocking(move || output(&mut command, script)).await.expect("the thread ends");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{script}: {error}: {line}"))
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.join(below)
    }
}

impl Client {
    /// Pays for a call with a development key.
    pub async fn call(&self, url: String, key: B256, body: Value) -> Called {
        let (program, arguments) = self.command.split_first().expect("a program");
        let mut command = quiet(program);
        command.args(arguments).arg(url).env("PRIVATE_KEY", key.to_string()).env("BODY", body.to_string());
        command.envs(self.settings.iter().copied());
        let name = self.name;
        let line = spawn_blocking(move || output(&mut command, name)).await.expect("the thread ends");
        Called::read(name, &line)
    }

    /// Starts it for many calls, so that it is loaded only once.
    pub async fn start(self, key: B256) -> Paying {
        let (program, arguments) = self.command.split_first().expect("a program");
        let mut command = quiet(program);
        command.args(arguments).arg("-").env("PRIVATE_KEY", key.to_string()).envs(self.settings.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("it starts");
        let (input, stdout) = (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        let lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stdout));
        let mut paying = Paying { client: self, _child: child, input, lines };
        assert_eq!(paying.line().await, r#"{"ready":true}"#, "{}", paying.client);
        paying
    }
}

impl Paying {
    /// Pays for a call, with further headers and an ID for the extension `payment-identifier`.
    pub async fn call(&mut self, url: &str, body: &Value, headers: &[(&str, String)], id: &str) -> Called {
        let headers: serde_json::Map<_, _> = headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let call = json!({ "url": url, "body": body.to_string(), "headers": headers, "id": id });
        self.input.write_all(format!("{call}\n").as_bytes()).await.expect("it listens");
        let line = self.line().await;
        Called::read(self.client.name, &line)
    }

    async fn line(&mut self) -> String {
        let name = self.client.name;
        let line = tokio::time::timeout(CALL_TIME, self.lines.next_line()).await.unwrap_or_else(|_| panic!("{name} hangs"));
        line.expect("text").unwrap_or_else(|| panic!("{name} has ended"))
    }
}

impl Called {
    fn read(name: &str, line: &str) -> Self {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        Self {
            status: value["status"].as_u64().expect("a status"),
            body: value["body"].clone(),
            receipt: value["receipt"].clone(),
            header: value["header"].as_str().map(str::to_owned),
            error: value["error"].as_str().map(str::to_owned),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Server {
    fn start(command: &mut Command, script: &str) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("node starts");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut lines = io::BufReader::new(stdout);
            let mut line = String::new();
            let _ = lines.read_line(&mut line);
            let _ = sender.send(line);
            // Further output must not fill the pipe.
            let _ = io::copy(&mut lines, &mut io::sink());
        });
        let line = receiver.recv_timeout(STARTING_TIME).unwrap_or_default();
        let port = serde_json::from_str::<Value>(&line).ok().and_then(|line| u16::try_from(line["port"].as_u64()?).ok());
        let mut server = Self { child, at: SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(0))) };
        if port.is_none() {
            let _ = server.child.kill();
            panic!("{script} said {line:?} instead of its port");
        }
        server
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Returns the server's counters.
    pub async fn stats(&self) -> Value {
        let mut stream = TcpStream::connect(self.at).await.expect("the server listens");
        stream.write_all(b"GET /stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a whole head");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a program without this machine's settings: no proxies, no keys.
fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs a program and returns its output.
fn output(command: &mut Command, name: &str) -> String {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{name}: {error}"));
    let until = Instant::now() + CALL_TIME;
    while child.try_wait().expect("its state is known").is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            panic!("{name} does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("text");
    assert!(!out.is_empty(), "{name} printed nothing: {err}");
    out
}

/// Returns the members of an object that a test compares.
pub fn part(value: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), value.get(*key).cloned().unwrap_or(json!(null)))).collect()
}
