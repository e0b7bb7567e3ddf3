//! Documents that JSON parsers interpret differently, and documents that only look strange.

use serde_json::json;
use toolcrib_agent::AgentState;
use toolcrib_core::agent::MAX_CLOCK_SKEW_SECONDS;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::time::format_rfc3339;

use crate::fixture::*;

/// The fixture with `extra` JSON text before the last brace, not signed again.
fn with_text(extra: &str) -> String {
    let good = signed(json!({}));
    format!("{},{extra}}}", &good[..good.len() - 1])
}

#[track_caller]
fn invalid(text: &str, code: &str) {
    let report = judged(&evidence(text));
    assert_eq!(report.state, AgentState::InvalidManifest, "{:#?}", report.findings);
    assert_eq!(report.findings[0].code.id(), code, "{:#?}", report.findings);
    assert!(!report.verified && report.about.is_none());
}

// req: AGT-015
#[test]
fn documents_with_two_meanings_are_invalid() {
    let owner = other().to_checksum(None);
    // A signature for one of two owners must not count for the other.
    invalid(&with_text(&format!(r#""owner":"{owner}""#)), "json.duplicate_key");
    invalid(&with_text(&format!(r#""\u006fwner":"{owner}""#)), "json.duplicate_key");
    invalid(&with_text(r#""signature":"0x00""#), "json.duplicate_key");
    invalid(&with_text(r#""x":{"a":1,"a":2}"#), "json.duplicate_key");
    invalid(&with_text(r#""x":"\ud800""#), "json.lone_surrogate");
    invalid(&with_text(r#""x":1E400"#), "json.number_overflow");
    invalid(&with_text(&format!(r#""x":{}{}"#, "[".repeat(200), "]".repeat(200))), "json.too_deep");
    let good = signed(json!({}));
    invalid(&format!("\u{feff}{good}"), "json.bom");
    invalid(&format!("{good}{{}}"), "json.trailing_bytes");
    invalid(&format!("{good}\0"), "json.trailing_bytes");
    invalid(&format!("[{good}]"), "manifest.not_an_object");
    invalid("", "json.empty");
    invalid("<html>not here</html>", "json.syntax");
    invalid(&good.replace("Example Agent", &"x".repeat(300_000)), "json.too_large");
}

// req: AGT-004
#[test]
fn other_versions_are_invalid_even_if_signed() {
    for version in [json!("2.0"), json!("3.0"), json!("1"), json!("1.0.0"), json!("")] {
        invalid(&signed(json!({"agt": version})), "agent.version_unsupported");
    }
    invalid(&signed(json!({"agt": 1.0})), "manifest.wrong_type");
    invalid(&signed(json!({"agt": null})), "manifest.field_missing");
    for created_at in ["yesterday", "2026-05-01", "2026-02-30T00:00:00Z"] {
        invalid(&signed(json!({"created_at": created_at})), "agent.created_at_malformed");
    }
    invalid(&signed(json!({"created_at": "2026-05-01T18:00:00"})), "agent.created_at_no_offset");
    invalid(&signed(json!({"created_at": null})), "manifest.field_missing");
}

// req: AGT-015, AGT-016
#[test]
fn strange_documents_with_one_meaning_are_verified() {
    let verified = |text: &str| assert_verified(&judged(&evidence(&sign_text(text, &keys().0))));
    let unsigned = |extra: &str| {
        let text = fields(json!({})).to_string();
        format!("{},{extra}}}", &text[..text.len() - 1])
    };
    verified(&unsigned(r#""x":{"signature":"kept","list":[{"signature":1}]}"#));
    verified(&unsigned(r#""x":[1e21,-0,0.10,5e-324,0.1,100000000000000000000]"#));
    verified(&unsigned(r#""x":0.30000000000000004"#));
    verified(&unsigned("\"\u{ff01}\":1,\"\u{1f916}\":2"));
    // JSON parsers round such a number, so two texts of it have the same signature; that is a warning.
    verified(&unsigned(r#""x":9007199254740993"#));
    let imprecise = judged(&evidence(&sign_text(&unsigned(r#""x":9007199254740993"#), &keys().0)));
    assert!(imprecise.has(codes::json::NUMBER_IMPRECISE));
    verified(&unsigned("\"x\":\"é\""));
    verified(&unsigned("\"x\":\"e\u{301}\""));
    // They look the same, but are different contents: nothing is normalised before signing.
    let composed = sign_text(&unsigned("\"x\":\"é\""), &keys().0);
    let decomposed = composed.replace("\"x\":\"é\"", "\"x\":\"e\u{301}\"");
    assert_ne!(composed, decomposed);
    assert_failed(&judged(&evidence(&decomposed)), AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
    // Formatting and order are not signed.
    let good = signed(json!({}));
    let value: serde_json::Value = serde_json::from_str(&good).expect("JSON");
    let pretty = serde_json::to_string_pretty(&value).expect("JSON");
    let report = judged(&evidence(&pretty));
    assert_verified(&report);
    let compact = judged(&evidence(&good));
    let content = |report: &toolcrib_agent::AgentReport| report.content.clone().expect("content");
    assert_ne!(content(&report).cid, content(&compact).cid);
    assert_eq!(content(&report).digest, content(&compact).digest, "the same content under two CIDs");
}

#[test]
fn two_spellings_of_a_number_are_one_content() {
    let text = fields(json!({})).to_string();
    let with = |number: &str| format!("{},\"x\":{number}}}", &text[..text.len() - 1]);
    let signed = sign_text(&with("0.1"), &keys().0);
    assert_verified(&judged(&evidence(&signed)));
    assert_verified(&judged(&evidence(&signed.replace("\"x\":0.1", "\"x\":0.10"))));
    let changed = judged(&evidence(&signed.replace("\"x\":0.1", "\"x\":0.2")));
    assert_failed(&changed, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
}

#[test]
fn times_in_the_future_are_reported() {
    let report = judged(&evidence(&signed(json!({"created_at": "2030-01-01T00:00:00Z"}))));
    assert_verified(&report);
    assert!(report.has(codes::agent::CREATED_IN_FUTURE));
    let report = judged(&evidence(&signed(json!({"created_at": "1990-01-01T00:00:00Z"}))));
    assert_verified(&report);
    assert!(report.findings.is_empty(), "the specification sets no limit to age");
    for (ahead, is_reported) in [(MAX_CLOCK_SKEW_SECONDS, false), (MAX_CLOCK_SKEW_SECONDS + 1, true)] {
        let made = format_rfc3339(UnixTime::from_seconds(NOW.seconds() + ahead)).expect("a year below 10000");
        let report = judged(&evidence(&signed(json!({ "created_at": made }))));
        assert_eq!(report.has(codes::agent::CREATED_IN_FUTURE), is_reported, "{ahead} s ahead");
    }
}

// req: AGT-009
#[test]
fn what_a_verified_manifest_risks_is_reported() {
    let endpoint = |url: &str| json!({"protocols": [{"id": "http", "endpoint": url}]});
    let report = judged(&evidence(&signed(endpoint("http://agents.toolcrib.dev/api"))));
    assert_verified(&report);
    assert!(report.has(codes::agent::ENDPOINT_PLAINTEXT) && report.conformant);
    for url in ["javascript:alert(1)", "https://user:pass@agents.toolcrib.dev/"] {
        let report = judged(&evidence(&signed(endpoint(url))));
        assert!(!report.is_usable() && report.about.is_none(), "{url} is not handed to agents");
    }
}
