//! The address of a tool's server, and the client for it.

use toolcrib_core::codes;
use toolcrib_core::local::{NetworkRequest, is_loopback_url};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits, Observer, Target, Untrusted};
use toolcrib_judge::evidence::Exchange;

use super::super::RunError;

/// The address of a server, with the client that may connect to it.
///
/// The URL is untrusted input. Therefore only a loopback address is a local server, and any other is reached under the egress policy:
/// https, public addresses, no ports of other protocols.
pub(super) enum Address {
    /// On this machine.
    Local(Configured, ConfiguredUrl),
    /// On the public internet.
    Remote(Untrusted, Box<HttpsUrl>),
}

impl Address {
    /// Checks the URL against the network grant of the tool's sandbox.
    pub(super) fn new(url: &str, network: &NetworkRequest, local: Configured, remote: Untrusted) -> Result<Self, RunError> {
        let unusable = |what: String| RunError::new(codes::host::RUNTIME_UNSUPPORTED, what);
        if is_loopback_url(url) {
            let url = ConfiguredUrl::from_setting(url).map_err(|error| unusable(error.to_string()))?;
            return Ok(Self::Local(local, url));
        }
        let url = HttpsUrl::parse(url).map_err(|fault| unusable(format!("the URL cannot be used: {}", fault.code().title())))?;
        if !network.allows(url.port()) {
            return Err(unusable(format!("`sandbox.network` does not allow port {} of {}", url.port(), url.host())));
        }
        Ok(Self::Remote(remote, Box::new(url)))
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> String {
        match self {
            Self::Local(_, url) => url.origin(),
            Self::Remote(_, url) => url.origin().to_string(),
        }
    }

    /// Posts a message. Redirects are not followed.
    pub(super) async fn post(&self, headers: &Headers, body: &[u8], limits: Limits, observer: &dyn Observer) -> Exchange {
        match self {
            Self::Local(client, url) => client.post_observed(url, headers, body, limits, observer).await,
            Self::Remote(client, url) => {
                let target = Target::endpoint(url, None).limits(limits);
                client.post_observed(&target, headers, body, observer).await
            }
        }
    }

    /// Asks the server to end a session.
    pub(super) async fn delete(&self, headers: &Headers, limits: Limits) -> Exchange {
        match self {
            Self::Local(client, url) => client.delete(url, headers, limits).await,
            Self::Remote(client, url) => client.delete(&Target::endpoint(url, None).limits(limits), headers).await,
        }
    }
}
