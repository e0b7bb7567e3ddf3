//! One call, step by step: method, rate, headers of the payment, body, proof, input, reservation, predicate, handler, output.
//!
//! Whatever costs more comes later, and nothing is written down before all that is cheap has passed. From the reservation on the
//! call runs in a task of its own, so that a caller who goes away leaves nothing half done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::keccak256;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_core::json::{self as strict, Limits};
use toolcrib_core::schema::{Echo, MAX_INSTANCE_DEPTH, Validator, Violation, to_serde};
use toolcrib_core::x402::PAID_CACHE_CONTROL;

use crate::answer::{self, Refusal};
use crate::gate::access::Access;
use crate::gate::identity::{Asked, Identity, Proven, Unproven};
use crate::rate::Wait;
use crate::replay::{Claim, Reservation, Reserve};
use crate::tool::{Context, ErrorKind, Failure, MAX_OUTPUT_BYTES};
use crate::tools::{Fault, Ready, Served, Shared};

/// How long the whole body has to arrive.
pub const BODY_TIME: Duration = Duration::from_secs(15);

/// Seconds after which a caller may try again when the server, not the caller, has too much to do.
const RETRY_SECONDS: u64 = 5;

const ALLOW: &str = "POST, OPTIONS";

pub(crate) async fn answer(shared: Arc<Shared>, tool: Arc<Served>, request: Request) -> Response {
    match *request.method() {
        Method::POST => {}
        Method::OPTIONS => return answer::options(ALLOW),
        _ => return answer::not_allowed(codes::gate::METHOD, ALLOW),
    }
    match call(shared, &tool, request).await {
        Ok(response) => response,
        Err(Stop::Refused(refusal)) => refusal.into_response(),
        Err(Stop::Challenge(response)) => *response,
    }
}

/// Why a call ends early.
enum Stop {
    Refused(Box<Refusal>),
    Challenge(Box<Response>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

async fn call(shared: Arc<Shared>, tool: &Arc<Served>, request: Request) -> Result<Response, Stop> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    shared.limiter.request(peer).map_err(too_often)?;
    let (head, body) = request.into_parts();
    check_content_type(&head.headers)?;
    let gated = match &tool.gate {
        Ready::Open => None,
        Ready::Predicate(gate) => {
            let (identity, access) = &**gate;
            let payment = Identity::read(&head.headers).map_err(|unproven| stop(identity, unproven))?;
            Some((identity, access, payment))
        }
    };
    let busy = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::BUSY).retry_after(RETRY_SECONDS);
    let reading = shared.reading.try_acquire().map_err(|_| busy())?;
    let body = read(body, &head.headers, tool.max_input).await?;
    let proven = match gated {
        None => None,
        Some((identity, access, payment)) => {
            let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
            let asked = Asked { method: head.method.as_str(), target, body: &body };
            let proven = identity.verify(&payment, &head.headers, asked, shared.clock.now());
            let proven = proven.map_err(|unproven| stop(identity, unproven))?;
            shared.limiter.account(proven.caller.account).map_err(too_often)?;
            let data = access.data(&head.headers)?;
            Some((proven, data, identity.tool()))
        }
    };
    let input = input(&body, tool.inputs.as_ref())?;
    let permit = shared.running.clone().try_acquire_owned().map_err(|_| busy())?;
    drop(reading);
    let context = Context {
        slug: tool.slug.clone(),
        caller: proven.as_ref().map(|(proven, ..)| proven.caller),
        tool: proven.as_ref().map(|(_, _, tool)| *tool),
    };
    let running = {
        let (shared, tool) = (shared.clone(), tool.clone());
        let body_hash = keccak256(&body);
        drop(body);
        tokio::spawn(async move {
            let _permit = permit;
            if let (Some((proven, data, _)), Ready::Predicate(gate)) = (proven, &tool.gate) {
                admit(&shared, &tool, &gate.1, &proven, data, body_hash).await?;
            }
            run(&shared, &tool, input, context).await
        })
    };
    let cache = if matches!(tool.gate, Ready::Open) { "no-store" } else { PAID_CACHE_CONTROL };
    match running.await {
        Ok(Ok(output)) => Ok(answer::json(StatusCode::OK, output, cache)),
        Ok(Err(refusal)) => Err(Stop::Refused(refusal)),
        Err(error) => {
            tell(&shared, tool, codes::gate::PANICKED, &error.to_string());
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, codes::gate::PANICKED).into())
        }
    }
}

