//! The HTTP client for services that the operator configured: a facilitator, a webhook, an upstream.
//!
//! Operators may use hosts of their private network, so there is no egress policy here. That is safe only because a
//! [`ConfiguredUrl`] is never made from untrusted text. Limits, certificate checks and the refusal to follow redirects still apply.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use toolcrib_core::clock::Clock;
use toolcrib_core::url::{FaultKind, HttpsUrl, Level};
use toolcrib_judge::evidence::{Exchange, Failure, Method};

use crate::attempt::{Attempt, IdleConnection, Stopwatch};
use crate::clock::SharedClock;
use crate::egress;
use crate::pool::{KeepAlive, Origin, Pool, Repeat};
use crate::turnstile::HostLimits;
use crate::{Concurrency, Connect, Error, Expect, Headers, Limits, Observer, Resolve, SystemResolver, TcpConnector, tls};

/// A URL from the operator's settings.
///
/// Path and query may contain a key, so they are never shown: not by `Display`, not by `Debug`, not in an exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredUrl {
    secure: bool,
    host: String,
    port: u16,
    target: String,
}

impl ConfiguredUrl {
    /// Parses a URL **from settings**: a flag, the environment, or a settings file of the operator. Never call it with text from a
    /// manifest, a chain, a response or a request: it gives access to the private network.
    ///
    /// `https` for all hosts; `http` only for this computer. Otherwise the grammar is that of [`HttpsUrl`].
    pub fn from_setting(text: &str) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::ConfiguredUrl { reason });
        let Some((scheme, rest)) = text.split_once("://") else { return refuse("it does not begin with https://") };
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return refuse("it is neither https nor http");
        }
        let hard = HttpsUrl::faults(text).into_iter().find(|fault| {
            fault.kind.level() == Level::Hard && !matches!(fault.kind, FaultKind::NotHttps | FaultKind::NonPublicAddress)
        });
        if let Some(fault) = hard {
            return refuse(fault.code().title());
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, digits)) if !digits.contains(']') => (host, digits.parse().ok()),
            _ => (authority, Some(if secure { 443 } else { 80 })),
        };
        let Some(port) = port else { return refuse("its port is not a number") };
        let host = host.to_ascii_lowercase();
        if host.is_empty() {
            return refuse("it has no host");
        }
        let target = path.split('#').next().unwrap_or_default().to_owned();
        let url = Self { secure, host, port, target };
        if !secure && !url.is_loopback() {
            return refuse("plain http is allowed only for this machine");
        }
        Ok(url)
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        if self.port == self.default_port() {
            format!("{scheme}://{}", self.host)
        } else {
            format!("{scheme}://{}:{}", self.host, self.port)
        }
    }

    /// The URL with a path segment appended, such as `verify` for a service at `https://pay.example/x402?key=…`. The query is kept.
    #[must_use]
    pub fn join(&self, path: &'static str) -> Self {
        let (base, query) = self.target.split_at(self.target.find('?').unwrap_or(self.target.len()));
        let target = format!("{}/{}{query}", base.trim_end_matches('/'), path.trim_start_matches('/'));
        Self { target, ..self.clone() }
    }

    /// The URL with these path segments appended, and these parameters after those of the setting. Segments and values may be untrusted:
    /// every byte that could end a segment or a value is encoded, and `.` and `..` are rejected, so the result stays below this URL.
    pub fn below(&self, segments: &[String], query: &[(&str, String)]) -> Result<Self, Error> {
        let (base, kept) = self.target.split_at(self.target.find('?').unwrap_or(self.target.len()));
        let mut target = base.trim_end_matches('/').to_owned();
        for segment in segments {
            if matches!(segment.as_str(), "" | "." | "..") {
                return Err(Error::ConfiguredUrl { reason: "a path segment is empty, `.` or `..`" });
            }
            target.push('/');
            target.extend(utf8_percent_encode(segment, RESERVED));
        }
        target.push_str(kept);
        for (name, value) in query {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.extend(utf8_percent_encode(name, RESERVED));
            target.push('=');
            target.extend(utf8_percent_encode(value, RESERVED));
        }
        Ok(Self { target, ..self.clone() })
    }

    /// Whether the connection uses TLS.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    fn literal(&self) -> Option<IpAddr> {
        match self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse().ok().map(IpAddr::V6),
            None => self.host.parse().ok().map(IpAddr::V4),
        }
    }

    /// Loopback addresses, and the names that always resolve to them.
    fn is_loopback(&self) -> bool {
        match self.literal() {
            Some(address) => address.is_loopback(),
            None => self.is_localhost(),
        }
    }

    fn is_localhost(&self) -> bool {
        self.host == "localhost" || self.host.ends_with(".localhost")
    }

    const fn default_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }
}

