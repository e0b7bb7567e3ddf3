//! Why a token refuses a transfer, in codes for callers.

use toolcrib_chain::registry::Revert;

/// What a token's revert reason means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The nonce is used or cancelled.
    Used,
    /// Not valid yet.
    NotYet,
    /// All transfers are paused.
    Paused,
    /// Any other reason, as a code for callers.
    Word(&'static str),
}

/// Recognises USDC's reasons by parts of their wording.
pub(super) fn reason(revert: &Revert) -> Reason {
    let Revert::Message(text) = revert else { return Reason::Word("transfer_refused") };
    let text = text.to_ascii_lowercase();
    let known = [
        ("used or canceled", Reason::Used),
        ("not yet valid", Reason::NotYet),
        ("paused", Reason::Paused),
        ("expired", Reason::Word("expired")),
        ("invalid signature", Reason::Word("invalid_signature")),
        ("exceeds balance", Reason::Word("insufficient_funds")),
        ("blacklisted", Reason::Word("account_blocked")),
    ];
    known.into_iter().find(|(words, _)| text.contains(words)).map_or(Reason::Word("transfer_refused"), |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Bytes;
    use alloy_sol_types::{Revert as SolRevert, SolError};

    use super::*;

    #[test]
    fn reasons_of_the_token_become_words() {
        for (text, expected) in [
            ("FiatTokenV2: authorization is used or canceled", Reason::Used),
            ("FiatTokenV2: authorization is not yet valid", Reason::NotYet),
            ("FiatTokenV2: authorization is expired", Reason::Word("expired")),
            ("FiatTokenV2: invalid signature", Reason::Word("invalid_signature")),
            ("ECRecover: invalid signature 's' value", Reason::Word("invalid_signature")),
            ("ERC20: transfer amount exceeds balance", Reason::Word("insufficient_funds")),
            ("Blacklistable: account is blacklisted", Reason::Word("account_blocked")),
            ("Pausable: paused", Reason::Paused),
            ("https://node.example/key", Reason::Word("transfer_refused")),
        ] {
            let revert = Revert::decode(&SolRevert::from(text).abi_encode().into());
            assert_eq!(reason(&revert), expected, "{text}");
        }
        assert_eq!(reason(&Revert::Unknown(Bytes::new())), Reason::Word("transfer_refused"));
    }
}
