//! Classifies the reason of a failed settlement: whether a transaction may have been sent.
//!
//! Facilitators report failures from before and after the broadcast in the same format, and an empty transaction hash proves nothing: a
//! node can accept a transaction whose acknowledgement is lost. So only reasons that the known facilitators give before they broadcast
//! count as a refusal; for every other reason, known or not, the chain decides.

use alloy_primitives::B256;

/// The meaning of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettleReason {
    /// It is given before anything is broadcast: no money moved.
    BeforeBroadcast,
    /// The nonce is used or cancelled: this request moved no money, but another one did.
    NonceUsed,
    /// The node rejected the transaction because it has another one of the facilitator's account. This request moved no money; the other
    /// transaction may settle the same payment or be unrelated.
    NotTaken,
    /// It can be given after a broadcast, or is unknown.
    Undecided,
}

impl SettleReason {
    /// Classifies `errorReason` and `errorMessage` of a settlement response that names no transaction.
    #[must_use]
    pub(super) fn of(reason: &str, message: Option<&str>) -> Self {
        // Version 1 facilitators return the text of the exception instead of a code, those of version 2 beside it.
        let says = |any: &[&str]| {
            let holds = |text: &str| {
                let text = text.to_ascii_lowercase();
                any.iter().any(|words| text.contains(words))
            };
            holds(reason) || message.is_some_and(holds)
        };
        if NONCE_USED.contains(&reason) || says(&[AUTHORIZATION_USED]) {
            return Self::NonceUsed;
        }
        if says(NOT_TAKEN) {
            return Self::NotTaken;
        }
        // Compliance checks run first: `sanctioned_payer_kyt` and the like.
        if BEFORE_BROADCAST.contains(&reason) || (reason.ends_with("_kyt") && is_word(reason)) {
            return Self::BeforeBroadcast;
        }
        Self::Undecided
    }
}

/// The transaction in a reason: if a transaction is not mined in time, version 1 facilitators return the text of viem's exception, which is
/// the only place with its hash.
#[must_use]
pub(super) fn named_transaction(reason: &str) -> Option<B256> {
    let (_, rest) = reason.split_once("transaction with hash \"")?;
    let (hash, _) = rest.split_once('"')?;
    // Without the prefix other texts of 64 digits would count.
    hash.starts_with("0x").then(|| hash.parse().ok())?
}

