//! A scripted resolver, and a clock that the test sets.

use std::sync::Arc;

use alloy_primitives::{Address, keccak256};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::agents::{
    AgentFacts, AgentMemory, AgentOptions, AgentProtocol, AgentResolution, AgentStep, AgentVerdict, AgentWorker, ResolveAgent,
};
use toolcrib_index::listing::Failure;

pub(crate) use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::databases::{Backend, TestStore};

pub(crate) const NOW: i64 = 1_800_000_000;

/// A resolver that calls a function.
pub(crate) struct Scripted<F>(pub(crate) F);

impl<F: Fn(&AgtDomain) -> AgentResolution + Send + Sync> ResolveAgent for Scripted<F> {
    async fn resolve(&self, domain: &AgtDomain, _: Option<&AgentMemory>) -> AgentResolution {
        (self.0)(domain)
    }
}

pub(crate) async fn indexes() -> Vec<(TestStore, Index)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        all.push((place, index));
    }
    all
}

pub(crate) fn name(text: &str) -> AgtDomain {
    AgtDomain::parse(text).expect("a name")
}

pub(crate) async fn set(index: &Index, names: &[&str], clock: &MovingClock) {
    index.set_agent_names(&names.iter().map(|text| name(text)).collect(), clock.now()).await.expect("a list");
}

pub(crate) fn worker<F>(index: &Index, clock: &MovingClock, script: F) -> AgentWorker<Scripted<F>>
where
    F: Fn(&AgtDomain) -> AgentResolution + Send + Sync,
{
    AgentWorker::new(index.clone(), Scripted(script), Arc::new(clock.clone()), AgentOptions::default()).expect("a worker")
}

/// A good verdict whose content changes with `made`.
pub(crate) fn good(domain: &AgtDomain, made: i64, change: impl FnOnce(&mut AgentFacts)) -> AgentResolution {
    let mut facts = AgentFacts {
        name: Some(format!("Agent {}", domain.sld())),
        description: Some("Does something useful.".to_owned()),
        protocols: vec![AgentProtocol { id: "mcp".to_owned(), endpoint: format!("https://{}.example/mcp", domain.sld()) }],
        capabilities: vec!["translation".to_owned()],
        ..AgentFacts::default()
    };
    change(&mut facts);
    let verdict = AgentVerdict {
        state: "manifest".to_owned(),
        verified: true,
        conformant: true,
        legacy: false,
        failed: None,
        steps: (1..=8).map(|number| AgentStep { number, status: "passed".to_owned(), code: None }).collect(),
        findings: Vec::new(),
        owner: Some(Address::repeat_byte(7)),
        cid: Some(format!("bafk{made}")),
        content_digest: Some(keccak256(format!("{domain} {made}"))),
        created_at: Some(UnixTime::from_seconds(made)),
        signed_by: Some("eip-191".to_owned()),
        block: Some(55),
        facts: Some(facts),
        claims: None,
    };
    AgentResolution::Judged { verdict: Box::new(verdict), report: "{\"state\":\"manifest\"}".to_owned() }
}

/// A verdict that refuses.
pub(crate) fn refused(state: &str, code: &str) -> AgentResolution {
    let verdict = AgentVerdict {
        state: state.to_owned(),
        verified: false,
        conformant: false,
        legacy: false,
        failed: Some(Failure { check: Some(8), step: "holder".to_owned(), code: code.to_owned() }),
        steps: vec![AgentStep { number: 8, status: "failed".to_owned(), code: Some(code.to_owned()) }],
        findings: Vec::new(),
        owner: Some(Address::repeat_byte(8)),
        cid: None,
        content_digest: None,
        created_at: None,
        signed_by: None,
        block: Some(56),
        facts: None,
        claims: None,
    };
    AgentResolution::Judged { verdict: Box::new(verdict), report: "{}".to_owned() }
}

pub(crate) fn unreachable() -> AgentResolution {
    AgentResolution::Unreachable { step: "txt".to_owned(), code: "fetch.dns_failed".to_owned() }
}
