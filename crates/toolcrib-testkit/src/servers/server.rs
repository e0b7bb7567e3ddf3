//! A server that follows a script on every connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::Leaf;

/// A server's behaviour.
#[derive(Clone, Debug)]
pub struct Script {
    /// What comes before the steps.
    pub front: Front,
    /// The steps on every connection.
    pub steps: Vec<Step>,
}

/// What comes before the steps.
#[derive(Clone, Debug)]
pub enum Front {
    /// A TLS handshake.
    Tls {
        /// The certificate.
        leaf: Leaf,
        /// The server's ALPN protocols.
        alpn: Vec<Vec<u8>>,
        /// The TLS versions.
        versions: &'static [&'static SupportedProtocolVersion],
    },
    /// Nothing: the steps use the socket directly.
    Plain,
}

/// Makes a response to a request.
pub type Reply = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

/// One step of a server. After the last one it closes the connection properly.
#[derive(Clone)]
pub enum Step {
    /// Reads one request and records it.
    ReadRequest,
    /// Reads the first bytes and drops them.
    ReadSome,
    /// Sends bytes in one write.
    Send(Vec<u8>),
    /// Sends the response that a function makes to the last request.
    Answer(Reply),
    /// Waits.
    Sleep(Duration),
    /// Sends byte by byte, each in its own TLS record.
    Drip(Vec<u8>, Duration),
    /// Sends the same piece until the client disconnects.
    Endless(Vec<u8>),
    /// Waits until the client disconnects.
    Hold,
    /// Closes the connection without TLS `close_notify`.
    Cut,
    /// Closes the connection with a reset.
    Reset,
}

impl Step {
    /// Sends bytes in one write.
    pub fn send(bytes: impl AsRef<[u8]>) -> Self {
        Self::Send(bytes.as_ref().to_vec())
    }

    /// Sends the response that a function makes to the last request.
    pub fn answer(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::Answer(Arc::new(answer))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Step")
    }
}

impl Script {
    /// TLS 1.2 and 1.3 with this certificate, and ALPN for HTTP/1.1 and HTTP/2.
    pub fn tls(leaf: &Leaf, steps: Vec<Step>) -> Self {
        let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { front: Front::Tls { leaf: leaf.clone(), alpn, versions: rustls::ALL_VERSIONS }, steps }
    }

    /// Plain TCP without TLS.
    pub const fn plain(steps: Vec<Step>) -> Self {
        Self { front: Front::Plain, steps }
    }

    /// Sets other ALPN protocols.
    pub fn alpn(mut self, protocols: &[&[u8]]) -> Self {
        if let Front::Tls { alpn, .. } = &mut self.front {
            *alpn = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        }
        self
    }

    /// Sets other TLS versions.
    pub fn versions(mut self, given: &'static [&'static SupportedProtocolVersion]) -> Self {
        if let Front::Tls { versions, .. } = &mut self.front {
            *versions = given;
        }
        self
    }
}

/// A request that a server read.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Request line and headers.
    pub head: String,
    /// The body, as long as `Content-Length` says.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the method.
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// Returns path and query.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .find_map(|line| line.split_once(':').filter(|(given, _)| given.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value.trim())
    }
}

/// A running server. It stops when dropped.
#[derive(Debug)]
pub struct Server {
    /// The address that it listens on.
    pub address: SocketAddr,
    seen: Arc<Mutex<ServerLog>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct ServerLog {
    accepted: usize,
    requests: Vec<Request>,
    sent: usize,
}

impl Server {
    /// Listens on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> Self {
        Self::start_on("127.0.0.1:0", script).await
    }

