use proptest::prelude::*;

use super::legacy::MAX_LEGACY_DESCRIPTION;
use super::*;
use crate::agent::{AgentManifest, AgtDomain, PricingModel, TxtChange, migrate};
use crate::checked::parse;
use crate::clock::UnixTime;
use crate::codes::Code;
use crate::codes::agent as code;
use crate::finding::Mode;

/// The raw sha2-256 CID of a small file, and the same in dag-pb.
const CID: &str = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";
const OTHER: &str = "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha";

fn pointer(cid: &str) -> String {
    format!("agt-manifest=ipfs://{cid}")
}

fn codes_of(reading: &TxtReading) -> Vec<(Code, &str)> {
    reading.findings.iter().map(|finding| (finding.code, finding.pointer.as_str())).collect()
}

/// Expects a pointer to `CID`, with exactly these findings.
#[track_caller]
fn leads(records: &[&str], expected: &[(Code, &str)]) {
    let reading = parse_records(records);
    assert_eq!(reading.outcome, TxtOutcome::Pointer(CidText(CID.to_owned())), "{records:?}");
    assert_eq!(codes_of(&reading), expected, "{records:?}");
}

/// Expects a rejection, with exactly these findings.
#[track_caller]
fn refused(records: &[&str], expected: &[(Code, &str)]) {
    let reading = parse_records(records);
    assert_eq!(reading.outcome, TxtOutcome::Refused, "{records:?}");
    assert_eq!(codes_of(&reading), expected, "{records:?}");
    assert!(reading.findings.iter().any(|finding| finding.severity == Severity::Error));
}

#[track_caller]
fn no_agent(records: &[&str], expected: &[(Code, &str)]) {
    let reading = parse_records(records);
    assert_eq!(reading.outcome, TxtOutcome::NotAnAgent, "{records:?}");
    assert_eq!(codes_of(&reading), expected, "{records:?}");
}

#[track_caller]
fn legacy(records: &[&str]) -> (LegacyAgent, Vec<(Code, String)>) {
    let reading = parse_records(records);
    let TxtOutcome::Legacy(agent) = reading.outcome else { panic!("{records:?}: {reading:?}") };
    assert_eq!(reading.findings.iter().filter(|finding| finding.code == code::LEGACY).count(), 1, "always said");
    let rest = reading.findings.into_iter().filter(|finding| finding.code != code::LEGACY);
    (agent, rest.map(|finding| (finding.code, finding.pointer)).collect())
}

// req: AGT-001, AGT-002
#[test]
fn pointers() {
    let good = pointer(CID);
    let quoted = format!("\"{good}\"");
    leads(&[&good], &[]);
    leads(&[&quoted], &[]);
    leads(&["v=spf1 -all", "", &good, "google-site-verification=x"], &[]);
    leads(&[&good, &good, &quoted], &[]);
    leads(&[&good, &format!("agt-manifest=IPFS://{CID}")], &[]);
    refused(&[&good, &pointer(OTHER)], &[(code::POINTER_AMBIGUOUS, "/1")]);
    refused(
        &["x", &good, &good, &pointer(OTHER), &pointer(OTHER)],
        &[(code::POINTER_AMBIGUOUS, "/3"), (code::POINTER_AMBIGUOUS, "/4")],
    );
    refused(&[&good, "agt-manifest=https://example.com/m.json"], &[(code::POINTER_NOT_IPFS, "/1")]);
    for value in ["https://example.com/m.json", "ipns://example.agt", "/ipfs/x", CID, "ipfs:/", " ipfs://x", "ar://x", "ipfs:é/"]
    {
        refused(&[&format!("agt-manifest={value}")], &[(code::POINTER_NOT_IPFS, "/0")]);
    }
    refused(&["agt-manifest="], &[(code::POINTER_CID, "/0")]);
    for cid in [
        "",
        "{cid}",
        "<cid>",
        "bafk...",
        "hello",
        &CID[..40],
        &format!("b{}", CID[1..].to_uppercase()),
        &format!("{CID} "),
        &format!(" {CID}"),
        &format!("{CID}1"),
        "Qm",
        &format!("b{}", "a".repeat(200)),
    ] {
        refused(&[&pointer(cid)], &[(code::POINTER_CID, "/0")]);
    }
    for tail in ["/", "/manifest.json", "?format=raw", "#x"] {
        refused(&[&pointer(&format!("{CID}{tail}"))], &[(code::POINTER_PATH, "/0")]);
    }
    refused(&[&pointer("QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ")], &[(code::POINTER_CID_V0, "/0")]);
    for key in ["AGT-Manifest=", "agt-Manifest=", " agt-manifest=", "agt-manifest =", "\"agt-manifest="] {
        no_agent(&[&format!("{key}ipfs://{CID}")], &[(code::TXT_KEY, "/0")]);
    }
    no_agent(&[&format!("x{good}"), "agt", "agtmanifest=ipfs://x", ""], &[]);
    no_agent(&[], &[]);
}

