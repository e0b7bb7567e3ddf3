//! Registrations that only other clients than ours can make.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256};
use futures_util::TryStreamExt;
use toolcrib_chain::registry::EventFilter;
use toolcrib_chain::transaction::Call;
use toolcrib_core::clock::FixedClock;
use toolcrib_judge::{Policy, Step, Verdict, judge};
use toolcrib_verify::{Depth, Onchain, Verifier};

use toolcrib_testkit::registry::RegistryChain;
use toolcrib_testkit::servers::{NOW, World};

// req: VERIFY-007
#[tokio::test]
async fn a_uri_that_is_no_text_reaches_nobody() {
    let ledger = RegistryChain::start().await;
    let marker = "https://tools.example.com/";
    let call = ledger.registry.register(marker, B256::repeat_byte(1), None);
    let mut data = call.data.to_vec();
    let at = data.windows(marker.len()).position(|window| window == marker.as_bytes()).expect("the URI stands in the call");
    data[at + 8] = 0xff;
    ledger.send(0, &Call { data: Bytes::from(data), ..call });
    let world = World::new();
    let verifier = Verifier::new(world.fetch(), Arc::new(FixedClock(NOW)), "test");
    let tool = Onchain::new(ledger.registry.clone(), U256::from(1));
    let evidence = verifier.gather(&tool, Depth::Full).await.expect("the chain answers");
    let report = judge(&evidence, &Policy::default(), NOW);
    let failed = report.failed.expect("a reason");
    assert_eq!((report.verdict, failed.step), (Verdict::Refused, Step::MetadataUri), "{:?}", report.findings);
    // It does not hide other registrations either.
    let pages: Vec<_> = ledger.registry.events(0, 1_000, EventFilter::default()).try_collect().await.expect("readable");
    assert_eq!(pages.iter().map(|page| page.events.len()).sum::<usize>(), 1);
    assert!(world.recorder.lookups().is_empty() && world.recorder.dialled().is_empty());
}
