//! `Tool` is a valid tool; each row breaks one thing and names the resulting step and code.

use alloy_primitives::{Address, B256, address};
use serde_json::{Value as Json, json};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::tool::{Logic, TYPE_V1};

use super::*;
#[cfg(feature = "attestation")]
use crate::evidence::AttestationFetch;
use crate::evidence::{
    Body, ChainReads, ConfigRead, ContractFact, Erc165, Exchange, FORMAT, Failure, Method, PredicateFacts, Proxy, ProxyKind,
    Requirements, Response, ToolConfig, ToolState,
};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const CREATOR: Address = address!("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
const URI: &str = "https://tools.example.com/.well-known/ai-tool/word-count.json";

fn manifest() -> Json {
    json!({
        "type": TYPE_V1,
        "name": "word-count",
        "description": "Counts the words of a text.",
        "endpoint": "https://tools.example.com/word-count",
        "inputs": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "outputs": {"type": "object", "properties": {"words": {"type": "integer"}}},
        "creatorAddress": format!("{CREATOR:#x}"),
    })
}

fn with(key: &str, value: Json) -> Json {
    let mut manifest = manifest();
    manifest[key] = value;
    manifest
}

fn without(key: &str) -> Json {
    let mut manifest = manifest();
    manifest.as_object_mut().expect("an object").shift_remove(key);
    manifest
}

/// Evidence of a tool whose server returns these bytes, registered with their hash if they have one.
fn serving(bytes: &[u8]) -> Evidence {
    let hash =
        ToolManifest::parse(bytes, toolcrib_core::finding::Mode::Consumer).canonical().map_or(B256::repeat_byte(7), |c| c.hash());
    let config = ToolConfig { creator: CREATOR, metadata_uri: URI.to_owned(), manifest_hash: hash, access_predicate: None };
    let mut exchange = Exchange::new(Method::Get, URI, NOW);
    exchange.addresses = vec!["93.184.215.14".parse().expect("an address")];
    exchange.connected = Some("93.184.215.14:443".parse().expect("an address"));
    exchange.response = Some(Response {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())],
        body: Body(bytes.to_vec()),
    });
    let mut evidence = Evidence::new("test", NOW);
    evidence.tool = Some(ToolRef { chain: 8453, registry: Address::repeat_byte(0x26), id: alloy_primitives::U256::from(7) });
    evidence.chain = Some(ChainReads {
        registry_code_hash: None,
        config: vec![ConfigRead { block: 100, state: ToolState::Present(config) }],
        predicate: None,
        registration: None,
    });
    evidence.manifest = Some(exchange);
    evidence
}

fn honest() -> Evidence {
    serving(manifest().to_string().as_bytes())
}

fn config(evidence: &mut Evidence) -> &mut ToolConfig {
    match &mut evidence.chain.as_mut().expect("a chain").config.last_mut().expect("a read").state {
        ToolState::Present(config) => config,
        state => panic!("{state:?}"),
    }
}

fn exchange(evidence: &mut Evidence) -> &mut Exchange {
    evidence.manifest.as_mut().expect("a fetch")
}

/// The report after serialising the evidence and parsing it again: saved evidence gives the same report.
#[track_caller]
fn report(evidence: &Evidence) -> Report {
    let direct = judge(evidence, &Policy::default(), NOW);
    let file = serde_json::to_string(evidence).expect("evidence is serialisable");
    let again: Evidence = serde_json::from_str(&file).expect("evidence is readable");
    assert_eq!(&again, evidence);
    assert_eq!(judge(&again, &Policy::default(), NOW), direct);
    direct
}

#[track_caller]
fn verified(evidence: &Evidence) -> Report {
    let report = report(evidence);
    assert!(report.verified, "{:?} {:?}", report.failed, report.findings);
    assert_eq!((report.verdict, report.checks), (Verdict::Verified, [Check::Passed; 4]));
    report
}

