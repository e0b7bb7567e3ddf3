//! TXT sources: DNS, DNS over HTTPS in JSON, the resolver of Freename, the records onchain, and files.
//!
//! `.agt` is not in the public root of DNS, so that which source to ask is a setting, and several can be asked side by side
//! ([`TxtSources`]). What they say is compared by [`compare::compare`], a pure function.

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

/// Characters of a foreign message that are kept: enough for a sentence.
const MAX_MESSAGE_CHARS: usize = 200;

/// The answer of a source that has no DNSSEC.
fn answer(source: &str, started: Instant, outcome: TxtLookup) -> TxtAnswer {
    TxtAnswer { source: source.to_owned(), outcome, dnssec: Dnssec::Unchecked, millis: millis(started) }
}

fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A failed look-up. The message may hold untrusted text.
fn failed(code: Code, message: &str) -> TxtLookup {
    let short: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    TxtLookup::Failed { code: code.id().to_owned(), message: escape_for_display(&short) }
}

/// Records within the limits of one name; a longer list has failed and is never cut.
fn records(found: Vec<Vec<u8>>) -> TxtLookup {
    if let Err(fault) = check_size(&found) {
        return failed(fault.code, &fault.message);
    }
    if found.is_empty() { TxtLookup::NoRecords } else { TxtLookup::Records(found.into_iter().map(Bytes::from).collect()) }
}

/// The answer of a JSON interface.
fn from_json(answer: Result<JsonAnswer, AnswerFault>) -> TxtLookup {
    match answer {
        Ok(JsonAnswer::Records(found)) => records(found),
        Ok(JsonAnswer::NoRecords) => TxtLookup::NoRecords,
        Ok(JsonAnswer::NotFound) => TxtLookup::NotFound,
        Err(fault) => failed(fault.code, &fault.message),
    }
}

/// The response of an exchange, or the failure of its transport.
fn response(exchange: &Exchange) -> Result<&Response, TxtLookup> {
    match (&exchange.failure, exchange.complete()) {
        (None, Some(response)) => Ok(response),
        (Some(failure), _) => Err(failed(failure.code, &failure.detail)),
        (None, None) => Err(failed(toolcrib_core::codes::fetch::CLOSED_EARLY, "no response came")),
    }
}
