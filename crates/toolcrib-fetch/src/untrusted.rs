//! The HTTP client for untrusted servers: HTTPS under the egress policy.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use toolcrib_core::clock::Clock;
use toolcrib_core::url::{DEFAULT_PORT, HttpsUrl};
use toolcrib_judge::evidence::{Exchange, Failure, Method};

use crate::attempt::{Attempt, Stopwatch};
use crate::clock::SharedClock;
use crate::egress::{self, HostKind};
use crate::turnstile::HostLimits;
use crate::{Concurrency, Connect, Error, Headers, Limits, Observer, PortPolicy, Resolve, SystemResolver, TcpConnector, tls};

/// One request to an untrusted server.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The URL. Its grammar was checked when it was parsed.
    pub url: &'a HttpsUrl,
    /// The chain of the tool that the request is for, if any. Decides whether the development environment applies.
    pub chain: Option<u64>,
    /// The limits.
    pub limits: Limits,
    /// Which responses are accepted.
    pub expect: Expect,
}

impl<'a> Target<'a> {
    /// A file, such as a manifest: only status 200 is accepted.
    pub const fn file(url: &'a HttpsUrl, chain: Option<u64>) -> Self {
        Self { url, chain, limits: Limits::MANIFEST, expect: Expect::Ok }
    }

    /// An endpoint: every status is accepted.
    pub const fn endpoint(url: &'a HttpsUrl, chain: Option<u64>) -> Self {
        Self { url, chain, limits: Limits::MANIFEST, expect: Expect::Any }
    }

    /// The same with other limits.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// Which responses are accepted. Redirects are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Status 200. Every other status is a failure with its own code, and the body is not read.
    Ok,
    /// Every status, including redirects.
    Any,
}

/// The development environment of this computer: tools at `https://<slug>.tool.localhost:<port>` on chain 31337.
///
/// It applies only to hosts below `localhost` and to requests for tools of that chain. These hosts are resolved without DNS, must have a
/// certificate of this authority, and are marked `dev`. Other requests are not affected.
#[derive(Clone, Debug)]
pub struct DevWorld {
    /// The local certificate authority.
    pub ca: CertificateDer<'static>,
}

impl DevWorld {
    /// Reads the authority from PEM.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let ca = CertificateDer::from_pem_slice(pem).map_err(|error| Error::Authority { reason: error.to_string() })?;
        Ok(Self { ca })
    }
}

/// The HTTP client for untrusted servers. Cheap to clone; clones share the concurrency limits.
#[derive(Clone, Debug)]
pub struct Untrusted {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: SharedClock,
    resolver: Box<dyn Resolve>,
    connector: Box<dyn Connect>,
    config: Arc<ClientConfig>,
    dev: Option<Arc<ClientConfig>>,
    ports: PortPolicy,
    turnstile: HostLimits,
}

impl Untrusted {
    /// Returns a builder with safe defaults for the public internet. The clock dates the evidence and validates certificates.
    pub fn builder(clock: impl Clock + Send + Sync + 'static) -> UntrustedBuilder {
        UntrustedBuilder {
            clock: SharedClock::new(clock),
            resolver: None,
            connector: None,
            authorities: None,
            dev: None,
            ports: PortPolicy::default(),
            concurrency: Concurrency::default(),
        }
    }

    /// Sends a GET to an untrusted server. Failures are recorded in the exchange, together with everything before them.
    pub async fn get(&self, target: &Target<'_>) -> Exchange {
        self.exchange(Method::Get, target, &Headers::new(), None, None).await
    }

    /// Sends a POST to an untrusted server. Failures are recorded in the exchange, together with everything before them. The request's
    /// headers and body are not recorded.
    pub async fn post(&self, target: &Target<'_>, headers: &Headers, body: &[u8]) -> Exchange {
        self.exchange(Method::Post, target, headers, Some(body), None).await
    }

    /// Sends a DELETE to an untrusted server.
    pub async fn delete(&self, target: &Target<'_>, headers: &Headers) -> Exchange {
        self.exchange(Method::Delete, target, headers, None, None).await
    }

    /// Like [`post`](Self::post), for long responses: `observer` gets the body while it is read.
    pub async fn post_observed(&self, target: &Target<'_>, headers: &Headers, body: &[u8], observer: &dyn Observer) -> Exchange {
        self.exchange(Method::Post, target, headers, Some(body), Some(observer)).await
    }

    /// Sends a GET to an untrusted server, with headers of the caller.
    pub async fn get_with(&self, target: &Target<'_>, headers: &Headers) -> Exchange {
        self.exchange(Method::Get, target, headers, None, None).await
    }

