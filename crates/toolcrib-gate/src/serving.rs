//! Serving on a socket, plain or with TLS, for one origin or for several, until shutdown.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::map_response;
use axum::response::Response;
use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_http::{Delivered, Limits, Rejection, Tls};
use tower::Service;

use crate::answer::ErrorResponse;
use crate::error::{SetupError, SetupErrors};
use crate::room::Sold;
use crate::tools::{SHUTDOWN_TIME, Server};

impl Server {
    /// Serves on a socket without TLS, behind a proxy that terminates it, until `stop` is done. Then no new calls are accepted, and running
    /// calls get at most [`SHUTDOWN_TIME`] to end.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        run(listener, None, self.router(), &[self], stop).await
    }

    /// Serves on a socket with TLS, until `stop` is done. It ends as [`serve`](Self::serve) does.
    pub async fn serve_tls(
        self,
        listener: TcpListener,
        tls: Tls,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        run(listener, Some(tls), self.router(), &[self], stop).await
    }
}

/// Several origins on one socket. A request goes to the tools of the host that it names; ports are not compared, since a proxy may change
/// them.
#[derive(Clone, Debug)]
pub struct Origins {
    servers: Vec<Server>,
}

impl Origins {
    /// Combines servers. Each has a different host.
    pub fn new(servers: impl IntoIterator<Item = Server>) -> Result<Self, SetupErrors> {
        let servers: Vec<Server> = servers.into_iter().collect();
        let mut hosts = HashMap::new();
        let twice = servers.iter().filter(|server| hosts.insert(server.host().to_owned(), ()).is_some());
        let errors: Vec<_> = twice.map(|server| SetupError::HostTwice { host: server.host().to_owned() }).collect();
        if errors.is_empty() { Ok(Self { servers }) } else { Err(SetupErrors(errors)) }
    }

    /// Returns the routes of all origins, with a JSON response for other hosts and paths.
    pub fn router(&self) -> Router {
        let routers = self.servers.iter().map(|server| (server.host().to_owned(), server.router())).collect();
        let routers: Arc<HashMap<String, Router>> = Arc::new(routers);
        Router::new().fallback(move |request: Request| dispatch(routers.clone(), request))
    }

    /// As [`Server::serve`].
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        run(listener, None, self.router(), &self.servers, stop).await
    }

    /// As [`Server::serve_tls`].
    pub async fn serve_tls(
        self,
        listener: TcpListener,
        tls: Tls,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        run(listener, Some(tls), self.router(), &self.servers, stop).await
    }
}

/// Timeout for the head of a request, and for idle connections.
pub const HEAD_TIME: Duration = Limits::HEAD_TIME;

/// Largest head of a request in bytes.
pub const MAX_HEAD_BYTES: usize = Limits::MAX_HEAD_BYTES;

/// Most open connections.
pub const MAX_CONNECTIONS: usize = Limits::CONNECTIONS;

/// Timeout of a TLS handshake.
pub const HANDSHAKE_TIME: Duration = Limits::HANDSHAKE_TIME;

/// Most concurrent TLS handshakes. Beyond that, the oldest one is dropped.
pub const MAX_HANDSHAKES: usize = Limits::HANDSHAKES;

/// Serves, and returns when no call runs any more or the shutdown time is over.
async fn run(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    servers: &[Server],
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // A proxy has one address for all callers, and limits connections itself.
    let is_direct = !servers.iter().any(Server::is_behind_proxy);
    let per_network = is_direct.then_some(Limits::PER_NETWORK);
    let limits = Limits { per_network, stop_time: SHUTDOWN_TIME, ..Limits::default() };
    let mut http = toolcrib_http::Server::new(limits).reject_with(rejected);
    if let Some(tls) = tls {
        http = http.tls(tls);
    }
    let mut deadline = None;
    let stopping = async {
        tokio::select! {
            () = stop => {}
            () = async {
                join_all(servers.iter().map(Server::keep_reconciling)).await;
                // Without a server there is nothing to reconcile; the future must not end, because that would stop the server.
                std::future::pending::<()>().await;
            } => {}
        }
        deadline = Some(Instant::now() + SHUTDOWN_TIME);
    };
    http.serve(listener, router.layer(map_response(delivery)), stopping).await;
    let ending = async {
        for server in servers {
            server.wait_until_idle().await;
        }
    };
    let _ = timeout_at(deadline.unwrap_or_else(Instant::now), ending).await;
    Ok(())
}

/// Marks a paid response as delivered once its caller has read it.
pub(crate) async fn delivery(mut response: Response) -> Response {
    if let Some(sold) = response.extensions_mut().remove::<Sold>() {
        response.extensions_mut().insert(Delivered::new(move || sold.delivered()));
    }
    response
}

fn rejected(rejection: Rejection) -> Response {
    let code = match rejection {
        Rejection::Host => codes::gate::HOST,
        _ => codes::gate::METHOD,
    };
    ErrorResponse::new(rejection.status(), code).into_response()
}

async fn dispatch(routers: Arc<HashMap<String, Router>>, request: Request) -> Response {
    let router = host(request.uri(), request.headers()).and_then(|host| routers.get(&host));
    let Some(router) = router else {
        return ErrorResponse::new(StatusCode::MISDIRECTED_REQUEST, codes::gate::MISDIRECTED).into_response();
    };
    let Ok(response) = router.clone().call(request).await;
    response
}

/// Returns the host that a request names, in lower case. An absolute request target takes precedence over the header (RFC 9112 §3.2.2).
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let named = || {
        let mut given = headers.get_all(HOST).iter();
        let host = given.next().filter(|_| given.next().is_none())?;
        Authority::try_from(host.as_bytes()).ok()
    };
    let authority = uri.authority().cloned().or_else(named)?;
    Some(authority.host().to_ascii_lowercase())
}
