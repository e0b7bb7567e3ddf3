//! The accept loop, and the life of a connection.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::HOST;
use axum::http::{Method, Request, Response, StatusCode, Version};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::body::{Answered, Paced};
use crate::io::{Closed, Framed, Stalling, Upgraded, Watched};
use crate::limits::Limits;
use crate::network::Network;
use crate::registry::{ConnectionGuard, Entry, Registry};
use crate::tls::Tls;

/// Pause after a connection could not be accepted: the process is out of file descriptors, and other connections have to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request that the server rejects before routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// It names no host, or several (RFC 9112 §3.2): a proxy may have used another one.
    Host,
    /// It asks for a tunnel (CONNECT).
    Connect,
}

impl Rejection {
    /// Returns the status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::BAD_REQUEST,
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    fn of<B>(request: &Request<B>) -> Option<Self> {
        let hosts = request.headers().get_all(HOST).iter().count();
        if hosts > 1 || (hosts == 0 && request.version() >= Version::HTTP_11) {
            return Some(Self::Host);
        }
        (request.method() == Method::CONNECT).then_some(Self::Connect)
    }

    fn plain(self) -> axum::response::Response {
        let text = match self {
            Self::Host => "send exactly one Host header\n",
            Self::Connect => "this server is not a proxy\n",
        };
        (self.status(), text).into_response()
    }
}

/// A response extension whose callback runs when the peer is known to have read the response: when the connection carries the next request,
/// or is closed cleanly. After a broken connection, which proves nothing, it never runs.
#[derive(Clone)]
pub struct Delivered(Arc<dyn Fn() + Send + Sync>);

impl Delivered {
    /// Returns an extension that runs `run` once.
    pub fn new(run: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(run))
    }
}

impl std::fmt::Debug for Delivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Delivered")
    }
}

/// The last response of a connection, if its delivery is of interest.
#[derive(Clone, Debug, Default)]
struct LastResponse(Arc<Mutex<Option<Delivered>>>);

impl LastResponse {
    /// Marks the previous response as read, and remembers the next one.
    fn replace(&self, next: Option<Delivered>) {
        let last = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), next);
        if let Some(Delivered(run)) = last {
            run();
        }
    }
}

/// A server: its limits, its certificates, and its responses to rejected requests.
#[derive(Clone, Debug)]
pub struct Server {
    limits: Limits,
    tls: Option<Tls>,
    reject: fn(Rejection) -> axum::response::Response,
}

impl Server {
    /// Returns a server without TLS that answers rejected requests in plain text.
    pub fn new(limits: Limits) -> Self {
        Self { limits, tls: None, reject: Rejection::plain }
    }

    /// Serves over TLS.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the responses to requests that are rejected before routing.
    #[must_use]
    pub fn reject_with(mut self, reject: fn(Rejection) -> axum::response::Response) -> Self {
        self.reject = reject;
        self
    }

