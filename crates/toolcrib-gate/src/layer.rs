//! A gate as a tower layer, for axum handlers.
//!
//! A call takes the same steps as a call to a [`Server`]: `endpoint` and `admitted` implement both. The handler gets the request with the
//! body that was read, and its response is the output. Only a success in JSON that fits the manifest counts as output: it alone is stored,
//! charged for and redeemable. Every other response is passed to the caller unchanged, and releases the payment.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::sleep;
use toolcrib_core::canon::Sealed;
use toolcrib_core::codes;
use toolcrib_core::tool::ToolManifest;
use toolcrib_http::MediaType;
use toolcrib_store::replay::ReplayStore;
use toolcrib_x402::header;
use toolcrib_x402::sign_in::siwx;
use tower::{Layer, Service, ServiceExt as _};

use crate::answer::ErrorResponse;
use crate::error::SetupErrors;
use crate::reconcile::{self, RECONCILE_EVERY};
use crate::serving::delivery;
use crate::tool::{Context, Failure, Handler, NoHandler, Tool};
use crate::tools::{Served, Server, Tools};
use crate::{Gate, endpoint};

/// Headers that prove the caller's account, the payment, or the right to a result. A handler does not need them, and they must not end up
/// in its logs.
const PROOFS: [&str; 5] =
    [header::X_PAYMENT, header::PAYMENT_SIGNATURE, header::X_TOOL_NONCE_SALT, header::X_TOOL_RETRY_TOKEN, siwx::HEADER];

/// A layer that passes calls to a handler if the gate of its tool allows them. Everything inside the layer is behind the gate, so apply it
/// only to the endpoint's route, and add other routes after it.
///
/// Payments with an unknown outcome are reconciled from the first call on, for as long as the layer exists.
#[derive(Clone, Debug)]
pub struct GateLayer {
    server: Server,
    tool: Arc<Served>,
}

impl GateLayer {
    pub(crate) const fn new(server: Server, tool: Arc<Served>) -> Self {
        Self { server, tool }
    }

    /// Returns the server behind the layer: its metrics, its registration check, its running calls.
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the route of the manifest, to be merged into the router of the endpoint.
    pub fn routes(&self) -> Router {
        self.server.routes()
    }

    /// Starts reconciliation, once for each server.
    fn keep_reconciling(&self) {
        let Server { shared, tools, .. } = &self.server;
        if shared.is_reconciling.swap(true, Ordering::Relaxed) {
            return;
        }
        let (shared, tools) = (Arc::downgrade(shared), tools.clone());
        tokio::spawn(async move {
            while let Some(shared) = shared.upgrade() {
                reconcile::once(&shared, &tools).await;
                drop(shared);
                sleep(RECONCILE_EVERY).await;
            }
        });
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { layer: self.clone(), inner }
    }
}

/// A service behind a [`GateLayer`].
#[derive(Clone, Debug)]
pub struct Gated<S> {
    layer: GateLayer,
    inner: S,
}

impl<S> Service<Request> for Gated<S>
where
    S: Service<Request, Error = Infallible> + Clone + Send + 'static,
    S::Response: IntoResponse,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        // The call itself makes the handler's service ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { layer, inner } = self.clone();
        Box::pin(async move {
            layer.keep_reconciling();
            let inner: Inner = Box::new(move |request| {
                Box::pin(async move {
                    let Ok(response) = inner.oneshot(request).await;
                    response.into_response()
                })
            });
            let response = endpoint::answer(layer.server.shared.clone(), layer.tool.clone(), request, Some(inner)).await;
            Ok(delivery(response).await)
        })
    }
}

/// The service behind a layer, for one call.
pub(crate) type Inner = Box<dyn FnOnce(Request) -> BoxFuture<'static, Response> + Send>;

/// The input of a call's handler.
pub(crate) enum Work {
    /// The input, to the tool's own handler.
    Input(Value),
    /// The request, to the service behind a layer.
    Request(Box<Request>, Inner),
}

impl Work {
    /// Returns the original request without the proofs.
    pub(crate) fn request(mut head: Parts, body: Vec<u8>, inner: Inner) -> Self {
        for name in PROOFS {
            head.headers.remove(name);
        }
        let is_message = |value: &[u8]| value.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"siwe "));
        if head.headers.get(AUTHORIZATION).is_some_and(|value| is_message(value.as_bytes())) {
            head.headers.remove(AUTHORIZATION);
        }
        Self::Request(Box::new(Request::from_parts(head, Body::from(body))), inner)
    }

    /// Runs the handler. Returns the output, and its original bytes if these are to be stored.
    pub(crate) async fn answer(
        self,
        handler: &Handler,
        context: Context,
        most: usize,
    ) -> Result<(Value, Option<Vec<u8>>), Failure> {
        let (mut request, inner) = match self {
            Self::Input(input) => return handler.call(input, context).await.map(|output| (output, None)),
            Self::Request(request, inner) => (request, inner),
        };
        request.extensions_mut().insert(context);
        let response = inner(*request).await;
        if !response.status().is_success() {
            return Err(Failure::Response(Box::new(response)));
        }
        let (head, body) = response.into_parts();
        if !MediaType::of(&head.headers).is_some_and(MediaType::is_json) {
            return Err(Failure::Output("the Content-Type of the response is not JSON".to_owned()));
        }
        let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| Failure::Output(error.to_string()))?;
            if chunk.len() > most.saturating_sub(bytes.len()) {
                return Err(Failure::TooLarge);
            }
            bytes.extend_from_slice(&chunk);
        }
        let output = endpoint::parse(&bytes).map_err(|refusal| Failure::Output(refusal.message.unwrap_or_default()))?;
        Ok((output, Some(bytes)))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work(…)")
    }
}

/// Extracts the call's context behind a [`GateLayer`]. A handler that extracts it does not run without the layer.
impl<S: Sync> FromRequestParts<S> for Context {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let missing = || ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, codes::gate::FAILED).into_response();
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

/// Builds a layer. Start with `layer` of a gate, such as [`PaidGate::layer`](crate::PaidGate::layer).
#[derive(Debug)]
pub struct LayerBuilder {
    tool: Tool<NoHandler>,
    tools: Tools,
}

impl LayerBuilder {
    pub(crate) fn new(gate: Gate, manifest: Sealed<ToolManifest>) -> Self {
        let origin = manifest.value().endpoint().origin().to_string();
        Self { tool: Tool::new(manifest).gate(gate), tools: Tools::new(&origin) }
    }

    /// Changes the tool: its slug, its limits, whether it accepts GET.
    #[must_use]
    pub fn tool(mut self, change: impl FnOnce(Tool) -> Tool) -> Self {
        self.tool = change(self.tool);
        self
    }

    /// Changes the server: rate limits, clock, usage reports, fault reporting.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(Tools) -> Tools) -> Self {
        self.tools = change(self.tools);
        self
    }

    /// Sets the store as [`Tools::store`] does, which a paid gate needs.
    #[must_use]
    pub fn store(self, store: impl ReplayStore + 'static) -> Self {
        self.settings(|tools| tools.store(store))
    }

    /// Checks everything as [`Tools::build`] does.
    pub fn build(self) -> Result<GateLayer, SetupErrors> {
        let server = self.tools.tool(self.tool.layered()).build()?;
        // Added last.
        let tool = server.tools.last().cloned().ok_or_else(|| SetupErrors(Vec::new()))?;
        Ok(GateLayer::new(server, tool))
    }
}
