//! The settings page: a user views, enables and disables local tools, enters credentials, sets permissions and watches calls.
//!
//! It is served on a loopback address to the one browser that opened the URL with the one-time token. It contains no scripts. All text of
//! tool authors goes through maud, which escapes it, and through `escape_for_display`, which shows control, direction and invisible
//! characters as `\u{…}`. Values of credentials are write-only.
//!
//! `guard` checks requests, `session` has the token and the cookie, `forms` parses input, `actions` makes changes, and `views` renders
//! pages.

mod actions;
mod forms;
mod guard;
mod refusal;
mod session;
mod views;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Router, body::Body};
use tokio::net::TcpListener;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_http::{Limits, Server};
use zeroize::Zeroizing;

pub use session::IDLE_SECONDS;

use self::forms::Form;
use self::refusal::PageRejection;
use self::session::{Session, Signed, set_cookie};
use self::views::View;
use crate::local::Host;

/// Most concurrent connections. A browser uses six.
const MAX_CONNECTIONS: usize = 64;

/// How long open requests may take at shutdown.
const STOP_TIME: Duration = Duration::from_secs(2);

/// How often the end of the session is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes of the random folder name in all URLs of a page.
const FOLDER_BYTES: usize = 16;

const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");

/// A settings page that is ready to serve.
pub struct Page {
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    url: Zeroizing<String>,
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Other machines can reach the address.
    #[error("the settings page listens at 127.0.0.1 or [::1] only, not at {0}")]
    Address(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The operating system has no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

impl PageError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Address(_) => codes::host::PAGE_ADDRESS,
            Self::Listen { .. } => codes::cli::LISTEN,
            Self::Random(_) => codes::host::STATE,
        }
    }
}

/// Why serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// It was stopped.
    Stopped,
    /// The session ended: the user closed it, or did not use it for [`IDLE_SECONDS`].
    SessionOver,
}

/// The state that all requests share.
struct Shared {
    host: Arc<Host>,
    session: Session,
    /// The folder of all URLs with a session, such as `/0123…`. The cookie is restricted to it, see [`set_cookie`].
    base: String,
    /// Accepted values of `Host`.
    hosts: Vec<String>,
    /// When the audit log was verified last, and the result.
    verified: Mutex<Option<(UnixTime, Result<String, String>)>>,
}

impl Shared {
    /// Whether a path needs the session.
    fn is_inside(&self, path: &str) -> bool {
        path.strip_prefix(self.base.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Page {
    /// Binds the socket and creates the token. Does not accept requests yet.
    pub async fn bind(host: Arc<Host>, address: SocketAddr) -> Result<Self, PageError> {
        if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
            return Err(PageError::Address(address));
        }
        let failed = |error| PageError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (session, token) = Session::open(host.clock().now()).map_err(PageError::Random)?;
        let base = format!("/{}", *session::random(FOLDER_BYTES).map_err(PageError::Random)?);
        let url = Zeroizing::new(format!("http://{address}/login?token={}", *token));
        let shared = Shared { host, session, base, hosts: hosts(address.port()), verified: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), listener, address, url })
    }

