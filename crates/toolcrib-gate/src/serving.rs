//! Serving on a socket, plain or with TLS, for one origin or for several, until it is time to stop.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::serve::{Listener, ListenerExt};
use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::sleep;
use toolcrib_core::codes;
use tower::Service;

use crate::answer::Refusal;
use crate::error::{SetupError, SetupErrors};
use crate::tls::{Tls, TlsListener};
use crate::tools::{MAX_RUNNING, SHUTDOWN_TIME, Server};

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

/// Serves, and ends when no call runs any more or the time for that is over.
async fn run<L: Listener<Addr = SocketAddr>>(
    listener: L,
    router: Router,
    servers: &[Server],
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let (stopping, stopped) = oneshot::channel();
    // axum knows the peer's address of its own listeners only, and tapping makes one of any.
    let serving = axum::serve(listener.tap_io(|_| ()), service).with_graceful_shutdown(async move {
        stop.await;
        let _ = stopping.send(());
    });
    let too_late = async {
        if stopped.await.is_err() {
            // The server ended by itself, which the other branch tells.
            std::future::pending::<()>().await;
        }
        sleep(SHUTDOWN_TIME).await;
    };
    let all = u32::try_from(MAX_RUNNING).unwrap_or(u32::MAX);
    tokio::select! {
        served = async {
            serving.await?;
            for server in servers {
                // Calls whose caller has gone are still running, and may be settling.
                let _ = server.running().acquire_many(all).await;
            }
            Ok(())
        } => served,
        () = too_late => Ok(()),
        () = async {
            join_all(servers.iter().map(Server::keep_reconciling)).await;
            // Where there is no server, there is nothing to look after, which is no reason to stop.
            std::future::pending::<()>().await;
        } => Ok(()),
    }
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
