//! HTTP for S3 services, with the same client as for RPC nodes.
//!
//! `object_store` has its own reqwest connector. It enables HTTP/2 and streams for every user of reqwest in the program, and configures
//! certificates differently.

use std::sync::Once;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};

use super::Error;

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout between two reads of a response. Services respond within a second; a part of an upload takes longer. There is no timeout for a
/// whole request, since objects may be large; readers of small ones have a timeout of their own.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A connector that uses reqwest.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    client: reqwest::Client,
}

impl Connector {
    /// Creates a client that trusts these certificate authorities besides the system's.
    pub(super) fn new(authorities: Option<&[u8]>) -> Result<Self, Error> {
        static PROVIDER: Once = Once::new();
        // Another crate may have installed its own provider already; either works.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let unusable = |reason| move |_| Error::Location { reason };
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // A signature is for one host. A redirect leads to a service that was not configured.
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
        // Parts have a few megabytes, and are in memory anyway.
        let bytes = body.collect().await?.to_bytes();
        *request.body_mut() = Some(bytes.into());
        let response: http::Response<reqwest::Body> = self.client.execute(request).await.map_err(failed)?.into();
        Ok(response.map(|body| HttpResponseBody::new(body.map_err(failed))))
    }
}

/// Converts an error, so that the client can decide about retries. The URL is left out: the client adds its public parts.
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
