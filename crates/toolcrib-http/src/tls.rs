//! TLS for servers: certificates from PEM files, selected by SNI.
//!
//! TLS 1.2 and 1.3 with ring, HTTP/1.1 only, no client certificates. Certificates can be replaced while the server runs; obtaining and
//! renewing them is left to other programs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use toolcrib_core::codes::{self, Code};

/// Certificates and their private keys. Clones share them.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    held: Arc<CertificateResolver>,
}

impl Tls {
    /// Uses one certificate for every name: the chain, the server's own certificate first, and its key, both PEM.
    pub fn from_pem(cert_chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::of(Certificates::One(certified(cert_chain, key)?))
    }

    /// Uses a certificate for each name: the name, the chain and the key. Clients that ask for another name, or for none, are refused.
    pub fn with_names<'p>(certificates: impl IntoIterator<Item = (&'p str, &'p [u8], &'p [u8])>) -> Result<Self, TlsError> {
        let mut named = HashMap::new();
        for (name, cert_chain, key) in certificates {
            // SNI has only names, and rustls gives them in lower case.
            if DnsName::try_from(name).is_err() {
                return Err(TlsError::Name { name: name.to_owned() });
            }
            named.insert(name.to_ascii_lowercase(), certified(cert_chain, key)?);
        }
        if named.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        Self::of(Certificates::Named(named))
    }

    /// Replaces the certificates with those of another: new connections get those, open connections keep theirs. Unreadable files fail
    /// before this call, so a failed renewal changes nothing.
    pub fn reload(&self, from: &Self) {
        let new = from.held.current();
        *self.held.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Returns the acceptor for sockets.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    fn of(certificates: Certificates) -> Result<Self, TlsError> {
        let held = Arc::new(CertificateResolver(RwLock::new(Arc::new(certificates))));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Certificate { reason: error.to_string() })?
            .with_no_client_auth()
            .with_cert_resolver(held.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), held })
    }
}

/// Does not show the keys.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.held).finish()
    }
}

/// Why these files cannot be used for TLS.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The input contains no certificate.
    #[error("there is no certificate in the PEM text")]
    NoCertificate,
    /// A certificate cannot be used.
    #[error("the certificate cannot be used: {reason}")]
    Certificate {
        /// Why.
        reason: String,
    },
    /// There is no usable key. The input is not repeated.
    #[error("there is no private key in the PEM text that can be used")]
    Key,
    /// The key does not belong to the certificate.
    #[error("the private key is not the one that the certificate is for")]
    Mismatch,
    /// The name cannot be used in SNI.
    #[error("{name:?} is no host name")]
    Name {
        /// The name.
        name: String,
    },
}

impl TlsError {
    /// Returns the code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::NoCertificate | Self::Certificate { .. } => codes::gate::TLS_CERTIFICATE,
            Self::Key => codes::gate::TLS_KEY,
            Self::Mismatch => codes::gate::TLS_MISMATCH,
            Self::Name { .. } => codes::gate::TLS_NAME,
        }
    }
}

/// The current certificates.
struct CertificateResolver(RwLock<Arc<Certificates>>);

enum Certificates {
    One(Arc<CertifiedKey>),
    Named(HashMap<String, Arc<CertifiedKey>>),
}

impl CertificateResolver {
    fn current(&self) -> Arc<Certificates> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match &*self.current() {
            Certificates::One(certificate) => Some(certificate.clone()),
            Certificates::Named(named) => named.get(hello.server_name()?).cloned(),
        }
    }
}

impl fmt::Debug for CertificateResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.current() {
            Certificates::One(_) => f.write_str("one certificate"),
            Certificates::Named(named) => f.debug_set().entries(named.keys()).finish(),
        }
    }
}

/// ring, as everywhere in the workspace.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certified(cert_chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(cert_chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Certificate { reason: error.to_string() })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
    match CertifiedKey::from_der(chain, key, &provider()) {
        Ok(certified) => Ok(Arc::new(certified)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch),
        Err(rustls::Error::InvalidCertificate(error)) => Err(TlsError::Certificate { reason: format!("{error:?}") }),
        Err(_) => Err(TlsError::Key),
    }
}
