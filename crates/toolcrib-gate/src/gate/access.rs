//! Access checks: whether an account may call. The registry is called each time, and its answer is never cached.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, hex};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use toolcrib_chain::delegate::is_delegate;
use toolcrib_chain::predicate::{Logic, Requirement, Requirements, read_requirements, secret_in};
use toolcrib_chain::registry::{AccessResult, Registry};
use toolcrib_core::codes;
use toolcrib_core::text::escape_for_display;
use toolcrib_core::tool::MAX_DATA_BYTES;

use super::PredicateGate;
use crate::answer::ErrorResponse;
use crate::standing::{Expected, RegistrationMismatch, compare};

/// The header in which callers send what a predicate needs besides the account, such as a token id, a Merkle proof or a signature: `0x` and
/// hexadecimal digits, once, at most 4096 bytes. RPC nodes and their operators see it, so it must not hold secrets.
pub const X_TOOL_ACCESS_DATA: &str = "X-Tool-Access-Data";

/// Timeout of an access check. The chain client tries other nodes within it.
pub const ACCESS_TIME: Duration = Duration::from_secs(10);

/// Most requirements that a denial names. Consumers of the standard accept 256; people read fewer.
pub const MAX_SHOWN_REQUIREMENTS: usize = 32;

/// Most bytes of each requirement's data that a denial shows.
pub const MAX_SHOWN_DATA_BYTES: usize = 512;

/// For how many seconds the predicate's description in denials is cached, so that denied calls do not double the requests to the nodes. The
/// access decision itself is never cached.
pub const FACTS_SECONDS: u64 = 60;

/// The access check of a gate, ready for use.
#[derive(Debug)]
pub(crate) struct AccessCheck {
    registry: Registry,
    id: U256,
    data: Bytes,
    /// The registry of delegations.
    delegation: Option<Address>,
    facts: Mutex<Option<(Instant, Arc<Facts>)>>,
}

/// What a denial says about the predicate.
#[derive(Debug, Default)]
struct Facts {
    predicate: Option<Address>,
    requirements: Value,
}

impl AccessCheck {
    pub(crate) fn new(gate: &PredicateGate) -> Self {
        let data = gate.data.clone().unwrap_or_default();
        let delegation = gate.delegation;
        Self { registry: gate.registry.clone(), id: gate.id, data, delegation, facts: Mutex::new(None) }
    }

    pub(crate) const fn takes_delegates(&self) -> bool {
        self.delegation.is_some()
    }

    /// Compares the tool's registration with what is served here.
    pub(crate) async fn compare(&self, slug: &str, expected: &Expected) -> Vec<RegistrationMismatch> {
        compare(slug, expected, &self.registry, self.id).await
    }

    /// Returns the data for the predicate: the caller's, or else the operator's.
    pub(crate) fn data(&self, headers: &HeaderMap) -> Result<Bytes, ErrorResponse> {
        let refused = || ErrorResponse::new(StatusCode::BAD_REQUEST, codes::access::DATA);
        let mut values = headers.get_all(X_TOOL_ACCESS_DATA).iter();
        let Some(value) = values.next() else { return Ok(self.data.clone()) };
        let digits = value.as_bytes().trim_ascii().strip_prefix(b"0x").ok_or_else(refused)?;
        if values.next().is_some() || digits.len() > 2 * MAX_DATA_BYTES {
            return Err(refused());
        }
        let data = hex::decode(digits).map_err(|_| refused())?;
        if secret_in(&data).is_some() {
            return Err(ErrorResponse::new(StatusCode::BAD_REQUEST, codes::predicate::DATA_SECRET));
        }
        Ok(data.into())
    }

