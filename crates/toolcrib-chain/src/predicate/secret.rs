//! Secrets that are about to be shown to a node.
//!
//! The `data` of an access check is public: nodes see it, and a transaction shows it to everybody. Types keep our own secrets
//! out, as [`crate::wallet::Secret`] turns into no bytes. This looks at bytes that a person gives, for the forms that keys and
//! credentials come in. It finds mistakes, not intent.

/// What kind of secret some bytes hold, if they look like one.
///
/// Attestations of issuers are shown on purpose, so a bare JWT is not one of them.
///
/// ```compile_fail,E0308
/// // A secret cannot be passed for data.
/// # async fn show(registry: toolcrib_chain::registry::Registry, secret: toolcrib_chain::wallet::Secret) {
/// registry.access(Default::default(), Default::default(), secret).await;
/// # }
/// ```
pub fn secret_in(data: &[u8]) -> Option<&'static str> {
    /// Text, in lower case, and what it is.
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
