//! `dry-run-gate`: shows what a gate would answer, without serving.
//!
//! The gate is the real one, built as `serve` does and called in this process; it has no backend, and no payment is settled.

use std::path::{Path, PathBuf};

use alloy_primitives::Bytes;
use axum::body::{Body, to_bytes};
use axum::http::response::Parts;
use axum::http::{Request, StatusCode};
use clap::Args;
use serde_json::{Value, json};
use toolcrib_chain::registry::AccessResult;
use toolcrib_core::codes;
use toolcrib_gate::{Gate, Server, Tool, Tools};
use toolcrib_store::replay::MemoryReplay;
use toolcrib_x402::{Challenge, Offer, Version, header, read_body, read_header, read_payment};
use tower::ServiceExt as _;

use super::behind::Behind;
use super::gating::{Decided, Gating};
use super::manifests::{self, Loaded};
use super::serve::unusable;
use crate::commands::onchain::look;
use crate::input::Source;
use crate::kinds::parse_address;
use crate::onchain::failed;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `dry-run-gate`.
#[derive(Args, Debug)]
pub(crate) struct DryRun {
    /// Manifest
    #[arg(value_name = "MANIFEST")]
    pub(crate) manifest: PathBuf,
    /// Account that would call
    #[arg(long, value_name = "0x…")]
    pub(crate) account: Option<String>,
    /// Access data for the predicate, in hex
    ///
    /// Not for secrets: RPC nodes see it.
    #[arg(long, value_name = "0x…", requires = "account")]
    pub(crate) data: Option<String>,
    /// File with a payment header value, or `-` for stdin
    ///
    /// Nothing is settled, and the payment is not used up.
    #[arg(long, value_name = "FILE", conflicts_with = "account")]
    pub(crate) payment: Option<PathBuf>,
    /// File with the input of that call [default: {}]
    #[arg(long, value_name = "FILE", requires = "payment")]
    pub(crate) input: Option<PathBuf>,
    /// Salt, if the payment is bound to the call
    #[arg(long, value_name = "0x…", requires = "payment")]
    pub(crate) salt: Option<String>,
    #[command(flatten)]
    pub(crate) gating: Gating,
}

/// Most bytes of a challenge that are read: far more than the gate writes.
const MAX_CHALLENGE_BYTES: usize = 1 << 20;

/// The gate's response to a call without proof or payment.
#[derive(Debug)]
struct Terms {
    status: StatusCode,
    /// Version 1, from the body.
    first: Option<Challenge>,
    /// Version 2, from the header.
    second: Option<Challenge>,
}

/// Prints what the gate would answer.
pub(crate) async fn run(arguments: &DryRun, printer: &mut Printer) -> Result<Done, Stop> {
    let account = arguments.account.as_deref().map(parse_address).transpose()?;
    let data: Bytes = match &arguments.data {
        None => Bytes::new(),
        Some(text) => text.parse().map_err(|_| Failure::new(codes::cli::USAGE, "--data is not hexadecimal"))?,
    };
    look::refuse_secret(&data)?;
    let tool = manifests::load(std::slice::from_ref(&arguments.manifest), printer)?.into_iter().next();
    let tool = tool.ok_or_else(|| Failure::new(codes::cli::USAGE, "no manifest was given"))?;
    arguments.gating.check(std::slice::from_ref(&tool))?;
    let decided = arguments.gating.decide(std::slice::from_ref(&tool), true, printer).await?.into_iter().next();
    let Some(Decided { gate, described, standing }) = decided else {
        return Err(Failure::new(codes::cli::USAGE, "no manifest was given").into());
    };
    let slug = tool.slug.as_str().to_owned();
    printer.result(&format!("{slug}: {}\n", shown(&described)))?;
    let is_priced = tool.is_priced();
    let stage = if matches!(gate, Gate::Open) { None } else { Some(Stage::new(tool, gate)?) };
    let terms = match &stage {
        None => None,
        Some(stage) => Some(stage.terms().await?),
    };
    match &terms {
        None if arguments.gating.closed => printer.result("calls get 503: the tool is closed\n")?,
        None => printer.result("calls are served without a challenge\n")?,
        Some(terms) => show(terms, printer)?,
    }
    let mut data_out = json!({
        "slug": slug,
        "gate": described,
        "challenge": terms.as_ref().map(|terms| json!({
            "status": terms.status.as_u16(),
            "v1": terms.first.as_ref().map(|challenge| offers(&challenge.accepts)),
            "v2": terms.second.as_ref().map(|challenge| offers(&challenge.accepts)),
        })),
    });
    if let (Some(path), Some(stage)) = (&arguments.payment, &stage) {
        let (exit, answer) = stage.pay(path, arguments, printer).await?;
        data_out["payment"] = answer;
        return Ok(Done::new(exit, data_out));
    }
    let (Some(account), Some((registry, id))) = (account, standing) else {
        let exit = if arguments.gating.closed { Exit::No } else { Exit::Yes };
        return Ok(Done::new(exit, data_out));
    };
    let answer = registry.access(id, account, data.clone()).await.map_err(failed)?;
    let reason = registry.explain(id, account, data, answer).await.ok().flatten();
    let (word, status, exit) = match answer {
        AccessResult::Granted => ("granted", 200, Exit::Yes),
        AccessResult::Denied => ("denied", 403, Exit::No),
        AccessResult::Malfunction => ("malfunction", 502, Exit::No),
    };
    printer.result(&format!("{}: {word}", account.to_checksum(None)))?;
    printer.result(&match answer {
        AccessResult::Granted if is_priced => ", and the call is served once it is paid for\n".to_owned(),
        AccessResult::Granted => ", and the call is served\n".to_owned(),
        _ => format!(", and the call gets {status}\n"),
    })?;
    if let Some(reason) = &reason {
        printer.note(&format!("{}: {}", reason.code(), shown(&reason.to_string())))?;
    }
    let mut lacking = Value::Null;
    if answer == AccessResult::Denied
        && let Some(predicate) = registry.config(id).await.map_err(failed)?.access_predicate
    {
        printer.result("requirements of the predicate: ")?;
        lacking = look::describe(&registry, predicate, id, printer).await?;
    }
    data_out["access"] = json!({
        "account": account,
        "tool": registry.reference(id).to_string(),
        "answer": word,
        "status": status,
        "code": answer.code().map(codes::Code::id),
        "reason": reason.as_ref().map(|reason| json!({ "code": reason.code().id(), "message": reason.to_string() })),
        "predicate": lacking,
    });
    Ok(Done::new(exit, data_out))
}

