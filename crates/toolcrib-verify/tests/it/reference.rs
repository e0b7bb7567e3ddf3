//! The two example tools of the ERC, verified end to end.

use std::sync::Arc;

use alloy_primitives::{Address, B256, address, b256};
use toolcrib_core::clock::FixedClock;
use toolcrib_judge::Policy;
use toolcrib_judge::evidence::{ToolConfig, ToolState};
use toolcrib_verify::{Depth, Verifier};

use crate::sources::FixedSource;
use toolcrib_testkit::servers::{NOW, World, ok};

const HOST: &str = "tools.example.com";

// req: VEC-008
#[tokio::test]
async fn the_examples_of_the_standard_verify() {
    let free = b256!("786620b1a5d903c2ac4eafe964364292ca4b6ed763a13b29423c03ccca905af0");
    let paid = b256!("a71ef83ee66b702edb44f121510f8969e353df40b1e1587f8288fe6d352b448b");
    let gate = Address::repeat_byte(0xbb);
    check(1, "nft-price-oracle", "free", address!("abcdefabcdef1234567890abcdefabcdef123456"), free, None).await;
    check(2, "premium-analytics", "paid", address!("abcdef0123456789abcdef0123456789abcdef01"), paid, Some(gate)).await;
}

async fn check(id: u64, slug: &str, vector: &str, creator: Address, manifest_hash: B256, access_predicate: Option<Address>) {
    let path = format!("{}/../../vectors/tool/{vector}.json", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).expect("a vector");
    let world = World::new();
    let _server = world.honest(HOST, move |_| ok(&bytes)).await;
    let metadata_uri = format!("https://{HOST}/.well-known/ai-tool/{slug}.json");
    let registry = Address::repeat_byte(0xaa);
    let config = ToolConfig { creator, metadata_uri, manifest_hash, access_predicate };
    let tool = FixedSource::of(registry, 8453, id, ToolState::Present(config));
    let verifier = Verifier::new(world.fetch(), Arc::new(FixedClock(NOW)), "test");
    let live = verifier.live(&tool, &Policy::default(), Depth::Checks).await.expect("read");
    let verified = live.verified.unwrap_or_else(|| panic!("{vector}: {:?}", live.report.findings));
    assert_eq!(verified.tool().to_string(), format!("eip155:8453/erc8257:{registry:#x}/{id}"));
    assert_eq!(verified.manifest().hash(), manifest_hash);
    assert_eq!(live.report.access.map(|access| access.predicate), Some(access_predicate));
}