    /// Serves until `stop` is done. Then it closes the listener and idle connections, lets running requests end for at most
    /// [`Limits::stop_time`], and aborts the rest.
    ///
    /// Requests carry `ConnectInfo<SocketAddr>`.
    pub async fn serve(self, listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
        let registry = Registry::new(self.limits);
        let (stage, _) = watch::channel(Stage::Serving);
        let shared = Arc::new(Shared { server: self, router, registry: registry.clone() });
        tokio::select! {
            () = accept(&listener, &shared, &stage) => {}
            () = stop => {}
        }
        drop(listener);
        stage.send_replace(Stage::Stopping);
        let _ = timeout(shared.server.limits.stop_time, registry.wait_until_empty()).await;
        stage.send_replace(Stage::Over);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Running requests may end.
    Stopping,
    /// The rest is aborted.
    Over,
}

/// The state that all connections share.
struct Shared {
    server: Server,
    router: Router,
    registry: Arc<Registry>,
}

/// Accepts connections, each in a task of its own. Never returns, and never waits for a client.
async fn accept(listener: &TcpListener, shared: &Arc<Shared>, stage: &watch::Sender<Stage>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client disconnected before it was accepted.
            Err(error) if is_of_client(&error) => continue,
            Err(error) => {
                let closed = shared.registry.make_room();
                tracing::warn!(%error, closed, "accept error, closing idle connections and retrying");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = shared.registry.admit(Network::of(peer.ip()), shared.server.tls.is_some()) else {
            tracing::debug!(%peer, "connection refused: too many are open");
            continue;
        };
        prepare(&stream, shared.server.limits.max_unsent_bytes);
        let (shared, stage) = (shared.clone(), stage.subscribe());
        tokio::spawn(async move { shared.connected(stream, peer, place, stage).await });
    }
}

/// Sets socket options. A socket that refuses them still works.
fn prepare(stream: &TcpStream, max_unsent_bytes: u32) {
    // Small responses must not wait for more data.
    let _ = stream.set_nodelay(true);
    // The kernel would buffer megabytes of responses for a peer that does not read, and the server would continue to make them.
    let socket = socket2::SockRef::from(stream);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let _ = socket.set_tcp_notsent_lowat(max_unsent_bytes);
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = socket.set_send_buffer_size(max_unsent_bytes as usize);
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

impl Shared {
    /// Handles one connection, from accept to close.
    async fn connected(&self, stream: TcpStream, peer: SocketAddr, place: ConnectionGuard, mut stage: watch::Receiver<Stage>) {
        let entry = place.entry().clone();
        let limits = &self.server.limits;
        let stream = Stalling::new(stream, limits.write_stall, place);
        let Some(tls) = &self.server.tls else { return self.answer(stream, peer, &entry, stage).await };
        let shaken = tokio::select! {
            shaken = timeout(limits.handshake_time, tls.acceptor().accept(stream)) => shaken,
            () = entry.evicted() => return,
            _ = stage.changed() => return,
        };
        self.registry.shook_hands(&entry);
        // After a failed handshake, TLS alerts inform the client; there is no stream for a response.
        if let Ok(Ok(stream)) = shaken {
            self.answer(stream, peer, &entry, stage).await;
        }
    }

    /// Handles the requests of one connection.
    async fn answer(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: SocketAddr,
        entry: &Arc<Entry>,
        mut stage: watch::Receiver<Stage>,
    ) {
        let limits = &self.server.limits;
        let (last, upgraded) = (LastResponse::default(), Upgraded::default());
        let (stream, closed) = Watched::new(stream);
        let stream = Framed::new(stream, upgraded.clone());
        let service = service_fn(|request| self.respond(request, peer, entry, &last, &upgraded));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_buf_size(limits.max_head_bytes);
        if limits.max_headers != Limits::MAX_HEADERS {
            // hyper's own limit is the same, and needs no allocation.
            builder.max_headers(limits.max_headers);
        }
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let (mut is_evicted, mut is_abandoned) = (false, false);
        loop {
            tokio::select! {
                // Errors at the end of a connection are the peer's.
                _ = connection.as_mut() => break,
                () = entry.evicted(), if !is_evicted => is_evicted = true,
                changed = stage.changed(), if !is_abandoned => {
                    is_abandoned = changed.is_err();
                    if *stage.borrow_and_update() == Stage::Over {
                        return;
                    }
                }
            }
            if entry.is_idle() {
                return;
            }
            // It ends after its current request.
            connection.as_mut().graceful_shutdown();
        }
        finish(&last, &closed);
    }

    /// Handles one request.
    async fn respond(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        entry: &Arc<Entry>,
        last: &LastResponse,
        upgraded: &Upgraded,
    ) -> Result<Response<Answered>, Infallible> {
        let answering = entry.answering();
        // A peer that sends another request has read the previous response.
        last.replace(None);
        let mut response = match Rejection::of(&request) {
            Some(rejection) => (self.server.reject)(rejection),
            None => {
                let mut request = request.map(|body| Body::new(Paced::new(body, &self.server.limits)));
                request.extensions_mut().insert(ConnectInfo(peer));
                self.router.clone().oneshot(request).await?
            }
        };
        last.replace(response.extensions_mut().remove::<Delivered>());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            upgraded.set();
            entry.upgrade();
        }
        Ok(response.map(|body| Answered { body, _answering: answering }))
    }
}

/// Marks the last response as read if the peer closed the connection cleanly; a broken connection proves nothing.
fn finish(last: &LastResponse, closed: &Closed) {
    if closed.in_order() {
        last.replace(None);
    }
}
