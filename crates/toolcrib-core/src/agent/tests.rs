#![expect(clippy::disallowed_methods, reason = "tests read vectors")]
use std::time::Duration;

use proptest::prelude::*;
use toolcrib_testkit::assert_faster_than;

use super::*;
use crate::checked::{Checked, Outcome, parse};
use crate::codes::Code;
use crate::codes::agent as code;
use crate::finding::{Mode, Severity::*};

const OWNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/// r = s = 1, v = 27: the right format, but not made by any key.
fn signature() -> String {
    format!("0x{:064x}{:064x}1b", 1, 1)
}

/// A signed manifest with every required field, and `extra` members such as `"name":"x"`. A member of `extra` replaces the required one of
/// the same name; `null` removes it.
fn manifest(extra: serde_json::Value) -> String {
    let mut fields = serde_json::json!({
        "agt": "1.0",
        "domain": "exampleagent.agt",
        "owner": OWNER,
        "created_at": "2026-05-01T18:00:00Z",
        "signature": signature(),
    });
    for (key, value) in extra.as_object().expect("members") {
        match value {
            serde_json::Value::Null => fields.as_object_mut().expect("an object").remove(key),
            value => fields.as_object_mut().expect("an object").insert(key.clone(), value.clone()),
        };
    }
    fields.to_string()
}

macro_rules! with {
    ($($json:tt)*) => { manifest(serde_json::json!({ $($json)* })) };
}

/// The findings, without the hints of other modules about URLs and schemas.
fn found(checked: &Checked<AgentManifest>) -> Vec<(Code, &str, Severity)> {
    let findings = checked.findings.iter().filter(|finding| !is_foreign_hint(finding));
    findings.map(|finding| (finding.code, finding.pointer.as_str(), finding.severity)).collect()
}

fn is_foreign_hint(finding: &Finding) -> bool {
    finding.severity == Hint && (finding.code.id().starts_with("url.") || finding.code.id().starts_with("schema."))
}

/// Expects exactly these findings, in this order, for producers and consumers.
#[track_caller]
fn check(text: &str, expected: &[(Code, &str, Severity)]) {
    for mode in [Mode::Producer, Mode::Consumer] {
        let checked = parse::<AgentManifest>(text.as_bytes(), mode);
        let excerpt = text.get(..1000).unwrap_or(text);
        assert_eq!(found(&checked), expected, "{mode:?}: {excerpt}");
        let clean = expected.iter().all(|&(_, _, severity)| severity != Error);
        assert_eq!(checked.conformant().is_some(), clean, "{mode:?}: {excerpt}");
        for finding in &checked.findings {
            assert!(finding.span.is_some() || finding.code == code::LARGE, "{finding:?}");
        }
    }
}

#[track_caller]
fn finding(text: &str, mode: Mode) -> Finding {
    let mut checked = parse::<AgentManifest>(text.as_bytes(), mode);
    checked.findings.retain(|finding| !is_foreign_hint(finding));
    assert_eq!(checked.findings.len(), 1, "{:?}", checked.findings);
    checked.findings.remove(0)
}

/// The unsigned document after applying its only fix.
#[track_caller]
fn fixed(text: &str) -> String {
    assert!(finding(text, Mode::Producer).fix.is_none(), "what is signed is left alone");
    let member = format!(",\"signature\":\"{}\"", signature());
    let at = text.find(&member).expect("a signature");
    let draft = text.replacen(&member, "", 1);
    let findings = parse::<AgentManifest>(draft.as_bytes(), Mode::Producer).findings;
    let mut fixes = findings.iter().filter_map(|finding| finding.fix.as_ref());
    let (Some(fix), None) = (fixes.next(), fixes.next()) else { panic!("one fix: {findings:?}") };
    let [edit] = &fix.edits[..] else { panic!("one edit: {fix:?}") };
    let mended = format!("{}{}{}", &draft[..edit.span.start], edit.replacement, &draft[edit.span.end..]);
    let at = if edit.span.start < at { at + mended.len() - draft.len() } else { at };
    format!("{}{member}{}", &mended[..at], &mended[at..])
}

/// The example of the specification, used as a test vector.
const SPEC_EXAMPLE: &str = r#"{
  "agt": "1.0",
  "domain": "exampleagent.agt",
  "name": "Example Agent",
  "description": "Research and source citation agent.",
  "icon": "https://exampleagent.example.com/icon.png",
  "website": "https://exampleagent.example.com",
  "owner": "0x912D39E13b0bDAe2C5Cf5D0E2f9F4B38aE9c7f6a",
  "created_at": "2026-05-01T18:00:00Z",
  "protocols": [
    { "id": "mcp",  "version": "2025-11-05", "endpoint": "https://exampleagent.example.com/mcp" },
    { "id": "http", "endpoint": "https://exampleagent.example.com/api/v1", "auth": "bearer" }
  ],
  "capabilities": [
    {
      "id": "research",
      "description": "Searches academic and web sources, returns a cited summary.",
      "input":  { "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] },
      "output": { "type": "object", "properties": { "summary": { "type": "string" }, "sources": { "type": "array" } } }
    },
    { "id": "summarization" }
  ],
  "pricing": {
    "model": "freemium",
    "free_tier": "10 queries/day",
    "paid": { "currency": "USD", "amount": "0.01", "unit": "per_request" }
  },
  "signature": "0x7f3e8d4c..."
}"#;