    /// The bound address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for the browser, with the one-time token. Show it only to the user.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until `stop` completes or the session ends.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) -> PageEnd {
        let shared = Arc::clone(&self.shared);
        let over = async {
            while !shared.session.is_over(shared.host.clock().now()) {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        let mut end = PageEnd::Stopped;
        let until = async {
            tokio::select! {
                () = stop => {}
                () = over => end = PageEnd::SessionOver,
            }
        };
        // All clients are programs on this machine.
        let limits = Limits { connections: MAX_CONNECTIONS, per_network: None, stop_time: STOP_TIME, ..Limits::default() };
        Server::new(limits).serve(self.listener, router(self.shared), until).await;
        end
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Host names of this machine that no other machine can have. Browsers omit port 80.
fn hosts(port: u16) -> Vec<String> {
    let names = ["127.0.0.1", "localhost", "[::1]"];
    let mut hosts: Vec<_> = names.iter().map(|name| format!("{name}:{port}")).collect();
    if port == 80 {
        hosts.extend(names.map(str::to_owned));
    }
    hosts
}

fn router(shared: Arc<Shared>) -> Router {
    let at = |path: &str| format!("{}{path}", shared.base);
    Router::new()
        .route("/login", get(login))
        .route("/style.css", get(style))
        .route(&at("/"), get(tools))
        .route(&at("/tools/{tool}"), get(tool))
        .route(&at("/rules"), get(rules))
        .route(&at("/log"), get(log))
        .route(&at("/checks"), get(checks))
        .route(&at("/change/{what}"), post(actions::change))
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

/// Exchanges the token for the cookie. The only read with an effect: it uses up the token.
async fn login(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let refused = || PageRejection::new(StatusCode::FORBIDDEN, codes::host::PAGE_SESSION).into_response();
    // A browser that prefetches a URL must not use up the token.
    let is_meant = request.method() == Method::GET && !request.headers().contains_key(SEC_PURPOSE);
    let query = Form::parse(request.uri().query().unwrap_or_default().as_bytes()).unwrap_or_default();
    let Some(token) = query.get("token").filter(|_| is_meant) else { return refused() };
    let cookie = match shared.session.sign_in(token, shared.host.clock().now()) {
        Ok(Some(cookie)) => cookie,
        Ok(None) => return refused(),
        Err(error) => return PageRejection::internal(error.to_string()).into_response(),
    };
    let mut response = see_other(&format!("{}/", shared.base));
    if let Ok(mut value) = HeaderValue::from_str(&set_cookie(&cookie, &shared.base)) {
        value.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}

async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("style.css")).into_response()
}

async fn nowhere() -> PageRejection {
    PageRejection::new(StatusCode::NOT_FOUND, codes::host::PAGE_SESSION).message("there is no such page")
}

async fn tools(State(shared): State<Arc<Shared>>, Extension(signed): Extension<Signed>, RawQuery(query): RawQuery) -> Response {
    show(shared, signed, query, |view, query| Ok(views::tools(view, query))).await
}

async fn tool(
    State(shared): State<Arc<Shared>>,
    Extension(signed): Extension<Signed>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    show(shared, signed, query, move |view, query| views::tool(view, query, &id)).await
}

async fn rules(State(shared): State<Arc<Shared>>, Extension(signed): Extension<Signed>, RawQuery(query): RawQuery) -> Response {
    show(shared, signed, query, views::rules).await
}

async fn log(State(shared): State<Arc<Shared>>, Extension(signed): Extension<Signed>, RawQuery(query): RawQuery) -> Response {
    show(shared, signed, query, views::log).await
}

async fn checks(State(shared): State<Arc<Shared>>, Extension(signed): Extension<Signed>) -> Response {
    show(shared, signed, None, |view, _| Ok(views::checks(view))).await
}

/// Renders a page on a blocking thread, because everything about tools is read from files.
async fn show(
    shared: Arc<Shared>,
    signed: Signed,
    query: Option<String>,
    make: impl FnOnce(&View<'_>, &Form) -> Result<Response, PageRejection> + Send + 'static,
) -> Response {
    blocking(move || {
        let query = Form::parse(query.unwrap_or_default().as_bytes()).unwrap_or_default();
        make(&View { shared: &shared, csrf: signed.csrf.as_str() }, &query)
    })
    .await
}

/// Runs a function that reads or writes files.
async fn blocking(work: impl FnOnce() -> Result<Response, PageRejection> + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(response)) => response,
        Ok(Err(refusal)) => refusal.into_response(),
        Err(_) => PageRejection::internal("the page could not be made").into_response(),
    }
}

/// Redirects the browser to one of our pages with GET.
fn see_other(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}