#[track_caller]
fn refused(evidence: &Evidence, step: Step, code: Code) -> Report {
    let report = report(evidence);
    assert!(!report.verified && report.about.is_none() && !report.is_usable());
    let failed = report.failed.unwrap_or_else(|| panic!("no reason: {:?}", report.findings));
    assert_eq!((failed.step, failed.code), (step, code), "{:?}", report.findings);
    assert_eq!(report.findings[0].code, code, "the reason comes first");
    if let Some(check) = step.check() {
        assert_eq!(report.checks[usize::from(check) - 1], Check::Failed);
    }
    assert_ne!(report.verdict, Verdict::Verified);
    report
}

// req: VERIFY-001, VERIFY-002, VERIFY-003, VERIFY-004, VERIFY-005, CREATOR-003
#[test]
fn an_honest_tool_verifies() {
    let report = verified(&honest());
    assert!(report.conformant && report.is_usable());
    let about = report.about.expect("verified and conformant");
    assert_eq!((about.name.as_str(), about.endpoint.as_str()), ("word-count", "https://tools.example.com/word-count"));
    assert!(report.claims.is_none());
    assert_eq!(report.block, Some(100));
    assert_eq!(report.hash.committed, report.hash.served);
}

// req: VERIFY-001, VERIFY-007, CREATOR-002
#[test]
fn each_spoilt_part_has_its_step() {
    use codes::{caip, json as j, manifest as m, tool, url, verify};
    let upper = "eip155:8453:0xABCDEF0123456789abcdef0123456789abcdef01";
    let usdc = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
    for (bytes, step, code) in [
        (&b"\xef\xbb\xbf{}"[..], Step::Json, j::BOM),
        (b"", Step::Json, j::EMPTY),
        (b"<!doctype html>", Step::Json, j::SYNTAX),
        (b"{} x", Step::Json, j::TRAILING_BYTES),
        (b"{\"a\": \"\xff\"}", Step::Json, j::INVALID_UTF8),
        (b"{\"a\": 1, \"\\u0061\": 2}", Step::Json, j::DUPLICATE_KEY),
        (b"{\"a\": \"\\ud800\"}", Step::Json, j::LONE_SURROGATE),
        (b"{\"a\": 1e999}", Step::Json, j::NUMBER_OVERFLOW),
        (b"[]", Step::Json, m::NOT_AN_OBJECT),
    ] {
        refused(&serving(bytes), step, code);
    }
    for (manifest, step, code) in [
        (without("endpoint"), Step::Endpoint, m::FIELD_MISSING),
        (with("endpoint", json!(7)), Step::Endpoint, m::WRONG_TYPE),
        (with("endpoint", json!("http://tools.example.com/x")), Step::Endpoint, url::NOT_HTTPS),
        (with("endpoint", json!("https://b\u{fc}cher.example/x")), Step::Endpoint, url::HOST_NOT_ASCII),
        (with("endpoint", json!("https://www.example.com/x")), Step::Origin, url::ORIGIN_HOST),
        (with("endpoint", json!("https://tools.example.com:8443/x")), Step::Origin, url::ORIGIN_PORT),
        (with("name", json!("cafe\u{301}")), Step::Canonical, j::NOT_NFC),
        (with("creatorAddress", json!(CREATOR.to_string())), Step::Canonical, tool::HEX_UPPERCASE),
        (
            with("pricing", json!([{"amount": "1", "asset": usdc, "recipient": upper, "protocol": "x402"}])),
            Step::Canonical,
            caip::UPPERCASE_HEX,
        ),
        (without("creatorAddress"), Step::Creator, m::FIELD_MISSING),
        (with("creatorAddress", json!("vitalik.eth")), Step::Creator, tool::CREATOR_GRAMMAR),
        (with("creatorAddress", json!(format!("0x{}", "0".repeat(40)))), Step::Creator, tool::CREATOR_ZERO),
        (with("creatorAddress", json!(format!("0x{}", "1f".repeat(20)))), Step::Creator, verify::CREATOR_MISMATCH),
    ] {
        refused(&serving(manifest.to_string().as_bytes()), step, code);
    }
}