// req: AGT-029
#[test]
fn the_example_of_the_specification_has_a_wrong_checksum_and_no_signature() {
    check(SPEC_EXAMPLE, &[(code::OWNER_CHECKSUM, "/owner", Error), (code::SIGNATURE_PLACEHOLDER, "/signature", Error)]);
    let checked = parse::<AgentManifest>(SPEC_EXAMPLE.as_bytes(), Mode::Producer);
    assert!(matches!(checked.outcome, Outcome::Flawed(_)), "its structure reads, and it has canonical bytes");
    let checksum = checked.findings.iter().find(|finding| finding.code == code::OWNER_CHECKSUM).expect("reported");
    assert!(checksum.fix.is_none(), "a wrong checksum may be a wrong digit");
    assert!(checksum.expected.as_ref().is_some_and(|text| text.starts_with("0x912D39E13B0BdAE2C5cf5d0e2f9f4B38aE9C7f6A")));

    let mended = SPEC_EXAMPLE
        .replace("0x912D39E13b0bDAe2C5Cf5D0E2f9F4B38aE9c7f6a", "0x912D39E13B0BdAE2C5cf5d0e2f9f4B38aE9C7f6A")
        .replace("0x7f3e8d4c...", &signature());
    let sealed = parse::<AgentManifest>(mended.as_bytes(), Mode::Producer).into_result().expect("conformant");
    assert_eq!(sealed.domain().as_str(), "exampleagent.agt");
    assert_eq!(sealed.owner().to_checksum(None), "0x912D39E13B0BdAE2C5cf5d0e2f9f4B38aE9C7f6A");
    assert_eq!(sealed.created_at().seconds(), 1_777_658_400);
    assert_eq!(sealed.signature().to_string(), signature());
    assert_eq!(sealed.name(), Some("Example Agent"));
    assert_eq!(sealed.description(), Some("Research and source citation agent."));
    assert_eq!(sealed.icon(), Some("https://exampleagent.example.com/icon.png"));
    assert_eq!(sealed.website(), Some("https://exampleagent.example.com"));
    let protocols: Vec<_> = sealed.protocols().map(|p| (p.id(), p.endpoint(), p.version(), p.auth())).collect();
    assert_eq!(
        protocols,
        [
            ("mcp", "https://exampleagent.example.com/mcp", Some("2025-11-05"), None),
            ("http", "https://exampleagent.example.com/api/v1", None, Some("bearer")),
        ]
    );
    let research = sealed.capabilities().next().expect("two capabilities");
    assert_eq!((research.id(), research.known().is_some()), ("research", true));
    assert!(research.description().is_some() && research.input().is_some() && research.output().is_some());
    let pricing = sealed.pricing().expect("given");
    let paid = pricing.paid().expect("given");
    assert_eq!((pricing.model(), pricing.free_tier()), (PricingModel::Freemium, Some("10 queries/day")));
    assert_eq!((paid.currency(), paid.amount(), paid.unit(), paid.chain()), ("USD", "0.01", "per_request", None));
}

