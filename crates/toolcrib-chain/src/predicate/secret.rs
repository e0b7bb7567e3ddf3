//! Detection of secrets that are about to be sent to a node.
//!
//! The `data` of an access check is public: nodes see it, and a transaction publishes it. The type system keeps our own secrets
//! out, because [`crate::wallet::Secret`] does not convert to bytes. This module checks bytes that users pass for the formats of keys and
//! credentials. It catches mistakes, not intent.

/// Returns the kind of secret that some bytes contain, if they look like one.
///
/// Issuers' attestations are sent on purpose, so a bare JWT does not count.
///
/// ```compile_fail,E0308
/// // A secret cannot be passed for data.
/// # async fn show(registry: toolcrib_chain::registry::Registry, secret: toolcrib_chain::wallet::Secret) {
/// registry.access(Default::default(), Default::default(), secret).await;
/// # }
/// ```
pub fn secret_in(data: &[u8]) -> Option<&'static str> {
    /// Lower-case text, and the kind of secret.
    const FORMS: &[(&str, &str)] = &[
        ("private key-----", "a private key in PEM form"),
        ("bearer ", "an authorization header"),
        ("basic ", "an authorization header"),
        ("authorization:", "an authorization header"),
        ("cookie:", "a cookie"),
        ("password", "a password"),
        ("api_key", "an API key"),
        ("api-key", "an API key"),
        ("apikey", "an API key"),
        ("sk-ant-", "an API key"),
        ("sk_live_", "an API key"),
        ("ghp_", "an access token"),
        ("github_pat_", "an access token"),
        ("xoxb-", "an access token"),
    ];
    let text = data.to_ascii_lowercase();
    FORMS.iter().find(|(form, _)| text.windows(form.len()).any(|window| window == form.as_bytes())).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use alloy_sol_types::SolValue;

    use super::*;

    // req: PRED-024
    #[test]
    fn credentials_are_seen_and_proofs_are_not() {
        for secret in [
            &b"-----BEGIN EC PRIVATE KEY-----\nMHc"[..],
            b"Bearer abc.def.ghi",
            b"Authorization: Basic dXNlcjpwYXNz",
            b"Cookie: session=1",
            b"{\"password\":\"hunter2\"}",
            b"\x00\x00\x20sk-ant-api03-xyz",
            b"ghp_16C7e42F292c6912E7",
        ] {
            assert!(secret_in(secret).is_some(), "{}", String::from_utf8_lossy(secret));
        }
        for proof in [
            vec![],
            U256::from(7).abi_encode(),
            vec![Address::repeat_byte(7).into_word(); 12].abi_encode(),
            [0x5a; 65].to_vec(),
            b"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIweDEifQ.c2ln".to_vec(),
        ] {
            assert_eq!(secret_in(&proof), None, "{proof:02x?}");
        }
    }
}
