//! The limits of a server.

use std::time::Duration;

/// Resource limits and timeouts for clients. The defaults are for a server on the open internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most open connections. Each takes a file descriptor and some kilobytes. Beyond the limit, the network with the most connections
    /// loses an idle one; if none is idle, the new connection is closed.
    pub connections: usize,
    /// Most connections of one client [`Network`](crate::Network). Beyond the limit, the one that has been idle longest is closed, or the
    /// new one if none is idle. `None` behind a proxy, where all connections come from one address, and on servers for programs of the same
    /// machine.
    pub per_network: Option<usize>,
    /// Timeout for the head of a request, and for idle connections. An honest client sends its head in one piece.
    pub head_time: Duration,
    /// Most bytes of a head.
    pub max_head_bytes: usize,
    /// Most headers of a request.
    pub max_headers: usize,
    /// Timeout of a write to a peer that does not read. It does not apply to streams that have nothing to write.
    pub write_stall: Duration,
    /// Most bytes of responses that the kernel buffers beyond the peer's receive window. Once they are used up, the server stops working
    /// for a client that sends requests and does not read.
    pub max_unsent_bytes: u32,
    /// How long a body may keep the server waiting in total, besides its time at [`body_rate`](Self::body_rate).
    pub body_grace: Duration,
    /// Minimum rate of a body in bytes a second.
    pub body_rate: u32,
    /// Timeout of a TLS handshake.
    pub handshake_time: Duration,
    /// Most concurrent TLS handshakes. Beyond the limit, the oldest one is dropped: an honest one ends long before.
    pub handshakes: usize,
    /// How long running requests may still take at shutdown. The rest is aborted.
    pub stop_time: Duration,
}

impl Limits {
    /// Default of [`connections`](Self::connections), below the 12,000 descriptors that Toolcrib's commands ask for.
    pub const CONNECTIONS: usize = 10_000;
    /// Default of [`per_network`](Self::per_network): an office behind one address, or a client with a large pool, and one fortieth of all
    /// connections.
    pub const PER_NETWORK: usize = 256;
    /// Default of [`head_time`](Self::head_time): what most servers and proxies use.
    pub const HEAD_TIME: Duration = Duration::from_secs(30);
    /// Default of [`max_head_bytes`](Self::max_head_bytes): two headers of 16 KiB, and all that browsers and proxies add.
    pub const MAX_HEAD_BYTES: usize = 64 * 1024;
    /// Default of [`max_headers`](Self::max_headers). Browsers behind two proxies send some thirty.
    pub const MAX_HEADERS: usize = 100;
    /// Default of [`write_stall`](Self::write_stall): long enough for a phone in a tunnel.
    pub const WRITE_STALL: Duration = Duration::from_secs(20);
    /// Default of [`max_unsent_bytes`](Self::max_unsent_bytes): enough to keep a fast connection busy until the server's task is scheduled
    /// again.
    pub const MAX_UNSENT_BYTES: u32 = 128 * 1024;
    /// Default of [`body_grace`](Self::body_grace): a few lost packets.
    pub const BODY_GRACE: Duration = Duration::from_secs(5);
    /// Default of [`body_rate`](Self::body_rate): slower than any modem.
    pub const BODY_RATE: u32 = 1_024;
    /// Default of [`handshake_time`](Self::handshake_time): two round trips on the worst network.
    pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
    /// Default of [`handshakes`](Self::handshakes): each costs a signature, and two cores make some thousand a second.
    pub const HANDSHAKES: usize = 128;
    /// Default of [`stop_time`](Self::stop_time): what service managers grant before they kill.
    pub const STOP_TIME: Duration = Duration::from_secs(10);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: Self::CONNECTIONS,
            per_network: Some(Self::PER_NETWORK),
            head_time: Self::HEAD_TIME,
            max_head_bytes: Self::MAX_HEAD_BYTES,
            max_headers: Self::MAX_HEADERS,
            write_stall: Self::WRITE_STALL,
            max_unsent_bytes: Self::MAX_UNSENT_BYTES,
            body_grace: Self::BODY_GRACE,
            body_rate: Self::BODY_RATE,
            handshake_time: Self::HANDSHAKE_TIME,
            handshakes: Self::HANDSHAKES,
            stop_time: Self::STOP_TIME,
        }
    }
}
