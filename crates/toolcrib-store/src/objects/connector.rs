//! HTTP to a service that speaks S3, by the client that RPC nodes are asked with.
//!
//! `object_store` has a connector for reqwest of its own. It turns on HTTP/2 and streams for every user of reqwest in the program, and asks
//! for certificates in ways of its own.

use std::sync::Once;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};

use super::Error;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long nothing may come of an answer. Services answer within a second; a part of an upload takes its time. There is no limit to a whole
/// request, since objects may be large; readers of small ones have a limit of their own.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Requests by reqwest.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    client: reqwest::Client,
}

impl Connector {
    /// A client that trusts these authorities beside those of the system.
    pub(super) fn new(authorities: Option<&[u8]>) -> Result<Self, Error> {
        static PROVIDER: Once = Once::new();
        // Another crate may have installed its own already; either will do.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let unusable = |reason| move |_| Error::Location { reason };
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // A signature is for one host. A service that sends us elsewhere is not the one that was configured.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("toolcrib/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = authorities {
            let bundle = reqwest::Certificate::from_pem_bundle(pem);
            builder = builder.tls_certs_merge(bundle.map_err(unusable("AWS_CA_BUNDLE is not a PEM file of certificates"))?);
        }
        Ok(Self { client: builder.build().map_err(unusable("the HTTP client cannot be created"))? })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = reqwest::Url::parse(&parts.uri.to_string()).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        // Parts are a few megabytes, and lie in memory anyway.
        let bytes = body.collect().await?.to_bytes();
        *request.body_mut() = Some(bytes.into());
        let response: http::Response<reqwest::Body> = self.client.execute(request).await.map_err(failed)?.into();
        Ok(response.map(|body| HttpResponseBody::new(body.map_err(failed))))
    }
}

/// What the retries of the client go by. The URL is left out: the client adds what of it is no secret.
fn failed(error: reqwest::Error) -> HttpError {
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_request() || error.is_body() {
        HttpErrorKind::Interrupted
    } else {
        HttpErrorKind::Unknown
    };
    HttpError::new(kind, error.without_url())
}