    /// Checks whether an account has access itself, or through the holder that has delegated to it. The second part of an error is for the
    /// operator.
    pub(crate) async fn ask(
        &self,
        signer: Address,
        holder: Option<Address>,
        data: Bytes,
    ) -> Result<(), (ErrorResponse, Option<String>)> {
        let unavailable = |detail: String| {
            let refusal = ErrorResponse::new(StatusCode::BAD_GATEWAY, codes::access::UNAVAILABLE);
            (refusal, Some(detail))
        };
        let account = holder.unwrap_or(signer);
        let asking = async {
            match (self.delegation, holder) {
                (Some(registry), Some(holder)) if !is_delegate(self.registry.chain(), registry, signer, holder).await? => {
                    Ok(None)
                }
                _ => self.registry.access(self.id, account, data).await.map(Some),
            }
        };
        match timeout(ACCESS_TIME, asking).await {
            Ok(Ok(Some(AccessResult::Granted))) => Ok(()),
            Ok(Ok(Some(AccessResult::Denied))) => Err((self.denied(account).await, None)),
            Ok(Ok(None)) => Err((self.not_delegated(signer, account), None)),
            Ok(Ok(Some(AccessResult::Malfunction))) => {
                let refusal = ErrorResponse::new(StatusCode::BAD_GATEWAY, codes::access::PREDICATE_MALFUNCTION);
                Err((refusal.with("tool", self.registry.reference(self.id).to_string().into()), None))
            }
            Ok(Err(error)) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable(format!("no answer within {} s", ACCESS_TIME.as_secs()))),
        }
    }

    fn not_delegated(&self, signer: Address, holder: Address) -> ErrorResponse {
        ErrorResponse::new(StatusCode::FORBIDDEN, codes::access::NOT_DELEGATED)
            .with("account", signer.to_checksum(None).into())
            .with("delegateFor", holder.to_checksum(None).into())
            .with("delegateRegistry", self.delegation.map_or(Value::Null, |address| address.to_checksum(None).into()))
    }

    async fn denied(&self, account: Address) -> ErrorResponse {
        let facts = self.facts().await;
        ErrorResponse::new(StatusCode::FORBIDDEN, codes::access::DENIED)
            .with("tool", self.registry.reference(self.id).to_string().into())
            .with("account", account.to_checksum(None).into())
            .with("predicate", facts.predicate.map_or(Value::Null, |address| address.to_checksum(None).into()))
            .with("requirements", facts.requirements.clone())
    }

    /// Returns the requirements that the predicate describes. If they are unknown, the denial has none.
    async fn facts(&self) -> Arc<Facts> {
        let mut kept = self.facts.lock().await;
        if let Some((_, facts)) = kept.as_ref().filter(|(at, _)| at.elapsed().as_secs() < FACTS_SECONDS) {
            return facts.clone();
        }
        let facts = Arc::new(timeout(ACCESS_TIME, self.read_facts()).await.unwrap_or_default());
        *kept = Some((Instant::now(), facts.clone()));
        facts
    }

    async fn read_facts(&self) -> Facts {
        let Ok(config) = self.registry.config(self.id).await else { return Facts::default() };
        let Some(predicate) = config.access_predicate else { return Facts::default() };
        let requirements = match read_requirements(self.registry.chain(), predicate, self.id).await {
            Ok(Requirements::Listed { logic, entries }) => listed(logic, &entries),
            _ => Value::Null,
        };
        Facts { predicate: Some(predicate), requirements }
    }
}

fn listed(logic: Logic, entries: &[Requirement]) -> Value {
    let shown: Vec<_> = entries.iter().take(MAX_SHOWN_REQUIREMENTS).map(shown).collect();
    let logic = match logic {
        Logic::And => "AND",
        Logic::Or => "OR",
    };
    json!({ "logic": logic, "count": entries.len(), "entries": shown })
}

/// One requirement. Its label is untrusted text of at most 256 bytes.
fn shown(entry: &Requirement) -> Value {
    let data = entry.data.get(..MAX_SHOWN_DATA_BYTES).unwrap_or(&entry.data);
    json!({
        "kind": hex::encode_prefixed(entry.kind),
        "label": escape_for_display(&entry.label),
        "data": hex::encode_prefixed(data),
        "isWhole": data.len() == entry.data.len(),
    })
}
