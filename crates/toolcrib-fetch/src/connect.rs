//! Opening connections, to addresses only.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_judge::evidence::Failure;

/// Most addresses of a host that are tried, one after the other. Two of each family tell a dead machine from a dead family.
pub const MAX_ATTEMPTS: usize = 4;

/// Something that connects to an address that was checked.
#[async_trait]
pub trait Connect: fmt::Debug + Send + Sync {
    /// A connection to `address`. The caller has a time limit around it.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// Connects as the operating system does, with no proxy.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

#[async_trait]
impl Connect for TcpConnector {
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// Tries addresses in turn. Each attempt gets an equal share of the time that is left, so that a dead first address does not
/// take it all.
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
                // The request follows the end of the handshake at once; it must not wait for an acknowledgement of it.
                let _ = stream.set_nodelay(true);
                return Ok((address, stream));
            }
            Ok(Err(error)) => failures.note(address, &error),
            Err(_) => failures.timeout(address),
        }
    }
    Err(failures.into_failure())
}

/// IPv6 and IPv4 in turn, as they came, beginning with the family of the first (RFC 8305 §4, without the race).
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

    /// The most telling of the failures: a machine that says no is there.
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
