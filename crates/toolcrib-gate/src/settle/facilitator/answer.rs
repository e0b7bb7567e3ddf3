//! A facilitator's response, for operators and callers.

use toolcrib_core::finding::Finding;
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::evidence::Exchange;
use toolcrib_x402::FacilitatorAnswer;

/// Longest reason that callers get.
const MAX_WORD: usize = 64;

/// Longest detail for the operator, of untrusted text: a sentence or two.
const MAX_DETAIL: usize = 300;

/// The result of a request.
#[derive(Debug)]
pub(super) enum FacilitatorReply {
    Whole { status: u16, body: Vec<u8> },
    NotSent { detail: String },
    Lost { detail: String },
}

impl FacilitatorReply {
    /// Without a connection, or without its TLS handshake, no byte of the request was sent.
    pub(super) fn of(exchange: Exchange, is_secure: bool) -> Self {
        let Exchange { connected, tls, response, failure, .. } = exchange;
        let detail = failure.as_ref().map_or_else(String::new, |failure| format!("{}: {}", failure.code, failure.detail));
        match (response, failure) {
            (Some(response), None) => Self::Whole { status: response.status, body: response.body.0 },
            _ if connected.is_none() || (is_secure && tls.is_none()) => Self::NotSent { detail },
            _ => Self::Lost { detail },
        }
    }

    pub(super) fn as_facilitator_answer(&self) -> FacilitatorAnswer<'_> {
        match self {
            Self::Whole { status, body } => FacilitatorAnswer::Answered { status: *status, body },
            Self::NotSent { .. } => FacilitatorAnswer::NotSent,
            Self::Lost { .. } => FacilitatorAnswer::Lost,
        }
    }

    /// Returns the text for the operator. It does not contain the response body, which may repeat the request.
    pub(super) fn detail(&self, findings: &[Finding]) -> String {
        let text = match self {
            Self::Whole { status, .. } => {
                let codes: Vec<_> = findings.iter().map(|finding| finding.code.to_string()).collect();
                format!("the facilitator answered with status {status} {}", codes.join(", "))
            }
            Self::NotSent { detail } => format!("the facilitator was not reached: {detail}"),
            Self::Lost { detail } => format!("the facilitator's answer was lost: {detail}"),
        };
        escape_for_display(text.trim().chars().take(MAX_DETAIL).collect::<String>().as_str())
    }
}

/// Returns a reason for callers: one short word of the facilitator, or one of this gate's. Messages of facilitators have contained URLs
/// with API keys.
pub(super) fn word(reason: Option<&str>, otherwise: &str) -> String {
    let is_word = |reason: &&str| {
        (1..=MAX_WORD).contains(&reason.len())
            && reason.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte))
    };
    reason.filter(is_word).unwrap_or(otherwise).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // attack: T23
    #[test]
    fn callers_read_words_and_nothing_else() {
        let long = "x".repeat(MAX_WORD + 1);
        for (reason, shown) in [
            ("insufficient_funds", "insufficient_funds"),
            ("invalid_exact_evm.payload-2", "invalid_exact_evm.payload-2"),
            (&long[1..], &long[1..]),
            (&long, "otherwise"),
            ("", "otherwise"),
            ("Insufficient_funds", "otherwise"),
            ("two words", "otherwise"),
            ("https://rpc.example/v2/key", "otherwise"),
            ("a\nb", "otherwise"),
            ("a\u{202e}b", "otherwise"),
            ("<script>", "otherwise"),
        ] {
            assert_eq!(word(Some(reason), "otherwise"), shown);
        }
        assert_eq!(word(None, "otherwise"), "otherwise");
    }
}
