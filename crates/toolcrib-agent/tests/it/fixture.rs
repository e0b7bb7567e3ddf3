//! A name with a genuine manifest. Each test breaks one part of it.

use alloy_primitives::{Address, B256, Bytes};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use serde_json::{Value, json};
use toolcrib_agent::content_hash::raw_sha256_cid;
use toolcrib_agent::evidence::{
    AgentEvidence, Dnssec, FORMAT, GatewayAttempt, GatewayOutcome, OwnerOutcome, OwnerRead, Retrieval, TxtAnswer, TxtLookup,
};
use toolcrib_agent::judge::{ContentTrust, Judgement, judge_whole};
use toolcrib_agent::{AgentPolicy, AgentReport, AgentState, judge};
use toolcrib_chain::fns::{FNS_CHAIN_ID, FNS_REGISTRY};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::signing::{AgentSignature, SigningPayload, with_signature};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::json::{Document, Limits, read};
use toolcrib_judge::Check;

/// Some weeks after the fixture's manifest was created.
pub(crate) const NOW: UnixTime = UnixTime::from_seconds(1_780_000_000);

/// The name of the fixture.
pub(crate) const NAME: &str = "exampleagent.agt";

pub(crate) fn domain(text: &str) -> AgtDomain {
    AgtDomain::parse(text).expect("a name")
}

