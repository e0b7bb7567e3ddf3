//! Serving on a socket until it is time to stop.
//!
//! Connections are served here and not by `axum::serve`, which has no limit on how slowly a head may come or how many connections there
//! may be. TLS is left to whatever stands in front.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::HOST;
use axum::http::{StatusCode, Version};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use toolcrib_core::codes;
use tower::ServiceExt as _;

use crate::answer::Refusal;

/// How long the head of a request has to arrive, which is also how long a connection may be kept without one. An honest head comes in
/// one piece.
pub const HEAD_TIME: Duration = Duration::from_secs(30);

/// Largest head of a request in bytes: a query of 8 KiB, and all that browsers and proxies add.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Headers of a request at most. Browsers behind two proxies send some thirty.
const MAX_HEADERS: usize = 64;

/// Connections that are open at the same time at most. Each holds a socket and some kilobytes; the next one waits until another ends,
/// which those without a request do after [`HEAD_TIME`].
pub const MAX_CONNECTIONS: usize = 10_000;

/// How long requests that are under way may still take when it is time to stop. Streams that go on without end are cut off then.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be taken: the system is out of files, and others must end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves on a socket until `stop` is done. Then it takes no new connections and lets requests end, for at most [`SHUTDOWN_TIME`].
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()> + Send) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (stopping, _) = watch::channel(());
    tokio::select! {
        () = accept(&listener, &router, &places, &stopping) => {}
        () = stop => {}
    }
    drop(listener);
    // Connections end with the request that they have, if they have one.
    let _ = stopping.send(());
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = timeout(SHUTDOWN_TIME, places.acquire_many(all)).await;
    Ok(())
}

/// Takes connections, each for a task of its own. Never ends by itself.
async fn accept(listener: &TcpListener, router: &Router, places: &Arc<Semaphore>, stopping: &watch::Sender<()>) {
    // Nobody closes the semaphore.
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Small answers must not wait for more to come. A socket that refuses the option still works.
        let _ = stream.set_nodelay(true);
        let (router, mut stopped) = (router.clone(), stopping.subscribe());
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let names_one_host = names_one_host(&request);
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(ConnectInfo(peer));
                let answer = router.clone().oneshot(request);
                async move {
                    if !names_one_host {
                        return Ok(Refusal::new(StatusCode::BAD_REQUEST, codes::directory::HOST).into_response());
                    }
                    answer.await
                }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
            // How a connection ends is the caller's affair.
            tokio::select! {
                _ = connection.as_mut() => {}
                _ = stopped.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
    }
}

/// Whether a request names one host, as RFC 9112 §3.2 asks: of two, whatever stands in front may have taken the other.
fn names_one_host(request: &hyper::Request<Incoming>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11)
}
