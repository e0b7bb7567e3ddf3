//! The tools of one origin: checked when the server is built, then served.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use alloy_primitives::{hex, keccak256};
use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::routing::any;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::schema::{Validator, to_serde};
use toolcrib_core::slug::Slug;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::Origin;
use toolcrib_http::BodyBudget;
use toolcrib_store::replay::{Limits, MAX_ROUTE_BYTES, MemoryReplay, ReplayStore};
use zeroize::Zeroizing;

use crate::answer::ErrorResponse;
use crate::error::{SetupError, SetupErrors};
use crate::gate::access::AccessCheck;
use crate::gate::sign_in::{MIN_KEY_BYTES, NonceKey};
use crate::gate::terms::Terms;
use crate::layer::GateLayer;
use crate::metrics::{Metrics, ToolMetrics};
use crate::query::Parameters;
use crate::rate::{Limiter, Rates};
use crate::reconcile::{self, RECONCILE_EVERY, Reconciled};
use crate::settle::Settle;
use crate::standing::{Expected, RegistrationMismatch};
use crate::tool::{Handler, MAX_INPUT_BYTES, Tool};
use crate::usage::Usage;
use crate::used::Used;
use crate::{Gate, SystemClock, endpoint, well_known};

/// Most concurrent calls. Each holds its input and its output, so a thousand of them take a few gigabytes in the worst case; further calls
/// are refused because the server is busy.
pub const MAX_RUNNING: usize = 1_000;

/// Most bytes of inputs in memory before their calls run; one network may use an eighth. Bytes are counted and not inputs, so that slow
/// senders do not block other callers.
pub const MAX_BODY_BYTES: usize = BodyBudget::BYTES;

/// How long shutdown waits for running calls: a little more than the longest call.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(60);

/// The tools of one origin.
pub struct Tools {
    origin: String,
    tools: Vec<Tool<Handler>>,
    store: Option<Arc<dyn ReplayStore>>,
    rates: Rates,
    address_header: Option<HeaderName>,
    clock: Arc<dyn Clock + Send + Sync>,
    on_fault: Arc<OnInternalError>,
    usage: Option<Usage>,
    sign_in_key: Option<Zeroizing<Vec<u8>>>,
}

type OnInternalError = dyn Fn(&InternalError<'_>) + Send + Sync;

/// A fault that is not the caller's, or that callers must not read.
#[derive(Clone, Copy, Debug)]
pub struct InternalError<'f> {
    /// The tool's slug.
    pub slug: &'f str,
    /// The code that the caller got.
    pub code: Code,
    /// The details, which the caller did not get. May contain untrusted text.
    pub detail: &'f str,
}

