//! Shared server options: certificates, and the header in which a proxy passes the client's address.

use std::path::PathBuf;

use axum::http::HeaderName;
use clap::Args;
use toolcrib_core::codes;
use toolcrib_http::Tls;
use zeroize::Zeroizing;

use crate::input::Source;
use crate::outcome::Failure;

/// The certificate of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct TlsArgs {
    /// TLS certificate chain, PEM [default: plain HTTP, for a TLS proxy]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Reads the certificate, if one is given.
    pub(crate) fn load(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let (certificate, key) = (Source::from_argument(certificate).read()?, Zeroizing::new(Source::from_argument(key).read()?));
        let tls = Tls::from_pem(&certificate, &key).map_err(|error| Failure::new(error.code(), error.to_string()))?;
        Ok(Some(tls))
    }
}

/// Parses the value of `--address-header`.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, Failure> {
    let header = HeaderName::from_bytes(name.as_bytes());
    header.map_err(|_| Failure::new(codes::cli::USAGE, format!("`{name}` is not a header name")))
}
