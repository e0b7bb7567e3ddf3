//! TLS to untrusted servers: trusted roots, recorded evidence, and a code for each kind of failure.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, InvalidMessage, PeerMisbehaved, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text;
use toolcrib_judge::evidence::{Body, Failure, Tls};

use crate::Error;
use crate::clock::SharedClock;

/// Maximum length of a TLS error message: it may list the names in an untrusted certificate.
const MAX_DETAIL_CHARS: usize = 300;

/// The bundled roots: Mozilla's.
pub(crate) fn bundled() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// Makes a root store of certificates.
pub(crate) fn roots(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for authority in authorities {
        store.add(authority).map_err(|error| Error::Authority { reason: error.to_string() })?;
    }
    Ok(store)
}

/// TLS 1.2 and 1.3, HTTP/1.1 only, and no resumption: a resumed session would show the certificate of an earlier
/// connection, which is not evidence for this one.
pub(crate) fn config(roots: RootCertStore, clock: &SharedClock) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(clock.clone()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Authority { reason: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The name that the certificate must be valid for.
pub(crate) fn server_name(host: &str, literal: Option<IpAddr>) -> Result<ServerName<'static>, Failure> {
    match literal {
        Some(address) => Ok(ServerName::from(address)),
        None => ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::new(codes::fetch::CERTIFICATE_WRONG_HOST, format!("`{host}` is not a valid TLS server name"))),
    }
}

/// Performs a handshake until `until`; `total` tells a slow handshake from a request that exceeds its total time.
pub(crate) async fn handshake(
    config: &Arc<ClientConfig>,
    name: ServerName<'static>,
    stream: Counted,
    until: Instant,
    total: Instant,
) -> Result<(TlsStream<Counted>, Tls), Failure> {
    let sni = match &name {
        ServerName::DnsName(name) => Some(name.as_ref().to_owned()),
        _ => None,
    };
    let connected = timeout_at(until.min(total), TlsConnector::from(config.clone()).connect(name, stream)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(failure(&error, Stage::Handshake)),
        Err(_) if total <= until => return Err(Failure::new(codes::fetch::TOTAL_TIMEOUT, "during the TLS handshake")),
        Err(_) => return Err(Failure::new(codes::fetch::HANDSHAKE_TIMEOUT, "")),
    };
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default();
    let evidence = Tls {
        version: session.protocol_version().map_or_else(String::new, |version| match version {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            other => format!("{other:?}"),
        }),
        cipher: session.negotiated_cipher_suite().map_or_else(String::new, |suite| format!("{:?}", suite.suite())),
        sni,
        certificate: Body(chain.first().map_or_else(Vec::new, |leaf| leaf.as_ref().to_vec())),
        chain_length: chain.len(),
    };
    Ok((stream, evidence))
}

/// The phase in which a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before the certificate was accepted.
    Handshake,
    /// Before the head of the response was complete.
    Head,
    /// In the body.
    Body,
}

/// Converts an error of the connection.
pub(crate) fn failure(error: &io::Error, stage: Stage) -> Failure {
    let inner = error.get_ref();
    if inner.is_some_and(|inner| inner.is::<WireLimit>()) {
        return Failure::new(codes::fetch::WIRE_TOO_LARGE, "the byte limit of the connection is reached");
    }
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return Failure::new(code(error), bounded(&error.to_string()));
    }
    match stage {
        Stage::Handshake => Failure::new(codes::fetch::CLOSED_EARLY, format!("during the TLS handshake: {error}")),
        Stage::Head => Failure::new(codes::fetch::CLOSED_EARLY, format!("before the response was complete: {error}")),
        Stage::Body => Failure::new(codes::fetch::TRUNCATED, format!("in the body: {error}")),
    }
}

fn code(error: &rustls::Error) -> Code {
    use codes::fetch as f;
    match error {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => f::CERTIFICATE_EXPIRED,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => f::CERTIFICATE_NOT_YET_VALID,
            CertificateError::UnknownIssuer => f::CERTIFICATE_UNKNOWN_ISSUER,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => f::CERTIFICATE_WRONG_HOST,
            _ => f::CERTIFICATE_INVALID,
        },
        rustls::Error::NoCertificatesPresented => f::CERTIFICATE_INVALID,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => f::NOT_TLS,
        rustls::Error::PeerIncompatible(_)
        | rustls::Error::AlertReceived(
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity,
        ) => f::TLS_PROTOCOL,
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | rustls::Error::NoApplicationProtocol
        | rustls::Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => f::ALPN_REFUSED,
        _ => f::TLS_FAILED,
    }
}

fn bounded(detail: &str) -> String {
    let escaped = text::escape_for_display(detail);
    match escaped.char_indices().nth(MAX_DETAIL_CHARS) {
        Some((end, _)) => format!("{}…", &escaped[..end]),
        None => escaped,
    }
}

/// A socket that limits the number of received bytes.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    left: u64,
}

impl Counted {
    pub(crate) const fn new(stream: TcpStream, limit: u64) -> Self {
        Self { stream, left: limit }
    }
}

/// A connection, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Counted),
    Tls(Box<TlsStream<Counted>>),
}

impl Stream {
    /// Allows this many more bytes.
    pub(crate) fn allow(&mut self, limit: u64) {
        match self {
            Self::Plain(stream) => stream.left = limit,
            Self::Tls(stream) => stream.get_mut().0.left = limit,
        }
    }

    /// Whether the socket is open and has nothing to read. Asks the operating system, because the event loop may lag behind.
    pub(crate) fn is_quiet(&self) -> bool {
        let socket = match self {
            Self::Plain(stream) => &stream.stream,
            Self::Tls(stream) => &stream.get_ref().0.stream,
        };
        let mut byte = [std::mem::MaybeUninit::uninit()];
        let peeked = socket2::SockRef::from(socket).peek(&mut byte);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The limit of received bytes was exceeded.
#[derive(Debug, thiserror::Error)]
#[error("the connection exceeded its byte limit")]
struct WireLimit;

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other(WireLimit)));
        }
        let before = buffer.filled().len();
        let ready = Pin::new(&mut self.stream).poll_read(cx, buffer);
        // A read may exceed the limit by less than one buffer; the next one fails.
        self.left = self.left.saturating_sub((buffer.filled().len() - before) as u64);
        ready
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
