//! Third-party S3-compatible services, and one that misbehaves on purpose.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use toolcrib_store::objects::{Error, Objects, ObjectsLocation};

/// The bucket of every service.
pub const BUCKET: &str = "toolcrib-test";

/// The access key that s3rver accepts.
pub const KEY: &str = "S3RVER";
/// The secret key of [`KEY`].
pub const SECRET: &str = "S3RVER";

/// A service in a process of its own, which stops when this is dropped.
#[derive(Debug)]
pub struct Service {
    child: Child,
    /// Its port.
    pub port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

impl Service {
    /// Starts moto, which supports conditional writes and accepts any signature. `None`, recorded as a skip, if it is not installed.
    pub fn moto() -> Option<Self> {
        let program = crate::moto()?;
        let service = Self::start(|port, _| {
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            command
        });
        let made = service.raw("PUT", &format!("/{BUCKET}"));
        assert!(made.starts_with("HTTP/1.1 200"), "{made}");
        Some(service)
    }

    /// Starts moto with signature checks; returns it with an access key and its secret.
    pub fn moto_with_account() -> Option<(Self, String, String)> {
        let program = crate::moto()?;
        let service = Self::start(|port, _| {
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            command
        });
        let python = program.with_file_name("python");
        let script = crate::repository().join("interop/objects/account.py");
        let endpoint = format!("http://127.0.0.1:{}", service.port);
        let output = Command::new(python).arg(script).args([&endpoint, BUCKET]).output().expect("an account");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (key, secret) = said.trim().split_once(' ').unwrap_or_else(|| panic!("{output:?}"));
        Some((service, key.to_owned(), secret.to_owned()))
    }

    /// Starts s3rver, another implementation: it knows its keys, checks no signature of version 4, and ignores conditions.
    pub fn s3rver() -> Option<Self> {
        let script = crate::s3rver()?;
        Some(Self::start(|port, folder| {
            let mut command = Command::new("node");
            command.arg(&script).args(["--directory"]).arg(folder).args(["--address", "127.0.0.1", "--port", &port.to_string()]);
            command.args(["--configure-bucket", BUCKET, "--silent"]);
            command
        }))
    }

    fn start(command: impl Fn(u16, &Path) -> Command) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
        let mut command = command(port, folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the service starts");
        let service = Self { child, port, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the service does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        service
    }

    fn raw(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Opens a store in it.
    pub fn objects(&self, prefix: &str) -> Objects {
        objects_at(self.port, prefix)
    }
}

/// Opens a store at a port of this machine.
pub fn objects_at(port: u16, prefix: &str) -> Objects {
    open(&format!("s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port}"), KEY, SECRET).expect("a store")
}

/// Opens a store with credentials, as from the environment.
pub fn open(setting: &str, key: &str, secret: &str) -> Result<Objects, Error> {
    Objects::open(&ObjectsLocation::parse(setting)?, |name| match name {
        "AWS_ACCESS_KEY_ID" => Some(key.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
        _ => None,
    })
}

/// A server that sends the same response to every request.
#[derive(Clone, Debug)]
pub struct Scripted {
    /// Its address.
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Scripted {
    /// Responds with these bytes, and closes. Without any it never responds.
    pub fn start(answer: Option<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                let Some(answer) = &answer else {
                    open.push(stream);
                    continue;
                };
                let mut request = Vec::new();
                let mut buffer = [0; 4_096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
                        _ => break,
                    }
                }
                let _ = stream.write_all(answer);
            }
        });
        Self { address, requests }
    }

    /// Responds with a body, and the headers that S3 clients require.
    pub fn answering(status: &str, length: usize, body: &[u8]) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"x\"\r\nLast-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\nConnection: close\r\n\r\n"
        );
        Self::start(Some([head.as_bytes(), body].concat()))
    }

    /// Opens a store in it.
    pub fn objects(&self) -> Objects {
        objects_at(self.address.port(), "prefix")
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}