    /// Starts a server that listens on this address.
    pub async fn start_on(address: &str, script: Script) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(ServerLog::default()));
        let acceptor = match &script.front {
            Front::Plain => None,
            Front::Tls { leaf, alpn, versions } => {
                let key = rustls::crypto::ring::sign::any_supported_type(&leaf.key()).expect("a key");
                let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .with_protocol_versions(versions)
                    .expect("versions")
                    .with_no_client_auth()
                    // `with_single_cert` would reject certificates that clients reject too.
                    .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(leaf.chain.clone(), key))));
                config.alpn_protocols = alpn.clone();
                Some(TlsAcceptor::from(Arc::new(config)))
            }
        };
        let task = tokio::spawn({
            let seen = seen.clone();
            async move {
                let mut connections = JoinSet::new();
                let steps: Arc<[Step]> = script.steps.into();
                while let Ok((stream, _)) = listener.accept().await {
                    seen.lock().expect("unpoisoned").accepted += 1;
                    let (acceptor, steps, seen) = (acceptor.clone(), steps.clone(), seen.clone());
                    connections.spawn(async move {
                        // Most scripts are about clients that give up, so errors are expected.
                        let _ = connection(stream, acceptor, &steps, &seen).await;
                    });
                    while connections.try_join_next().is_some() {}
                }
            }
        });
        Self { address, seen, task }
    }

    /// Number of accepted connections.
    pub fn accepted(&self) -> usize {
        self.seen.lock().expect("unpoisoned").accepted
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().expect("unpoisoned").requests.clone()
    }

    /// Number of bytes handed to the connection for sending.
    pub fn sent(&self) -> usize {
        self.seen.lock().expect("unpoisoned").sent
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, steps: &[Step], seen: &Mutex<ServerLog>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match acceptor {
        None => {
            let mut stream = stream;
            match play(&mut stream, steps, seen).await? {
                End::Close => stream.shutdown().await,
                End::Cut => Ok(()),
                End::Reset => stream.set_zero_linger(),
            }
        }
        Some(acceptor) => {
            let mut stream = acceptor.accept(stream).await?;
            match play(&mut stream, steps, seen).await? {
                End::Close => {
                    stream.shutdown().await?;
                    // Closing with unread bytes would cause a reset, which could overtake the response.
                    let mut rest = [0; 1024];
                    while stream.get_mut().0.read(&mut rest).await? > 0 {}
                    Ok(())
                }
                End::Cut => stream.get_mut().0.shutdown().await,
                End::Reset => stream.get_mut().0.set_zero_linger(),
            }
        }
    }
}

enum End {
    Close,
    Cut,
    Reset,
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, steps: &[Step], seen: &Mutex<ServerLog>) -> io::Result<End> {
    let mut request = Request::default();
    for step in steps {
        match step {
            Step::ReadRequest => {
                request = read_request(stream).await?;
                seen.lock().expect("unpoisoned").requests.push(request.clone());
            }
            Step::ReadSome => {
                let _count = stream.read(&mut [0; 4096]).await?;
            }
            Step::Send(bytes) => send(stream, bytes, seen).await?,
            Step::Answer(answer) => send(stream, &answer(&request), seen).await?,
            Step::Sleep(time) => tokio::time::sleep(*time).await,
            Step::Drip(bytes, every) => {
                for byte in bytes {
                    send(stream, &[*byte], seen).await?;
                    if !every.is_zero() {
                        tokio::time::sleep(*every).await;
                    }
                }
            }
            Step::Endless(piece) => loop {
                send(stream, piece, seen).await?;
            },
            Step::Hold => while stream.read(&mut [0; 1024]).await? > 0 {},
            Step::Cut => return Ok(End::Cut),
            Step::Reset => return Ok(End::Reset),
        }
    }
    Ok(End::Close)
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8], seen: &Mutex<ServerLog>) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await?;
    seen.lock().expect("unpoisoned").sent += bytes.len();
    Ok(())
}

/// Reads a request with a `Content-Length` or without a body.
async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(end) = end {
            let mut request = Request { head: String::from_utf8_lossy(&bytes[..end]).into_owned(), body: Vec::new() };
            let length = request.header("content-length").map_or(0, |text| text.parse::<usize>().expect("a length"));
            if bytes.len() - end >= length {
                request.body = bytes[end..].to_vec();
                return Ok(request);
            }
        }
        match stream.read(&mut piece).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}
