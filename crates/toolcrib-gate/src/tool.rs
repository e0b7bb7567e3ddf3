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

/// Bytes of input that a tool takes at most, unless it is told to take fewer: what the schema validator takes.
pub const MAX_INPUT_BYTES: usize = MAX_INSTANCE_BYTES;

/// Bytes of output that are served at most; of a paid tool, what the store keeps for whoever paid
/// ([`MAX_RESULT_BYTES`](toolcrib_store::replay::MAX_RESULT_BYTES)). Agents read answers into a context that holds less.
pub const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// How long a handler may run, unless told otherwise. Public clients and proxies give up after one minute.
pub const CALL_TIME: Duration = Duration::from_secs(55);

/// A tool to serve. Begin with [`new`](Tool::new), end with [`handler`](Tool::handler).
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

/// A tool that cannot be served yet.
#[derive(Clone, Copy, Debug)]
pub struct NoHandler;

impl Tool<NoHandler> {
    /// A tool with this manifest, whose canonical bytes are served. It is open until it gets a [`gate`](Tool::gate).
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

    /// What runs when the tool is called. The input has been checked against the manifest's `inputs` before, the output is
    /// checked against its `outputs` afterwards.
    ///
    /// A call runs to its end even if the caller goes away.
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

    /// A tool whose calls are answered behind a [`GateLayer`](crate::GateLayer): [`Server::layer`](crate::Server::layer) has it.
    pub fn layered(self) -> Tool<Handler> {
        let Self { manifest, bytes, slug, gate, get, max_input, time, .. } = self;
        Tool { manifest, bytes, slug, gate, get, max_input, time, handler: Handler(None) }
    }
}

impl<H> Tool<H> {
    /// The file that the manifest was read from, served instead of its canonical bytes. It must be the same manifest.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(bytes.into());
        self
    }

    /// The slug. Without this call it is made from the manifest's name.
    #[must_use]
    pub fn slug(mut self, slug: &str) -> Self {
        self.slug = Some(slug.to_owned());
        self
    }

    /// Who may call.
    #[must_use]
    pub fn gate(mut self, gate: impl Into<Gate>) -> Self {
        self.gate = gate.into();
        self
    }

    /// Lets the tool be called with GET as well. The parameters of the query are then the members of the input, each of the type that
    /// the manifest's `inputs` declare for it. For tools that only look something up: GET is repeated by whoever likes to.
    #[must_use]
    pub const fn get(mut self) -> Self {
        self.get = true;
        self
    }

    /// Bytes of input at most; never more than [`MAX_INPUT_BYTES`].
    #[must_use]
    pub fn max_input(mut self, bytes: usize) -> Self {
        self.max_input = bytes.min(MAX_INPUT_BYTES);
        self
    }

    /// How long the handler may run.
    #[must_use]
    pub const fn time_limit(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

/// What runs when a tool is called. Nothing where that is behind a layer.
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

/// How a handler's call ends when it gives no output.
#[derive(Debug)]
pub(crate) enum Failure {
    Input(String),
    Output(String),
    TooLarge,
    Tool(ToolError),
    /// A response of a service behind a layer that is no success.
    Response(Box<Response>),
}

/// What a handler learns about the call beside its input.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) slug: Arc<str>,
    pub(crate) caller: Option<Caller>,
    pub(crate) delegated_for: Option<Address>,
    pub(crate) tool: Option<ToolRef>,
    pub(crate) paid: Option<Paid>,
}

impl Context {
    /// The slug of the tool that is called.
    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// Who calls. `None` when the tool is open: nobody was asked.
    pub const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// The account whose access is used: it has delegated to the caller, who asked for that. `None` when the caller calls for itself.
    pub const fn delegated_for(&self) -> Option<Address> {
        self.delegated_for
    }

    /// The tool on its registry, when its gate knows it.
    pub const fn tool(&self) -> Option<ToolRef> {
        self.tool
    }

    /// What the caller pays. `None` when the tool asks for nothing.
    pub const fn paid(&self) -> Option<&Paid> {
        self.paid.as_ref()
    }
}

/// What a call costs its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// How much, in the token's smallest unit.
    pub amount: Amount,
    /// The chain.
    pub network: ChainId,
    /// The token.
    pub asset: ChainAddress,
    /// The transaction, once the money has moved: before the handler runs only where the gate settles first.
    pub transaction: Option<B256>,
}

impl Paid {
    pub(crate) fn of(offer: &Offer, transaction: Option<B256>) -> Self {
        Self { amount: offer.amount, network: offer.network.clone(), asset: offer.asset.clone(), transaction }
    }
}

/// A caller who proved to be an account, for this very call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The account whose key signed.
    pub account: Address,
    /// The version of x402 that the proof came in; version 2 for sign-in messages.
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
    /// The input fits the schema, but cannot be served. The caller reads the message (status 422).
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Refused, text: message.into() }
    }

    /// Not now. The caller reads the message (status 503).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unavailable, text: message.into() }
    }

    /// A fault of the tool. The caller does not read the message (status 500).
    pub fn internal(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Internal, text: message.into() }
    }
}

/// No `std::error::Error` itself, so that every error can become one.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::internal(error.to_string())
    }
}