/// The real gate in this process, without a backend.
#[derive(Debug)]
struct Stage {
    server: Server,
    path: String,
}

impl Stage {
    fn new(tool: Loaded, gate: Gate) -> Result<Self, Failure> {
        let endpoint = tool.manifest.value().endpoint();
        let (origin, path) = (endpoint.origin().to_string(), endpoint.path().to_owned());
        let behind = Behind::nobody();
        let handler = move |input: Value, context| behind.clone().call(input, context);
        let served = Tool::new(tool.manifest).bytes(tool.bytes).slug(tool.slug.as_str()).gate(gate).handler(handler);
        let server = Tools::new(&origin).store(MemoryReplay::default()).tool(served).build();
        let server = server.map_err(|errors| unusable(&errors))?;
        Ok(Self { server, path: if path.is_empty() { "/".to_owned() } else { path } })
    }

    /// Sends a call without proof or payment.
    async fn terms(&self) -> Result<Terms, Failure> {
        let (head, body) = self.send(&[], b"{}".to_vec()).await?;
        let second = head.headers.get(header::PAYMENT_REQUIRED).and_then(|value| value.to_str().ok());
        Ok(Terms {
            status: head.status,
            first: read_body(&body).sound().cloned(),
            second: second.and_then(|value| read_header(value).sound().cloned()),
        })
    }

    /// Sends a call with a payment, without settling it.
    async fn pay(&self, path: &Path, arguments: &DryRun, printer: &mut Printer) -> Result<(Exit, Value), Stop> {
        let payment = Source::from_argument(path).read()?;
        let payment = String::from_utf8_lossy(&payment).trim().to_owned();
        let input = arguments.input.as_deref().map_or_else(|| Ok(b"{}".to_vec()), |path| Source::from_argument(path).read())?;
        // The version is not given: use the one whose parser accepts the payment, or version 2 if none does.
        let version = if read_payment(Version::V1, &payment).payment.is_some() { Version::V1 } else { Version::V2 };
        let mut headers = vec![(version.payment_header(), payment.as_str())];
        if let Some(salt) = &arguments.salt {
            headers.push((header::X_TOOL_NONCE_SALT, salt));
        }
        let (head, body) = self.send(&headers, input).await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (status, code) = (head.status.as_u16(), text("code"));
        // There is no backend, so a call that reaches it has passed the gate.
        if code == codes::gate::UNAVAILABLE.id() {
            printer.result(&format!("the payment (x402 {version}) is valid, and the call reaches the tool\n"))?;
            printer.note("settlement was not tried")?;
            return Ok((Exit::Yes, json!({ "status": 200, "code": null })));
        }
        let message = if text("message").is_empty() { text("error") } else { text("message") };
        if status >= 500 {
            let what = format!("the gate would answer with {status} {code}: {message}");
            return Err(Failure::new(codes::access::UNAVAILABLE, what).into());
        }
        printer.result(&format!("the call gets {status} {}: {}\n", shown(&code), shown(&message)))?;
        Ok((Exit::No, json!({ "status": status, "code": code, "message": message })))
    }

    async fn send(&self, headers: &[(&str, &str)], body: Vec<u8>) -> Result<(Parts, axum::body::Bytes), Failure> {
        let broken = |what: String| Failure::new(codes::gate::CHALLENGE, what);
        let mut request = Request::post(&self.path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // The value of the header is a credential, so the error does not contain it.
        let request = request.body(Body::from(body)).map_err(|_| broken("the value cannot be sent in a header".to_owned()))?;
        // A router has no error.
        let response = self.server.router().oneshot(request).await.map_err(|error| broken(error.to_string()))?;
        let (head, body) = response.into_parts();
        let body = to_bytes(body, MAX_CHALLENGE_BYTES).await.map_err(|error| broken(error.to_string()))?;
        Ok((head, body))
    }
}

fn show(terms: &Terms, printer: &mut Printer) -> Result<(), Stop> {
    printer.result(&format!("a call without a proof gets {}\n", terms.status.as_u16()))?;
    for challenge in [&terms.first, &terms.second].into_iter().flatten() {
        printer.result(&format!("  x402 {}:\n", challenge.version))?;
        for offer in &challenge.accepts {
            let what = if offer.amount.is_zero() { "a signature, no money".to_owned() } else { offer.shown_amount() };
            let line = format!("    {what} on {} to {}\n", shown(offer.network.as_str()), shown(offer.pay_to.as_str()));
            printer.result(&line)?;
        }
    }
    Ok(())
}

fn offers(offers: &[Offer]) -> Vec<Value> {
    offers
        .iter()
        .map(|offer| {
            json!({
                "scheme": offer.scheme,
                "network": offer.network.as_str(),
                "asset": offer.asset.as_str(),
                "amount": offer.amount.to_string(),
                "shown": offer.shown_amount(),
                "payTo": offer.pay_to.as_str(),
                "maxTimeoutSeconds": offer.max_timeout_seconds,
            })
        })
        .collect()
}
