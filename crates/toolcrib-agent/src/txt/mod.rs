//! TXT sources: DNS, DNS over HTTPS in JSON, Freename's resolver, onchain records, and files.
//!
//! `.agt` is not in the public DNS root, so the source is a setting, and several can be asked concurrently
//! ([`TxtSources`]). Their responses are compared by [`compare::compare`], a pure function.

pub mod compare;
pub mod dns;
mod doh_json;
mod file;
mod freename;
mod onchain;
mod setting;
mod sources;

use std::time::Instant;

use alloy_primitives::Bytes;
use toolcrib_core::agent::txt::answers::{AnswerFault, JsonAnswer, check_size};
use toolcrib_core::codes::Code;
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::evidence::{Exchange, Response};

pub use doh_json::DohJsonSource;
pub use file::FileSource;
pub use freename::{FREENAME_API, FreenameSource};
pub use onchain::FnsSource;
pub use setting::{SettingError, SourceList, SourceSetting};
pub use sources::{SourceContext, TxtSources};

use crate::evidence::{Dnssec, TxtAnswer, TxtLookup};

/// Maximum number of characters of an untrusted message: enough for a sentence.
const MAX_MESSAGE_CHARS: usize = 200;

/// The response of a source without DNSSEC.
fn answer(source: &str, started: Instant, outcome: TxtLookup) -> TxtAnswer {
    TxtAnswer { source: source.to_owned(), outcome, dnssec: Dnssec::Unchecked, millis: millis(started) }
}

fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A failed lookup. The message may contain untrusted text.
fn failed(code: Code, message: &str) -> TxtLookup {
    let short: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    TxtLookup::Failed { code: code.id().to_owned(), message: escape_for_display(&short) }
}

/// Records within the limits of one name; a longer list is a failure and is never truncated.
fn records(found: Vec<Vec<u8>>) -> TxtLookup {
    if let Err(fault) = check_size(&found) {
        return failed(fault.code, &fault.message);
    }
    if found.is_empty() { TxtLookup::NoRecords } else { TxtLookup::Records(found.into_iter().map(Bytes::from).collect()) }
}

/// Converts the response of a JSON API.
fn from_json(answer: Result<JsonAnswer, AnswerFault>) -> TxtLookup {
    match answer {
        Ok(JsonAnswer::Records(found)) => records(found),
        Ok(JsonAnswer::NoRecords) => TxtLookup::NoRecords,
        Ok(JsonAnswer::NotFound) => TxtLookup::NotFound,
        Err(fault) => failed(fault.code, &fault.message),
    }
}

/// The response of an exchange, or its transport failure.
fn response(exchange: &Exchange) -> Result<&Response, TxtLookup> {
    match (&exchange.failure, exchange.complete()) {
        (None, Some(response)) => Ok(response),
        (Some(failure), _) => Err(failed(failure.code, &failure.detail)),
        (None, None) => Err(failed(toolcrib_core::codes::fetch::CLOSED_EARLY, "no response came")),
    }
}
