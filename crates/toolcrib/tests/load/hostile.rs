//! Clients that keep their connections open.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::servers::Program;

/// The behaviour of a hostile connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sends nothing.
    Idle,
    /// Sends a request head byte by byte.
    SlowHead,
    /// Sends a request body byte by byte.
    SlowBody,
    /// Requests much and never reads.
    NeverReading,
    /// Opens an event stream and keeps it.
    Stream,
}

pub(crate) const KINDS: [Kind; 5] = [Kind::Idle, Kind::SlowHead, Kind::SlowBody, Kind::NeverReading, Kind::Stream];

/// Source addresses of hostile connections.
const ADDRESSES: usize = 4;

/// Pause before a closed or refused connection is retried.
const AGAIN: Duration = Duration::from_secs(2);

/// Time between two bytes of a slow sender.
const DRIP: Duration = Duration::from_secs(1);

/// Time limit until all connections were tried once.
const RAMP_TIME: Duration = Duration::from_secs(20);

/// Requests of one client that never reads: some megabytes of responses.
const UNREAD: usize = 200;

struct Shared {
    to: SocketAddr,
    kind: Kind,
    hello: Vec<u8>,
    tried: AtomicUsize,
    open: AtomicUsize,
    is_over: AtomicBool,
}

/// Running hostile connections.
pub(crate) struct Attack {
    shared: Arc<Shared>,
    runtime: Runtime,
}

impl Attack {
    /// Starts, and returns when every connection was tried once.
    pub(crate) fn begin(program: &Program, kind: Kind, connections: usize) -> Self {
        let shared = Arc::new(Shared {
            to: program.address,
            kind,
            hello: hello(program, kind),
            tried: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        for number in 0..connections {
            let shared = shared.clone();
            runtime.spawn(async move {
                // Not all in the same millisecond, which would overflow the kernel's queue.
                sleep(Duration::from_micros(300) * number as u32).await;
                let last = u8::try_from(2 + number % ADDRESSES).unwrap_or(2);
                while !shared.is_over.load(Ordering::Relaxed) {
                    attack(&shared, Ipv4Addr::new(127, 0, 0, last)).await;
                    sleep(AGAIN).await;
                }
            });
        }
        runtime.block_on(async {
            let ramp = async {
                while shared.tried.load(Ordering::Relaxed) < connections {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            // A server that accepts no more leaves the rest in the kernel's queue, which is the aim of the attack.
            let _ = timeout(RAMP_TIME.min(Duration::from_secs(3)), ramp).await;
        });
        Self { shared, runtime }
    }

    /// Closes all connections. Returns how many were open at the end.
    pub(crate) fn end(self) -> usize {
        let open = self.shared.open.load(Ordering::Relaxed);
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        open
    }
}

/// The first bytes of each connection.
fn hello(program: &Program, kind: Kind) -> Vec<u8> {
    let text = match kind {
        Kind::Idle => String::new(),
        Kind::SlowHead => "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ".to_owned(),
        Kind::SlowBody => format!(
            "POST {} HTTP/1.1\r\nHost: tools.example.com\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{{",
            program.post
        ),
        Kind::NeverReading => format!("GET {} HTTP/1.1\r\nHost: tools.example.com\r\n\r\n", program.large).repeat(UNREAD),
        Kind::Stream => {
            format!("GET {} HTTP/1.1\r\nHost: tools.example.com\r\nAccept: text/event-stream\r\n\r\n", program.stream)
        }
    };
    text.into_bytes()
}

/// One connection, until it is closed.
async fn attack(shared: &Shared, from: Ipv4Addr) {
    let stream = connect(from, shared.to, shared.kind).await;
    let Some(mut stream) = stream else {
        shared.tried.fetch_add(1, Ordering::Relaxed);
        return;
    };
    shared.open.fetch_add(1, Ordering::Relaxed);
    // The rest is sent later or never: do not wait for a server that does not read.
    let sent = timeout(Duration::from_millis(500), stream.write_all(&shared.hello)).await;
    shared.tried.fetch_add(1, Ordering::Relaxed);
    if !matches!(sent, Ok(Err(_))) {
        hold(shared.kind, &mut stream).await;
    }
    shared.open.fetch_sub(1, Ordering::Relaxed);
}

async fn connect(from: Ipv4Addr, to: SocketAddr, kind: Kind) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    if kind == Kind::NeverReading {
        // A small buffer, so that the server's writes stall soon.
        socket.set_recv_buffer_size(4_096).ok()?;
    }
    socket.bind(SocketAddr::from((from, 0))).ok()?;
    timeout(Duration::from_secs(5), socket.connect(to)).await.ok()?.ok()
}

/// Keeps the connection until the server closes it.
async fn hold(kind: Kind, stream: &mut TcpStream) {
    let mut buffer = [0; 4_096];
    loop {
        match kind {
            Kind::NeverReading => {
                sleep(DRIP).await;
                // Nothing is read, so only writes detect the end.
                if stream.try_write(b"\r\n").is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock) {
                    return;
                }
            }
            Kind::SlowHead | Kind::SlowBody => match timeout(DRIP, stream.read(&mut buffer)).await {
                Ok(Ok(0) | Err(_)) => return,
                Ok(Ok(_)) => {}
                Err(_) => {
                    if stream.write_all(b"x").await.is_err() {
                        return;
                    }
                }
            },
            Kind::Idle | Kind::Stream => match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
        }
    }
}