impl Tools {
    /// Starts the tools of an origin, such as `https://tools.example.com`: what callers connect to, even if there is a proxy.
    pub fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            tools: Vec::new(),
            store: None,
            rates: Rates::default(),
            address_header: None,
            clock: Arc::new(SystemClock),
            on_fault: Arc::new(|_| ()),
            usage: None,
            sign_in_key: None,
        }
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool<Handler>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets the store for used signatures and their results: SQLite for the processes of one machine, PostgreSQL for more. Free tools can
    /// use the memory of this process, which is lost when it ends; paid tools are not served without a store.
    #[must_use]
    pub fn store(self, store: impl ReplayStore + 'static) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// Sets a store that is shared with other users of it.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn ReplayStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the rate limits.
    #[must_use]
    pub const fn rates(mut self, rates: Rates) -> Self {
        self.rates = rates;
        self
    }

    /// Sets the header in which a reverse proxy sends the caller's address, such as `x-forwarded-for`. Its last entry counts; calls without
    /// the header are not limited by address. Set it only if every request comes through that proxy, since any other client can forge the
    /// header. The number of the proxy's connections is not limited.
    #[must_use]
    pub fn address_header(mut self, name: HeaderName) -> Self {
        self.address_header = Some(name);
        self
    }

    /// Sets another clock than the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets a callback for faults, such as a logger.
    #[must_use]
    pub fn on_fault(mut self, told: impl Fn(&InternalError<'_>) + Send + Sync + 'static) -> Self {
        self.on_fault = Arc::new(told);
        self
    }

    /// Reports served calls to a directory. Without this call nothing is reported: a report gives the caller's signature to a third party.
    /// Tools whose gate does not know their registration are not reported.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the secret for the nonces of sign-in challenges, at least 16 random bytes. All servers of one origin need the same secret, so
    /// that each accepts the challenges of the others. Without this call it is random and lost when the process ends.
    #[must_use]
    pub fn sign_in_key(mut self, secret: &[u8]) -> Self {
        self.sign_in_key = Some(Zeroizing::new(secret.to_vec()));
        self
    }

    /// Checks everything, and returns a server or all errors.
    pub fn build(self) -> Result<Server, SetupErrors> {
        let origin = Origin::parse(&self.origin).map_err(|fault| {
            let error = SetupError::Origin { origin: self.origin.clone(), fault: fault.to_string(), code: fault.code() };
            SetupErrors(vec![error])
        })?;
        let (mut errors, mut served) = (Vec::new(), Vec::new());
        for tool in self.tools {
            match Served::new(tool, &origin) {
                Ok(tool) => served.push(Arc::new(tool)),
                Err(found) => errors.extend(found),
            }
        }
        let (mut slugs, mut paths) = (HashSet::new(), HashSet::new());
        for tool in &served {
            if !slugs.insert(tool.slug.clone()) {
                errors.push(SetupError::SlugTwice { slug: tool.slug.to_string() });
            }
            paths.insert(well_known::path(&tool.slug));
        }
        for tool in &served {
            if !paths.insert(tool.path.clone()) {
                errors.push(SetupError::EndpointTwice { slug: tool.slug.to_string(), path: tool.path.clone() });
            }
        }
        if let (None, Some(tool)) = (&self.store, served.iter().find(|tool| tool.gate.charge.is_some())) {
            errors.push(SetupError::NoStore { slug: tool.slug.to_string() });
        }
        if !errors.is_empty() {
            return Err(SetupErrors(errors));
        }
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryReplay::new(Limits::default())));
        let sign_in_key = match &self.sign_in_key {
            Some(secret) if secret.len() >= MIN_KEY_BYTES => Some(NonceKey::of(secret)),
            Some(_) => None,
            None => NonceKey::random(),
        };
        let sign_in_key = sign_in_key.ok_or_else(|| SetupErrors(vec![SetupError::SignInKey]))?;
        // Callers without a known address count as one network, which must not be limited if no caller has a known address.
        let bodies = match self.rates.per_address {
            Some(_) => BodyBudget::new(MAX_BODY_BYTES, MAX_INPUT_BYTES),
            None => BodyBudget::shared(MAX_BODY_BYTES, MAX_INPUT_BYTES),
        };
        let shared = Shared {
            used: Arc::new(Used::new(store)),
            limiter: Limiter::new(self.rates),
            clock: self.clock,
            on_fault: self.on_fault,
            usage: self.usage,
            sign_in_key,
            metrics: Metrics::default(),
            address_header: self.address_header,
            bodies,
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
            is_reconciling: AtomicBool::new(false),
        };
        Ok(Server { origin, tools: served, shared: Arc::new(shared) })
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("origin", &self.origin).field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

/// Tools that are ready to be served.
#[derive(Clone, Debug)]
pub struct Server {
    origin: Origin,
    pub(crate) tools: Vec<Arc<Served>>,
    pub(crate) shared: Arc<Shared>,
}

impl Server {
    /// Returns the routes of all tools, for a router that has other routes too; for a [layered](Tool::layered) tool, only the manifest's
    /// route. Serve it with `into_make_service_with_connect_info`, or callers cannot be limited by their address.
    pub fn routes(&self) -> Router {
        // An endpoint is a literal path, without parameters.
        let mut router = Router::new().without_v07_checks();
        for tool in &self.tools {
            let (served, shared) = (tool.clone(), self.shared.clone());
            if !tool.handler.is_layered() {
                let called = move |request: Request| endpoint::answer(shared.clone(), served.clone(), request, None);
                router = router.route(&literal(&tool.path), any(called));
            }
            let served = tool.clone();
            let read = move |request: Request| std::future::ready(well_known::answer(&served, &request));
            router = router.route(&well_known::path(&tool.slug), any(read));
        }
        router
    }

    /// Returns the routes, with a JSON response for every other path.
    pub fn router(&self) -> Router {
        let nothing = || std::future::ready(ErrorResponse::new(StatusCode::NOT_FOUND, codes::gate::NOT_FOUND).into_response());
        self.routes().fallback(nothing)
    }

    /// Returns the layer of a [layered](Tool::layered) tool.
    pub fn layer(&self, slug: &str) -> Option<GateLayer> {
        let tool = self.tools.iter().find(|tool| *tool.slug == *slug && tool.handler.is_layered())?;
        Some(GateLayer::new(self.clone(), tool.clone()))
    }

    /// Waits until no call is running: a call outlives its caller's connection, and may be settling. Use it at the end of a program that
    /// serves the routes or layers itself, when no new calls can arrive.
    pub async fn wait_until_idle(&self) {
        let _ = self.shared.running.acquire_many(u32::try_from(MAX_RUNNING).unwrap_or(u32::MAX)).await;
    }

    /// Returns the host that callers connect to.
    pub(crate) fn host(&self) -> &str {
        self.origin.host()
    }

    /// Whether all connections come from a proxy.
    pub(crate) fn is_behind_proxy(&self) -> bool {
        self.shared.address_header.is_some() || !self.shared.limiter.is_by_address()
    }

    /// Runs reconciliation once: finds the outcome of payments whose settlement was started and did not end, and records it. A running
    /// server does this periodically.
    pub async fn reconcile(&self) -> Reconciled {
        reconcile::once(&self.shared, &self.tools).await
    }

    pub(crate) async fn keep_reconciling(&self) {
        loop {
            self.reconcile().await;
            sleep(RECONCILE_EVERY).await;
        }
    }

    /// Compares each gated tool's registration with what is served here, and returns all mismatches. Call it after the start: a gate with
    /// another tool's id works without an error.
    pub async fn check(&self) -> Vec<RegistrationMismatch> {
        let mut found = Vec::new();
        for tool in &self.tools {
            if let Some(access) = &tool.gate.access {
                found.extend(access.compare(&tool.slug, &tool.expected).await);
            }
        }
        found
    }

    /// Returns the slugs, in the order in which the tools were added.
    pub fn slugs(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| &*tool.slug)
    }
}

