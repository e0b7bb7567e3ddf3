//! Detection of secrets left in a manifest by mistake.
//!
//! Manifests are published, hashed, and passed to models: a key in one is leaked. The scanner knows the prefixes that issuers chose for
//! this very purpose, so false positives are rare; it does not guess by entropy.

use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Kind, Value};

/// Most findings of one scan.
const MAX_FINDINGS: usize = 16;

/// The format of an issuer's keys: a prefix, then a minimum number of token characters.
struct Shape {
    prefix: &'static str,
    /// Fewest characters after the prefix. Below it the text is a placeholder or a word.
    rest: usize,
    what: &'static str,
}

const fn shape(prefix: &'static str, rest: usize, what: &'static str) -> Shape {
    Shape { prefix, rest, what }
}

const SHAPES: &[Shape] = &[
    shape("sk-", 20, "an API key of a model provider"),
    shape("sk_live_", 16, "a Stripe secret key"),
    shape("rk_live_", 16, "a Stripe restricted key"),
    shape("whsec_", 24, "a webhook signing secret"),
    shape("ghp_", 36, "a GitHub personal access token"),
    shape("gho_", 36, "a GitHub OAuth token"),
    shape("ghu_", 36, "a GitHub user token"),
    shape("ghs_", 36, "a GitHub app token"),
    shape("ghr_", 36, "a GitHub refresh token"),
    shape("github_pat_", 22, "a GitHub personal access token"),
    shape("glpat-", 20, "a GitLab access token"),
    shape("xoxa-", 10, "a Slack token"),
    shape("xoxb-", 10, "a Slack bot token"),
    shape("xoxp-", 10, "a Slack user token"),
    shape("xoxr-", 10, "a Slack refresh token"),
    shape("xoxs-", 10, "a Slack session token"),
    shape("xapp-", 10, "a Slack app token"),
    shape("AKIA", 16, "an AWS access key id"),
    shape("ASIA", 16, "an AWS temporary access key id"),
    shape("AIza", 35, "a Google API key"),
    shape("npm_", 36, "an npm token"),
    shape("hf_", 30, "a Hugging Face token"),
];

/// The shortest token that any format matches. Ordinary words are shorter and skipped at once.
const MIN_TOKEN: usize = 15;

/// Names of members that hold a private key, in lower-case letters and digits.
const PRIVATE_NAMES: &[&str] = &["privatekey", "secretkey", "signingkey", "signerkey", "walletkey", "privkey"];

/// Reports [`codes::manifest::SECRET_LIKE`] for every string below `root` that resembles a secret. The finding has the kind of secret and
/// its length, never the secret.
pub fn check(root: Value<'_>, context: &mut Context) {
    let mut left = MAX_FINDINGS;
    walk(root, false, &mut left, context);
}

/// Returns the kind of secret that `text` resembles, if any. `private` means that the member's name indicates a private key, which
/// otherwise cannot be distinguished from a hash.
pub fn kind_of_secret(text: &str, private: bool) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("a private key in PEM form");
    }
    if private && is_hex_key(text) {
        return Some("a private key of 32 bytes");
    }
    // Maximal runs of token characters, so that each character is read once for any input.
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .filter(|token| token.len() >= MIN_TOKEN)
        .find_map(|token| SHAPES.iter().find(|shape| matches(shape, token)))
        .map(|shape| shape.what)
}

/// The text that replaces a secret: only its length.
pub fn redacted(text: &str) -> String {
    format!("(redacted, {} characters)", crate::text::code_points(text))
}

/// The recursion is as deep as the document, whose depth the reader limits.
fn walk(value: Value<'_>, private: bool, left: &mut usize, context: &mut Context) {
    if *left == 0 {
        return;
    }
    match value.kind() {
        Kind::String => {
            let text = value.as_str().unwrap_or_default();
            if let Some(what) = kind_of_secret(text, private) {
                *left -= 1;
                context.report(
                    Finding::new(codes::manifest::SECRET_LIKE)
                        .at(value)
                        .message(format!("this looks like {what}"))
                        .expected("no secret in the file")
                        .got(redacted(text)),
                );
            }
        }
        Kind::Array => {
            value.as_array().into_iter().flat_map(crate::json::Array::iter).for_each(|v| walk(v, private, left, context))
        }
        Kind::Object => {
            for (key, member) in value.as_object().into_iter().flat_map(crate::json::Object::iter) {
                walk(member, private || announces_private_key(key), left, context);
            }
        }
        Kind::Null | Kind::Bool | Kind::Number => {}
    }
}

fn matches(shape: &Shape, token: &str) -> bool {
    token.strip_prefix(shape.prefix).is_some_and(|rest| {
        // Issued tokens mix letters and digits; `sk-your-key-goes-right-here` and rows of x do not.
        rest.len() >= shape.rest
            && rest.bytes().any(|b| b.is_ascii_digit())
            && rest.bytes().any(|b| b.is_ascii_alphabetic() || shape.prefix.starts_with("xox"))
            // Access key ids have a fixed length and upper case; longer words with the same start are something else.
            && (!matches!(shape.prefix, "AKIA" | "ASIA")
                || rest.len() == shape.rest && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()))
    })
}