// req: AGT-002
#[test]
fn other_bases_of_a_cid() {
    // The same CID in base58btc, base16, base36 and base64url is valid too; only the format is checked here.
    for cid in [
        CID.to_owned(),
        OTHER.to_owned(),
        format!("f01551220{}", "ab".repeat(32)),
        format!("F01551220{}", "AB".repeat(32)),
        format!("z{}", "4".repeat(48)),
        format!("k{}", "2".repeat(55)),
        format!("u{}", "A_-9".repeat(12)),
    ] {
        assert_eq!(CidText::parse(&cid).map(|cid| cid.as_str().to_owned()), Ok(cid.clone()), "{cid}");
    }
    for cid in
        [format!("f0155{}", "xy".repeat(32)), format!("z{}", "0".repeat(48)), format!("m{}", "A".repeat(48)), "é".repeat(60)]
    {
        assert_eq!(CidText::parse(&cid).map_err(CidFault::code), Err(code::POINTER_CID), "{cid}");
    }
    let long = |bytes: usize| format!("b{}", "a".repeat(bytes - 1));
    assert!(CidText::parse(&long(MAX_CID_BYTES)).is_ok());
    assert!(CidText::parse(&long(MAX_CID_BYTES + 1)).is_err());
}

// req: AGT-003, AGT-022
#[test]
fn a_pointer_wins_over_legacy_records_and_a_broken_one_never_gives_way_to_them() {
    leads(&["agt-version=1", &pointer(CID), "agt-name=x"], &[(code::POINTER_WITH_LEGACY, "/0")]);
    leads(&["agt-future=x", &pointer(CID)], &[]);
    refused(
        &["agt-version=1", "agt-name=x", "agt-manifest=https://example.com"],
        &[(code::POINTER_WITH_LEGACY, "/0"), (code::POINTER_NOT_IPFS, "/2")],
    );
    let reading = parse_records(&[&b"agt-version=1"[..], b"agt-manifest=ipfs://\xFF"]);
    assert_eq!(reading.outcome, TxtOutcome::Refused);
    assert_eq!(codes_of(&reading), [(code::POINTER_WITH_LEGACY, "/0"), (code::POINTER_CID, "/1")]);

    let cid = CidText::parse(CID).expect("a CID");
    assert_eq!(pointer_record(&cid, &["v=spf1 -all"]), Ok(pointer(CID)));
    for left in ["agt-version=1", "\"agt-name=x\"", "agt-endpoint-mcp=https://x"] {
        let finding = pointer_record(&cid, &["v=spf1 -all", left]).expect_err(left);
        assert_eq!((finding.code, finding.severity), (code::POINTER_WITH_LEGACY, Severity::Error));
    }
}

const FULL: &[&str] = &[
    "agt-version=1",
    "agt-name=Example Agent",
    "agt-description=Answers = questions",
    "agt-icon=https://example.com/icon.png",
    "agt-website=https://example.com",
    "agt-owner=0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    "agt-protocol=mcp",
    "agt-protocol=http",
    "agt-cap=research",
    "agt-cap=summarization",
    "agt-endpoint-mcp=https://example.com/mcp?a=b",
    "agt-endpoint-http=https://example.com/api",
    "agt-pricing=freemium",
];