// req: VERIFY-001
#[test]
fn the_earliest_failing_step_is_the_reason() {
    let mut manifest = with("endpoint", json!("https://elsewhere.example/x"));
    manifest["creatorAddress"] = json!(format!("0x{}", "1f".repeat(20)));
    let report = refused(&serving(manifest.to_string().as_bytes()), Step::Origin, codes::url::ORIGIN_HOST);
    assert_eq!(report.checks, [Check::Passed, Check::Failed, Check::Passed, Check::Failed], "and the others are told too");
}

// req: VERIFY-006, VERIFY-018
#[test]
fn a_squatter_is_named() {
    let mut evidence = honest();
    config(&mut evidence).creator = Address::repeat_byte(0xba);
    let report = refused(&evidence, Step::Creator, codes::verify::CREATOR_MISMATCH);
    assert!(report.findings[0].message.contains(&format!("{CREATOR:#x}")));
    assert!(report.findings[0].message.contains("0xbababa"));
    assert_eq!(report.checks[2], Check::Passed, "the hash alone would have let it through");
}

// req: VERIFY-004, VERIFY-019
#[test]
fn one_byte_more_is_another_hash() {
    let mut evidence = honest();
    let hash = config(&mut evidence).manifest_hash;
    let mut other = serving(with("description", json!("Counts words")).to_string().as_bytes());
    config(&mut other).manifest_hash = hash;
    let report = refused(&other, Step::Hash, codes::verify::HASH_MISMATCH);
    assert_eq!(report.hash.committed, Some(hash));
    assert!(report.claims.is_some_and(|claims| claims.name.is_some_and(|name| name.to_string() == "word-count")));
}

// req: URL-004, URL-010, URL-011, URL-012, URL-014, VERIFY-024
#[test]
fn a_bad_uri_is_refused_without_a_fetch() {
    use codes::url;
    for (uri, code) in [
        ("http://tools.example.com/.well-known/ai-tool/a.json", url::METADATA_NOT_HTTPS),
        ("ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi", url::METADATA_NOT_HTTPS),
        ("https://tools.example.com/ai-tool/a.json", url::WELL_KNOWN_PREFIX),
        ("https://tools.example.com/.well-known/ai-tool/a", url::WELL_KNOWN_SUFFIX),
        ("https://tools.example.com/.well-known/ai-tool/A.json", url::SLUG_GRAMMAR),
        ("https://tools.example.com/.well-known/ai-tool/a.json?", url::METADATA_QUERY),
        ("https://tools.example.com/.well-known/ai-tool/a.json#", url::METADATA_FRAGMENT),
        ("https://user@tools.example.com/.well-known/ai-tool/a.json", url::METADATA_MALFORMED),
        ("https://2852039166/.well-known/ai-tool/a.json", url::METADATA_MALFORMED),
    ] {
        let mut evidence = honest();
        config(&mut evidence).metadata_uri = uri.to_owned();
        evidence.manifest = None;
        let report = refused(&evidence, Step::MetadataUri, code);
        assert_eq!(report.checks, [Check::NotReached, Check::Failed, Check::NotReached, Check::NotReached], "{uri}");
    }
}

// req: URL-004, URL-007
#[test]
fn an_unnormalised_uri_is_normalised_and_noted() {
    let mut evidence = honest();
    config(&mut evidence).metadata_uri = "HTTPS://Tools.Example.com:443/.well-known/ai-tool/word-count.json".to_owned();
    let report = verified(&evidence);
    assert!(report.findings.iter().any(|finding| finding.code == codes::url::METADATA_NOT_NORMALISED));
}