/// The keys of the first and the second account of the well-known test mnemonic.
pub(crate) fn keys() -> (PrivateKeySigner, PrivateKeySigner) {
    let key = |text: &str| text.parse().expect("a key");
    (
        key("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
        key("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    )
}

/// The owner of the fixture.
pub(crate) fn owner() -> Address {
    keys().0.address()
}

/// An account that is not the owner.
pub(crate) fn other() -> Address {
    keys().1.address()
}

/// An unsigned manifest. `extra` fields replace those with the same name; `null` removes one.
pub(crate) fn fields(extra: Value) -> Value {
    let mut fields = json!({
        "agt": "1.0",
        "domain": NAME,
        "owner": owner().to_checksum(None),
        "created_at": "2026-05-01T18:00:00Z",
        "name": "Example Agent",
        "protocols": [{"id": "mcp", "endpoint": "https://agents.toolcrib.dev/mcp", "version": "2025-11-05"}],
        "capabilities": [{"id": "research", "description": "Finds sources.", "input": {"type": "object"}}],
        "pricing": {"model": "paid", "paid": {"currency": "USDC", "amount": "0.01", "unit": "per_request", "chain": "eip155:137"}},
    });
    let all = fields.as_object_mut().expect("an object");
    for (key, value) in extra.as_object().expect("members") {
        match value {
            Value::Null => all.remove(key),
            value => all.insert(key.clone(), value.clone()),
        };
    }
    fields
}

pub(crate) fn document(text: &str) -> Document {
    read(text.as_bytes(), Limits::default()).document.expect("JSON")
}

/// Signs a digest.
pub(crate) fn signature_of(digest: B256, key: &PrivateKeySigner) -> [u8; 65] {
    key.sign_hash_sync(&digest).expect("signed").as_bytes()
}

/// Signs a document as the specification requires.
pub(crate) fn sign_text(text: &str, key: &PrivateKeySigner) -> String {
    let document = document(text);
    let payload = SigningPayload::of(&document).expect("canonical");
    let signature = AgentSignature::from_bytes(signature_of(payload.digest(), key)).expect("well-formed");
    with_signature(&document, &signature).expect("an object")
}

/// A manifest with `extra` fields, signed by the owner.
pub(crate) fn signed(extra: Value) -> String {
    sign_text(&fields(extra).to_string(), &keys().0)
}

/// A TXT response with records.
pub(crate) fn records(source: &str, records: &[&str]) -> TxtAnswer {
    let records = records.iter().map(|record| Bytes::copy_from_slice(record.as_bytes())).collect();
    answer(source, TxtLookup::Records(records))
}

/// A TXT response.
pub(crate) fn answer(source: &str, outcome: TxtLookup) -> TxtAnswer {
    TxtAnswer { source: source.to_owned(), outcome, dnssec: Dnssec::Unchecked, millis: 1 }
}

/// A failed TXT lookup.
pub(crate) fn failure(source: &str) -> TxtAnswer {
    answer(source, TxtLookup::Failed { code: "fetch.dns_failed".to_owned(), message: "no answer".to_owned() })
}

/// The record that points to content.
pub(crate) fn pointer(content: &[u8]) -> String {
    format!("agt-manifest=ipfs://{}", raw_sha256_cid(content))
}

/// A registry's result for the fixture's name.
pub(crate) fn read_of(name: &str, outcome: OwnerOutcome) -> OwnerRead {
    OwnerRead {
        chain_id: FNS_CHAIN_ID,
        registry: FNS_REGISTRY,
        token_id: domain(name).token_id(),
        block: Some(80_000_000),
        block_hash: None,
        outcome,
        contract: None,
    }
}

/// An attempt of a gateway.
pub(crate) fn attempt(gateway: &str, outcome: GatewayOutcome) -> GatewayAttempt {
    GatewayAttempt { gateway: gateway.to_owned(), outcome, bytes: 100, millis: 2 }
}

/// Evidence with content for the fixture's name, which the owner owns.
pub(crate) fn evidence(content: &str) -> AgentEvidence {
    AgentEvidence {
        format: FORMAT,
        gatherer: "test".to_owned(),
        gathered_at: NOW,
        domain: NAME.to_owned(),
        txt: vec![records("dns", &["v=spf1 -all", &pointer(content.as_bytes())])],
        content: Some(Retrieval {
            cid: raw_sha256_cid(content.as_bytes()),
            content: Some(Bytes::copy_from_slice(content.as_bytes())),
            attempts: vec![attempt("gateway", GatewayOutcome::Served)],
        }),
        owner: Some(read_of(NAME, OwnerOutcome::Holder(owner()))),
    }
}

/// Judges evidence with the default policy.
pub(crate) fn judged(evidence: &AgentEvidence) -> AgentReport {
    judge(evidence, &AgentPolicy::default(), None, NOW)
}

/// Judges evidence and returns the manifest too.
pub(crate) fn judged_whole(evidence: &AgentEvidence, policy: &AgentPolicy) -> Judgement {
    judge_whole(evidence, policy, None, NOW, ContentTrust::Recheck(&toolcrib_agent::content_hash::CidHash))
}

/// Asserts the state, the deciding code and the failed step of a report, and the fields that follow from them.
#[track_caller]
pub(crate) fn assert_failed(report: &AgentReport, state: AgentState, code: &str, step: Option<u8>) {
    assert_eq!(report.state, state, "{:#?}", report.findings);
    let failed = report.failed.unwrap_or_else(|| panic!("nothing failed: {report:#?}"));
    assert_eq!((failed.code.id(), failed.step), (code, step), "{:#?}", report.findings);
    assert_eq!(report.findings[0].code.id(), code, "the deciding finding comes first");
    assert!(!report.verified && report.about.is_none(), "{report:#?}");
    if let Some(step) = step {
        let step = report.steps[usize::from(step) - 1];
        assert_eq!(step.code.map(|code| code.id()), Some(code));
        let expected = if state == AgentState::Unreachable { Check::NotReached } else { Check::Failed };
        assert_eq!(step.check, expected);
    }
}

/// Asserts that a report verifies its name.
#[track_caller]
pub(crate) fn assert_verified(report: &AgentReport) {
    assert_eq!(report.state, AgentState::Manifest, "{:#?}", report.findings);
    assert!(report.verified && report.failed.is_none(), "{report:#?}");
    assert!(report.steps.iter().all(|step| step.check == Check::Passed && step.code.is_none()), "{:#?}", report.steps);
}

/// The numbers of the steps that passed.
pub(crate) fn passed(report: &AgentReport) -> Vec<u8> {
    report.steps.iter().filter(|step| step.check == Check::Passed).map(|step| step.number).collect()
}
