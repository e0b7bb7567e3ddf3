//! One tool: its manifest, its handler, its gate.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use axum::response::Response;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolcrib_core::caip::{ChainId, ToolRef};
use toolcrib_core::canon::Sealed;
use toolcrib_core::money::Amount;
use toolcrib_core::schema::MAX_INSTANCE_BYTES;
use toolcrib_core::tool::ToolManifest;
use toolcrib_x402::{ChainAddress, Offer, Version};

use crate::Gate;

/// Most bytes of an input, unless the tool sets fewer: the limit of the schema validator.
pub const MAX_INPUT_BYTES: usize = MAX_INSTANCE_BYTES;

/// Most bytes of an output. For a paid tool, what the store keeps for the payer
/// ([`MAX_RESULT_BYTES`](toolcrib_store::replay::MAX_RESULT_BYTES)). Agents read outputs into a context that holds less.
pub const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Default timeout of a handler. Public clients and proxies time out after one minute.
pub const CALL_TIME: Duration = Duration::from_secs(55);

/// A tool to serve. Start with [`new`](Tool::new), end with [`handler`](Tool::handler).
#[derive(Debug)]
pub struct Tool<H = NoHandler> {
    pub(crate) manifest: Sealed<ToolManifest>,
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) slug: Option<String>,
    pub(crate) gate: Gate,
    pub(crate) get: bool,
    pub(crate) max_input: usize,
    pub(crate) time: Duration,
    pub(crate) handler: H,
}

/// A tool without a handler.
#[derive(Clone, Copy, Debug)]
pub struct NoHandler;

impl Tool<NoHandler> {
    /// Creates a tool with this manifest, whose canonical bytes are served. It is open until it gets a [`gate`](Tool::gate).
    pub const fn new(manifest: Sealed<ToolManifest>) -> Self {
        Self {
            manifest,
            bytes: None,
            slug: None,
            gate: Gate::Open,
            get: false,
            max_input: MAX_INPUT_BYTES,
            time: CALL_TIME,
            handler: NoHandler,
        }
    }

    /// Sets the handler that runs when the tool is called. Inputs are validated against the manifest's `inputs` before, outputs against its
    /// `outputs` afterwards.
    ///
    /// A call runs to its end even if the caller disconnects.
    pub fn handler<F, R, I, O>(self, handler: F) -> Tool<Handler>
    where
        F: Fn(I, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
    {
        let erased = move |input: Value, context: Context| -> BoxFuture<'static, Result<Value, Failure>> {
            let input: I = match serde_json::from_value(input) {
                Ok(input) => input,
                Err(error) => return Box::pin(async move { Err(Failure::Input(error.to_string())) }),
            };
            let running = handler(input, context);
            Box::pin(async move {
                let output = running.await.map_err(Failure::Tool)?;
                serde_json::to_value(output).map_err(|error| Failure::Output(error.to_string()))
            })
        };
        let Self { manifest, bytes, slug, gate, get, max_input, time, .. } = self;
        Tool { manifest, bytes, slug, gate, get, max_input, time, handler: Handler(Some(Arc::new(erased))) }
    }

    /// Makes a tool whose calls are answered behind a [`GateLayer`](crate::GateLayer), which [`Server::layer`](crate::Server::layer)
    /// returns.
    pub fn layered(self) -> Tool<Handler> {
        let Self { manifest, bytes, slug, gate, get, max_input, time, .. } = self;
        Tool { manifest, bytes, slug, gate, get, max_input, time, handler: Handler(None) }
    }
}

