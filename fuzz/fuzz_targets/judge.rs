//! Evidence files: for any content, judging ends, is deterministic, and never returns "verified" unless all four checks passed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::clock::UnixTime;
use toolcrib_judge::evidence::{Evidence, ToolState};
use toolcrib_judge::{Check, Policy, Verdict, judge, judge_whole};
use toolcrib_core::url::ip;

fuzz_target!(|data: &[u8]| {
    let Ok(evidence) = serde_json::from_slice::<Evidence>(data) else { return };
    let written = serde_json::to_vec(&evidence).expect("evidence can be written");
    assert_eq!(serde_json::from_slice::<Evidence>(&written).expect("and read back"), evidence);
    let policy = Policy::default();
    let now = UnixTime::from_seconds(evidence.gathered_at.seconds().saturating_add(1));
    let (report, manifest) = judge_whole(&evidence, &policy, now);
    assert_eq!(report, judge(&evidence, &policy, now), "the same twice");
    serde_json::to_string(&report).expect("a report can be written");
    assert_eq!(report.verified, report.verdict == Verdict::Verified);
    assert!(report.verified || report.failed.is_some() || evidence.tool.is_none(), "a reason for every no");
    assert_eq!(manifest.is_some(), report.verified && report.conformant);
    assert_eq!(report.about.is_some(), manifest.is_some(), "nothing of an unverified manifest is told as if it were");
    if report.verified {
        assert_eq!(report.checks, [Check::Passed; 4]);
        assert!(report.failed.is_none());
        assert_eq!(report.hash.committed, report.hash.served);
        assert_eq!(report.creator.onchain, report.creator.declared);
        let chain = evidence.chain.as_ref().expect("a chain was read");
        assert!(chain.config.len() <= 2 && matches!(chain.config.last().expect("a read").state, ToolState::Present(_)));
        let exchange = evidence.manifest.as_ref().expect("a fetch");
        assert!(exchange.dev || exchange.addresses.iter().all(|address| ip::is_public(*address)));
    }
});