// req: AGT-025, AGT-026
#[test]
fn a_full_legacy_agent() {
    let (agent, findings) = legacy(FULL);
    assert_eq!(findings, []);
    assert_eq!(agent.description.as_deref(), Some("Answers = questions"), "the value may hold =");
    assert_eq!(agent.pricing, Some(PricingModel::Freemium));
    assert_eq!(agent.records, FULL);
    let domain = AgtDomain::parse("exampleagent.agt").expect("a name");
    let json = agent.to_json(Some(&domain));
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        value,
        serde_json::json!({
            "name": "Example Agent",
            "description": "Answers = questions",
            "domain": "exampleagent.agt",
            "icon": "https://example.com/icon.png",
            "website": "https://example.com",
            "owner": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
            "protocols": [
                {"id": "mcp", "endpoint": "https://example.com/mcp?a=b"},
                {"id": "http", "endpoint": "https://example.com/api"},
            ],
            "capabilities": [{"id": "research"}, {"id": "summarization"}],
            "pricing": {"model": "freemium"},
            "legacy": true,
            "verified": false,
            "source": "v0-legacy",
        })
    );
    assert_eq!(json, serde_jcs::to_string(&value).expect("canonical"), "canonical bytes");
    assert!(parse::<AgentManifest>(json.as_bytes(), Mode::Consumer).conformant().is_none(), "never taken for a manifest");
    let bare = legacy(&["agt-version=1"]).0;
    assert_eq!(bare.to_json(None), r#"{"legacy":true,"source":"v0-legacy","verified":false}"#);
}

// req: AGT-023
#[test]
fn the_sentinel_is_exact() {
    for record in ["agt-version=1", "\"agt-version=1\""] {
        legacy(&["agt-name=x", record]);
    }
    for record in ["agt-version=2", "agt-version=01", "agt-version=1 ", "agt-version= 1", "agt-version=", "agt-version=1.0"] {
        no_agent(&[record], &[(code::LEGACY_VERSION, "/0")]);
        no_agent(&["agt-name=x", record], &[(code::LEGACY_VERSION, "/1"), (code::LEGACY_VERSION, "/0")]);
    }
    for record in [" agt-version=1", "agt-version =1", "AGT-VERSION=1"] {
        no_agent(&[record], &[(code::TXT_KEY, "/0")]);
    }
    no_agent(&["agt-name=x", "agt-cap=chat"], &[(code::LEGACY_VERSION, "/0")]);
    no_agent(&["agt-future=x"], &[]);
    let (_, findings) = legacy(&["agt-version=1", "agt-version=2"]);
    assert_eq!(findings, [(code::LEGACY_VERSION, "/1".to_owned())]);
}