fn announces_private_key(name: &str) -> bool {
    // Long names are prose, not names of members.
    name.len() <= 64 && {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        PRIVATE_NAMES.iter().any(|known| plain.contains(known))
    }
}

/// Thirty-two bytes in hex, but not one repeated digit, which is a placeholder.
fn is_hex_key(text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit) && digits.iter().any(|digit| digit != &digits[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mode;
    use crate::json::{self, Limits};

    /// Assembled from parts, so that repository scanners do not report it.
    fn secret(prefix: &str, length: usize) -> String {
        prefix.chars().chain("A1b2C3d4".chars().cycle().take(length)).collect()
    }

    #[track_caller]
    fn scan(source: &str) -> Vec<Finding> {
        let reading = json::read(source.as_bytes(), Limits::default());
        let document = reading.document.expect("the test source is JSON");
        let mut context = Context::new(Mode::Producer);
        check(document.root(), &mut context);
        context.findings.into_sorted()
    }

    #[test]
    fn prefixes_of_issuers_are_known_up_to_their_length() {
        for shape in SHAPES.iter().filter(|shape| !matches!(shape.prefix, "AKIA" | "ASIA")) {
            let (enough, short) = (secret(shape.prefix, shape.rest), secret(shape.prefix, shape.rest - 1));
            assert_eq!(kind_of_secret(&enough, false), Some(shape.what), "{}", shape.prefix);
            assert_eq!(kind_of_secret(&short, false), None, "{}", shape.prefix);
            assert_eq!(kind_of_secret(&format!("Bearer {enough}."), false), Some(shape.what), "{}", shape.prefix);
        }
        assert!(kind_of_secret(&format!("{}{}", "AKIA", "A1B2C3D4E5F6G7H8"), false).is_some());
        assert!(kind_of_secret(&format!("{}{}", "AKIA", "A1B2C3D4E5F6G7H8I"), false).is_none());
        assert!(kind_of_secret(&format!("{}{}", "AKIA", "a1b2c3d4e5f6g7h8"), false).is_none());
    }

    #[test]
    fn no_shape_is_shorter_than_the_shortest_token() {
        assert_eq!(SHAPES.iter().map(|shape| shape.prefix.len() + shape.rest).min(), Some(MIN_TOKEN));
    }

    #[test]
    fn words_and_placeholders_are_left_alone() {
        for calm in [
            "risk-adjusted-return-over-90-days",
            "sk-your-key-goes-here-please-paste",
            "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "xoxb-your-token-here",
            "hf_transformers",
            "-----BEGIN CERTIFICATE-----",
            "Starts with ghp_ and forty more characters",
            "AIza",
        ] {
            assert_eq!(kind_of_secret(calm, true), None, "{calm}");
        }
    }

    #[test]
    fn a_hash_is_a_key_only_where_a_name_says_so() {
        let hex = format!("0x{}", "0123456789abcdef".repeat(4));
        assert!(scan(&format!(r#"{{"txHash": "{hex}", "key": "{hex}"}}"#)).is_empty());
        for name in ["privateKey", "PRIVATE_KEY", "wallet-private-key", "signerKey"] {
            assert_eq!(scan(&format!(r#"{{"{name}": "{hex}"}}"#)).len(), 1, "{name}");
            assert_eq!(scan(&format!(r#"{{"{name}": {{"type": "string", "default": "{}"}}}}"#, &hex[2..])).len(), 1, "{name}");
        }
        assert!(scan(&format!(r#"{{"privateKey": "0x{}"}}"#, "0".repeat(64))).is_empty(), "a placeholder");
        assert!(scan(&format!(r#"{{"privateKey": "{}"}}"#, &hex[..65])).is_empty(), "63 digits");
    }

    #[test]
    fn the_secret_itself_is_never_shown() {
        let key = secret("ghp_", 36);
        let pem = "-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEE\\n-----END EC PRIVATE KEY-----";
        let findings = scan(&format!(r#"{{"a": ["x", "{key}"], "b": "{pem}"}}"#));
        assert_eq!(findings.iter().map(|finding| finding.pointer.as_str()).collect::<Vec<_>>(), ["/a/1", "/b"]);
        let shown = format!("{findings:?}");
        assert!(!shown.contains(&key) && !shown.contains(&key[..12]) && !shown.contains("MHcC"), "{shown}");
    }

    #[test]
    fn a_flood_of_secrets_is_cut() {
        let many = vec![format!("\"{}\"", secret("ghp_", 36)); MAX_FINDINGS + 1].join(",");
        assert_eq!(scan(&format!("[{many}]")).len(), MAX_FINDINGS);
    }
}
