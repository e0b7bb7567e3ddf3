//! Scripted servers on loopback, and a resolver and a connector that record requests.
//!
//! Nothing here leaves the machine: hosts get public addresses from [`Recorder`], which connects each of them to a server on loopback
//! instead.

pub mod authority;
pub mod recorder;
pub mod server;

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

pub use authority::{Authority, Leaf};
pub use recorder::Recorder;
pub use server::{Request, Script, Server, Step};
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_fetch::{Limits, Untrusted, UntrustedBuilder};

/// The time of the tests' clock: 2027-01-15.
pub const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// A private certificate authority, and a recorder that connects hosts to scripted servers.
#[derive(Debug)]
pub struct World {
    /// Signs the certificates of its servers.
    pub authority: Authority,
    /// Resolves its hosts and connects to them.
    pub recorder: Recorder,
    next: AtomicU8,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// Creates an environment without hosts.
    pub fn new() -> Self {
        Self { authority: Authority::new("test authority"), recorder: Recorder::default(), next: AtomicU8::new(1) }
    }

    /// Returns a public address in a network that no other host of this environment has. No connection to it is made.
    pub fn address(&self) -> String {
        format!("5.{}.5.1", 4 + self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts a server for `host`.
    pub async fn serve(&self, host: &str, script: Script) -> Server {
        let server = Server::start(script).await;
        let address = self.address();
        self.recorder.host(host, &[&address]);
        self.recorder.route(&address, server.address);
        server
    }

    /// Starts an honest server for `host`, with a certificate of the authority, that responds with `answer`.
    pub async fn honest(&self, host: &str, answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Server {
        self.serve(host, Script::tls(&self.authority.leaf(&[host]), vec![Step::ReadRequest, Step::answer(answer)])).await
    }

    /// Returns settings of an HTTP client that reaches only this environment.
    pub fn builder(&self) -> UntrustedBuilder {
        Untrusted::builder(FixedClock(NOW))
            .resolver(self.recorder.clone())
            .connector(self.recorder.clone())
            .authorities(vec![self.authority.der()])
    }

    /// Returns an HTTP client for this environment.
    pub fn fetch(&self) -> Untrusted {
        self.builder().build().expect("the authority is a certificate")
    }
}

/// Returns the limits of manifests with shorter timeouts, so that tests are fast.
pub fn quick() -> Limits {
    let mut limits = Limits::default();
    limits.wait = Duration::from_millis(600);
    limits.resolve = Duration::from_millis(600);
    limits.connect = Duration::from_millis(600);
    limits.handshake = Duration::from_millis(600);
    limits.idle = Duration::from_millis(600);
    limits.total = Duration::from_millis(1_800);
    limits
}

/// Returns a response with these headers, a length and a body.
pub fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Returns a response with status 200 and a JSON body.
pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    answer("200 OK", "Content-Type: application/json\r\n", body.as_ref())
}