/// What all tools of a server share.
pub(crate) struct Shared {
    pub(crate) used: Arc<Used>,
    pub(crate) limiter: Limiter,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) on_fault: Arc<OnInternalError>,
    pub(crate) usage: Option<Usage>,
    pub(crate) sign_in_key: NonceKey,
    pub(crate) metrics: Metrics,
    pub(crate) address_header: Option<HeaderName>,
    pub(crate) bodies: BodyBudget,
    pub(crate) running: Arc<Semaphore>,
    /// Whether a layer has started reconciliation.
    pub(crate) is_reconciling: AtomicBool,
}

impl Shared {
    /// Reports a fault to the operator.
    pub(crate) fn tell(&self, tool: &Served, code: Code, detail: &str) {
        (self.on_fault)(&InternalError { slug: &tool.slug, code, detail });
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("used", &self.used).finish_non_exhaustive()
    }
}

/// A tool that was checked.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) slug: Arc<str>,
    pub(crate) path: String,
    /// The key of payments in the store: the endpoint, since one store may serve several origins.
    pub(crate) route: String,
    pub(crate) bytes: Bytes,
    pub(crate) etag: HeaderValue,
    /// How a query is parsed, if GET is accepted.
    pub(crate) parameters: Option<Parameters>,
    pub(crate) inputs: Option<Validator>,
    pub(crate) outputs: Option<Validator>,
    pub(crate) gate: Ready,
    pub(crate) expected: Expected,
    pub(crate) max_input: usize,
    pub(crate) time: Duration,
    pub(crate) handler: Handler,
    pub(crate) metrics: ToolMetrics,
}

/// A gate that is ready for use. All fields are empty if the tool is open.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// What callers sign.
    pub(crate) terms: Option<Terms>,
    /// The access check.
    pub(crate) access: Option<AccessCheck>,
    /// How they are charged.
    pub(crate) charge: Option<Charge>,
}

/// How calls are charged.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) settle: Arc<dyn Settle>,
    /// Whether calls are settled before the handler runs.
    pub(crate) first: bool,
}

impl Ready {
    fn new(gate: &Gate, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        Ok(match gate {
            Gate::Open => Self::default(),
            Gate::Identity(gate) => Self { terms: Some(Terms::identity(gate, manifest)?), ..Self::default() },
            Gate::Predicate(gate) => {
                Self { terms: Some(Terms::free(gate, manifest)?), access: Some(AccessCheck::new(gate)), charge: None }
            }
            Gate::Paid(gate) => Self {
                terms: Some(Terms::paid(gate, manifest)?),
                access: gate.predicate.as_ref().map(AccessCheck::new),
                charge: Some(Charge { settle: gate.settle.clone(), first: gate.settle_first }),
            },
        })
    }
}