/// All characters except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl fmt::Display for ConfiguredUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

impl fmt::Debug for ConfiguredUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfiguredUrl({})", self.origin())
    }
}

/// The HTTP client for configured services. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Configured {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: SharedClock,
    resolver: Box<dyn Resolve>,
    connector: Box<dyn Connect>,
    config: Arc<ClientConfig>,
    turnstile: HostLimits,
    pool: Option<Arc<Pool>>,
}

impl Configured {
    /// Returns a builder for the client.
    pub fn builder(clock: impl Clock + Send + Sync + 'static) -> ConfiguredBuilder {
        ConfiguredBuilder {
            clock: SharedClock::new(clock),
            resolver: None,
            connector: None,
            authorities: Vec::new(),
            concurrency: Concurrency::default(),
            keep_alive: None,
        }
    }

    /// Sends a GET. Accepts every status; redirects are not followed. The exchange has the origin of the URL, not the rest.
    pub async fn get(&self, url: &ConfiguredUrl, headers: &Headers, limits: Limits) -> Exchange {
        self.exchange((Method::Get, Repeat::Safe), url, headers, None, limits, None).await
    }

    /// Sends a POST, once. Accepts every status; redirects are not followed. The exchange has the origin of the URL, not the rest.
    pub async fn post(&self, url: &ConfiguredUrl, headers: &Headers, body: &[u8], limits: Limits) -> Exchange {
        self.exchange((Method::Post, Repeat::Never), url, headers, Some(body), limits, None).await
    }

    /// Like [`post`](Self::post), for idempotent requests: if a kept-alive connection is closed without a byte of a
    /// response, the request is sent again on a new connection.
    pub async fn post_repeatable(&self, url: &ConfiguredUrl, headers: &Headers, body: &[u8], limits: Limits) -> Exchange {
        self.exchange((Method::Post, Repeat::Safe), url, headers, Some(body), limits, None).await
    }

    /// Sends a DELETE. Accepts every status; redirects are not followed.
    pub async fn delete(&self, url: &ConfiguredUrl, headers: &Headers, limits: Limits) -> Exchange {
        self.exchange((Method::Delete, Repeat::Safe), url, headers, None, limits, None).await
    }

    /// Like [`post`](Self::post), for long responses: `observer` gets the body while it is read.
    pub async fn post_observed(
        &self,
        url: &ConfiguredUrl,
        headers: &Headers,
        body: &[u8],
        limits: Limits,
        observer: &dyn Observer,
    ) -> Exchange {
        self.exchange((Method::Post, Repeat::Never), url, headers, Some(body), limits, Some(observer)).await
    }

    async fn exchange(
        &self,
        (method, repeat): (Method, Repeat),
        url: &ConfiguredUrl,
        headers: &Headers,
        body: Option<&[u8]>,
        limits: Limits,
        observer: Option<&dyn Observer>,
    ) -> Exchange {
        let clock = Stopwatch::start(limits.total);
        let mut exchange = Exchange::new(method, url.origin(), self.inner.clock.now());
        let attempt = Attempt {
            method,
            host: &url.host,
            literal: url.literal(),
            port: url.port,
            default_port: url.default_port(),
            target: &url.target,
            headers,
            body,
            expect: Expect::Any,
            limits,
            clock,
            keep: self.inner.pool.is_some(),
            observer,
        };
        let result = self.inner.run(&attempt, url, repeat, &mut exchange).await;
        exchange.timing.total = clock.elapsed();
        exchange.failure = result.err();
        exchange
    }
}