// req: VERIFY-007, VERIFY-010
#[test]
fn a_failed_fetch_opens_nothing() {
    let mut evidence = honest();
    let exchange = exchange(&mut evidence);
    exchange.response = None;
    exchange.failure = Some(Failure::new(codes::json::TOO_LARGE, "too large"));
    let report = refused(&evidence, Step::Fetch, codes::json::TOO_LARGE);
    assert_eq!(report.checks[0], Check::Failed);
    assert!(!report.conformant);
}

// req: VERIFY-016, VERIFY-017
#[test]
fn a_second_read_may_rescue_and_a_third_may_not() {
    let mut evidence = honest();
    let chain = evidence.chain.as_mut().expect("a chain");
    let mut old = chain.config[0].clone();
    let ToolState::Present(config) = &mut old.state else { panic!("present") };
    config.manifest_hash = B256::repeat_byte(1);
    chain.config.insert(0, old.clone());
    let report = verified(&evidence);
    assert!(report.findings.iter().any(|finding| finding.code == codes::verify::REREAD));

    evidence.chain.as_mut().expect("a chain").config.insert(0, old);
    refused(&evidence, Step::Evidence, codes::verify::INCONSISTENT);
}

// req: VERIFY-016
#[test]
fn a_second_read_that_points_elsewhere_rescues_nothing() {
    let mut evidence = honest();
    let chain = evidence.chain.as_mut().expect("a chain");
    let mut second = chain.config[0].clone();
    let ToolState::Present(config) = &mut second.state else { panic!("present") };
    config.metadata_uri = URI.replace("word-count", "other");
    chain.config.push(second);
    refused(&evidence, Step::Hash, codes::verify::URI_CHANGED);
}

// req: VERIFY-011, VERIFY-012, VERIFY-013, VERIFY-021, VERIFY-022
#[test]
fn freshness_is_the_least_of_policy_and_max_age() {
    let at =
        |evidence: &Evidence, policy: &Policy, age: i64| judge(evidence, policy, UnixTime::from_seconds(NOW.seconds() + age));
    let honest = honest();
    assert!(at(&honest, &Policy::default(), 300).is_usable());
    let old = at(&honest, &Policy::default(), 301);
    assert!(old.verified && !old.freshness.fresh && !old.is_usable());
    assert!(old.findings.iter().any(|finding| finding.code == codes::verify::STALE));
    assert!(at(&honest, &Policy::pay(), 0).is_usable());
    assert!(!at(&honest, &Policy::pay(), 1).is_usable());

    assert!(Policy::default().with_window(MAX_WINDOW).is_some());
    assert!(Policy::default().with_window(MAX_WINDOW + 1).is_none());

    for (max_age, window) in [(json!(60), 60), (json!(9_999), 300), (json!(0), 0), (json!("60"), 300), (json!(-1), 300)] {
        let report = at(&serving(with("maxAge", max_age.clone()).to_string().as_bytes()), &Policy::default(), 0);
        assert!(report.verified, "{max_age}");
        assert_eq!(report.freshness.window, window, "{max_age}");
        assert_eq!(report.findings.iter().any(|f| f.code == codes::verify::MAX_AGE), window < 300, "{max_age}");
    }
    let early = at(&honest, &Policy::default(), -61);
    assert_eq!(
        (early.verdict, early.freshness.fresh),
        (Verdict::Unknown, false),
        "a date ahead of the clock does not stay fresh"
    );
    assert!(at(&honest, &Policy::default(), -60).is_usable());
}

