//! Every limit of a request, with its reason.

use std::time::Duration;

use toolcrib_core::json;

/// Most headers of an answer. Large sites send about thirty; hyper and nginx stop at one hundred as well.
pub const MAX_HEADERS: usize = 100;

/// Most interim answers (1xx) before the final one. Early hints and a `100` make two; eight is generous.
pub const MAX_INTERIM: usize = 8;

/// The limits of one request. All times run side by side: none is added to another, and `total` bounds the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest wait for a place among the requests under way. Longer means that the caller asks for too much at once.
    pub wait: Duration,
    /// Longest look-up of a name. System resolvers try again after five seconds.
    pub resolve: Duration,
    /// Longest time for a connection to stand, all addresses together. The second repetition of a lost SYN comes after
    /// three seconds.
    pub connect: Duration,
    /// Longest TLS handshake: two round trips and a signature, so five seconds is for overloaded servers.
    pub handshake: Duration,
    /// Longest silence while the request is sent or the answer read.
    pub idle: Duration,
    /// Longest time for everything, the wait for a place included. A server that drips a byte at a time ends here.
    pub total: Duration,
    /// Largest body in bytes, counted while reading.
    pub body: usize,
    /// Largest status line and headers in bytes, those of interim answers included. Browsers and proxies stop between 8 and
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

    /// Most bytes that the connection may carry towards us: twice the body, for chunks and records of ordinary size, the head,
    /// and a handshake of at most 64 KiB with room to spare. Without it a server could send a byte in each TLS record and make
    /// us decrypt thirty times the body.
    pub(crate) const fn wire(&self) -> u64 {
        (self.body as u64).saturating_mul(2).saturating_add(self.head as u64).saturating_add(256 * 1024)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::MANIFEST
    }
}

/// How many requests may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// In all. With a body of 1 MiB each, sixty-four hold at most some 130 MiB and as many sockets.
    pub total: usize,
    /// To one host: polite to small servers, and a slow host cannot take every place.
    pub host: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { total: 64, host: 8 }
    }
}
