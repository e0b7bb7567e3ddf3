//! A client that sends a request, reads the response and disconnects, from separate addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::servers::Program;

/// Requests per measurement.
const REQUESTS: usize = 150;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(10);

/// Addresses per measurement: fewer requests from each than any burst limit.
const ADDRESSES: usize = 10;

/// Every tenth request opens a stream instead, if the server has streams.
const STREAM_EVERY: usize = 10;

/// A slower request counts as failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Failures after which a measurement is aborted.
const ENOUGH: usize = 10;

/// Response times in ascending order, and errors.
pub(crate) struct Measured {
    pub(crate) times: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

impl Measured {
    /// Returns a percentile of the times.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let at = (self.times.len() * percent).div_ceil(100).saturating_sub(1);
        self.times.get(at).copied().unwrap_or(Duration::MAX)
    }
}

/// A client on a separate thread, so that hostile ones do not delay it.
pub(crate) struct Client<'p> {
    program: &'p Program,
    runtime: Runtime,
    round: u8,
}

impl<'p> Client<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { program, runtime, round: 0 }
    }

    /// Sends requests repeatedly, each over a new connection.
    pub(crate) fn measure(&mut self) -> Measured {
        self.round += 1;
        let (mut times, mut failures) = (Vec::new(), Vec::new());
        for number in 0..REQUESTS {
            let last = u8::try_from(1 + number % ADDRESSES).unwrap_or(1);
            let from = Ipv4Addr::new(127, 0, self.round, last);
            let is_stream = self.program.has_streams && number % STREAM_EVERY == 0;
            let asked = self.runtime.block_on(ask(self.program, from, is_stream));
            match asked {
                Ok(took) => times.push(took),
                Err(what) => failures.push(what),
            }
            if failures.len() >= ENOUGH {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        times.sort_unstable();
        Measured { times, failures }
    }
}

async fn ask(program: &Program, from: Ipv4Addr, is_stream: bool) -> Result<Duration, String> {
    let began = Instant::now();
    let exchange = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        let mut stream = socket.connect(program.address).await?;
        let request = match is_stream {
            true => format!("GET {} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n", program.stream),
            false => program.request.clone(),
        };
        stream.write_all(request.as_bytes()).await?;
        let mut answer = vec![0; 64 * 1024];
        let mut length = 0;
        // A stream has no end; a response has.
        loop {
            let read = stream.read(&mut answer[length..]).await?;
            length += read;
            let is_enough = is_stream && answer[..length].windows(6).any(|window| window == b"retry:");
            if read == 0 || is_enough || length == answer.len() {
                break;
            }
        }
        answer.truncate(length);
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(PATIENCE, exchange).await {
        Ok(Ok(answer)) if answer.starts_with(b"HTTP/1.1 200") => Ok(began.elapsed()),
        Ok(Ok(answer)) => Err(String::from_utf8_lossy(&answer).chars().take(60).collect()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}