impl Inner {
    async fn run(
        &self,
        attempt: &Attempt<'_>,
        url: &ConfiguredUrl,
        repeat: Repeat,
        exchange: &mut Exchange,
    ) -> Result<(), Failure> {
        let _place = self.turnstile.enter(attempt.host, attempt.clock.until(attempt.limits.wait)).await?;
        let Some(pool) = &self.pool else { return self.fresh(attempt, url, exchange).await.map(drop) };
        let origin = Origin { secure: url.secure, host: url.host.as_str().into(), port: url.port };
        if let Some(connection) = pool.take(&origin, repeat) {
            exchange.connected = Some(connection.address);
            exchange.tls.clone_from(&connection.tls);
            match attempt.talk(connection, exchange).await {
                Ok(kept) => {
                    kept.into_iter().for_each(|kept| pool.put(origin.clone(), kept));
                    return Ok(());
                }
                Err(broken) if repeat == Repeat::Safe && broken.is_closed_unanswered() => {
                    (exchange.connected, exchange.tls) = (None, None);
                }
                Err(broken) => return Err(broken.failure),
            }
        }
        if let Some(kept) = self.fresh(attempt, url, exchange).await? {
            pool.put(origin, kept);
        }
        Ok(())
    }

    /// Sends the request on a new connection.
    async fn fresh(
        &self,
        attempt: &Attempt<'_>,
        url: &ConfiguredUrl,
        exchange: &mut Exchange,
    ) -> Result<Option<IdleConnection>, Failure> {
        let addresses = match attempt.literal {
            Some(address) => vec![address],
            // Plain http is sent to these names, so they are not resolved by DNS.
            None if url.is_localhost() => egress::DEV_ADDRESSES.to_vec(),
            None => {
                let until = attempt.clock.until(attempt.limits.resolve);
                exchange.addresses = egress::lookup(&*self.resolver, attempt.host, until).await?;
                exchange.timing.resolved = Some(attempt.clock.elapsed());
                exchange.addresses.clone()
            }
        };
        attempt.run(&*self.connector, url.secure.then_some(&self.config), &addresses, exchange).await
    }
}

/// A builder of [`Configured`].
#[derive(Debug)]
pub struct ConfiguredBuilder {
    clock: SharedClock,
    resolver: Option<Box<dyn Resolve>>,
    connector: Option<Box<dyn Connect>>,
    authorities: Vec<CertificateDer<'static>>,
    concurrency: Concurrency,
    keep_alive: Option<KeepAlive>,
}

impl ConfiguredBuilder {
    /// Sets another resolver than that of the operating system.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Sets another way to connect.
    #[must_use]
    pub fn connector(mut self, connector: impl Connect + 'static) -> Self {
        self.connector = Some(Box::new(connector));
        self
    }

    /// Trusts these certificate authorities in addition to the bundled ones. Private services often have a private authority.
    #[must_use]
    pub fn authorities(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.authorities = authorities;
        self
    }

