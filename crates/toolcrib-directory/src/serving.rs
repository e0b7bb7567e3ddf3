//! Serves on a socket until shutdown. TLS is left to a proxy in front.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use toolcrib_core::codes;
use toolcrib_http::{Limits, Rejection, Server};

use crate::answer::ApiError;
use crate::directory::Directory;
use crate::options::Options;

/// The timeout of a request's head, which is also the idle timeout of a connection.
pub const HEAD_TIME: Duration = Limits::HEAD_TIME;

/// The maximum size of a request's head in bytes: a query of 8 KiB, and all that browsers and proxies add.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// The maximum number of headers in a request. Browsers behind two proxies send some thirty.
const MAX_HEADERS: usize = 64;

/// The maximum number of open connections.
pub const MAX_CONNECTIONS: usize = Limits::CONNECTIONS;

/// How long requests in progress may take at shutdown. Endless streams are cut off then.
pub const SHUTDOWN_TIME: Duration = Limits::STOP_TIME;

/// Serves routes on a socket until `stop` is done, with limits for clients that connect directly. Then it accepts no new connections and
/// lets requests finish, for at most [`SHUTDOWN_TIME`].
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()> + Send) -> io::Result<()> {
    serve_with(limits(&Options::default()), listener, router, stop).await;
    Ok(())
}

impl Directory {
    /// Serves the directory as [`serve`] does. If its options set a header for the client's address, all connections are those of a proxy,
    /// and the limit per address does not apply.
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
    ApiError::new(rejection.status(), code).into_response()
}
