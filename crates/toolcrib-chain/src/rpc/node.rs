//! One JSON-RPC node over HTTP: its URL, its rate limit, and responses with a size limit.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy_json_rpc::{RequestPacket, ResponsePacket};
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolcrib_core::codes::{self, Code};

use crate::Error;

/// Why a request to a node failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportFault {
    /// The connection failed or broke.
    #[error("the RPC node cannot be reached")]
    Unreachable,
    /// No complete response before the deadline.
    #[error("the RPC node did not answer in time")]
    Timeout,
    /// Too many requests.
    #[error("the RPC node's rate limit is exceeded")]
    RateLimited,
    /// An HTTP error status.
    #[error("the RPC node answered with HTTP status {0}")]
    Status(u16),
    /// The response is not JSON-RPC.
    #[error("the RPC node's response is not valid JSON-RPC")]
    Malformed,
    /// The response exceeds the size limit. Reading stopped there.
    #[error("the RPC node's response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The node is on another chain.
    #[error("the RPC node {node} has chain id {got}, expected {expected}")]
    WrongChain {
        /// The node's URL without the parts that may be secret.
        node: String,
        /// The expected chain id.
        expected: u64,
        /// The chain id that the node returned.
        got: u64,
    },
    /// Nodes returned different responses.
    #[error("only {agreeing} of {asked} RPC nodes agree, {needed} are required")]
    NoQuorum {
        /// Number of nodes asked.
        asked: usize,
        /// The largest number of nodes with the same response.
        agreeing: usize,
        /// The number required.
        needed: usize,
    },
}

impl TransportFault {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unreachable | Self::Status(500..) => codes::chain::RPC_UNREACHABLE,
            Self::Timeout => codes::chain::RPC_TIMEOUT,
            Self::RateLimited => codes::chain::RPC_RATE_LIMITED,
            Self::Status(_) | Self::Malformed => codes::chain::RPC_ANSWER,
            Self::TooLarge { .. } => codes::chain::RPC_ANSWER_TOO_LARGE,
            Self::WrongChain { .. } => codes::chain::WRONG_CHAIN,
            Self::NoQuorum { .. } => codes::chain::NO_QUORUM,
        }
    }

    /// Whether another attempt, or another node, may succeed.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Timeout | Self::RateLimited | Self::Status(500..) | Self::NoQuorum { .. })
    }
}

/// The URL of a node. The parts that may be secret (path, query, user) are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeUrl(reqwest::Url);

impl NodeUrl {
    /// Parses `https` URLs, and `http` ones whose host is this computer or cannot be on the public internet.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let url = reqwest::Url::parse(text.trim()).map_err(|_| Error::RpcUrl { reason: "it is not a URL" })?;
        let Some(host) = url.host_str() else { return Err(Error::RpcUrl { reason: "it has no host" }) };
        match url.scheme() {
            "https" => Ok(Self(url)),
            "http" if is_near(host) => Ok(Self(url)),
            "http" => Err(Error::RpcUrl { reason: "http is allowed only for this machine and private networks; use https" }),
            "ws" | "wss" => Err(Error::RpcUrl { reason: "WebSocket is not supported; use the https URL of the node" }),
            _ => Err(Error::RpcUrl { reason: "the scheme is not https" }),
        }
    }

    /// The whole URL, or `None` if a part of it may be a key: then it must not be written to a file that others can read.
    pub fn without_secrets(&self) -> Option<String> {
        let Self(url) = self;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        (is_bare && url.path() == "/").then(|| self.to_string())
    }

    /// Whether the node runs on this computer.
    pub fn is_loopback(&self) -> bool {
        self.0.host_str().is_some_and(is_loopback)
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        self.0.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeUrl({self})")
    }
}

/// A node with its own rate limit.
#[derive(Debug)]
pub(super) struct Node {
    url: NodeUrl,
    client: reqwest::Client,
    /// The shortest time between two requests.
    spacing: Duration,
    /// When the next request may be sent.
    next: Mutex<Instant>,
    /// Whether the node's chain id was checked.
    is_checked: AtomicBool,
}

impl Node {
    pub(super) fn new(url: NodeUrl, client: reqwest::Client, spacing: Duration) -> Self {
        Self { url, client, spacing, next: Mutex::new(Instant::now()), is_checked: AtomicBool::new(false) }
    }

    pub(super) const fn url(&self) -> &NodeUrl {
        &self.url
    }

    pub(super) fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Acquire)
    }

    pub(super) fn set_checked(&self) {
        self.is_checked.store(true, Ordering::Release);
    }

    /// Sends a request and reads at most `limit` bytes of the response.
    pub(super) async fn send(&self, packet: &RequestPacket, limit: usize) -> Result<ResponsePacket, TransportFault> {
        self.wait_for_turn().await;
        let body = serde_json::to_vec(packet).map_err(|_| TransportFault::Malformed)?;
        let request = self.client.post(self.url.0.clone()).header("content-type", "application/json").body(body);
        let mut response = request.send().await.map_err(|error| fault(&error))?;
        let status = response.status().as_u16();
        if status == 429 {
            return Err(TransportFault::RateLimited);
        }
        if status >= 500 {
            return Err(TransportFault::Status(status));
        }
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(TransportFault::TooLarge { limit });
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| fault(&error))? {
            if bytes.len() + chunk.len() > limit {
                return Err(TransportFault::TooLarge { limit });
            }
            bytes.extend_from_slice(&chunk);
        }
        // Some nodes send their JSON-RPC errors with status 400.
        serde_json::from_slice(&bytes)
            .map_err(|_| if status == 200 { TransportFault::Malformed } else { TransportFault::Status(status) })
    }

    async fn wait_for_turn(&self) {
        if self.spacing.is_zero() {
            return;
        }
        let turn = {
            let mut next = self.next.lock().await;
            let turn = (*next).max(Instant::now());
            *next = turn + self.spacing;
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}

fn fault(error: &reqwest::Error) -> TransportFault {
    if error.is_timeout() { TransportFault::Timeout } else { TransportFault::Unreachable }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a host can only be this computer or in a private network: names without a dot are never public.
fn is_near(host: &str) -> bool {
    if is_loopback(host) {
        return true;
    }
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.is_unique_local() || address.is_unicast_link_local(),
        Err(_) => !host.contains('.') || host.ends_with(".local") || host.ends_with(".internal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_nodes() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            assert_eq!(NodeUrl::parse(text).ok().map(|url| url.to_string()).as_deref(), expected, "{text}");
        }
        check("https://user:secret@node.example/v2/key?token=1", Some("https://node.example"));
        check(" https://node.example:8545/key ", Some("https://node.example:8545"));
        for near in
            ["http://127.0.0.1:8545", "http://localhost:1", "http://[::1]:8545", "http://10.0.0.7:8545", "http://geth:8545"]
        {
            check(near, Some(near));
        }
        for bad in [
            "",
            "node.example",
            "http://node.example",
            "http://8.8.8.8",
            "ws://localhost:1",
            "ftp://x",
            "file:///etc",
            "https://",
        ] {
            check(bad, None);
        }
        let shown = format!("{:?}", NodeUrl::parse("https://node.example/secret").expect("a URL"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
