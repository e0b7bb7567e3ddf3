//! Reading a response, with a payment or without one.

use serde_json::Value as Json;
use toolcrib_core::schema::{Echo, Validator};
use toolcrib_judge::evidence::{Exchange, Failure, Response};

use super::Paid;
use crate::CallError;

/// Returns the error of an exchange without a complete response.
pub(crate) fn no_answer(exchange: Exchange) -> CallError {
    let nothing = Failure::new(toolcrib_core::codes::probe::NO_ANSWER, "no answer came back");
    CallError::NoAnswer { failure: exchange.failure.unwrap_or(nothing) }
}

/// Returns the output of a successful response, validated against the manifest.
pub(super) fn read_output(response: &Response, outputs: Option<&Validator>, paid: Option<&Paid>) -> Result<Json, CallError> {
    let (body, paid) = (response.body.as_bytes(), || paid.cloned().map(Box::new));
    let Ok(output) = serde_json::from_slice::<Json>(body) else {
        return Err(CallError::OutputNotJson { body: body.to_vec(), paid: paid() });
    };
    let violations = outputs.map_or_else(Vec::new, |schema| schema.violations(&output, Echo::Masked));
    if violations.is_empty() { Ok(output) } else { Err(CallError::Output { violations, body: body.to_vec(), paid: paid() }) }
}
