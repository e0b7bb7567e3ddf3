//! Serving on a socket, plain or with TLS, for one origin or for several, until it is time to stop.
//!
//! Connections are served here and not by `axum::serve`, which has no limit on how slowly a head may come or how many connections
//! there may be.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, Version};
use axum::response::Response;
use axum::serve::{Listener, ListenerExt};
use futures_util::future::join_all;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use toolcrib_core::codes;
use tower::{Service, ServiceExt as _};

use self::ending::Watched;
use crate::answer::Refusal;
use crate::error::{SetupError, SetupErrors};
use crate::room::{LastAnswer, Sold};
use crate::tls::{Tls, TlsListener};
use crate::tools::{MAX_RUNNING, SHUTDOWN_TIME, Server};

mod ending;

impl Server {
    /// Serves on a socket without TLS, which somebody in between brings, until `stop` is done. Then it takes no new calls and lets
    /// those end that are running, for at most [`SHUTDOWN_TIME`].
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        run(plain(listener), self.router(), &[self], stop).await
    }

    /// Serves on a socket with TLS, until `stop` is done. It ends as [`serve`](Self::serve) does.
    pub async fn serve_tls(
        self,
        listener: TcpListener,
        tls: Tls,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        run(TlsListener::new(listener, &tls)?, self.router(), &[self], stop).await
    }
}

/// Several origins on one socket. A request goes to the tools of the host that it names; ports are not compared, since whatever stands
/// in between may change them.
#[derive(Clone, Debug)]
pub struct Origins {
    servers: Vec<Server>,
}

impl Origins {
    /// Puts servers together. Each has a host of its own.
    pub fn new(servers: impl IntoIterator<Item = Server>) -> Result<Self, SetupErrors> {
        let servers: Vec<Server> = servers.into_iter().collect();
        let mut hosts = HashMap::new();
        let twice = servers.iter().filter(|server| hosts.insert(server.host().to_owned(), ()).is_some());
        let errors: Vec<_> = twice.map(|server| SetupError::HostTwice { host: server.host().to_owned() }).collect();
        if errors.is_empty() { Ok(Self { servers }) } else { Err(SetupErrors(errors)) }
    }

    /// The routes of all origins, and an answer in JSON for other hosts and paths.
    pub fn router(&self) -> Router {
        let routers = self.servers.iter().map(|server| (server.host().to_owned(), server.router())).collect();
        let routers: Arc<HashMap<String, Router>> = Arc::new(routers);
        Router::new().fallback(move |request: Request| dispatch(routers.clone(), request))
    }

    /// As [`Server::serve`].
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        run(plain(listener), self.router(), &self.servers, stop).await
    }

    /// As [`Server::serve_tls`].
    pub async fn serve_tls(
        self,
        listener: TcpListener,
        tls: Tls,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        run(TlsListener::new(listener, &tls)?, self.router(), &self.servers, stop).await
    }
}

/// How long the head of a request has to arrive, which is also how long a connection may be kept without one. An honest head comes in
/// one piece.
pub const HEAD_TIME: Duration = Duration::from_secs(30);

/// Largest head of a request in bytes: two headers of 16 KiB, and all that browsers and proxies add.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Connections that are open at the same time at most. Each holds a socket and some kilobytes; the next one waits until another ends,
/// which those without a request do after [`HEAD_TIME`].
pub const MAX_CONNECTIONS: usize = 10_000;

/// Serves, and ends when no call runs any more or the time for that is over.
async fn run<L: Listener<Addr = SocketAddr>>(
    listener: L,
    router: Router,
    servers: &[Server],
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (stopping, _) = watch::channel(());
    tokio::select! {
        () = accept(listener, &router, &places, &stopping) => {}
        () = stop => {}
        () = async {
            join_all(servers.iter().map(Server::keep_reconciling)).await;
            // Where there is no server, there is nothing to look after, which is no reason to stop.
            std::future::pending::<()>().await;
        } => {}
    }
    // The socket is closed. Connections end with the request that they have, if they have one.
    let _ = stopping.send(());
    let ending = async {
        let _ = places.acquire_many(count(MAX_CONNECTIONS)).await;
        for server in servers {
            // Calls whose caller has gone are still running, and may be settling.
            let _ = server.running().acquire_many(count(MAX_RUNNING)).await;
        }
    };
    let _ = timeout(SHUTDOWN_TIME, ending).await;
    Ok(())
}

fn count(places: usize) -> u32 {
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// Takes connections, each for a task of its own. Never ends by itself.
async fn accept<L: Listener<Addr = SocketAddr>>(
    mut listener: L,
    router: &Router,
    places: &Arc<Semaphore>,
    stopping: &watch::Sender<()>,
) {
    // Nobody closes the semaphore.
    while let Ok(place) = places.clone().acquire_owned().await {
        let (io, peer) = listener.accept().await;
        let (router, mut stopped) = (router.clone(), stopping.subscribe());
        tokio::spawn(async move {
            let _place = place;
            let last = LastAnswer::default();
            let answers = last.clone();
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let names_one_host = names_one_host(&request);
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(ConnectInfo(peer));
                // Whoever asks again has read the answer before.
                answers.replace(None);
                let (answers, answer) = (answers.clone(), router.clone().oneshot(request));
                async move {
                    if !names_one_host {
                        return Ok(Refusal::new(StatusCode::BAD_REQUEST, codes::gate::HOST).into_response());
                    }
                    let mut response = answer.await?;
                    answers.replace(response.extensions_mut().remove::<Sold>());
                    Ok::<_, std::convert::Infallible>(response)
                }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD_BYTES);
            let (io, closed) = Watched::new(io);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
            tokio::select! {
                _ = connection.as_mut() => {}
                _ = stopped.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            // Whoever closes a connection in order has read what came; of one that broke nobody can say.
            if closed.in_order() {
                last.replace(None);
            }
        });
    }
}

/// Whether a request names one host, as RFC 9112 §3.2 asks: of two, whatever stands in front may have taken the other.
fn names_one_host(request: &hyper::Request<Incoming>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11)
}

fn plain(listener: TcpListener) -> impl Listener<Addr = SocketAddr> {
    // Small answers must not wait for more to come. A socket that refuses the option still works.
    listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    })
}

async fn dispatch(routers: Arc<HashMap<String, Router>>, request: Request) -> Response {
    let router = host(request.uri(), request.headers()).and_then(|host| routers.get(&host));
    let Some(router) = router else {
        return Refusal::new(StatusCode::MISDIRECTED_REQUEST, codes::gate::MISDIRECTED).into_response();
    };
    let Ok(response) = router.clone().call(request).await;
    response
}

/// The host that a request names, in lower case. Where the target is a whole URL, that counts and not the header (RFC 9112 §3.2.2).
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let named = || {
        let mut given = headers.get_all(HOST).iter();
        let host = given.next().filter(|_| given.next().is_none())?;
        Authority::try_from(host.as_bytes()).ok()
    };
    let authority = uri.authority().cloned().or_else(named)?;
    Some(authority.host().to_ascii_lowercase())
}