// req: AGT-004, AGT-005, AGT-006, AGT-007
#[test]
fn required_fields() {
    use codes::manifest::{FIELD_MISSING, NOT_AN_OBJECT, WRONG_TYPE};
    check(&with!(), &[]);
    for key in ["agt", "domain", "owner", "created_at"] {
        let pointer = format!("/{key}");
        check(&manifest(serde_json::json!({ key: null })), &[(FIELD_MISSING, &pointer, Error)]);
        check(&manifest(serde_json::json!({ key: [] })), &[(WRONG_TYPE, &pointer, Error)]);
        let null = with!("x": 1).replace(r#""x":1"#, &format!(r#""x":1,"{key}":null"#));
        assert!(parse::<AgentManifest>(null.as_bytes(), Mode::Consumer).has(codes::json::DUPLICATE_KEY), "{null}");
    }
    check(&with!("signature": null), &[(code::UNSIGNED, "/signature", Error)]);
    check(&with!("signature": ""), &[(code::UNSIGNED, "/signature", Error)]);
    check(&with!("signature": 5), &[(WRONG_TYPE, "/signature", Error)]);
    check("[]", &[(NOT_AN_OBJECT, "", Error)]);
    check(
        "{}",
        &[
            (FIELD_MISSING, "/agt", Error),
            (FIELD_MISSING, "/domain", Error),
            (FIELD_MISSING, "/owner", Error),
            (FIELD_MISSING, "/created_at", Error),
            (code::UNSIGNED, "/signature", Error),
        ],
    );
}

// req: AGT-004
#[test]
fn other_versions_are_named_and_never_accepted() {
    for (version, says) in [
        ("2.0", "draft 0.2"),
        ("2.1", "another draft"),
        ("3.0", "version 3"),
        ("3.1", "version 3"),
        ("1", "must be exactly 1.0"),
        ("1.0.0", "must be exactly 1.0"),
        ("v1.0", "must be exactly 1.0"),
        ("0.1.0", "TXT records"),
        ("1.1", "not 1.0"),
        ("", "not 1.0"),
        (" 1.0", "not 1.0"),
    ] {
        let text = with!("agt": version);
        check(&text, &[(code::VERSION_UNSUPPORTED, "/agt", Error)]);
        let message = finding(&text, Mode::Consumer).message;
        assert!(message.contains(says), "{version}: {message}");
    }
    // The rules of this version do not apply to a document of another draft.
    check(r#"{"agt":"3.0","name":"x.agt","endpoints":[],"updated":"x"}"#, &[(code::VERSION_UNSUPPORTED, "/agt", Error)]);
    for number in ["1.0", "1"] {
        let text = with!("agt": "X").replace(r#""X""#, number);
        check(&text, &[(codes::manifest::WRONG_TYPE, "/agt", Error)]);
        assert_eq!(fixed(&text), with!());
    }
    let two = with!("agt": 2.0);
    assert!(finding(&two, Mode::Producer).fix.is_none());
}

// req: AGT-005
#[test]
fn domains_are_canonical() {
    let malformed = |text: &str| check(text, &[(code::DOMAIN_MALFORMED, "/domain", Error)]);
    for domain in ["agt", "a.b.agt", "example.com", "", ".agt", "-.agt", "xn--abc.agt"] {
        malformed(&with!("domain": domain));
    }
    for domain in ["ExampleAgent.agt", "exampleagent.agt."] {
        let text = with!("domain": domain);
        malformed(&text);
        assert_eq!(fixed(&text), with!(), "{domain}");
    }
    malformed(&with!("domain": "münchen.agt"));
    check(&fixed(&with!("domain": "münchen.agt")), &[(code::DOMAIN_IDN, "/domain", Hint)]);
    // Homographs: Cyrillic letters among Latin ones, and a complete name that looks like ASCII.
    for (name, expected) in [
        ("p\u{430}ypal.agt", &[codes::url::MIXED_SCRIPT, codes::url::CONFUSABLE_HOST][..]),
        ("\u{430}\u{440}\u{440}\u{4cf}\u{435}.agt", &[codes::url::CONFUSABLE_HOST]),
    ] {
        let domain = AgtDomain::from_input(name).expect(name);
        let checked = parse::<AgentManifest>(with!("domain": domain.as_str()).as_bytes(), Mode::Consumer);
        assert!(checked.conformant().is_some() && checked.has(code::DOMAIN_IDN), "{name}: {:?}", checked.findings);
        for code in expected {
            let warned = checked
                .findings
                .iter()
                .any(|finding| (finding.code, finding.severity, finding.pointer.as_str()) == (*code, Warning, "/domain"));
            assert!(warned, "{name} {code}: {:?}", checked.findings);
        }
    }
}

// req: AGT-006
#[test]
fn owners_are_stricter_for_producers() {
    for owner in [OWNER.to_lowercase(), OWNER.to_uppercase().replacen('X', "x", 1)] {
        let text = with!("owner": owner);
        for (mode, severity) in [(Mode::Producer, Error), (Mode::Consumer, Warning)] {
            let finding = finding(&text, mode);
            assert_eq!((finding.code, finding.severity), (code::OWNER_NOT_CHECKSUMMED, severity));
        }
        assert_eq!(fixed(&text), with!());
        let read = parse::<AgentManifest>(text.as_bytes(), Mode::Consumer).into_result().expect("readable");
        assert_eq!(read.owner().to_checksum(None), OWNER, "the 20 bytes are what counts");
    }
    check(&with!("owner": OWNER.replace("Fd6", "fd6")), &[(code::OWNER_CHECKSUM, "/owner", Error)]);
    check(&with!("owner": format!("0x{}", "0".repeat(40))), &[(code::OWNER_ZERO, "/owner", Error)]);
    for owner in ["", "0x", "vitalik.eth", "0xABCD1234...", &OWNER[2..], &OWNER[..41]] {
        check(&with!("owner": owner), &[(code::OWNER_MALFORMED, "/owner", Error)]);
    }
}

// req: AGT-007
#[test]
fn times() {
    check(&with!("created_at": "2026-05-01T20:00:00.25+02:00"), &[]);
    check(&with!("created_at": "yesterday"), &[(code::CREATED_AT_MALFORMED, "/created_at", Error)]);
    check(&with!("created_at": "2026-02-30T00:00:00Z"), &[(code::CREATED_AT_MALFORMED, "/created_at", Error)]);
    check(&with!("created_at": "2026-05-01T18:00:00"), &[(code::CREATED_AT_NO_OFFSET, "/created_at", Error)]);
}

// req: AGT-007, AGT-016, AGT-018
#[test]
fn signatures_of_the_wrong_shape_have_their_own_reasons() {
    let good = signature();
    for (signature, code) in [
        ("0x7f3e...".to_owned(), code::SIGNATURE_PLACEHOLDER),
        (good[2..].to_owned(), code::SIGNATURE_MALFORMED),
        (format!("{good}1b"), code::SIGNATURE_MALFORMED),
        (good[..130].to_owned(), code::SIGNATURE_COMPACT),
        (good.replace("1b", "23"), code::SIGNATURE_V),
        (format!("0x{:064x}{}1b", 1, "80".repeat(32)), code::SIGNATURE_HIGH_S),
        (format!("0x{:064x}{}1b", 1, "f".repeat(64)), code::SIGNATURE_RANGE),
        (format!("0x{}", "0".repeat(130)), code::SIGNATURE_RANGE),
    ] {
        check(&with!("signature": signature), &[(code, "/signature", Error)]);
    }
    let upper = with!("signature": good.replace("1b", "1B"));
    check(&upper, &[(code::SIGNATURE_UPPERCASE, "/signature", Hint)]);
    let fix = finding(&upper, Mode::Producer).fix.expect("the signature itself is not signed");
    let edit = &fix.edits[0];
    assert_eq!(format!("{}{}{}", &upper[..edit.span.start], edit.replacement, &upper[edit.span.end..]), with!());
}

// req: AGT-008
#[test]
fn identity_fields() {
    // Emoji: one code point each, four bytes, two UTF-16 units.
    check(&with!("name": "🤖".repeat(100)), &[]);
    check(&with!("name": "🤖".repeat(101)), &[(code::NAME_LENGTH, "/name", Error)]);
    check(&with!("description": "é".repeat(280)), &[]);
    check(&with!("description": "é".repeat(281)), &[(code::DESCRIPTION_LENGTH, "/description", Error)]);
    check(&with!("name": ""), &[(code::TEXT_EMPTY, "/name", Warning)]);
    check(&with!("name": "a\u{202e}b"), &[(codes::json::INVISIBLE, "/name", Warning)]);
    check(&with!("name": "a\u{1b}[31m"), &[(codes::json::INVISIBLE, "/name", Warning)]);
    check(&with!("description": "one\ntwo"), &[]);
    for key in ["name", "description", "icon", "website"] {
        let pointer = format!("/{key}");
        check(&manifest(serde_json::json!({ key: 1 })), &[(codes::manifest::WRONG_TYPE, &pointer, Error)]);
    }
    check(&with!("icon": "https://example.com/icon.png", "website": "https://example.com"), &[]);
    check(&with!("name": "cafe\u{301}"), &[(codes::json::NOT_NFC, "/name", Warning)]);
}

// req: AGT-008
#[test]
fn unknown_fields_are_kept_and_misspelt_ones_hinted_at() {
    let text = with!("x-custom": {"a": [1]}, "valid_until": "2027-01-01T00:00:00Z");
    check(&text, &[]);
    let sealed = parse::<AgentManifest>(text.as_bytes(), Mode::Consumer).into_result().expect("conformant");
    assert!(sealed.signing_payload().expect("canonical").as_str().contains(r#""x-custom":{"a":[1]}"#), "they are signed");
    check(&with!("descripton": "x"), &[(code::FIELD_TYPO, "/descripton", Hint)]);
    check(&with!("Protocols": []), &[(code::FIELD_TYPO, "/Protocols", Hint)]);
    check(
        &with!("createdAt": "x", "created_at": null),
        &[(codes::manifest::FIELD_MISSING, "/created_at", Error), (code::FIELD_TYPO, "/createdAt", Hint)],
    );
    check(&with!("description": "x", "descripton": "x"), &[]);
    check(
        &with!("protocols": [{"id": "mcp", "endpiont": "https://example.com"}]),
        &[(codes::manifest::FIELD_MISSING, "/protocols/0/endpoint", Error), (code::FIELD_TYPO, "/protocols/0/endpiont", Hint)],
    );
}

// req: AGT-009, AGT-010
#[test]
fn protocols_and_their_endpoints() {
    use codes::manifest::{FIELD_MISSING, WRONG_TYPE};
    #[track_caller]
    fn endpoint(id: &str, endpoint: &str, expected: Option<(Code, Severity)>) {
        let expected: Vec<_> = expected.into_iter().map(|(code, severity)| (code, "/protocols/0/endpoint", severity)).collect();
        check(&with!("protocols": [{"id": id, "endpoint": endpoint}]), &expected);
    }
    endpoint("mcp", "https://example.com/mcp", None);
    endpoint("my-proto", "https://example.com/", None);
    endpoint("ws", "wss://example.com/live", None);
    endpoint("grpc", "https://example.com", None);
    endpoint("my-proto", "wss://example.com/", None);
    let plaintext = Some((code::ENDPOINT_PLAINTEXT, Warning));
    endpoint("mcp", "http://example.com/mcp", plaintext);
    endpoint("mcp", "HTTP://example.com/mcp", plaintext);
    endpoint("ws", "ws://example.com/live", plaintext);
    endpoint("ws", "http://example.com/live", plaintext);
    endpoint("grpc", "grpc://example.com", plaintext);
    endpoint("my-proto", "ws://example.com", plaintext);
    let unusual = Some((code::ENDPOINT_UNUSUAL, Hint));
    endpoint("ws", "https://example.com/live", unusual);
    endpoint("grpc", "grpcs://example.com", unusual);
    endpoint("my-proto", "nostr://example.com", unusual);
    let wrong = Some((code::ENDPOINT_SCHEME, Error));
    for text in ["", "example.com/mcp", "/mcp", "wss://example.com", "ftp://example.com", "javascript:alert(1)", "://x", "1://x"]
    {
        endpoint("mcp", text, wrong);
    }
    endpoint("my-proto", "file:///etc/passwd", wrong);
    endpoint("my-proto", "javascript://%0aalert(1)", wrong);
    endpoint("my-proto", "JavaScript:alert(1)", wrong);
    endpoint("grpc", "example.com:443", wrong);
    let stale = Some((code::ENDPOINT_STALE_CARD, Hint));
    endpoint("a2a", "https://example.com/.well-known/agent.json", stale);
    endpoint("a2a", "https://example.com/.well-known/agent.json?x=1", stale);
    endpoint("a2a", "https://example.com/.well-known/agent-card.json", None);
    endpoint("mcp", "https://example.com/.well-known/agent.json", None);

    let id = |id: &str, expected: &[(Code, &str, Severity)]| {
        check(&with!("protocols": [{"id": id, "endpoint": "https://example.com"}]), expected);
    };
    id("my-proto", &[]);
    id("acp", &[]);
    for bad in ["MCP", "my_proto", "-x", "", "a--b", "é"] {
        id(bad, &[(code::ID_MALFORMED, "/protocols/0/id", Error)]);
    }
    id("https", &[(code::ID_NEAR_MISS, "/protocols/0/id", Hint)]);
    assert_eq!(
        fixed(&with!("protocols": [{"id": "MCP", "endpoint": "https://example.com"}])),
        with!("protocols": [{"id": "mcp", "endpoint": "https://example.com"}])
    );

    check(&with!("protocols": []), &[]);
    check(&with!("protocols": {}), &[(WRONG_TYPE, "/protocols", Error)]);
    check(&with!("protocols": ["mcp"]), &[(WRONG_TYPE, "/protocols/0", Error)]);
    check(
        &with!("protocols": [{}]),
        &[(FIELD_MISSING, "/protocols/0/id", Error), (FIELD_MISSING, "/protocols/0/endpoint", Error)],
    );
    check(
        &with!("protocols": [{"id": 1, "endpoint": 2, "version": 3, "auth": 4}]),
        &[
            (WRONG_TYPE, "/protocols/0/id", Error),
            (WRONG_TYPE, "/protocols/0/endpoint", Error),
            (WRONG_TYPE, "/protocols/0/version", Error),
            (WRONG_TYPE, "/protocols/0/auth", Error),
        ],
    );
    let twice = serde_json::json!({"id": "mcp", "endpoint": "https://example.com"});
    check(&with!("protocols": [twice, twice]), &[(code::DUPLICATE_ENTRY, "/protocols/1", Warning)]);
    check(&with!("protocols": [twice, {"id": "mcp", "endpoint": "https://example.org"}]), &[]);
}

// req: AGT-009
#[test]
fn auth_is_the_name_of_a_scheme_and_never_a_secret() {
    let auth = |text: &str, expected: Option<(Code, Severity)>| {
        let expected: Vec<_> = expected.into_iter().map(|(code, severity)| (code, "/protocols/0/auth", severity)).collect();
        check(&with!("protocols": [{"id": "mcp", "endpoint": "https://example.com", "auth": text}]), &expected);
    };
    for text in ["none", "bearer", "oauth2", "signed-nonce", "x402", "ask the operator"] {
        auth(text, None);
    }
    for text in ["Bearer", "signed_nonce", "oauth"] {
        auth(text, Some((code::ID_NEAR_MISS, Hint)));
    }
    auth(&"x".repeat(64), None);
    for text in ["Bearer abcdef", "basic dXNlcjpwYXNz", "sk-123", &"x".repeat(65)] {
        auth(text, Some((code::AUTH_CREDENTIAL, Warning)));
    }
    let text = with!("protocols": [{"id": "mcp", "endpoint": "https://example.com", "auth": "Bearer s3cr3t"}]);
    assert!(!format!("{:?}", finding(&text, Mode::Producer)).contains("s3cr3t"), "findings do not repeat secrets");
    auth("", Some((code::TEXT_EMPTY, Warning)));
}

// req: AGT-011, AGT-012
#[test]
fn capabilities_and_their_ids() {
    use codes::manifest::{FIELD_MISSING, WRONG_TYPE};
    check(&with!("capabilities": [{"id": "research"}, {"id": "log-analysis"}]), &[]);
    let text = with!("capabilities": [{"id": "research"}, {"id": "log-analysis"}]);
    let sealed = parse::<AgentManifest>(text.as_bytes(), Mode::Consumer).into_result().expect("conformant");
    assert_eq!(sealed.capabilities().map(|capability| capability.known().is_some()).collect::<Vec<_>>(), [true, false]);
    check(&with!("capabilities": [{"id": "Research"}]), &[(code::ID_MALFORMED, "/capabilities/0/id", Error)]);
    check(&with!("capabilities": [{"id": "reserach"}]), &[(code::ID_NEAR_MISS, "/capabilities/0/id", Hint)]);
    check(&with!("capabilities": [{}]), &[(FIELD_MISSING, "/capabilities/0/id", Error)]);
    check(&with!("capabilities": ["chat"]), &[(WRONG_TYPE, "/capabilities/0", Error)]);
    check(
        &with!("capabilities": [{"id": "chat"}, {"id": "ocr"}, {"id": "chat"}]),
        &[(code::DUPLICATE_ENTRY, "/capabilities/2/id", Warning)],
    );
    check(&with!("capabilities": [{"id": "chat", "description": "日".repeat(200)}]), &[]);
    check(
        &with!("capabilities": [{"id": "chat", "description": "日".repeat(201)}]),
        &[(code::CAPABILITY_DESCRIPTION_LENGTH, "/capabilities/0/description", Error)],
    );
    for key in ["input", "output"] {
        let pointer = format!("/capabilities/0/{key}");
        check(&with!("capabilities": [{"id": "chat", key: {"type": "string"}}]), &[]);
        check(&with!("capabilities": [{"id": "chat", key: true}]), &[(WRONG_TYPE, &pointer, Error)]);
        check(&with!("capabilities": [{"id": "chat", key: "string"}]), &[(WRONG_TYPE, &pointer, Error)]);
    }
}

// req: AGT-013
#[test]
fn pricing_models() {
    use codes::manifest::{FIELD_MISSING, WRONG_TYPE};
    let paid = serde_json::json!({"currency": "USD", "amount": "0.01", "unit": "per_request"});
    for model in ["free", "contact"] {
        check(&with!("pricing": {"model": model}), &[]);
        check(&with!("pricing": {"model": model, "paid": paid}), &[(code::PAID_UNUSED, "/pricing/paid", Warning)]);
    }
    for model in ["paid", "freemium"] {
        check(&with!("pricing": {"model": model, "paid": paid}), &[]);
        check(&with!("pricing": {"model": model}), &[(code::PAID_MISSING, "/pricing/paid", Error)]);
        check(&with!("pricing": {"model": model, "paid": null}), &[(WRONG_TYPE, "/pricing/paid", Error)]);
    }
    for model in ["trial", "Free", ""] {
        check(&with!("pricing": {"model": model}), &[(code::PRICING_MODEL, "/pricing/model", Error)]);
    }
    check(&with!("pricing": {"model": "freemium", "free_tier": "10/day", "paid": paid}), &[]);
    check(&with!("pricing": {"model": "free", "free_tier": "10/day"}), &[(code::FREE_TIER_UNUSED, "/pricing/free_tier", Hint)]);
    check(&with!("pricing": {}), &[(FIELD_MISSING, "/pricing/model", Error)]);
    check(&with!("pricing": "free"), &[(WRONG_TYPE, "/pricing", Error)]);
}

// req: AGT-014
#[test]
fn prices() {
    use codes::manifest::{FIELD_MISSING, WRONG_TYPE};
    let price = |change: serde_json::Value, expected: Option<(Code, &str, Severity)>| {
        let mut paid = serde_json::json!({"currency": "USD", "amount": "0.01", "unit": "per_request"});
        for (key, value) in change.as_object().expect("members") {
            match value {
                serde_json::Value::Null => paid.as_object_mut().expect("an object").remove(key),
                value => paid.as_object_mut().expect("an object").insert(key.clone(), value.clone()),
            };
        }
        let pointer = expected.map(|(_, key, _)| format!("/pricing/paid/{key}")).unwrap_or_default();
        let expected: Vec<_> = expected.into_iter().map(|(code, _, severity)| (code, &*pointer, severity)).collect();
        check(&with!("pricing": {"model": "paid", "paid": paid}), &expected);
    };
    price(serde_json::json!({}), None);
    for key in ["currency", "amount", "unit"] {
        price(serde_json::json!({ key: null }), Some((FIELD_MISSING, key, Error)));
        price(serde_json::json!({ key: 1 }), Some((WRONG_TYPE, key, Error)));
    }
    price(serde_json::json!({"amount": 0.01}), Some((WRONG_TYPE, "amount", Error)));
    for amount in ["-1", "1e3", "", "1,5", "01", "$1"] {
        price(serde_json::json!({ "amount": amount }), Some((code::AMOUNT_MALFORMED, "amount", Error)));
    }
    for currency in ["EUR", "USDC", "USDC.e", "1INCH", "€"] {
        price(serde_json::json!({ "currency": currency }), None);
    }
    price(serde_json::json!({"currency": "usd"}), Some((code::CURRENCY_CASE, "currency", Hint)));
    for currency in ["", "US dollars", "US\u{200b}D", &"X".repeat(65)] {
        price(serde_json::json!({ "currency": currency }), Some((code::CURRENCY_MALFORMED, "currency", Error)));
    }
    for unit in ["per_token_in", "per_token_out", "per_minute", "per_month", "per_session", "per_page"] {
        price(serde_json::json!({ "unit": unit }), None);
    }
    price(serde_json::json!({"unit": "per-request"}), Some((code::ID_NEAR_MISS, "unit", Hint)));
    price(serde_json::json!({"unit": "per request made"}), Some((code::UNIT_MALFORMED, "unit", Error)));
    price(serde_json::json!({"unit": ""}), Some((code::UNIT_MALFORMED, "unit", Error)));
    for chain in ["polygon", "137", "eip155:137"] {
        price(serde_json::json!({ "chain": chain }), None);
    }
    price(serde_json::json!({"chain": 137}), Some((WRONG_TYPE, "chain", Error)));
    price(serde_json::json!({"chain": "Polygon PoS"}), Some((code::CHAIN_MALFORMED, "chain", Error)));
}

#[test]
fn sizes() {
    let sized = |bytes: usize| {
        let base = with!("x": "").len();
        with!("x": "a".repeat(bytes - base))
    };
    check(&sized(EVERY_READER_BYTES), &[]);
    check(&sized(EVERY_READER_BYTES + 1), &[(code::LARGE, "", Warning)]);
    check(&sized(MAX_BYTES), &[(code::LARGE, "", Warning)]);
    let beyond = parse::<AgentManifest>(sized(MAX_BYTES + 1).as_bytes(), Mode::Consumer);
    assert!(beyond.has(codes::json::TOO_LARGE) && matches!(beyond.outcome, Outcome::Unreadable));
}

/// Each of these would take many seconds if a check were quadratic and unbounded.
#[test]
fn long_lists_do_not_hang() {
    let read = |what: &str, text: &str| {
        assert_faster_than(Duration::from_secs(2), what, || parse::<AgentManifest>(text.as_bytes(), Mode::Consumer))
    };
    let list = |key: &str, entry: &dyn Fn(usize) -> String, count: usize| {
        let entries: Vec<String> = (0..count).map(entry).collect();
        with!("x": 1).replace(r#""x":1"#, &format!(r#""{key}":[{}]"#, entries.join(",")))
    };
    let distinct = list("capabilities", &|at| format!(r#"{{"id":"custom-capability-{at}"}}"#), 5000);
    read("distinct capabilities", &distinct);
    check(&distinct, &[(code::LARGE, "", Warning)]);
    let counted = |count| read("capabilities", &list("capabilities", &|at| format!(r#"{{"id":"c{at}"}}"#), count));
    assert!(counted(MAX_ENTRIES).conformant().is_some());
    assert!(counted(MAX_ENTRIES + 1).has(code::TOO_MANY_ENTRIES));
    for (key, entry, count) in [
        ("capabilities", "{}", 80_000),
        ("protocols", "{}", 80_000),
        ("capabilities", r#"{"id":"chat"}"#, 18_000),
        ("capabilities", r#"{"id":"chatt"}"#, 5_900),
        ("capabilities", r#"{"id":"é"}"#, 5_900),
        ("protocols", r#"{"id":"mcp","endpiont":1}"#, 5_900),
        ("capabilities", "7", 120_000),
    ] {
        let checked = read(&format!("{key} {entry}"), &list(key, &|_| entry.to_owned(), count));
        assert!(checked.findings.len() <= MAX_FINDINGS + 1 && !checked.findings.is_empty(), "{key} {entry}");
    }
    let typos: Vec<String> = (0..20_000).map(|at| format!(r#""name{}":1"#, char::from_u32(0x4E00 + at).expect("CJK"))).collect();
    read("misspelt fields", &format!("{{{}}}", typos.join(",")));
    let typos: Vec<String> = (0..36_u32.pow(2)).map(|at| format!(r#""descriptio{}{}":1"#, at / 36, at % 36)).collect();
    let checked = read("fields like one", &format!("{{{}}}", typos.join(",")));
    assert_eq!(checked.findings.iter().filter(|finding| finding.code == code::FIELD_TYPO).count(), MAX_TYPO_HINTS);
}

// req: AGT-015, AGT-016
#[test]
fn vectors_made_by_other_implementations() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/agent");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("vectors/agent") {
        let path = entry.expect("a file").path();
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
        let text = |key: &str| vector[key].as_str().unwrap_or_else(|| panic!("{key} in {}", path.display()));
        let checked = parse::<AgentManifest>(text("manifest").as_bytes(), Mode::Consumer);
        let sealed = checked.conformant().unwrap_or_else(|| panic!("{}: {:?}", path.display(), checked.findings));
        let payload = sealed.signing_payload().expect("canonical");
        assert_eq!(payload.as_str(), text("signing_text"), "{}", path.display());
        assert_eq!(payload.as_bytes().len() as u64, vector["signing_bytes"].as_u64().expect("a number"));
        assert_eq!(payload.digest().to_string(), text("eip191_digest"), "{}", path.display());
        assert_eq!(sealed.signature().to_string(), text("signature"));
        assert_eq!(sealed.owner().to_checksum(None), text("signer"));
        count += 1;
    }
    assert!(count >= 4, "{count} vectors");
}

// req: AGT-015
#[test]
fn shuffled_keys_sign_the_same_bytes() {
    let one = parse::<AgentManifest>(with!("name": "x", "x": {"b": 1, "a": 2}).as_bytes(), Mode::Consumer);
    let text = format!(
        r#"{{"x":{{"a":2.0,"b":1e0}},"signature":"{}","created_at":"2026-05-01T18:00:00Z","name":"\u0078","owner":"{OWNER}","agt":"1.0","domain":"exampleagent.agt"}}"#,
        signature()
    );
    let other = parse::<AgentManifest>(text.as_bytes(), Mode::Consumer);
    let payload = |checked: &Checked<AgentManifest>| checked.conformant().expect("conformant").signing_payload();
    assert_eq!(payload(&one), payload(&other));
}

// req: AGT-028
#[test]
fn templates_want_nothing_but_a_signature() {
    for name in ["exampleagent.agt", "xn--mnchen-3ya.agt", &format!("{}.agt", "a".repeat(63))] {
        let domain = AgtDomain::parse(name).expect(name);
        let text = template(&domain, OWNER.parse().expect("an address"), UnixTime::from_seconds(1_777_658_400));
        let checked = parse::<AgentManifest>(text.as_bytes(), Mode::Producer);
        let left = found(&checked).into_iter().filter(|&(code, _, _)| code != code::DOMAIN_IDN);
        assert_eq!(left.collect::<Vec<_>>(), [(code::UNSIGNED, "/signature", Error)], "{text}");
        let Outcome::Flawed(document) = checked.outcome else { panic!("unsigned is flawed") };
        let signature = AgentSignature::parse(&signature()).expect("well-formed");
        let signed = signing::with_signature(&document, &signature).expect("an object");
        assert!(parse::<AgentManifest>(signed.as_bytes(), Mode::Producer).conformant().is_some(), "{signed}");
    }
    let domain = AgtDomain::parse("a.agt").expect("a name");
    let text = template(&domain, OWNER.parse().expect("an address"), UnixTime::from_seconds(i64::MAX));
    assert!(text.contains("1970-01-01T00:00:00Z"));
    assert!(text.ends_with("}\n") && text.starts_with("{\n  \"agt\": \"1.0\",\n"));
}

// req: AGT-008, AGT-009
#[test]
fn urls_follow_the_shared_grammar() {
    #[track_caller]
    fn error(text: &str, pointer: &str) {
        let checked = parse::<AgentManifest>(text.as_bytes(), Mode::Consumer);
        let errors: Vec<_> = checked.findings.iter().filter(|finding| finding.severity == Error).collect();
        assert!(!errors.is_empty(), "{text}: {:?}", checked.findings);
        for finding in errors {
            assert!(finding.code.id().starts_with("url.") && finding.pointer == pointer, "{finding:?}");
        }
    }
    for url in
        ["http://example.com/icon.png", "ipfs://x", "example.com", "", "https://user:pass@example.com", "https://127.0.0.1/"]
    {
        error(&with!("icon": url), "/icon");
        error(&with!("website": url), "/website");
    }
    for rest in ["user:pass@example.com", "10.0.0.1/mcp", "exa mple.com", ""] {
        error(&with!("protocols": [{"id": "mcp", "endpoint": format!("https://{rest}")}]), "/protocols/0/endpoint");
        error(&with!("protocols": [{"id": "mcp", "endpoint": format!("http://{rest}")}]), "/protocols/0/endpoint");
        error(&with!("protocols": [{"id": "ws", "endpoint": format!("wss://{rest}")}]), "/protocols/0/endpoint");
    }
    // A fix from the shared URL grammar must not change one scheme into another.
    let text = with!("protocols": [{"id": "ws", "endpoint": "wss://Example.com:443/"}]);
    let checked = parse::<AgentManifest>(text.as_bytes(), Mode::Producer);
    assert!(checked.findings.iter().any(|finding| finding.code.id().starts_with("url.") && finding.severity == Error));
    assert!(checked.findings.iter().all(|finding| finding.fix.is_none()), "{:?}", checked.findings);
}

// req: AGT-011
#[test]
fn schemas_follow_the_shared_rules() {
    for schema in [
        serde_json::json!({"type": "strin"}),
        serde_json::json!({"properties": {"a": "string"}}),
        serde_json::json!({"minimum": "1"}),
    ] {
        for key in ["input", "output"] {
            let text = with!("capabilities": [{"id": "chat", key: schema}]);
            let checked = parse::<AgentManifest>(text.as_bytes(), Mode::Producer);
            let prefix = format!("/capabilities/0/{key}/");
            assert!(
                checked.findings.iter().any(|finding| finding.severity == Error && finding.pointer.starts_with(&prefix)),
                "{schema}: {:?}",
                checked.findings
            );
        }
    }
}

/// A change to a text.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Delete(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    /// Puts one JSON value after a colon.
    Value(prop::sample::Index, &'static str),
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let index = any::<prop::sample::Index>;
    let values = prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1",
        "1e999",
        "\"\"",
        "[]",
        "{}",
        "[{}]",
        "[[[]]]",
        "\"\\ud800\"",
        "\"ipfs://\"",
        "\"\u{202e}\"",
        "\"1.0\"",
        "{\"id\":{}}",
        "9007199254740993",
        "\"0x\"",
    ]);
    let mutation = prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (index(), prop::collection::vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (index(), 1_usize..40).prop_map(|(at, count)| Mutation::Delete(at, count)),
        (index(), 1_usize..200).prop_map(|(at, count)| Mutation::Repeat(at, count)),
        (index(), values).prop_map(|(at, value)| Mutation::Value(at, value)),
    ];
    prop::collection::vec(mutation, 1..5)
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let from = |at: &prop::sample::Index, bytes: &[u8]| if bytes.is_empty() { 0 } else { at.index(bytes.len()) };
    match mutation {
        Mutation::Replace(at, byte) => {
            let at = from(at, bytes);
            if let Some(place) = bytes.get_mut(at) {
                *place = *byte;
            }
        }
        Mutation::Insert(at, new) => {
            let at = from(at, bytes);
            bytes.splice(at..at, new.iter().copied());
        }
        Mutation::Delete(at, count) => {
            let at = from(at, bytes);
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Mutation::Repeat(at, count) => {
            let at = from(at, bytes);
            let part = bytes[at..(at + count).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
        Mutation::Value(at, value) => {
            let colons: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b':').collect();
            if !colons.is_empty() {
                let start = colons[at.index(colons.len())] + 1;
                let end =
                    bytes[start..].iter().position(|byte| matches!(byte, b',' | b'}')).map_or(bytes.len(), |end| start + end);
                bytes.splice(start..end, value.bytes());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn mutated_manifests_are_answered(changes in mutations()) {
        let mut bytes = SPEC_EXAMPLE
            .replace("0x912D39E13b0bDAe2C5Cf5D0E2f9F4B38aE9c7f6a", OWNER)
            .replace("0x7f3e8d4c...", &signature())
            .into_bytes();
        for change in &changes {
            mutate(&mut bytes, change);
        }
        for mode in [Mode::Producer, Mode::Consumer] {
            let checked = parse::<AgentManifest>(&bytes, mode);
            let errors = checked.findings.iter().any(|finding| finding.severity == Error);
            prop_assert_eq!(errors, checked.conformant().is_none(), "a verdict has its reasons: {:?}", checked.findings);
            for finding in &checked.findings {
                if let Some(span) = finding.span {
                    prop_assert!(span.start <= span.end && span.end <= bytes.len());
                }
            }
            if let Some(sealed) = checked.conformant() {
                prop_assert_eq!(sealed.document().root().get("agt").and_then(Value::as_str), Some(VERSION));
                prop_assert!(AgtDomain::parse(sealed.domain().as_str()).is_ok());
                prop_assert!(sealed.signing_payload().is_some());
                prop_assert!(sealed.protocols().all(|protocol| vocabulary::is_id(protocol.id()) && !protocol.endpoint().is_empty()));
                prop_assert!(sealed.capabilities().all(|capability| vocabulary::is_id(capability.id())));
                if let Some(pricing) = sealed.pricing() {
                    prop_assert!(!pricing.model().charges() || pricing.paid().is_some_and(|paid| pricing::is_amount(paid.amount())));
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let checked = parse::<AgentManifest>(&bytes, Mode::Consumer);
        prop_assert!(checked.conformant().is_none());
    }
}
