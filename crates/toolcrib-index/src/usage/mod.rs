//! Proven usage: what a report must prove before it counts, and the counts.
//!
//! A paid call counts when one final transaction has both the caller's used authorization and the matching transfer, to the recipient in
//! the tool's verified manifest and for at least its price. It counts once, for one tool only. One report is about one call. A signature
//! without a payment names no tool and costs nothing: it is counted separately and never affects ranking.
//!
//! `settlement.rs` verifies payments and `signed.rs` signatures, `count.rs` and `creator.rs` write, `pending.rs` keeps reports that are
//! not final yet, `payee.rs` attributes payments to recipients, and `activity.rs` reads. Authentication and rate limits of reporters are
//! the directory's job.

use alloy_primitives::keccak256;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, usage as code};
use toolcrib_core::url::HttpsUrl;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_x402::usage::{Subject, Submission, UsageProof};

use crate::model::{ToolKey, ToolView};
use crate::tools::text_key;
use crate::{Chains, Error, Index};

mod activity;
mod count;
mod creator;
mod payee;
mod pending;
mod settlement;
mod signed;

pub use activity::{Activity, MAX_ACTIVITY, PaymentStats};
pub(crate) use creator::doublings;
pub(crate) use payee::note_many;
pub use payee::note_payees;
pub use pending::{MAX_PENDING_PER_TOOL, NOT_FOUND_SECONDS, PENDING_BATCH, PENDING_SECONDS, settle_pending};
pub use settlement::JUDGE_TIMEOUT;
pub use signed::SKEW_SECONDS;

use count::Call;
use pending::Wait;

/// `index_usage` has a row for each proven call. `claim` is the hash of what counts once: chain, token, payer and nonce, and also the tool
/// if nothing was paid. `counts` is false for calls that the tool's owner paid. `index_usage_payer` has a row for each account that paid a
/// tool, so that distinct payers are counted without reading all calls. `index_payee` maps recipients to tools.
///
/// `index_creator_payer` has a row for each account that paid any tool of a creator, and `index_creator_total` their number.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: "CREATE TABLE index_usage (id TEXT NOT NULL PRIMARY KEY, claim BYTES NOT NULL UNIQUE, registry BIGINT NOT NULL,
        tool BYTES NOT NULL, paid BOOLEAN NOT NULL, counts BOOLEAN NOT NULL, chain BIGINT NOT NULL, token BYTES NOT NULL, payer BYTES NOT NULL,
        nonce BYTES NOT NULL, seller BYTES NOT NULL, amount BYTES NOT NULL, transaction_hash BYTES, at BIGINT NOT NULL,
        reported_at BIGINT NOT NULL, latency_ms BIGINT);
    CREATE INDEX index_usage_tool ON index_usage (registry, tool, counts, at);
    CREATE TABLE index_usage_payer (registry BIGINT NOT NULL, tool BYTES NOT NULL, payer BYTES NOT NULL, PRIMARY KEY (registry, tool, payer));
    CREATE TABLE index_usage_pending (id TEXT NOT NULL PRIMARY KEY, registry BIGINT NOT NULL, tool BYTES NOT NULL, chain BIGINT NOT NULL,
        caller BYTES NOT NULL, transaction_hash BYTES NOT NULL, latency_ms BIGINT, reported_at BIGINT NOT NULL, tries BIGINT NOT NULL,
        next_at BIGINT NOT NULL);
    CREATE INDEX index_usage_pending_next ON index_usage_pending (next_at);
    CREATE INDEX index_usage_pending_tool ON index_usage_pending (registry, tool);
    CREATE TABLE index_payee (chain BIGINT NOT NULL, token BYTES NOT NULL, recipient BYTES NOT NULL, registry BIGINT NOT NULL,
        tool BYTES NOT NULL, PRIMARY KEY (chain, token, recipient, registry, tool));
    CREATE INDEX index_payee_tool ON index_payee (registry, tool);",
    },
    Migration {
        version: 2,
        sql: "CREATE TABLE index_creator_payer (creator BYTES NOT NULL, payer BYTES NOT NULL, PRIMARY KEY (creator, payer)) WITHOUT ROWID;
    CREATE TABLE index_creator_total (creator BYTES NOT NULL PRIMARY KEY, payers BIGINT NOT NULL) WITHOUT ROWID;
    INSERT INTO index_creator_payer (creator, payer) SELECT DISTINCT t.creator, u.payer FROM index_usage_payer u
        JOIN index_tool t ON t.registry = u.registry AND t.tool = u.tool
        WHERE u.payer <> t.creator AND NOT EXISTS (SELECT 1 FROM index_payee p
            JOIN index_tool o ON o.registry = p.registry AND o.tool = p.tool
            WHERE p.recipient = u.payer AND o.creator = t.creator);
    INSERT INTO index_creator_total (creator, payers) SELECT creator, COUNT(*) FROM index_creator_payer GROUP BY creator;",
    },
];

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its id: the same for the same call, however often it is reported.
    pub id: String,
    /// Whether it proves a call, which then was counted.
    pub verified: bool,
    /// The kind of proof, as the report names it.
    pub verification_type: &'static str,
    /// Why it was not counted, or not yet.
    pub code: Option<Code>,
    /// The tool that it counts for, if it is known.
    pub tool: Option<ToolRef>,
}

