//! Name resolution. One lookup for each request: the client connects only to addresses that were checked.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Maximum number of concurrent lookups by [`SystemResolver`]. Each takes a thread until the system's own timeout, even if the request
/// was dropped; without a limit a dead DNS server would take hundreds of threads.
pub const MAX_LOOKUPS: usize = 64;

/// Resolves names to addresses.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Returns every address of `host`, a name in lower-case ASCII without a trailing dot. Never called for literal addresses, and
    /// called once for each request.
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError>;
}

/// Why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name does not exist, according to its authoritative DNS server.
    #[error("the host name does not exist")]
    NoSuchHost,
    /// The name exists, but has no addresses.
    #[error("the host name has no addresses")]
    NoAddresses,
    /// The lookup failed.
    #[error("{0}")]
    Failed(String),
}

/// The resolver of the operating system.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
    search: bool,
}

impl SystemResolver {
    /// A resolver for untrusted names: it makes them absolute, so that no search domain of this computer is tried.
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_LOOKUPS)), search: false }
    }

    /// A resolver for configured names: uses the hosts file and the search domains of this computer, like every other program.
    pub fn with_search_domains() -> Self {
        Self { search: true, ..Self::new() }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let place = self.places.clone().acquire_owned().await.map_err(|error| ResolveError::Failed(error.to_string()))?;
        // A trailing dot makes a name absolute. The task continues when the request is dropped, because its thread does.
        let name = if self.search { host.to_owned() } else { format!("{host}.") };
        let lookup = tokio::spawn(async move {
            let _place = place;
            tokio::net::lookup_host((name.as_str(), 0)).await.map(|found| found.map(|found| found.ip()).collect::<Vec<_>>())
        });
        let mut addresses = match lookup.await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(reason(&error)),
            Err(error) => return Err(ResolveError::Failed(error.to_string())),
        };
        // The system returns an address once for each socket type.
        let mut seen = Vec::with_capacity(addresses.len().min(64));
        addresses.retain(|address| {
            let new = seen.len() >= 64 || !seen.contains(address);
            if new && seen.len() < 64 {
                seen.push(*address);
            }
            new
        });
        if addresses.is_empty() { Err(ResolveError::NoAddresses) } else { Ok(addresses) }
    }
}

/// Classifies an error by its text, because the standard library keeps only the message of `getaddrinfo`. An unknown text counts as failed.
fn reason(error: &io::Error) -> ResolveError {
    const NO_SUCH_HOST: &[&str] = &[
        "Name or service not known",      // glibc
        "Name does not resolve",          // musl
        "nodename nor servname provided", // macOS, BSD
        "Name has no usable address",     // musl, newer
        "No such host is known",          // Windows
    ];
    const NO_ADDRESSES: &[&str] = &["No address associated with", "no data of the requested type"];
    let text = error.to_string();
    if NO_ADDRESSES.iter().any(|known| text.contains(known)) {
        ResolveError::NoAddresses
    } else if NO_SUCH_HOST.iter().any(|known| text.contains(known)) {
        ResolveError::NoSuchHost
    } else {
        ResolveError::Failed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every system's hosts file has it, so no DNS server is asked.
    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let resolver = SystemResolver::with_search_domains();
        let addresses = resolver.resolve("localhost").await.unwrap();
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        assert_eq!(resolver.places.available_permits(), MAX_LOOKUPS);
    }

    #[test]
    fn only_a_clear_no_is_a_no() {
        let told = |text: &str| reason(&io::Error::other(format!("failed to lookup address information: {text}")));
        assert_eq!(told("Name or service not known"), ResolveError::NoSuchHost);
        assert_eq!(told("No address associated with hostname"), ResolveError::NoAddresses);
        for unclear in ["Temporary failure in name resolution", "Non-recoverable failure in name resolution", "System error", ""]
        {
            assert!(matches!(told(unclear), ResolveError::Failed(_)), "{unclear}");
        }
    }
}