impl<H> Tool<H> {
    /// Serves the original bytes of the manifest's file instead of its canonical bytes. It must be the same manifest.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(bytes.into());
        self
    }

    /// Sets the slug. Without this call it is made from the manifest's name.
    #[must_use]
    pub fn slug(mut self, slug: &str) -> Self {
        self.slug = Some(slug.to_owned());
        self
    }

    /// Sets the gate: who may call.
    #[must_use]
    pub fn gate(mut self, gate: impl Into<Gate>) -> Self {
        self.gate = gate.into();
        self
    }

    /// Accepts GET as well. The query parameters are then the members of the input, each of the type that the manifest's `inputs` declare
    /// for it. Use it only for tools without side effects: clients, crawlers and caches may repeat a GET.
    #[must_use]
    pub const fn get(mut self) -> Self {
        self.get = true;
        self
    }

    /// Sets the most bytes of an input, up to [`MAX_INPUT_BYTES`].
    #[must_use]
    pub fn max_input(mut self, bytes: usize) -> Self {
        self.max_input = bytes.min(MAX_INPUT_BYTES);
        self
    }

    /// Sets the timeout of the handler.
    #[must_use]
    pub const fn time_limit(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

/// A tool's handler. Empty if the handler is behind a layer.
#[derive(Clone)]
pub struct Handler(Option<Arc<Erased>>);

type Erased = dyn Fn(Value, Context) -> BoxFuture<'static, Result<Value, Failure>> + Send + Sync;

impl Handler {
    pub(crate) const fn is_layered(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn call(&self, input: Value, context: Context) -> BoxFuture<'static, Result<Value, Failure>> {
        match &self.0 {
            Some(handler) => handler(input, context),
            None => Box::pin(async { Err(Failure::Tool(ToolError::internal("the tool is behind a layer"))) }),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler(…)")
    }
}

/// Why a handler gave no output.
#[derive(Debug)]
pub(crate) enum Failure {
    Input(String),
    Output(String),
    TooLarge,
    Tool(ToolError),
    /// A response of a service behind a layer that is not a success.
    Response(Box<Response>),
}

/// What a handler learns about the call besides its input.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) slug: Arc<str>,
    pub(crate) caller: Option<Caller>,
    pub(crate) delegated_for: Option<Address>,
    pub(crate) tool: Option<ToolRef>,
    pub(crate) paid: Option<Paid>,
}

impl Context {
    /// Returns the slug of the tool.
    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// Returns the caller. `None` if the tool is open, because callers are not identified then.
    pub const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns the account whose access is used: it has delegated to the caller, who asked to use its access. `None` if the caller uses its
    /// own.
    pub const fn delegated_for(&self) -> Option<Address> {
        self.delegated_for
    }

    /// Returns the tool's registration, if its gate knows it.
    pub const fn tool(&self) -> Option<ToolRef> {
        self.tool
    }

    /// Returns what the caller pays. `None` if the tool is free.
    pub const fn paid(&self) -> Option<&Paid> {
        self.paid.as_ref()
    }
}

/// The price of a call for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The amount in the token's smallest unit.
    pub amount: Amount,
    /// The chain.
    pub network: ChainId,
    /// The token.
    pub asset: ChainAddress,
    /// The transaction, once the money has moved: before the handler runs only if the gate settles first.
    pub transaction: Option<B256>,
}

impl Paid {
    pub(crate) fn of(offer: &Offer, transaction: Option<B256>) -> Self {
        Self { amount: offer.amount, network: offer.network.clone(), asset: offer.asset.clone(), transaction }
    }
}

/// A caller who proved an account, for this very call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The account whose key signed.
    pub account: Address,
    /// The x402 version of the proof; version 2 for sign-in messages.
    pub version: Version,
    /// Whether the signature commits to this call and can be used for no other.
    pub is_bound: bool,
}

/// Why a handler gives no output.
///
/// Every error converts into an internal one, so that `?` works; its text goes to [`Tools::on_fault`](crate::Tools::on_fault) and
/// never to the caller.
#[derive(Debug)]
pub struct ToolError {
    pub(crate) kind: ErrorKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Refused,
    Unavailable,
    Internal,
}

impl ToolError {
    /// Refuses an input that fits the schema but cannot be served. The caller gets the message (status 422).
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Refused, text: message.into() }
    }

    /// Refuses a call for now. The caller gets the message (status 503).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unavailable, text: message.into() }
    }

    /// An error inside the tool. The caller does not get the message (status 500).
    pub fn internal(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Internal, text: message.into() }
    }
}

/// `ToolError` does not implement `std::error::Error`, so that every error can be converted into it.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::internal(error.to_string())
    }
}