// req: AGT-025, AGT-026
#[test]
fn legacy_values() {
    #[track_caller]
    fn check(records: &[&str], expected_json: &str, expected: &[(Code, &str)]) {
        let all: Vec<&str> = [&["agt-version=1"], records].concat();
        let (agent, findings) = legacy(&all);
        let json = agent.to_json(None).replace(r#""legacy":true,"#, "").replace(r#""source":"v0-legacy","verified":false"#, "");
        assert_eq!(json.replace(",}", "}").replace(",,", ","), expected_json, "{records:?}");
        let expected: Vec<_> = expected.iter().map(|&(code, pointer)| (code, pointer.to_owned())).collect();
        assert_eq!(findings, expected, "{records:?}");
    }
    check(&["agt-name="], "{}", &[]);
    check(&["agt-future=1", "agt-name"], "{}", &[]);
    check(&["agt-name=a", "agt-name=b", "agt-name=a"], r#"{"name":"a"}"#, &[(code::LEGACY_REPEATED, "/2")]);
    check(&["agt-cap=chat", "agt-cap=chat"], r#"{"capabilities":[{"id":"chat"}]}"#, &[]);
    check(&["agt-cap=Chat"], "{}", &[(code::LEGACY_VALUE, "/1")]);
    check(&["agt-pricing=trial"], "{}", &[(code::LEGACY_VALUE, "/1")]);
    check(&["agt-pricing=free", "agt-pricing=paid"], r#"{"pricing":{"model":"free"}}"#, &[(code::LEGACY_REPEATED, "/2")]);
    check(&["agt-icon=javascript:alert(1)"], "{}", &[(code::LEGACY_VALUE, "/1")]);
    check(&["agt-owner=0xABCD1234..."], r#"{"owner":"0xABCD1234..."}"#, &[(code::LEGACY_VALUE, "/1")]);
    check(&["agt-protocol=mcp"], r#"{"protocols":[{"id":"mcp"}]}"#, &[]);
    check(
        &["agt-endpoint-mcp=https://x.example"],
        r#"{"protocols":[{"endpoint":"https://x.example","id":"mcp"}]}"#,
        &[(code::LEGACY_ENDPOINT, "/1")],
    );
    // The endpoint may come before the protocol: DNS records have no order.
    check(
        &["agt-endpoint-mcp=https://x.example", "agt-protocol=mcp"],
        r#"{"protocols":[{"endpoint":"https://x.example","id":"mcp"}]}"#,
        &[],
    );
    check(&["agt-endpoint-=https://x.example"], "{}", &[(code::LEGACY_VALUE, "/1")]);
    check(&["agt-endpoint-mcp=file:///x"], "{}", &[(code::LEGACY_VALUE, "/1")]);
    check(&["agt-name=\"quoted\"\u{7}"], r#"{"name":"\"quoted\"\u0007"}"#, &[]);
    let long = format!("agt-description={}", "é".repeat(MAX_LEGACY_DESCRIPTION + 1));
    assert_eq!(legacy(&["agt-version=1", &long]).1, [(code::LEGACY_VALUE, "/1".to_owned())]);
    assert_eq!(legacy(&["agt-version=1", &long[..long.len() - 2]]).1, []);
    let reading = parse_records(&[&b"agt-version=1"[..], b"agt-name=\xFF\0", b"\xFF"]);
    assert!(matches!(reading.outcome, TxtOutcome::Legacy(LegacyAgent { name: None, .. })));
    assert_eq!(codes_of(&reading), [(code::TXT_NOT_UTF8, "/1"), (code::LEGACY, "/0")]);
}

#[test]
fn too_much_is_refused_whole() {
    let many = |count: usize| vec!["agt-version=1"; count];
    assert!(matches!(parse_records(&many(MAX_RECORDS)).outcome, TxtOutcome::Legacy(_)));
    refused(&many(MAX_RECORDS + 1), &[(code::TXT_TOO_MUCH, "")]);
    let big = |bytes: usize| ["agt-version=1".to_owned(), "x".repeat(bytes - 13)];
    assert!(matches!(parse_records(&big(MAX_TOTAL_BYTES)).outcome, TxtOutcome::Legacy(_)));
    assert_eq!(parse_records(&big(MAX_TOTAL_BYTES + 1)).outcome, TxtOutcome::Refused);
    let lines = "x\n".repeat(MAX_RECORDS + 50);
    assert_eq!(parse_text(&lines).outcome, TxtOutcome::Refused);
}

#[test]
fn records_in_text_files() {
    let text = format!(
        "; a zone\n# a note\n\n  agt-name=a b  \r\nexampleagent.agt. 300 IN TXT \"agt-manifest=ipfs://{}\" \"{}\" ; end\n\
         @ TXT agt-cap=x\n\"agt-description=say \\\"hi\\\" \\\\ \\195\\169\"\nagt-website=https://x/ TXT y\nhello TXT world\nplain words here\n",
        &CID[..30],
        &CID[30..]
    );
    let records = records_from_text(&text);
    let found: Vec<_> = records.iter().map(|record| String::from_utf8_lossy(&record.bytes).into_owned()).collect();
    assert_eq!(
        found,
        [
            "agt-name=a b",
            &pointer(CID),
            "agt-cap=x",
            "agt-description=say \"hi\" \\ é",
            "agt-website=https://x/ TXT y",
            "world",
            "plain words here",
        ]
    );
    assert_eq!(&text[records[0].span.start..records[0].span.end], "agt-name=a b");

    let text = "agt-version=1\n  agt-pricing=trial\n";
    let reading = parse_text(text);
    let finding = reading.findings.iter().find(|finding| finding.code == code::LEGACY_VALUE).expect("reported");
    let span = finding.span.expect("a line");
    assert_eq!(&text[span.start..span.end], "agt-pricing=trial");
}

// req: AGT-027, AGT-028
#[test]
fn migration_drafts_a_manifest_and_says_what_becomes_of_the_records() {
    let (agent, _) = legacy(FULL);
    let domain = AgtDomain::parse("exampleagent.agt").expect("a name");
    let now = UnixTime::from_seconds(1_777_658_400);
    let migration = migrate(&agent, &domain, None, now);
    let checked = parse::<AgentManifest>(migration.draft.as_bytes(), Mode::Producer);
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let left: Vec<_> = errors.map(|finding| (finding.code, finding.pointer.as_str())).collect();
    assert_eq!(left, [(code::UNSIGNED, "/signature"), (code::PAID_MISSING, "/pricing/paid")], "{}", migration.draft);
    assert!(migration.draft.contains("\"owner\": \"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\""), "checksummed");
    assert!(migration.draft.contains("\"created_at\": \"2026-05-01T18:00:00Z\""));
    let (last, removed) = migration.changes.split_last().expect("changes");
    assert_eq!(last, &TxtChange::AddPointer, "the pointer comes last");
    assert_eq!(removed, FULL.iter().map(|record| TxtChange::Remove((*record).to_owned())).collect::<Vec<_>>());
    assert!(!migration.changes.iter().any(|change| matches!(change, TxtChange::Remove(text) if text.contains("agt-manifest"))));

    // A wrong checksum is left for the author to see; the holder on chain takes precedence over the declared owner.
    let (odd, _) = legacy(&["agt-version=1", "agt-owner=0xABCD1234...", "agt-future=1"]);
    let draft = migrate(&odd, &domain, None, now).draft;
    assert!(parse::<AgentManifest>(draft.as_bytes(), Mode::Producer).has(code::OWNER_MALFORMED));
    let holder = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().expect("an address");
    let migration = migrate(&odd, &domain, Some(holder), now);
    let checked = parse::<AgentManifest>(migration.draft.as_bytes(), Mode::Producer);
    assert_eq!(checked.findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [code::UNSIGNED]);
    assert_eq!(migration.changes.len(), 3, "keys of later versions stay");
}

proptest! {
    #[test]
    fn any_records_are_answered(
        records in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "\"?[aA]gt-(manifest|version|name|owner|icon|protocol|cap|endpoint-[a-z]{0,3}|pricing|x)=?(ipfs://)?[ -~é]{0,20}\"?"
                    .prop_map(String::into_bytes),
                Just(b"agt-version=1".to_vec()),
            ],
            0..12,
        )
    ) {
        let reading = parse_records(&records);
        if let TxtOutcome::Legacy(agent) = reading.outcome {
            let json = agent.to_json(None);
            let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            prop_assert_eq!(&value["verified"], &serde_json::Value::Bool(false));
            prop_assert_eq!(&value["legacy"], &serde_json::Value::Bool(true));
            prop_assert_eq!(serde_jcs::to_string(&value).expect("canonical"), json);
            let domain = AgtDomain::parse("a.agt").expect("a name");
            let draft = migrate(&agent, &domain, None, UnixTime::from_seconds(0)).draft;
            prop_assert!(parse::<AgentManifest>(draft.as_bytes(), Mode::Producer).has(code::UNSIGNED));
        }
    }

    #[test]
    fn any_text_is_answered(text in "(\\PC|[\"\\\\\n;0-9 ]){0,80}") {
        for record in records_from_text(&text) {
            prop_assert!(text.get(record.span.start..record.span.end).is_some());
        }
        let _ = parse_text(&text);
    }
}

#[test]
fn agent_records_are_a_set_without_quotes_and_other_records() {
    let records = ["v=spf1 -all", "\"agt-name=A\"", "agt-name=A", " AGT-Cap=ocr", "agt-version=1"];
    let expected: [&[u8]; 3] = [b" AGT-Cap=ocr", b"agt-name=A", b"agt-version=1"];
    assert_eq!(agent_records(&records).into_iter().collect::<Vec<_>>(), expected);
    assert!(is_legacy(b"\"agt-version=1\"") && is_legacy(b"agt-endpoint-mcp=x"));
    assert!(!is_legacy(b"agt-manifest=ipfs://x") && !is_legacy(b"v=spf1") && !is_legacy(b"agt-name=\xff"));
    assert!(is_pointer(b"agt-manifest=") && is_pointer(b"\"agt-manifest=x\"") && !is_pointer(b"agt-name=x"));
}
