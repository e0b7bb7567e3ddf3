//! TXT records from DNS: over UDP with TCP, over TLS, and over HTTPS, with DNSSEC if a trust anchor is set.
//!
//! There is no cache, no hosts file and no search domain: a lookup is one query to the configured servers, and its response is
//! evidence. `hickory-net` implements the protocols and validates signatures; this module decides which server is asked, which responses
//! are accepted and how aliases are followed.

mod anchors;
mod reading;
mod server;
mod system;
mod upstream;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hickory_net::dnssec::DnssecDnsHandle;
use hickory_net::xfer::{DnsHandle, FirstAnswer as _};
use hickory_net::{DnsError, NetError};
use hickory_proto::op::{DnsRequestOptions, DnsResponse, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;
use toolcrib_fetch::{CertificateDer, Resolve as _, SystemResolver};

pub use anchors::{AnchorError, Anchors};
pub use server::DnsServer;

pub(crate) use anchors::decode_base64;

use super::{SettingError, failed, millis, records};
use crate::evidence::{Dnssec, TxtAnswer, TxtLookup};
use crate::source::TxtSource;
use reading::{MessageError, Reading};
use server::{Host, Transport};
use upstream::Upstream;

/// Time limit of one query to one server. Recursive resolvers take up to two seconds.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of rounds over all servers.
pub const ATTEMPTS: usize = 2;

/// Time limit of a lookup, including all rounds, aliases and validation queries.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(12);

/// Maximum number of addresses of a server that is configured by name.
const MAX_HOST_ADDRESSES: usize = 2;

/// Which responses DNSSEC must secure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnssecPolicy {
    /// Responses are not validated.
    Off,
    /// Responses below a trust anchor are validated, and bogus ones are failures. Others are unchecked.
    #[default]
    Prefer,
    /// Only responses with a chain of signatures to a trust anchor are accepted.
    Require,
}

impl FromStr for DnssecPolicy {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text {
            "off" => Ok(Self::Off),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            _ => Err(SettingError::new("the DNSSEC policy is off, prefer or require")),
        }
    }
}

impl fmt::Display for DnssecPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Prefer => "prefer",
            Self::Require => "require",
        })
    }
}

/// The servers, and how they are queried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DnsSettings {
    /// The servers in order of preference. If empty, those of the operating system.
    pub servers: Vec<DnsServer>,
    /// Which responses DNSSEC must secure.
    pub dnssec: DnssecPolicy,
    /// The trust anchors.
    pub anchors: Anchors,
    /// Certificate authorities that are trusted in addition to the bundled ones.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Time limit of one query to one server.
    pub query_timeout: Duration,
    /// Number of rounds over all servers.
    pub attempts: usize,
    /// Time limit of a lookup.
    pub lookup_timeout: Duration,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            dnssec: DnssecPolicy::default(),
            anchors: Anchors::default(),
            authorities: Vec::new(),
            query_timeout: QUERY_TIMEOUT,
            attempts: ATTEMPTS,
            lookup_timeout: LOOKUP_TIMEOUT,
        }
    }
}

/// TXT records from DNS.
#[derive(Debug)]
pub struct DnsSource {
    name: String,
    settings: DnsSettings,
    tls: Arc<ClientConfig>,
}

impl DnsSource {
    /// Creates a source with these settings. Fails for an authority that is not a certificate.
    pub fn new(settings: DnsSettings) -> Result<Self, SettingError> {
        let shown: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        let name = if shown.is_empty() { "dns".to_owned() } else { format!("dns:{}", shown.join(",")) };
        let tls = Arc::new(tls_config(&settings.authorities)?);
        Ok(Self { name, settings, tls })
    }

    async fn ask(&self, domain: &AgtDomain) -> (TxtLookup, Dnssec) {
        let settings = &self.settings;
        let Ok(mut name) = Name::from_ascii(domain.as_str()) else {
            return (failed(codes::agent::DNS_MALFORMED, "the name is not one of DNS"), Dnssec::Unchecked);
        };
        name.set_fqdn(true);
        let covered = settings.dnssec != DnssecPolicy::Off && settings.anchors.cover(&name);
        if settings.dnssec == DnssecPolicy::Require && !covered {
            return (failed(codes::agent::DNSSEC_REQUIRED, "no trust anchor covers the name"), Dnssec::Unchecked);
        }
        let upstream = match self.upstream().await {
            Ok(upstream) => upstream,
            Err(outcome) => return (outcome, Dnssec::Unchecked),
        };
        let (outcome, dnssec) = match settings.anchors.keys() {
            Some(keys) if covered => {
                let handle = DnssecDnsHandle::with_trust_anchor(upstream, keys);
                walk(&handle, name, Some(&settings.anchors)).await
            }
            _ => walk(&upstream, name, None).await,
        };
        match dnssec {
            Dnssec::Bogus => (failed(codes::agent::DNSSEC_BOGUS, "the signatures do not lead to a trust anchor"), dnssec),
            Dnssec::Insecure | Dnssec::Unchecked
                if settings.dnssec == DnssecPolicy::Require && !matches!(outcome, TxtLookup::Failed { .. }) =>
            {
                (failed(codes::agent::DNSSEC_REQUIRED, "the zone of the records is not signed"), dnssec)
            }
            _ => (outcome, dnssec),
        }
    }

