//! One call, step by step: method, rate limit, payment headers, body, proof, input; then [`admitted`](crate::admitted).
//!
//! Cheap checks come first, and nothing is stored before they have all passed. From the reservation on the call runs in a task of its own,
//! so that a caller that disconnects does not interrupt it.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::keccak256;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolcrib_core::codes;
use toolcrib_core::json::{self as strict, Limits};
use toolcrib_core::schema::{Echo, MAX_INSTANCE_DEPTH, Validator, Violation, to_serde};
use toolcrib_http::{BodyError, MediaType, Network, client_address};
use tracing::Instrument as _;

use crate::admitted::Admitted;
use crate::answer::{self, ErrorResponse, Stop};
use crate::gate::delegation;
use crate::gate::terms::{Asked, Presented, Terms, Unproven};
use crate::layer::{Inner, Work};
use crate::rate::Wait;
use crate::tool::Context;
use crate::tools::{Served, Shared};
use crate::watch::{CallSpan, Watch};

/// Timeout for the whole body. One that arrives slower than the pace of `toolcrib-http` is aborted earlier.
pub const BODY_TIME: Duration = Duration::from_secs(15);

/// Timeout for the body of a refused request. The body is not used, but closing the connection while it is being sent would be an error for
/// the client: one that sends head and body separately would lose the connection between the challenge and its payment.
const UNREAD_BODY_TIME: Duration = Duration::from_secs(2);

/// `Retry-After` in seconds when the server is overloaded.
pub(crate) const RETRY_SECONDS: u64 = 5;

const ALLOW: &str = "POST, OPTIONS";
const ALLOW_GET: &str = "GET, POST, OPTIONS";

/// Answers a request to a tool, or to the service behind its layer.
pub(crate) async fn answer(shared: Arc<Shared>, tool: Arc<Served>, request: Request, inner: Option<Inner>) -> Response {
    let watch = Watch::begin(tool.clone(), request.method());
    let response = taken(shared, &tool, request, inner, watch.seen()).instrument(watch.seen().span().clone()).await;
    watch.answered(&response);
    response
}

/// Calls the tool, if the method is allowed.
async fn taken(shared: Arc<Shared>, tool: &Arc<Served>, request: Request, inner: Option<Inner>, seen: &CallSpan) -> Response {
    let allow = if tool.parameters.is_some() { ALLOW_GET } else { ALLOW };
    match *request.method() {
        Method::POST => {}
        Method::GET if tool.parameters.is_some() => {}
        Method::OPTIONS => return answer::options(allow),
        _ => return answer::not_allowed(codes::gate::METHOD, allow),
    }
    call(shared, tool, request, inner, seen).await.unwrap_or_else(Stop::into_response)
}

async fn call(
    shared: Arc<Shared>,
    tool: &Arc<Served>,
    request: Request,
    inner: Option<Inner>,
    seen: &CallSpan,
) -> Result<Response, Stop> {
    let address = client_address(shared.address_header.as_ref(), request.headers(), request.extensions());
    let network = address.map(Network::of);
    shared.limiter.request(network).map_err(too_often)?;
    let (head, body) = request.into_parts();
    // Only allowed methods get here, and of those only GET has its input in the query.
    let parameters = tool.parameters.as_ref().filter(|_| head.method == Method::GET);
    let most = if parameters.is_some() { 0 } else { tool.max_input };
    let terms = tool.gate.terms.as_ref();
    let stop = |terms: &Terms, unproven| stop(&shared, tool, terms, unproven);
    let content_type = if parameters.is_some() { Ok(()) } else { check_content_type(&head.headers) };
    let presented = content_type
        .map_err(Stop::from)
        .and_then(|()| terms.map(|terms| terms.read(&head.headers).map_err(|unproven| stop(terms, unproven))).transpose());
    let presented = match presented {
        Ok(presented) => presented,
        Err(refused) => {
            let read = shared.bodies.read(body, &head.headers, network, most, UNREAD_BODY_TIME).await;
            return Err(if read.is_ok() { refused } else { refused.with_headers(answer::close) });
        }
    };
    let body = shared.bodies.read(body, &head.headers, network, most, BODY_TIME).await.map_err(|error| unread(error, most))?;
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let (mut proven, mut signed_in, mut delegated_for) = (None, None, None);
    if let (Some(terms), Some(presented)) = (terms, presented) {
        let now = shared.clock.now();
        match (presented, terms.sign_in()) {
            (Presented::SignIn(presented), Some(sign_in)) => {
                let found = sign_in.verify(*presented, &shared.sign_in_key, now).await;
                let found = found.map_err(|unproven| stop(terms, unproven))?;
                seen.caller(found.caller.account);
                shared.limiter.account(found.caller.account).map_err(too_often)?;
                signed_in = Some(found);
            }
            // Unreachable: only sign-in settings read such messages.
            (Presented::SignIn(_), None) => return Err(stop(terms, Unproven::Challenge(None))),
            (Presented::Payment(payment), _) => {
                let asked = Asked { method: head.method.as_str(), target, body: &body };
                let found = terms.verify(*payment, &head.headers, asked, now).await;
                let found = found.map_err(|unproven| stop(terms, unproven))?;
                seen.caller(found.caller.account);
                // An expired payment is public on the chain, and anyone can send it again; that must not use up its payer's rate limit.
                if !found.is_over {
                    shared.limiter.account(found.caller.account).map_err(too_often)?;
                }
                proven = Some(found);
            }
        }
        delegated_for = delegation::read(&head.headers, tool.gate.access.as_ref())?;
    }
    let data = tool.gate.access.as_ref().map(|access| access.data(&head.headers)).transpose()?.unwrap_or_default();
    let input = match parameters {
        Some(parameters) => parameters.read(head.uri.query().unwrap_or_default())?,
        None => parse(&body)?,
    };
    check_input(&input, tool.inputs.as_ref())?;
    let permit = shared.running.clone().try_acquire_owned().map_err(|_| busy())?;
    let context = Context {
        slug: tool.slug.clone(),
        caller: proven.as_ref().map(|proven| proven.caller).or_else(|| signed_in.as_ref().map(|signed| signed.caller)),
        delegated_for,
        tool: terms.and_then(Terms::tool),
        paid: None,
    };
    // For GET, the hash covers the request target. The holder is included, because a call for one account is not the same as a call for
    // another.
    let mut body_hash = if parameters.is_some() { keccak256(target) } else { keccak256(&body) };
    if let Some(holder) = delegated_for {
        body_hash = keccak256([body_hash.as_slice(), holder.as_slice()].concat());
    }
    let work = match inner {
        None => Work::Input(input),
        Some(inner) => Work::request(head, body.into_bytes(), inner),
    };
    let (caller, answer) = oneshot::channel();
    let running = {
        let (shared, tool, seen, span) = (shared.clone(), tool.clone(), seen.clone(), seen.span().clone());
        let serving = async move {
            let _permit = permit;
            let admitted = Admitted { shared: &shared, tool: &tool, data, body_hash, seen };
            match signed_in {
                Some(signed) => {
                    // Fails if the caller has disconnected.
                    let _ = caller.send(admitted.serve_signed_in(&signed, work, context).await);
                }
                None => admitted.answer(proven, work, context, caller).await,
            }
        };
        // Boxed, since a task moves its future several times, and this one is large.
        tokio::spawn(Box::pin(serving.instrument(span)))
    };
    if let Ok(answer) = answer.await {
        return answer;
    }
    let detail = running.await.err().map_or_else(String::new, |error| error.to_string());
    shared.tell(tool, codes::gate::PANICKED, &detail);
    Err(ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, codes::gate::PANICKED).into())
}