#[test]
fn evidence_that_contradicts_itself_is_worth_nothing() {
    type Spoil = fn(&mut Evidence);
    let spoils: [(&str, Spoil); 9] = [
        ("another URL", |evidence| exchange(evidence).url.push('x')),
        ("another method", |evidence| exchange(evidence).method = Method::Post),
        ("another status", |evidence| exchange(evidence).response.as_mut().expect("an answer").status = 404),
        ("no answer", |evidence| exchange(evidence).response = None),
        ("a private address", |evidence| exchange(evidence).addresses.push("10.0.0.1".parse().expect("an address"))),
        ("an address of its own", |evidence| {
            exchange(evidence).connected = Some("93.184.215.15:443".parse().expect("an address"));
        }),
        ("the development world", |evidence| exchange(evidence).dev = true),
        ("no reads", |evidence| evidence.chain.as_mut().expect("a chain").config.clear()),
        ("no chain", |evidence| evidence.chain = None),
    ];
    for (name, spoil) in spoils {
        let mut evidence = honest();
        spoil(&mut evidence);
        let report = judge(&evidence, &Policy::default(), NOW);
        assert_eq!(report.failed.map(|failed| failed.code), Some(codes::verify::INCONSISTENT), "{name}");
        assert!(!report.verified, "{name}");
    }
    let mut evidence = honest();
    evidence.format = FORMAT + 1;
    refused(&evidence, Step::Evidence, codes::verify::FORMAT);
    evidence = honest();
    evidence.manifest = None;
    assert_eq!(refused(&evidence, Step::Fetch, codes::verify::NO_MANIFEST).verdict, Verdict::Unknown);
}

#[test]
fn gone_and_unknown_tools_are_told_apart() {
    for (state, code) in
        [(ToolState::NotFound, codes::chain::TOOL_NOT_FOUND), (ToolState::Deregistered, codes::chain::TOOL_DEREGISTERED)]
    {
        let mut evidence = honest();
        evidence.manifest = None;
        evidence.chain.as_mut().expect("a chain").config[0].state = state;
        assert_eq!(refused(&evidence, Step::Registration, code).verdict, Verdict::Refused);
    }
}

#[test]
fn a_url_alone_is_never_verified() {
    let mut evidence = honest();
    evidence.tool = None;
    evidence.chain = None;
    evidence.url = Some(URI.to_owned());
    let report = report(&evidence);
    assert_eq!(report.verdict, Verdict::Partial);
    assert!(!report.verified && report.conformant && report.about.is_none());
    assert_eq!(report.checks, [Check::Passed, Check::Passed, Check::NotReached, Check::NotReached]);
    assert!(report.findings.iter().any(|finding| finding.code == codes::verify::NO_CHAIN));
}

// req: VERIFY-008
#[test]
fn verified_is_not_conformant() {
    let report = verified(&serving(with("tags", json!(["same", "same"])).to_string().as_bytes()));
    assert!(!report.conformant && !report.is_usable());
    assert!(report.about.is_none() && report.claims.is_some(), "nothing of it reaches an agent");
}

// req: VERIFY-019, CANON-013
#[test]
fn a_pin_is_held_against_the_chain() {
    let mut evidence = honest();
    let hash = config(&mut evidence).manifest_hash;
    let pin = |pin| Policy { pinned_manifest: Some(pin), ..Policy::default() };
    assert!(judge(&evidence, &pin(hash), NOW).is_usable());
    let moved = judge(&evidence, &pin(B256::ZERO), NOW);
    assert!(moved.verified && !moved.is_usable());
    assert!(moved.findings.iter().any(|finding| finding.code == codes::pin::MANIFEST_HASH_CHANGED));

    let code = B256::repeat_byte(3);
    let policy = Policy { pinned_registry_code: Some(code), ..Policy::default() };
    assert_eq!(judge(&evidence, &policy, NOW).failed.map(|failed| failed.code), Some(codes::chain::REGISTRY_CODE));
    evidence.chain.as_mut().expect("a chain").registry_code_hash = Some(code);
    assert!(judge(&evidence, &policy, NOW).is_usable());
}