    /// Sets how many requests may run concurrently.
    #[must_use]
    pub const fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Keeps connections alive for further requests to the same origin. By default, each request opens its own connection.
    #[must_use]
    pub const fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.keep_alive = Some(settings);
        self
    }

    /// Builds the client. Fails only for an authority that is not a certificate.
    pub fn build(self) -> Result<Configured, Error> {
        let mut roots = tls::bundled();
        roots.extend(tls::roots(self.authorities)?.roots);
        Ok(Configured {
            inner: Arc::new(Inner {
                config: tls::config(roots, &self.clock)?,
                resolver: self.resolver.unwrap_or_else(|| Box::new(SystemResolver::with_search_domains())),
                connector: self.connector.unwrap_or_else(|| Box::new(TcpConnector)),
                turnstile: HostLimits::new(self.concurrency),
                pool: self.keep_alive.map(Pool::new),
                clock: self.clock,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_anybody_chose_stays_below() {
        let url = ConfiguredUrl::from_setting("https://dir.example/base/?key=s3cret").unwrap();
        let path = |segments: &[&str]| segments.iter().map(|segment| (*segment).to_owned()).collect::<Vec<_>>();
        let below = url.below(&path(&["api", "a/../b?c#d"]), &[("q", "x&y=é".to_owned())]).unwrap();
        assert_eq!(below.target, "/base/api/a%2F..%2Fb%3Fc%23d?key=s3cret&q=x%26y%3D%C3%A9");
        assert_eq!(below.origin(), "https://dir.example");
        for segment in ["", ".", ".."] {
            assert!(url.below(&path(&["api", segment]), &[]).is_err(), "{segment}");
        }
        let plain = ConfiguredUrl::from_setting("http://127.0.0.1:8257").unwrap();
        assert_eq!(plain.below(&path(&["x"]), &[("a", "1".to_owned()), ("b", "2".to_owned())]).unwrap().target, "/x?a=1&b=2");
    }

    #[test]
    fn what_may_stand_in_settings() {
        for (text, origin, target) in [
            ("https://pay.example/settle?key=s3cret", "https://pay.example", "/settle?key=s3cret"),
            ("https://PAY.example:443", "https://pay.example", ""),
            ("https://10.0.0.5:8443/x#f", "https://10.0.0.5:8443", "/x"),
            ("https://[fd00::1]/x", "https://[fd00::1]", "/x"),
            ("http://localhost:3000/hook", "http://localhost:3000", "/hook"),
            ("http://127.0.0.1/", "http://127.0.0.1", "/"),
            ("http://127.0.0.1:443/", "http://127.0.0.1:443", "/"),
            ("http://[::1]:80?a", "http://[::1]", "?a"),
            ("http://a.localhost", "http://a.localhost", ""),
        ] {
            let url = ConfiguredUrl::from_setting(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.origin().as_str(), url.target.as_str()), (origin, target), "{text}");
            assert!(!format!("{url} {url:?}").contains("s3cret"));
        }
        for text in [
            "",
            "pay.example",
            "//pay.example",
            "ftp://pay.example",
            "http://pay.example",
            "http://10.0.0.5",
            "http://127.0.0.1.example.com",
            "http://localhost@evil.example",
            "https://user:s3cret@pay.example",
            "https://pay.example:0",
            "https://pay.example:x",
            "https://pay.example:70000",
            "https://",
            "https:///x",
            "https://pay.example/a b",
            "https://pay.example/\r\nx: y",
            "https://bücher.example",
            "https://0x7f000001/",
        ] {
            let error = ConfiguredUrl::from_setting(text).expect_err(text);
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn places_below() {
        for (base, target) in [
            ("https://pay.example", "/verify"),
            ("https://pay.example/", "/verify"),
            ("https://pay.example/platform/v2/x402", "/platform/v2/x402/verify"),
            ("https://pay.example/platform/v2/x402/", "/platform/v2/x402/verify"),
            ("https://pay.example/x402?key=s3cret/", "/x402/verify?key=s3cret/"),
            ("https://pay.example?key=s3cret", "/verify?key=s3cret"),
            ("https://pay.example/x#fragment", "/x/verify"),
        ] {
            for path in ["verify", "/verify"] {
                let url = ConfiguredUrl::from_setting(base).unwrap().join(path);
                assert_eq!((url.target.as_str(), url.origin().as_str()), (target, "https://pay.example"), "{base}");
            }
        }
    }
}
