//! The limits of a server.

use std::time::Duration;

/// What clients may hold, and for how long. The defaults are for a server on the open internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are open at the same time. Each takes a descriptor and some kilobytes. Where there are more, the network that
    /// has the most loses one that is idle; if none is idle, the new connection is closed.
    pub connections: usize,
    /// Connections of one client [`Network`](crate::Network). Where there are more, the one that has been idle longest is closed, or
    /// the new one if none is idle. `None` behind a proxy, where all connections come from one address, and on servers for programs
    /// of the same machine.
    pub per_network: Option<usize>,
    /// How long the head of a request may take, which is also how long a connection may be idle. An honest head comes in one piece.
    pub head_time: Duration,
    /// Bytes of a head.
    pub max_head_bytes: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// How long a write may wait for a peer that does not read. Streams that have nothing to write are not concerned.
    pub write_stall: Duration,
    /// Bytes of answers that the kernel holds beyond what the peer has room for. A client that sends requests and does not read stops the
    /// server's work for it when they are used up.
    pub max_unsent_bytes: u32,
    /// How long a body may keep the server waiting in all, beside the time that it has at [`body_rate`](Self::body_rate).
    pub body_grace: Duration,
    /// Bytes a second at which a body has to arrive.
    pub body_rate: u32,
    /// How long a TLS handshake may take.
    pub handshake_time: Duration,
    /// TLS handshakes that are under way at the same time. Where there are more, the one that has taken longest is ended: an honest
    /// one is done long before.
    pub handshakes: usize,
    /// How long requests that are under way may still take when the server stops. What is left then is cut off.
    pub stop_time: Duration,
}

impl Limits {
    /// [`connections`](Self::connections), unless a server says otherwise. Below the 12,000 descriptors that our commands ask for.
    pub const CONNECTIONS: usize = 10_000;
    /// [`per_network`](Self::per_network), unless a server says otherwise: an office behind one address, or a client with a large
    /// pool, and one fortieth of all connections.
    pub const PER_NETWORK: usize = 256;
    /// [`head_time`](Self::head_time), unless a server says otherwise: what most servers and proxies use.
    pub const HEAD_TIME: Duration = Duration::from_secs(30);
    /// [`max_head_bytes`](Self::max_head_bytes), unless a server says otherwise: two headers of 16 KiB, and all that browsers and
    /// proxies add.
    pub const MAX_HEAD_BYTES: usize = 64 * 1024;
    /// [`max_headers`](Self::max_headers), unless a server says otherwise. Browsers behind two proxies send some thirty.
    pub const MAX_HEADERS: usize = 100;
    /// [`write_stall`](Self::write_stall), unless a server says otherwise: long enough for a phone in a tunnel.
    pub const WRITE_STALL: Duration = Duration::from_secs(20);
    /// [`max_unsent_bytes`](Self::max_unsent_bytes), unless a server says otherwise: enough to keep a fast connection busy while the
    /// server's task waits for its turn.
    pub const MAX_UNSENT_BYTES: u32 = 128 * 1024;
    /// [`body_grace`](Self::body_grace), unless a server says otherwise: a few lost packets.
    pub const BODY_GRACE: Duration = Duration::from_secs(5);
    /// [`body_rate`](Self::body_rate), unless a server says otherwise: slower than any modem.
    pub const BODY_RATE: u32 = 1_024;
    /// [`handshake_time`](Self::handshake_time), unless a server says otherwise: two round trips on the worst network.
    pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
    /// [`handshakes`](Self::handshakes), unless a server says otherwise: each costs a signature, and two cores make some thousand a
    /// second.
    pub const HANDSHAKES: usize = 128;
    /// [`stop_time`](Self::stop_time), unless a server says otherwise: what service managers grant before they kill.
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