// req: PRED-014, PRED-015
#[test]
fn what_is_odd_about_a_predicate_is_told() {
    use codes::predicate as p;
    let address = Address::repeat_byte(0x9e);
    let facts = PredicateFacts {
        address,
        code_hash: Some(B256::repeat_byte(2)),
        proxy: None,
        erc165: Erc165::Predicate,
        name: Some("gate".to_owned()),
        version: None,
        requirements: Requirements::Listed { logic: Logic::And, entries: Vec::new() },
        contracts: Vec::new(),
    };
    let judged = |facts: PredicateFacts| {
        let mut evidence = honest();
        config(&mut evidence).access_predicate = Some(address);
        evidence.chain.as_mut().expect("a chain").predicate = Some(facts);
        verified(&evidence)
    };
    let plain = judged(facts.clone());
    assert!(plain.findings.iter().all(|finding| !finding.code.id().starts_with("predicate.")));
    for (code, facts) in [
        (p::NO_CODE, PredicateFacts { code_hash: None, requirements: Requirements::NoCode, ..facts.clone() }),
        (p::NOT_ADVERTISED, PredicateFacts { erc165: Erc165::NotAdvertised, ..facts.clone() }),
        (p::NOT_A_PREDICATE, PredicateFacts { erc165: Erc165::Other, ..facts.clone() }),
        (p::NAME_MISSING, PredicateFacts { name: None, ..facts.clone() }),
        (p::INTROSPECTION_FAILED, PredicateFacts { requirements: Requirements::Failed, ..facts.clone() }),
        (p::INTROSPECTION_OVER_LIMIT, PredicateFacts { requirements: Requirements::OverLimit, ..facts.clone() }),
        (
            p::COLLECTION_NO_CODE,
            PredicateFacts { contracts: vec![ContractFact { address: CREATOR, has_code: false }], ..facts.clone() },
        ),
        (p::PROXY, PredicateFacts { proxy: Some(Proxy { kind: ProxyKind::Implementation, target: CREATOR }), ..facts.clone() }),
    ] {
        let report = judged(facts);
        assert!(report.findings.iter().any(|finding| finding.code == code), "{code}");
        assert_eq!(report.access.expect("gated").predicate_is_proxy, code == p::PROXY);
    }
    let foreign = judged(PredicateFacts { address: CREATOR, code_hash: None, ..facts });
    assert!(foreign.access.expect("gated").requirements.is_none(), "facts about another contract are not used");
}

// req: VERIFY-023
#[test]
fn neither_id_nor_neighbours_nor_age_decide() {
    let plain = verified(&honest());
    for (chain, id) in [(8453, 1), (8453, 2), (8453, u64::MAX), (1, 7)] {
        let mut evidence = honest();
        let tool = evidence.tool.as_mut().expect("a tool");
        (tool.chain, tool.id) = (chain, alloy_primitives::U256::from(id));
        let report = verified(&evidence);
        assert_eq!(
            (report.findings, report.checks, report.tier),
            (plain.findings.clone(), plain.checks, plain.tier),
            "{chain} {id}"
        );
        // A tool that fails a check fails it on every chain and under every id.
        config(&mut evidence).manifest_hash = B256::ZERO;
        refused(&evidence, Step::Hash, codes::verify::HASH_MISMATCH);
    }
}

// req: TRUST-024
#[cfg(feature = "attestation")]
#[test]
fn a_claim_without_a_report_is_told_apart_from_what_was_verified() {
    let block = json!({
        "tier": "hardware-attested",
        "execution": "tee",
        "attestation": {"type": "nitro", "endpoint": "https://tools.example.com/attestation"},
    });
    let report = verified(&serving(with("verifiability", block).to_string().as_bytes()));
    assert_eq!(report.tier.effective, toolcrib_core::tool::Tier::SelfAttested);
    assert!(report.tier.declared > report.tier.effective);
    assert!(report.findings.iter().any(|finding| finding.code == codes::attestation::UNVERIFIED_CLAIM), "{:?}", report.findings);
}