/// Parses the input strictly.
pub(crate) fn parse(body: &[u8]) -> Result<Value, ErrorResponse> {
    let not_json = || ErrorResponse::new(StatusCode::BAD_REQUEST, codes::gate::NOT_JSON);
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
    Ok(to_serde(document.root()))
}

/// Validates the input against the schema.
fn check_input(input: &Value, schema: Option<&Validator>) -> Result<(), ErrorResponse> {
    // The caller's own values may be repeated to the caller.
    let violations = schema.map_or_else(Vec::new, |schema| schema.violations(input, Echo::Values));
    if violations.is_empty() {
        return Ok(());
    }
    Err(ErrorResponse::new(StatusCode::BAD_REQUEST, codes::gate::INPUT_INVALID).with("violations", listed(&violations)))
}

pub(crate) fn listed(violations: &[Violation]) -> Value {
    /// Longest message: one that repeats a value may be as long as the value.
    const MAX_MESSAGE_CHARS: usize = 300;
    violations
        .iter()
        .map(|violation| {
            let message: String = violation.message.chars().take(MAX_MESSAGE_CHARS).collect();
            json!({ "at": violation.instance_pointer, "rule": violation.schema_pointer, "message": message })
        })
        .collect()
}

/// Converts an error of reading the body into the gate's refusal.
fn unread(error: BodyError, most: usize) -> ErrorResponse {
    match error {
        BodyError::TooLarge => {
            let refusal = ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, codes::gate::BODY_TOO_LARGE);
            refusal.with("limit", most.into())
        }
        BodyError::Slow => ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, codes::gate::BODY_SLOW),
        BodyError::Busy => busy(),
        _ => ErrorResponse::new(StatusCode::BAD_REQUEST, codes::gate::BODY_BROKEN),
    }
}

/// The refusal of an overloaded server.
fn busy() -> ErrorResponse {
    ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::BUSY).retry_after(RETRY_SECONDS)
}

/// Requires JSON, or no content type.
fn check_content_type(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    if MediaType::of(headers).is_none_or(MediaType::is_json) {
        Ok(())
    } else {
        Err(ErrorResponse::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::gate::CONTENT_TYPE))
    }
}

fn stop(shared: &Shared, tool: &Served, terms: &Terms, unproven: Unproven) -> Stop {
    match unproven {
        Unproven::Unasked(detail) => {
            shared.tell(tool, codes::access::UNAVAILABLE, &detail);
            ErrorResponse::new(StatusCode::BAD_GATEWAY, codes::access::UNAVAILABLE).retry_after(RETRY_SECONDS).into()
        }
        Unproven::Malformed(refusal) => refusal.into(),
        Unproven::Challenge(reason) => terms.challenge(&shared.sign_in_key, shared.clock.now(), reason),
    }
}

fn too_often(wait: Wait) -> ErrorResponse {
    let (status, code) = if wait.is_global {
        (StatusCode::SERVICE_UNAVAILABLE, codes::gate::BUSY)
    } else {
        (StatusCode::TOO_MANY_REQUESTS, codes::gate::RATE_LIMITED)
    };
    ErrorResponse::new(status, code).retry_after(wait.seconds)
}
