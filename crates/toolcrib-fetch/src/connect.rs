//! Opening TCP connections, to addresses only.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_judge::evidence::Failure;

/// Maximum number of a host's addresses that are tried in sequence. Two of each family tell a dead host from a dead family.
pub const MAX_ATTEMPTS: usize = 4;

/// Connects to an address that was already checked.
#[async_trait]
pub trait Connect: fmt::Debug + Send + Sync {
    /// Opens a connection to `address`. The caller applies a time limit.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// Connects through the operating system, without a proxy.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

#[async_trait]
impl Connect for TcpConnector {
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// Tries addresses in sequence. Each attempt gets an equal share of the remaining time, so that a dead first address does not
/// use all of it.
pub(crate) async fn first(
    connector: &dyn Connect,
    addresses: &[IpAddr],
    port: u16,
    until: Instant,
) -> Result<(SocketAddr, TcpStream), Failure> {
    let order = order(addresses);
    let mut failures = Attempts::default();
    for (done, address) in order.iter().enumerate() {
        let address = SocketAddr::new(*address, port);
        let share = until.saturating_duration_since(Instant::now()) / u32::try_from(order.len() - done).unwrap_or(u32::MAX);
        match timeout_at(Instant::now() + share, connector.connect(address)).await {
            Ok(Ok(stream)) => {
                // The request follows the handshake at once and must not wait for a TCP acknowledgement.
                let _ = stream.set_nodelay(true);
                return Ok((address, stream));
            }
            Ok(Err(error)) => failures.note(address, &error),
            Err(_) => failures.timeout(address),
        }
    }
    Err(failures.into_failure())
}

/// Alternates IPv6 and IPv4 in the given order, starting with the family of the first (RFC 8305 §4, without the race).
fn order(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let mut same = addresses.iter().filter(|address| address.is_ipv6() == first_is_v6);
    let mut other = addresses.iter().filter(|address| address.is_ipv6() != first_is_v6);
    let mut order = Vec::with_capacity(MAX_ATTEMPTS.min(addresses.len()));
    while order.len() < MAX_ATTEMPTS {
        let before = order.len();
        order.extend(same.next());
        if order.len() < MAX_ATTEMPTS {
            order.extend(other.next());
        }
        if order.len() == before {
            break;
        }
    }
    order
}

#[derive(Default)]
struct Attempts {
    refused: bool,
    timeout: bool,
    words: Vec<String>,
}

impl Attempts {
    fn note(&mut self, address: SocketAddr, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => self.refused = true,
            io::ErrorKind::TimedOut => self.timeout = true,
            _ => {}
        }
        self.words.push(format!("{address}: {error}"));
    }

    fn timeout(&mut self, address: SocketAddr) {
        self.timeout = true;
        self.words.push(format!("{address}: no answer in time"));
    }

    /// The most informative of the failures: a host that refuses connections exists.
    fn into_failure(self) -> Failure {
        let code = if self.refused {
            codes::fetch::CONNECT_REFUSED
        } else if self.timeout {
            codes::fetch::CONNECT_TIMEOUT
        } else {
            codes::fetch::UNREACHABLE
        };
        Failure::new(code, self.words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let check = |given: &[&str], expected: &[&str]| {
            let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
            assert_eq!(order(&parse(given)), parse(expected));
        };
        check(&[], &[]);
        check(&["1.0.0.1"], &["1.0.0.1"]);
        check(&["1.0.0.1", "1.0.0.2", "2a00::1"], &["1.0.0.1", "2a00::1", "1.0.0.2"]);
        check(&["2a00::1", "2a00::2", "2a00::3", "1.0.0.1", "1.0.0.2"], &["2a00::1", "1.0.0.1", "2a00::2", "1.0.0.2"]);
        check(&["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5"], &["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"]);
    }
}
