//! All limits of a request, with their reasons.

use std::time::Duration;

use toolcrib_core::json;

/// Maximum number of response headers. Large sites send about thirty; hyper and nginx also stop at one hundred.
pub const MAX_HEADERS: usize = 100;

/// Maximum number of interim responses (1xx) before the final one. Early hints and a `100` make two; eight is generous.
pub const MAX_INTERIM: usize = 8;

/// The limits of one request. All times run concurrently: none is added to another, and `total` bounds the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum wait for a concurrency slot. A longer wait means that the caller makes too many requests at once.
    pub wait: Duration,
    /// Time limit of a name lookup. System resolvers retry after five seconds.
    pub resolve: Duration,
    /// Time limit of connecting, over all addresses. The second retransmission of a lost SYN comes after
    /// three seconds.
    pub connect: Duration,
    /// Time limit of the TLS handshake: two round trips and a signature, so five seconds is for overloaded servers.
    pub handshake: Duration,
    /// Maximum idle time while sending the request or reading the response.
    pub idle: Duration,
    /// Time limit of everything, including the wait for a slot. It stops a server that sends a byte at a time.
    pub total: Duration,
    /// Maximum size of the body in bytes, counted while reading.
    pub body: usize,
    /// Maximum size of status line and headers in bytes, including interim responses. Browsers and proxies stop between 8 and
    /// 256 KiB; 32 KiB is four times what common servers can send.
    pub head: usize,
}

impl Limits {
    /// The limits for a manifest: [`json::MAX_BYTES`] and fifteen seconds.
    pub const MANIFEST: Self = Self {
        wait: Duration::from_secs(5),
        resolve: Duration::from_secs(5),
        connect: Duration::from_secs(5),
        handshake: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(15),
        body: json::MAX_BYTES,
        head: 32 * 1024,
    };

    /// Maximum number of bytes received on the connection: twice the body, for chunks and records of ordinary size, the head,
    /// and a handshake of at most 64 KiB with a margin. Without it a server could send each byte in its own TLS record and make
    /// the client decrypt thirty times the body.
    pub(crate) const fn wire(&self) -> u64 {
        (self.body as u64).saturating_mul(2).saturating_add(self.head as u64).saturating_add(256 * 1024)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::MANIFEST
    }
}

/// Limits of concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// In total. With a body of 1 MiB each, sixty-four hold at most some 130 MiB and as many sockets.
    pub total: usize,
    /// Per host: polite to small servers, and a slow host cannot use every slot.
    pub host: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { total: 64, host: 8 }
    }
}
