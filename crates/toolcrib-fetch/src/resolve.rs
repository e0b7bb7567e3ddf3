//! Looking names up. One look-up for each request: what was checked is what is connected to.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Most look-ups by [`SystemResolver`] at once. Each takes a thread until the system gives up on it, even if the request that
/// asked is long over; without a limit a dead name server would take hundreds of threads.
pub const MAX_LOOKUPS: usize = 64;

/// Something that knows the addresses of names.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Every address of `host`, a name in lower-case ASCII without a dot at its end. Never called for literal addresses, and
    /// called once for each request.
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError>;
}

/// Why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name does not exist, says whoever is responsible for it.
    #[error("the host name does not exist")]
    NoSuchHost,
    /// The name exists, without addresses.
    #[error("the host name has no addresses")]
    NoAddresses,
    /// Nobody could tell.
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
    /// For names of strangers: they are absolute, so that no search domain of this machine is tried.
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_LOOKUPS)), search: false }
    }

    /// For names out of the settings: the hosts file and the search domains of this machine hold, as for every other program.
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
        // A dot at the end makes a name absolute. The task goes on when the request is dropped, because the thread below it does.
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
        // The system gives an address once for each kind of socket that it asks about.
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

/// The standard library keeps the text of `getaddrinfo` only. A text that is not known here counts as "could not tell".
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

    // The hosts file of every system has it, so nobody is asked.
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
