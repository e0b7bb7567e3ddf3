//! `serve` and `dry-run-gate`: real processes behind a real gate, over sockets.

mod function;
mod gates;
pub(crate) mod paid;
mod program;
mod upstream;
mod wallets;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, U256};
use alloy_signer::SignerSync;
use serde_json::{Value, json};
use toolcrib_chain::sign::{Domain, TransferAuthorization, TransferKind};
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_x402::{Authorization, Challenge, Payment, Signature};

use crate::Sandbox;
use crate::onchain::CREATOR;

pub(super) const ORIGIN: &str = "https://tools.harbour-office.org";

/// A manifest without schemas, so that any JSON is valid as input and output.
pub(super) fn manifest(slug: &str) -> Value {
    json!({
        "type": "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
        "name": slug,
        "description": "Gives back what it gets, or something else.",
        "endpoint": format!("{ORIGIN}/{slug}"),
        "inputs": {},
        "outputs": {},
        "creatorAddress": CREATOR.to_lowercase(),
    })
}

/// A gate that ends with the test.
pub(super) struct Gate {
    child: Child,
    pub(super) address: SocketAddr,
    log: std::path::PathBuf,
}

impl Gate {
    /// Starts `serve` with these arguments, on a free port.
    #[track_caller]
    pub(super) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::start_with(sandbox, arguments, &[])
    }

    #[track_caller]
    pub(super) fn start_with(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        Self::spawn(sandbox, sandbox.command(&all), variables)
    }

    /// Starts a command that is, or becomes, a gate.
    #[track_caller]
    pub(super) fn spawn(sandbox: &Sandbox, mut command: Command, variables: &[(&str, &str)]) -> Self {
        let log = sandbox.path().join(format!("serve-{}.log", fresh()));
        command.env("PATH", "/usr/bin:/bin").envs(variables.iter().copied());
        command.stderr(Stdio::from(fs::File::create(&log).expect("a log")));
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a first line");
        let address = line.trim_end().rsplit_once("://").and_then(|(_, address)| address.parse().ok());
        let said = fs::read_to_string(&log).unwrap_or_default();
        Self { child, address: address.unwrap_or_else(|| panic!("{line}{said}")), log }
    }

    /// Its stderr so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Calls a tool.
    pub(super) fn call(&self, slug: &str, input: &Value) -> HttpResponse {
        self.call_with(slug, &[], input)
    }

    pub(super) fn call_with(&self, slug: &str, headers: &[(&str, &str)], input: &Value) -> HttpResponse {
        let body = input.to_string();
        let mut request = format!("POST /{slug} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        send(self.address, &request)
    }

    pub(super) fn get(&self, path: &str) -> HttpResponse {
        send(self.address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// Terminates it, and returns its exit code.
    #[cfg(unix)]
    pub(super) fn stop(mut self) -> Option<i32> {
        let process = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("a number")).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A raw response.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl HttpResponse {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code.
    #[track_caller]
    pub(super) fn verdict(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

fn send(to: SocketAddr, request: &str) -> HttpResponse {
    let mut stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    HttpResponse { status, head, body: bytes[end + 4..].to_vec() }
}

/// The header with which a development account answers the first offer of a challenge.
pub(super) fn signed(challenge: &Challenge, account: usize, nonce: u8) -> String {
    let (signer, offer) = (&dev_signers()[account], &challenge.accepts[0]);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let authorization = Authorization {
        from: signer.address(),
        to: offer.pay_to.evm_address().expect("an account"),
        value: offer.amount,
        valid_after: 0,
        valid_before: now + 300,
        nonce: B256::repeat_byte(nonce),
    };
    let token = offer.token().expect("pinned");
    let domain = Domain::new(token.name, token.version, U256::from(token.chain), token.address);
    let digest = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain);
    let signature = Signature::new(signer.sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec()).expect("65 bytes");
    let (resource, extensions) = (challenge.resource.clone(), challenge.extensions.clone());
    let payment = Payment::new(challenge.version, offer, authorization, signature, resource, extensions);
    payment.to_header().expect("a header")
}

/// Waits until a condition holds, and panics after a time limit.
#[track_caller]
pub(super) fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        toolcrib_testkit::assert_not_hung(began, what);
        thread::sleep(Duration::from_millis(20));
    }
}

fn fresh() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    COUNT.fetch_add(1, Ordering::SeqCst)
}
