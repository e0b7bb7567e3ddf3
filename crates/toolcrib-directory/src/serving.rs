//! Serving on a socket until it is time to stop. TLS is left to a proxy in front.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use toolcrib_core::codes;
use toolcrib_http::{Limits, Rejection, Server};

use crate::answer::Refusal;
use crate::directory::Directory;
use crate::options::Options;

/// How long the head of a request has to arrive, which is also how long a connection may be idle.
pub const HEAD_TIME: Duration = Limits::HEAD_TIME;

/// Largest head of a request in bytes: a query of 8 KiB, and all that browsers and proxies add.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Headers of a request at most. Browsers behind two proxies send some thirty.
const MAX_HEADERS: usize = 64;

/// Connections that are open at the same time at most.
pub const MAX_CONNECTIONS: usize = Limits::CONNECTIONS;

/// How long requests that are under way may still take when it is time to stop. Streams that go on without end are cut off then.
pub const SHUTDOWN_TIME: Duration = Limits::STOP_TIME;

/// Serves routes on a socket until `stop` is done, with limits for clients that connect directly. Then it takes no new connections and
/// lets requests end, for at most [`SHUTDOWN_TIME`].
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()> + Send) -> io::Result<()> {
    serve_with(limits(&Options::default()), listener, router, stop).await;
    Ok(())
}

impl Directory {
    /// Serves the directory as [`serve`] does. Where its options name a header for the client's address, all connections are those of
    /// a proxy, and it may have as many as it needs.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        serve_with(limits(self.options()), listener, self.router(), stop).await;
    }
}

fn limits(options: &Options) -> Limits {
    let per_network = options.address_header.is_none().then_some(Limits::PER_NETWORK);
    Limits { max_head_bytes: MAX_HEAD_BYTES, max_headers: MAX_HEADERS, per_network, ..Limits::default() }
}

async fn serve_with(limits: Limits, listener: TcpListener, router: Router, stop: impl Future<Output = ()> + Send) {
    Server::new(limits).reject_with(rejected).serve(listener, router, stop).await;
}

fn rejected(rejection: Rejection) -> Response {
    let code = match rejection {
        Rejection::Host => codes::directory::HOST,
        _ => codes::directory::METHOD,
    };
    Refusal::new(rejection.status(), code).into_response()
}
