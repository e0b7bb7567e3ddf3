//! Which URLs may be published in an export.

use toolcrib_core::codes::{agent as code, url as url_code};
use toolcrib_core::finding::Finding;
use toolcrib_core::secrets;
use toolcrib_core::url::{FaultKind, HttpsUrl, MAX_URL_BYTES, ip};

/// The allowed schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schemes {
    /// Only `https`.
    Https,
    /// `https` and `wss`.
    HttpsOrWss,
}

/// Names of query parameters that carry a credential, in lower-case letters and digits.
const CREDENTIAL_PARAMETERS: [&str; 17] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "apitoken",
    "auth",
    "authorization",
    "authtoken",
    "clientsecret",
    "credential",
    "jwt",
    "key",
    "passwd",
    "password",
    "secret",
    "sig",
    "signature",
    "token",
];

/// Returns the normalised URL if it may be published: encrypted, on a public host, without credentials.
///
/// Otherwise returns a finding without a pointer. It repeats the URL only if that cannot reveal a secret.
pub(super) fn publishable(text: &str, schemes: Schemes) -> Result<String, Box<Finding>> {
    let refused = |message: String, got: &str| Box::new(Finding::new(code::BRIDGE_ENDPOINT).message(message).got(got));
    let secret = |message: &str| refused(message.to_owned(), &secrets::redacted(text));
    // An otherwise invalid URL may contain a credential too.
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let shown = if text.contains('@') || has_credential_parameter(query) { secrets::redacted(text) } else { text.to_owned() };
    if secrets::kind_of_secret(text, false).is_some() {
        return Err(secret("a URL that holds a credential is left out"));
    }
    // The grammar supports only https; after the scheme, wss has the same syntax.
    let (behind, scheme) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") && schemes == Schemes::HttpsOrWss => {
            (format!("https://{rest}"), "wss")
        }
        _ => (text.to_owned(), "https"),
    };
    let url = HttpsUrl::parse(&behind).map_err(|fault| match fault.kind {
        FaultKind::UserInfo => secret("a URL with a user name or password is left out"),
        _ => refused(format!("a URL is left out: {fault}"), &shown),
    })?;
    if url.host_ip().is_some_and(|address| !ip::is_public(address)) {
        return Err(refused("a URL on a private address is left out".to_owned(), &shown));
    }
    let unreachable = |finding: &Finding| [url_code::RESERVED_HOST, url_code::DOTLESS_HOST].contains(&finding.code);
    if let Some(finding) = url.lints().iter().find(|finding| unreachable(finding)) {
        return Err(refused(format!("a URL is left out: {}", finding.message), &shown));
    }
    if url.query().is_some_and(has_credential_parameter) {
        return Err(secret("a URL with a credential in its query is left out"));
    }
    if url.normalized().len() > MAX_URL_BYTES {
        let bytes = url.normalized().len();
        let expected = format!("at most {MAX_URL_BYTES} bytes");
        return Err(refused(format!("a URL is left out: it is too long, expected {expected}"), &format!("{bytes} bytes")));
    }
    let rest = url.normalized().strip_prefix("https").unwrap_or_default();
    Ok(format!("{scheme}{rest}"))
}

fn has_credential_parameter(query: &str) -> bool {
    query.split(['&', ';']).any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        !value.is_empty() && CREDENTIAL_PARAMETERS.contains(&name.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn https(text: &str) -> Result<String, Box<Finding>> {
        publishable(text, Schemes::Https)
    }

    #[test]
    fn public_urls_pass_in_their_normal_form() {
        assert_eq!(https("https://a.example.com/x?q=1").unwrap(), "https://a.example.com/x?q=1");
        assert_eq!(https("HTTPS://A.Example.com:443/X").unwrap(), "https://a.example.com/X");
        assert_eq!(https("https://93.184.215.14/").unwrap(), "https://93.184.215.14/");
        assert_eq!(publishable("WSS://a.example.com/live", Schemes::HttpsOrWss).unwrap(), "wss://a.example.com/live");
        // The name of a parameter alone reveals nothing.
        assert!(https("https://a.example.com/?key=").is_ok());
        assert!(https("https://a.example.com/?keyboard=us&tokens=5").is_ok());
    }

    #[test]
    fn other_urls_are_left_out() {
        for text in [
            "http://a.example.com/",
            "wss://a.example.com/",
            "ftp://a.example.com/",
            "javascript:alert(1)",
            "a.example.com",
            "",
            "https://127.0.0.1/",
            "https://10.1.2.3/mcp",
            "https://[::1]/",
            "https://[fd00::1]/",
            "https://localhost/mcp",
            "https://router.lan/",
            "https://db.internal/",
            "https://intranet/",
            "https://a.example.com/{id}",
        ] {
            let finding = https(text).unwrap_err();
            assert_eq!(finding.code, code::BRIDGE_ENDPOINT, "{text}");
        }
        for text in ["ws://a.example.com/", "wss://192.168.0.1/", "wss://", "grpc://a.example.com"] {
            assert!(publishable(text, Schemes::HttpsOrWss).is_err(), "{text}");
        }
        let long = format!("https://a.example.com/{}", "a".repeat(MAX_URL_BYTES));
        assert!(https(&long).is_err());
    }

    #[test]
    fn credentials_are_left_out_and_never_repeated() {
        let token = format!("ghp_{}", "A1b2C3d4".repeat(5));
        for text in [
            "https://user:hunter22@a.example.com/".to_owned(),
            "https://hunter22@a.example.com/".to_owned(),
            "http://user:hunter22@a.example.com/".to_owned(),
            "http://a.example.com/?token=hunter22".to_owned(),
            "https://localhost/?token=hunter22".to_owned(),
            "https://a.example.com/?api_key=hunter22".to_owned(),
            "https://a.example.com/?a=1&Access-Token=hunter22".to_owned(),
            "https://a.example.com/?a=1;sig=hunter22".to_owned(),
            format!("https://a.example.com/{token}/mcp"),
            format!("http://a.example.com/{token}/mcp"),
        ] {
            let finding = https(&text).unwrap_err();
            let said = format!("{finding:?}");
            assert!(!said.contains("hunter22") && !said.contains(&token), "{said}");
        }
    }
}