// req: TRUST-021
#[cfg(feature = "attestation")]
#[test]
fn only_status_200_from_the_named_place_is_a_report() {
    let place = "https://tools.example.com/attestation";
    let attestation = json!({"type": "nitro", "endpoint": place});
    let block = json!({"tier": "hardware-attested", "execution": "tee", "attestation": attestation});
    let manifest = with("verifiability", block).to_string();
    for (url, status, is_read) in [
        (place, 200, true),
        (place, 201, false),
        (place, 204, false),
        (place, 404, false),
        ("https://tools.example.com/other", 200, false),
        ("https://elsewhere.example/attestation", 200, false),
    ] {
        let mut evidence = serving(manifest.as_bytes());
        let mut exchange = Exchange::new(Method::Get, url, NOW);
        exchange.response = Some(Response { status, headers: Vec::new(), body: Body(b"no report".to_vec()) });
        evidence.attestation = Some(AttestationFetch { exchange, nonce: None });
        let report = verified(&evidence);
        let found = |code| report.findings.iter().any(|finding| finding.code == code);
        assert_eq!(found(codes::attestation::BODY_FORM), is_read, "{url} {status}: {:?}", report.findings);
        assert_eq!(found(codes::attestation::UNVERIFIED_CLAIM), !is_read, "{url} {status}: {:?}", report.findings);
        assert_eq!(report.tier.effective, toolcrib_core::tool::Tier::SelfAttested);
    }
}

// req: VERIFY-007
#[test]
fn only_status_200_is_a_manifest() {
    // Evidence may come from a file, so the judge must not rely on the fetcher's rules.
    for status in [0, 100, 199, 201, 202, 203, 204, 206, 299, 301, 304, 400, 404, 500, 65_535] {
        let mut evidence = honest();
        exchange(&mut evidence).response.as_mut().expect("an answer").status = status;
        let report = refused(&evidence, Step::Evidence, codes::verify::INCONSISTENT);
        assert_eq!(report.checks, [Check::NotReached; 4], "{status}: nothing of it is read");
    }
}

#[test]
fn what_is_served_as_text_is_noted() {
    for (value, is_noted) in [
        ("application/json", false),
        ("Application/JSON;charset=utf-8", false),
        ("application/ld+json", false),
        ("text/html", true),
        ("+json", true),
    ] {
        let mut evidence = honest();
        exchange(&mut evidence).response.as_mut().expect("an answer").headers[0].1 = value.to_owned();
        let report = verified(&evidence);
        assert_eq!(report.findings.iter().any(|f| f.code == codes::verify::CONTENT_TYPE), is_noted, "{value}");
    }
}

// req: ACCESS-007
#[test]
fn what_the_manifest_says_about_access_is_held_against_the_chain() {
    let requirement = json!({"kind": "0xabcd1234", "data": "0x01", "label": "Hold a token"});
    let block = json!({"logic": "AND", "requirements": [requirement]});
    let mut evidence = serving(with("access", block).to_string().as_bytes());
    let differs =
        |evidence: &Evidence| verified(evidence).findings.iter().any(|finding| finding.code == codes::access::DIFFERS_FROM_CHAIN);
    assert!(differs(&evidence), "the tool is open");
    let address = Address::repeat_byte(0x9e);
    config(&mut evidence).access_predicate = Some(address);
    assert!(!differs(&evidence), "nobody asked the predicate");
    let listed = |data: &[u8]| Requirements::Listed {
        logic: Logic::And,
        entries: vec![crate::evidence::Requirement {
            kind: [0xab, 0xcd, 0x12, 0x34].into(),
            data: data.to_vec().into(),
            label: "other words".to_owned(),
        }],
    };
    for (data, expected) in [(&[1_u8][..], false), (&[2], true)] {
        evidence.chain.as_mut().expect("a chain").predicate = Some(PredicateFacts {
            address,
            code_hash: Some(B256::repeat_byte(2)),
            proxy: None,
            erc165: Erc165::Predicate,
            name: Some("gate".to_owned()),
            version: None,
            requirements: listed(data),
            contracts: Vec::new(),
        });
        assert_eq!(differs(&evidence), expected, "{data:?}");
    }
}