fn is_word(reason: &str) -> bool {
    reason.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The words of viem's exceptions if a transaction reverts because of a used or cancelled authorization: those of `FiatToken`, in lower
/// case.
const AUTHORIZATION_USED: &str = "authorization is used or canceled";

/// The words if the node rejected a transaction because it has another one of the sender's account. A facilitator that does not manage its
/// nonces sends two settlements at the same time with the same nonce, and one of them fails like this. In lower case.
const NOT_TAKEN: &[&str] = &[
    "nonce provided for the transaction is lower than the current nonce of the account",
    "details: already known",
    "details: nonce too low",
    "details: replacement transaction underpriced",
    "details: transaction already imported",
];

/// Reasons for a used nonce.
const NONCE_USED: &[&str] = &["invalid_exact_evm_nonce_already_used", "nonce_already_used", "nonce_used"];

/// Reasons that stock facilitators give before they broadcast. `…_transaction_failed`, `settlement_pending`, `unexpected_…`,
/// `…_transaction_state` and free text are deliberately missing: those can follow a broadcast.
const BEFORE_BROADCAST: &[&str] = &[
    // The protocol's own list, and the words of version 1.
    "insufficient_funds",
    "invalid_json",
    "invalid_network",
    "invalid_payload",
    "invalid_payment",
    "invalid_payment_requirements",
    "invalid_scheme",
    "invalid_signature",
    "invalid_x402_version",
    "missing_parameters",
    "unsupported_network",
    "unsupported_scheme",
    // Checks of the `exact` scheme with EIP-3009, in the spellings of the TypeScript, Python and Go packages.
    "asset_not_deployed_contract",
    "eip6492_factory_not_allowed",
    "invalid_exact_evm_authorization_value",
    "invalid_exact_evm_eip3009_not_supported",
    "invalid_exact_evm_extra_field",
    "invalid_exact_evm_failed_to_check_deployment",
    "invalid_exact_evm_failed_to_get_network_config",
    "invalid_exact_evm_failed_to_parse_signature",
    "invalid_exact_evm_failed_to_verify_signature",
    "invalid_exact_evm_insufficient_balance",
    "invalid_exact_evm_insufficient_funds",
    "invalid_exact_evm_missing_eip712_domain",
    "invalid_exact_evm_network_mismatch",
    "invalid_exact_evm_payload",
    "invalid_exact_evm_payload_authorization_valid_after",
    "invalid_exact_evm_payload_authorization_valid_before",
    "invalid_exact_evm_payload_authorization_value",
    "invalid_exact_evm_payload_authorization_value_mismatch",
    "invalid_exact_evm_payload_missing_signature",
    "invalid_exact_evm_payload_recipient_mismatch",
    "invalid_exact_evm_payload_signature",
    "invalid_exact_evm_payload_undeployed_smart_wallet",
    "invalid_exact_evm_recipient_mismatch",
    "invalid_exact_evm_required_amount",
    "invalid_exact_evm_scheme",
    "invalid_exact_evm_signature",
    "invalid_exact_evm_signature_format",
    "invalid_exact_evm_token_name_mismatch",
    "invalid_exact_evm_token_version_mismatch",
    "invalid_exact_evm_transaction_simulation_failed",
    "invalid_exact_evm_unsupported_scheme",
    "invalid_exact_evm_verification_failed",
    "missing_eip712_domain",
    "network_mismatch",
    // Checks of hosted facilitators.
    "amount_too_low",
    "invalid_bazaar_extension",
    "kyt_risk_detected",
    "preflight_validation_failed",
    "request_blocked_by_location",
    "self_send_not_allowed",
];

#[cfg(test)]
mod tests {
    use super::*;

    // attack: T13
    #[test]
    fn only_reasons_from_before_a_broadcast_are_refusals() {
        for reason in BEFORE_BROADCAST.iter().copied().chain(["sanctioned_payer_kyt"]) {
            assert_eq!(SettleReason::of(reason, None), SettleReason::BeforeBroadcast, "{reason}");
        }
        for reason in [
            "invalid_exact_evm_nonce_already_used",
            "execution reverted: FiatTokenV2: authorization is used or canceled",
            "The contract function \"transferWithAuthorization\" reverted: FiatTokenV2: Authorization is used or canceled",
        ] {
            assert_eq!(SettleReason::of(reason, None), SettleReason::NonceUsed, "{reason}");
            let words = SettleReason::of("invalid_exact_evm_transaction_failed", Some(reason));
            assert!(words == SettleReason::NonceUsed || reason.starts_with("invalid"), "{reason}");
        }
        for reason in [
            "Nonce provided for the transaction is lower than the current nonce of the account.\nTry increasing the nonce",
            "Transaction creation failed.\n\nDetails: already known\nVersion: viem@2.57.1",
            "Transaction creation failed.\n\nDetails: replacement transaction underpriced\nVersion: viem@2.57.1",
        ] {
            assert_eq!(SettleReason::of(reason, None), SettleReason::NotTaken, "{reason}");
            let words = SettleReason::of("invalid_exact_evm_transaction_failed", Some(reason));
            assert_eq!(words, SettleReason::NotTaken, "{reason}");
        }
        for reason in [
            "",
            "x",
            "transaction_failed",
            "invalid_exact_evm_transaction_failed",
            "invalid_exact_evm_transaction_failed: nonce too low",
            "invalid_exact_evm_failed_to_execute_transfer",
            "invalid_exact_evm_failed_to_get_receipt",
            "invalid_exact_evm_transfer_event_mismatch",
            "invalid_transaction_state",
            "settle_exact_evm_transaction_confirmation_timed_out",
            "settle_exact_node_failure",
            "smart_wallet_deployment_failed",
            "duplicate_settlement",
            "unexpected_settle_error",
            "unexpected_error",
            "unknown_error",
            "Timed out while waiting for transaction with hash \"0x12\" to be confirmed.",
            "HTTP request failed. URL: https://rpc.example/ insufficient_funds",
            // A library that retries by itself reports its own transaction like this.
            "already known",
            "nonce too low",
            // Only the exact word counts: a longer text may mean anything.
            "insufficient_funds for gas",
            "Insufficient_Funds",
            "a sentence that ends in _kyt",
        ] {
            assert_eq!(SettleReason::of(reason, None), SettleReason::Undecided, "{reason}");
            assert_eq!(SettleReason::of("transaction_failed", Some(reason)), SettleReason::Undecided, "{reason}");
        }
    }

    #[test]
    fn the_text_of_an_exception_names_its_transaction() {
        let hash = B256::repeat_byte(0x5c);
        let text = |hash: &str| format!("Timed out while waiting for transaction with hash \"{hash}\" to be confirmed.");
        assert_eq!(named_transaction(&text(&hash.to_string())), Some(hash));
        for other in ["", "0x", "0x5c", &hash.to_string()[2..], &format!("{hash}00"), "0xzz"] {
            assert_eq!(named_transaction(&text(other)), None, "{other}");
        }
        for reason in ["", "settlement_pending", "transaction with hash \"", &hash.to_string()] {
            assert_eq!(named_transaction(reason), None, "{reason}");
        }
    }
}