/// Reserves the signature, asks the predicate, and uses the signature up if it says yes. A no of whatever kind gives it back.
async fn admit(
    shared: &Shared,
    tool: &Served,
    access: &Access,
    proven: &Proven,
    data: alloy_primitives::Bytes,
    body_hash: alloy_primitives::B256,
) -> Result<(), Box<Refusal>> {
    let claim = Claim { key: proven.key, expires_at: proven.expires_at, route: &tool.path, body_hash };
    let unavailable = |detail: String| {
        tell(shared, tool, codes::gate::REPLAY_UNAVAILABLE, &detail);
        Box::new(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::REPLAY_UNAVAILABLE).retry_after(RETRY_SECONDS))
    };
    let reservation: Box<dyn Reservation> = match shared.replay.reserve(&claim, shared.clock.now()).await {
        Ok(Reserve::Reserved(reservation)) => reservation,
        Ok(Reserve::AlreadyUsed) => return Err(Box::new(Refusal::new(StatusCode::CONFLICT, codes::payment::REPLAYED))),
        Ok(Reserve::Full) => {
            tell(shared, tool, codes::store::FULL, "the replay store is full");
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::FULL);
            return Err(Box::new(refusal.retry_after(RETRY_SECONDS)));
        }
        Err(error) => return Err(unavailable(error.to_string())),
    };
    if let Err((refusal, detail)) = access.ask(proven.caller.account, data).await {
        if let Some(detail) = detail {
            tell(shared, tool, refusal.code, &detail);
        }
        // A reservation that cannot be given back expires; the caller signs anew.
        if let Err(error) = reservation.release().await {
            tell(shared, tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
        return Err(Box::new(refusal));
    }
    // Before the handler runs: whatever happens to it, nobody calls with this signature again.
    reservation.consume().await.map_err(|error| unavailable(error.to_string()))
}

/// Runs the handler, and checks what it gives.
async fn run(shared: &Shared, tool: &Served, input: Value, context: Context) -> Result<Vec<u8>, Box<Refusal>> {
    let refused = |status, code| Box::new(Refusal::new(status, code));
    let fault = |status, code, detail: &str| {
        tell(shared, tool, code, detail);
        refused(status, code)
    };
    let failed = StatusCode::INTERNAL_SERVER_ERROR;
    let output = match timeout(tool.time, tool.handler.call(input, context)).await {
        Err(_) => return Err(fault(StatusCode::GATEWAY_TIMEOUT, codes::gate::TIMED_OUT, "the handler took too long")),
        Ok(Ok(output)) => output,
        Ok(Err(Failure::Input(detail))) => {
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, codes::gate::INPUT_TYPE).message(detail);
            return Err(Box::new(refusal));
        }
        Ok(Err(Failure::Output(detail))) => return Err(fault(failed, codes::gate::OUTPUT_INVALID, &detail)),
        Ok(Err(Failure::Tool(error))) => {
            let (status, code) = match error.kind {
                ErrorKind::Refused => (StatusCode::UNPROCESSABLE_ENTITY, codes::gate::REFUSED),
                ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, codes::gate::UNAVAILABLE),
                ErrorKind::Internal => return Err(fault(failed, codes::gate::FAILED, &error.text)),
            };
            return Err(Box::new(Refusal::new(status, code).message(error.text)));
        }
    };
    // What the tool gave may hold anything, so violations are described without it.
    let violations = tool.outputs.as_ref().map_or_else(Vec::new, |schema| schema.violations(&output, Echo::Masked));
    if let Some(first) = violations.first() {
        tell(shared, tool, codes::gate::OUTPUT_INVALID, &first.to_string());
        return Err(Box::new(Refusal::new(failed, codes::gate::OUTPUT_INVALID).with("violations", listed(&violations))));
    }
    let bytes = output.to_string().into_bytes();
    if bytes.len() > MAX_OUTPUT_BYTES {
        return Err(fault(failed, codes::gate::OUTPUT_TOO_LARGE, &format!("{} bytes", bytes.len())));
    }
    Ok(bytes)
}