    async fn exchange(
        &self,
        method: Method,
        target: &Target<'_>,
        headers: &Headers,
        body: Option<&[u8]>,
        observer: Option<&dyn Observer>,
    ) -> Exchange {
        let clock = Stopwatch::start(target.limits.total);
        let mut exchange = Exchange::new(method, target.url.normalized(), self.inner.clock.now());
        let attempt = Attempt {
            method,
            host: target.url.host(),
            literal: target.url.host_ip(),
            port: target.url.port(),
            default_port: DEFAULT_PORT,
            target: path_and_query(target.url),
            headers,
            body,
            expect: target.expect,
            limits: target.limits,
            clock,
            // Evidence is about one connection, its certificate and its address, so each request has its own connection.
            keep: false,
            observer,
        };
        let result = self.inner.run(&attempt, target, &mut exchange).await;
        exchange.timing.total = clock.elapsed();
        exchange.failure = result.err();
        exchange
    }
}

impl Inner {
    async fn run(&self, attempt: &Attempt<'_>, target: &Target<'_>, exchange: &mut Exchange) -> Result<(), Failure> {
        // Make the checks that need no lookup first.
        let way = egress::way(target.url, target.chain, self.dev.is_some())?;
        self.ports.check(attempt.port)?;
        let _place = self.turnstile.enter(attempt.host, attempt.clock.until(attempt.limits.wait)).await?;
        let config = match (way, &self.dev) {
            (HostKind::Dev, Some(config)) => {
                exchange.dev = true;
                exchange.addresses = egress::DEV_ADDRESSES.to_vec();
                config
            }
            (HostKind::Literal(address), _) => {
                return attempt.run(&*self.connector, Some(&self.config), &[address], exchange).await.map(drop);
            }
            _ => {
                let until = attempt.clock.until(attempt.limits.resolve);
                exchange.addresses = egress::lookup(&*self.resolver, attempt.host, until).await?;
                exchange.timing.resolved = Some(attempt.clock.elapsed());
                egress::check(&exchange.addresses)?;
                &self.config
            }
        };
        let addresses = exchange.addresses.clone();
        attempt.run(&*self.connector, Some(config), &addresses, exchange).await.map(drop)
    }
}

fn path_and_query(url: &HttpsUrl) -> &str {
    let text = url.normalized();
    let end = url.fragment().map_or(text.len(), |fragment| text.len() - fragment.len() - 1);
    let length = url.path().len() + url.query().map_or(0, |query| query.len() + 1);
    &text[end - length..end]
}

/// A builder of [`Untrusted`].
#[derive(Debug)]
pub struct UntrustedBuilder {
    clock: SharedClock,
    resolver: Option<Box<dyn Resolve>>,
    connector: Option<Box<dyn Connect>>,
    authorities: Option<Vec<CertificateDer<'static>>>,
    dev: Option<DevWorld>,
    ports: PortPolicy,
    concurrency: Concurrency,
}

impl UntrustedBuilder {
    /// Sets another resolver than that of the operating system. Its answers are checked too.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Sets another way to connect. It gets addresses that were checked.
    #[must_use]
    pub fn connector(mut self, connector: impl Connect + 'static) -> Self {
        self.connector = Some(Box::new(connector));
        self
    }

    /// Trusts these authorities instead of the bundled ones.
    #[must_use]
    pub fn authorities(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.authorities = Some(authorities);
        self
    }

    /// Allows requests to the development environment of this computer.
    #[must_use]
    pub fn dev(mut self, world: DevWorld) -> Self {
        self.dev = Some(world);
        self
    }

    /// Sets which ports are allowed.
    #[must_use]
    pub fn ports(mut self, ports: PortPolicy) -> Self {
        self.ports = ports;
        self
    }

    /// Sets how many requests may run concurrently.
    #[must_use]
    pub const fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Builds the client. Fails only for an authority that is not a certificate.
    pub fn build(self) -> Result<Untrusted, Error> {
        let roots: RootCertStore = match self.authorities {
            Some(authorities) => tls::roots(authorities)?,
            None => tls::bundled(),
        };
        let dev = match self.dev {
            Some(world) => Some(tls::config(tls::roots([world.ca])?, &self.clock)?),
            None => None,
        };
        Ok(Untrusted {
            inner: Arc::new(Inner {
                config: tls::config(roots, &self.clock)?,
                dev,
                resolver: self.resolver.unwrap_or_else(|| Box::new(SystemResolver::new())),
                connector: self.connector.unwrap_or_else(|| Box::new(TcpConnector)),
                ports: self.ports,
                turnstile: HostLimits::new(self.concurrency),
                clock: self.clock,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        for (url, expected) in [
            ("https://a.example", ""),
            ("https://a.example#f", ""),
            ("https://a.example/", "/"),
            ("https://a.example:8443/a/b?c=d#e?f", "/a/b?c=d"),
            ("https://a.example?", "?"),
            ("https://a.example/?#", "/?"),
        ] {
            assert_eq!(path_and_query(&HttpsUrl::parse(url).unwrap()), expected, "{url}");
        }
    }
}
