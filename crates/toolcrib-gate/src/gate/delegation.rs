//! Delegated calls: an agent's key signs, and the access of the account that has delegated to it is checked.

use alloy_primitives::{Address, hex};
use axum::http::{HeaderMap, StatusCode};
use toolcrib_core::codes;
use toolcrib_x402::header::X_DELEGATE_FOR;

use super::access::AccessCheck;
use crate::answer::ErrorResponse;

/// Returns the account whose access the caller wants to use. A gate that does not check delegations refuses the header, because a caller
/// that sends it relies on it.
pub(crate) fn read(headers: &HeaderMap, access: Option<&AccessCheck>) -> Result<Option<Address>, ErrorResponse> {
    let refused = |code| ErrorResponse::new(StatusCode::BAD_REQUEST, code);
    let mut values = headers.get_all(X_DELEGATE_FOR).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if !access.is_some_and(AccessCheck::takes_delegates) {
        return Err(refused(codes::access::NO_DELEGATION));
    }
    let digits = value.as_bytes().trim_ascii().strip_prefix(b"0x");
    let account = digits.and_then(|digits| hex::decode(digits).ok()).and_then(|bytes| Address::try_from(&bytes[..]).ok());
    match account.filter(|account| !account.is_zero()) {
        Some(account) if values.next().is_none() => Ok(Some(account)),
        _ => Err(refused(codes::access::DELEGATE_FOR)),
    }
}