impl Served {
    fn new(tool: Tool<Handler>, origin: &Origin) -> Result<Self, Vec<SetupError>> {
        let manifest = tool.manifest.value();
        let named = tool.slug.as_deref().map_or_else(|| Slug::derive(manifest.name()), Slug::parse);
        let Ok(slug) = named else {
            return Err(vec![SetupError::Slug { name: tool.slug.unwrap_or_else(|| manifest.name().to_owned()) }]);
        };
        let slug = slug.as_str().to_owned();
        let mut errors = Vec::new();
        let endpoint = manifest.endpoint();
        if endpoint.origin() != *origin {
            let (endpoint, origin) = (endpoint.to_string(), origin.to_string());
            errors.push(SetupError::OffOrigin { slug: slug.clone(), endpoint, origin });
        }
        let is_other = |bytes: &Vec<u8>| {
            let checked = ToolManifest::parse(bytes, Mode::Consumer);
            checked.canonical().is_none_or(|canonical| canonical.hash() != tool.manifest.hash())
        };
        if tool.bytes.as_ref().is_some_and(is_other) {
            errors.push(SetupError::BytesDiffer { slug: slug.clone() });
        }
        match (matches!(tool.gate, Gate::Paid(_)), manifest.pricing()) {
            (true, []) => errors.push(SetupError::NoPrice { slug: slug.clone() }),
            (false, prices) if prices.iter().any(|price| !price.amount.is_zero()) => {
                errors.push(SetupError::Priced { slug: slug.clone() });
            }
            _ => {}
        }
        let mut compile = |schema: Option<toolcrib_core::json::Value<'_>>, which: &'static str| {
            let compiled = schema.map(Validator::compile).transpose();
            compiled.unwrap_or_else(|findings: Vec<Finding>| {
                if findings.iter().any(|finding| finding.severity == Severity::Error) {
                    errors.push(SetupError::Schema { slug: slug.clone(), which, findings });
                } else {
                    // A valid schema for which no validator may be built, such as a recursive union: the tool has to validate inputs and
                    // outputs itself.
                    let codes: Vec<_> = findings.iter().map(|finding| finding.code.id()).collect();
                    tracing::warn!(tool = %slug, schema = which, ?codes, "the schema cannot be applied, so values are not checked against it");
                }
                None
            })
        };
        let (inputs, outputs) = (compile(manifest.inputs(), "inputs"), compile(manifest.outputs(), "outputs"));
        let gate = Ready::new(&tool.gate, manifest);
        let gate = match gate {
            Ok(gate) if errors.is_empty() => gate,
            Ok(_) => return Err(errors),
            Err(findings) => {
                errors.push(SetupError::Challenge { slug, findings });
                return Err(errors);
            }
        };
        let parameters = tool.get.then(|| Parameters::of(&manifest.inputs().map_or(serde_json::Value::Null, to_serde)));
        let expected = Expected {
            hash: tool.manifest.hash(),
            creator: manifest.creator(),
            uri: format!("{origin}{}", well_known::path(&slug)),
        };
        let path = if endpoint.path().is_empty() { "/" } else { endpoint.path() }.to_owned();
        let bytes = tool.bytes.unwrap_or_else(|| tool.manifest.canonical().as_bytes().to_vec());
        // Quoted hexadecimal digits are always a valid header value.
        let etag = format!("\"{}\"", hex::encode(keccak256(&bytes)));
        let etag = HeaderValue::from_str(&etag).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Ok(Self {
            slug: slug.into(),
            path,
            route: route(endpoint.normalized()),
            bytes: bytes.into(),
            etag,
            parameters,
            inputs,
            outputs,
            gate,
            expected,
            max_input: tool.max_input,
            time: tool.time,
            handler: tool.handler,
            metrics: ToolMetrics::default(),
        })
    }
}

/// Returns the endpoint as a key of the store.
fn route(endpoint: &str) -> String {
    if endpoint.len() <= MAX_ROUTE_BYTES { endpoint.to_owned() } else { keccak256(endpoint).to_string() }
}

/// Escapes the braces of a path.
fn literal(path: &str) -> String {
    path.replace('{', "{{").replace('}', "}}")
}