/// Reads the input strictly and holds it against the schema.
fn input(body: &[u8], schema: Option<&Validator>) -> Result<Value, Refusal> {
    let not_json = || Refusal::new(StatusCode::BAD_REQUEST, codes::gate::NOT_JSON);
    let reading = strict::read(body, Limits { max_bytes: body.len().max(1), max_depth: MAX_INSTANCE_DEPTH });
    let findings = reading.findings.into_sorted();
    let document = reading.document.filter(strict::Document::is_canonicalisable);
    let Some(document) = document else {
        let refusal = not_json();
        return Err(match findings.first() {
            Some(finding) => refusal.message(finding.message.clone()).with("rule", finding.code.id().into()),
            None => refusal,
        });
    };
    let input = to_serde(document.root());
    // The caller's own values may be repeated to the caller.
    let violations = schema.map_or_else(Vec::new, |schema| schema.violations(&input, Echo::Values));
    if violations.is_empty() {
        return Ok(input);
    }
    Err(Refusal::new(StatusCode::BAD_REQUEST, codes::gate::INPUT_INVALID).with("violations", listed(&violations)))
}

fn listed(violations: &[Violation]) -> Value {
    /// Characters of a message at most: one that repeats a value may be as long as the value.
    const MAX_MESSAGE_CHARS: usize = 300;
    violations
        .iter()
        .map(|violation| {
            let message: String = violation.message.chars().take(MAX_MESSAGE_CHARS).collect();
            json!({ "at": violation.instance_pointer, "rule": violation.schema_pointer, "message": message })
        })
        .collect()
}

/// Reads the body under its caps.
async fn read(body: Body, headers: &HeaderMap, most: usize) -> Result<Vec<u8>, Refusal> {
    let too_large = || {
        let refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, codes::gate::BODY_TOO_LARGE);
        refusal.with("limit", most.into())
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let reading = async {
        let mut bytes = Vec::new();
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, codes::gate::BODY_BROKEN))?;
            if chunk.len() > most - bytes.len() {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    let slow = || Refusal::new(StatusCode::REQUEST_TIMEOUT, codes::gate::BODY_SLOW);
    timeout(BODY_TIME, reading).await.unwrap_or_else(|_| Err(slow()))
}

/// JSON, or nothing said.
fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let is_json = essence == b"application/json" || (essence.starts_with(b"application/") && essence.ends_with(b"+json"));
    if is_json { Ok(()) } else { Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::gate::CONTENT_TYPE)) }
}

fn stop(identity: &Identity, unproven: Unproven) -> Stop {
    match unproven {
        Unproven::Malformed(refusal) => refusal.into(),
        Unproven::Challenge(reason) => Stop::Challenge(Box::new(answer::challenge(identity.paywall(), reason))),
    }
}

fn too_often(wait: Wait) -> Refusal {
    let (status, code) = if wait.is_global {
        (StatusCode::SERVICE_UNAVAILABLE, codes::gate::BUSY)
    } else {
        (StatusCode::TOO_MANY_REQUESTS, codes::gate::RATE_LIMITED)
    };
    Refusal::new(status, code).retry_after(wait.seconds)
}

fn tell(shared: &Shared, tool: &Served, code: codes::Code, detail: &str) {
    (shared.on_fault)(&Fault { slug: &tool.slug, code, detail });
}