/// The result of checking a proof.
enum Judged {
    /// It proves one of these calls, the most likely first.
    Proven(Vec<Call>),
    /// It proves nothing.
    Refused(Code),
    /// It cannot be decided yet.
    Later(Code),
}

/// Checks a report, and counts it when it proves a call. A report of a transaction that is not final yet is kept, and checked again by
/// [`settle_pending`].
pub async fn submit(index: &Index, chains: &Chains, report: &Submission, now: UnixTime) -> Result<Receipt, Error> {
    let named = match &report.subject {
        Subject::Tool(tool) => index.tool(tool).await?.ok_or(code::TOOL_UNKNOWN),
        Subject::Endpoint(endpoint) => find_endpoint(index, endpoint).await?,
    };
    let view = match named {
        Ok(view) => view,
        Err(code) => return Ok(receipt(id_of(None, &report.proof), &report.proof, Some(code), None)),
    };
    let id = id_of(Some(&view.tool), &report.proof);
    if let Some(counts) = count::known(index, &id).await? {
        return Ok(receipt(id, &report.proof, (!counts).then_some(code::SELF_PAYMENT), Some(view.tool)));
    }
    let code = match &report.proof {
        UsageProof::Settlement { caller, transaction, chain } => {
            let wait = Wait {
                id: id.clone(),
                key: view.row.key,
                chain: *chain,
                caller: *caller,
                transaction: *transaction,
                latency_ms: report.latency_ms,
                reported_at: now,
            };
            pending::look(index, chains, &view, &wait, now).await?
        }
        proof => match signed::judge(chains, &view, proof, report.chain, report.latency_ms, now) {
            Judged::Proven(calls) => count::count(index, &id, &calls, now).await?,
            Judged::Refused(code) | Judged::Later(code) => Some(code),
        },
    };
    Ok(receipt(id, &report.proof, code, Some(view.tool)))
}

fn receipt(id: String, proof: &UsageProof, code: Option<Code>, tool: Option<ToolRef>) -> Receipt {
    Receipt { id, verified: code.is_none(), verification_type: proof.verification_type(), code, tool }
}

/// Returns the id of a report: a hash of the tool and of what identifies the call, without anything that may differ when it is sent again.
fn id_of(tool: Option<&ToolRef>, proof: &UsageProof) -> String {
    let mut text = format!("toolcrib.usage.v1\n{}\n", tool.map(ToString::to_string).unwrap_or_default());
    text.push_str(&match proof {
        UsageProof::Settlement { caller, transaction, chain } => format!("paid\n{chain}\n{caller}\n{transaction}"),
        UsageProof::Authorization { authorization, .. } => format!("signed\n{}\n{}", authorization.from, authorization.nonce),
        // There is no other kind yet.
        _ => String::new(),
    });
    alloy_primitives::hex::encode(&keccak256(text)[..16])
}

const BY_ENDPOINT: &str =
    "SELECT t.registry, t.tool FROM index_listing l JOIN index_tool t ON t.registry = l.registry AND t.tool = l.tool
    WHERE l.endpoint_key IN ($1, $2) AND t.listed = $3 ORDER BY t.registered_at, t.registry, t.tool LIMIT 16";

/// Returns the only listed tool with this endpoint.
async fn find_endpoint(index: &Index, endpoint: &str) -> Result<Result<ToolView, Code>, Error> {
    let url = HttpsUrl::parse(endpoint).ok();
    let normal = url.as_ref().map_or(endpoint, HttpsUrl::normalized);
    let values = [Value::Integer(text_key(endpoint)), Value::Integer(text_key(normal)), Value::Boolean(true)];
    let mut keys = Vec::new();
    for key in ToolKey::from_rows(&index.database().fetch(BY_ENDPOINT, &values).await?) {
        keys.push(key?);
    }
    let has = |view: &ToolView| {
        let manifest = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref());
        manifest.is_some_and(|manifest| manifest.endpoint == endpoint || manifest.endpoint == normal) && view.is_listed()
    };
    let mut views: Vec<_> = index.tools(&keys).await?.into_iter().filter(has).collect();
    Ok(match (views.pop(), views.is_empty()) {
        (None, _) => Err(code::TOOL_UNKNOWN),
        (Some(view), true) => Ok(view),
        (Some(_), false) => Err(code::TOOL_AMBIGUOUS),
    })
}