    /// The servers with their addresses, resolved if a setting has only a name.
    async fn upstream(&self) -> Result<Upstream, TxtLookup> {
        let given = if self.settings.servers.is_empty() {
            system::servers().map_err(|reason| failed(codes::agent::DNS_UNREACHABLE, &reason))?
        } else {
            self.settings.servers.clone()
        };
        let mut servers: Vec<(Transport, SocketAddr)> = Vec::new();
        let mut unknown = None;
        for server in given {
            match server.host {
                Host::Address(address) => servers.push((server.transport, SocketAddr::new(address, server.port))),
                Host::Name(host) => match SystemResolver::with_search_domains().resolve(&host).await {
                    Ok(found) => servers.extend(
                        found
                            .into_iter()
                            .take(MAX_HOST_ADDRESSES)
                            .map(|ip| (server.transport.clone(), SocketAddr::new(ip, server.port))),
                    ),
                    Err(error) => unknown = Some(format!("the address of {host}: {error}")),
                },
            }
        }
        match (servers.is_empty(), unknown) {
            (true, Some(reason)) => Err(failed(codes::agent::DNS_UNREACHABLE, &reason)),
            _ => Ok(Upstream::new(servers, self.tls.clone(), self.settings.query_timeout, self.settings.attempts)),
        }
    }
}

#[async_trait]
impl TxtSource for DnsSource {
    fn name(&self) -> &str {
        &self.name
    }

    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer {
        let started = Instant::now();
        let (outcome, dnssec) = match timeout(self.settings.lookup_timeout, self.ask(domain)).await {
            Ok(answer) => answer,
            Err(_) => (failed(codes::agent::DNS_TIMEOUT, "the look-up took too long"), Dnssec::Unchecked),
        };
        TxtAnswer { source: self.name.clone(), outcome, dnssec, millis: millis(started) }
    }
}

/// Queries a name and the names that it is an alias of. `anchors` are those that the handle validates with.
async fn walk(handle: &impl DnsHandle, name: Name, anchors: Option<&Anchors>) -> (TxtLookup, Dnssec) {
    let mut aliases = 0;
    let mut states = Vec::new();
    let mut asked = name;
    let outcome = loop {
        let response = match query(handle, &asked, anchors.is_some()).await {
            Ok(response) => response,
            Err(error) => {
                let (outcome, dnssec) = describe(&error);
                states.push(dnssec);
                break outcome;
            }
        };
        if let Some(anchors) = anchors {
            states.push(reading::proof(&response, &asked, anchors));
        }
        match reading::read(&response, &asked, &mut aliases) {
            Ok(Reading::Records(found)) => break records(found),
            Ok(Reading::NoRecords) => break TxtLookup::NoRecords,
            // The requested name exists if it is an alias.
            Ok(Reading::NotFound) if aliases > 0 => break TxtLookup::NoRecords,
            Ok(Reading::NotFound) => break TxtLookup::NotFound,
            Ok(Reading::Alias(target)) => asked = target,
            Err(MessageError::Malformed(reason)) => break failed(codes::agent::DNS_MALFORMED, reason),
            Err(MessageError::Aliases) => break failed(codes::agent::DNS_ALIASES, "the name leads through too many aliases"),
        }
    };
    (outcome, reading::weakest(states))
}

async fn query(handle: &impl DnsHandle, name: &Name, validate: bool) -> Result<DnsResponse, NetError> {
    let mut options = DnsRequestOptions::default();
    options.edns_set_dnssec_ok = validate;
    // A forged response must have the letters of the name in the same case.
    options.case_randomization = true;
    handle.lookup(Query::query(name.clone(), RecordType::TXT), options).first_answer().await
}

/// Describes a failure of the transport or of the server. No failure says anything about the name.
fn describe(error: &NetError) -> (TxtLookup, Dnssec) {
    let code = match error {
        NetError::Timeout => codes::agent::DNS_TIMEOUT,
        NetError::Truncated => codes::agent::DNS_TRUNCATED,
        NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)) => codes::agent::DNS_REFUSED,
        NetError::Dns(DnsError::ResponseCode(_)) => codes::agent::DNS_SERVER_FAILURE,
        NetError::Dns(DnsError::Nsec { .. } | DnsError::DnssecBogus) => {
            return (failed(codes::agent::DNSSEC_BOGUS, "the proof that there are no records is wrong"), Dnssec::Bogus);
        }
        NetError::Io(_) | NetError::NoConnections | NetError::Busy | NetError::RustlsError(_) | NetError::H2(_) => {
            codes::agent::DNS_UNREACHABLE
        }
        _ => codes::agent::DNS_MALFORMED,
    };
    (failed(code, &error.to_string()), Dnssec::Unchecked)
}

/// TLS with the bundled roots and the configured authorities, with the same crypto provider as the rest of the workspace.
fn tls_config(authorities: &[CertificateDer<'static>]) -> Result<ClientConfig, SettingError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for authority in authorities {
        roots.add(authority.clone()).map_err(|_| SettingError::new("an authority of the settings is not a certificate"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| SettingError::new("TLS cannot be set up"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_shown() {
        for text in ["off", "prefer", "require"] {
            assert_eq!(text.parse::<DnssecPolicy>().map(|policy| policy.to_string()), Ok(text.to_owned()));
        }
        assert!("on".parse::<DnssecPolicy>().is_err());
        assert_eq!(DnssecPolicy::default(), DnssecPolicy::Prefer);
    }
}
