//! Servers that mean ill do not stop the queue.

use std::time::{Duration, Instant};

use alloy_primitives::B256;
use serde_json::json;
use toolcrib_index::listing::Verdict;

use super::{World, hash_of, manifest, uri};
use toolcrib_testkit::servers::{Script, Step, ok};

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_cost_their_own_time_alone() {
    let world = World::start().await;
    let mut kept = Vec::new();
    let mut hostile = Vec::new();
    let large = json!({"name": "x".repeat(2 << 20)}).to_string().into_bytes();
    let exactly = format!("{{\"name\": \"{}\"}}", "x".repeat((1 << 20) - 12)).into_bytes();
    assert_eq!(exactly.len(), 1 << 20);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n".to_vec();
    let scripts = [
        ("large", vec![Step::ReadRequest, Step::answer(move |_| ok(&large))]),
        ("mib", vec![Step::ReadRequest, Step::answer(move |_| ok(&exactly))]),
        ("deep", vec![Step::ReadRequest, Step::answer(move |_| ok(&deep))]),
        ("drip", vec![Step::ReadRequest, Step::Send(head.clone()), Step::Drip(vec![b' '; 100_000], Duration::from_millis(40))]),
        ("silent", vec![Step::ReadRequest, Step::Hold]),
        ("endless", vec![Step::ReadRequest, Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Endless(b"X-A: b\r\n".to_vec())]),
        ("reset", vec![Step::ReadRequest, Step::Reset]),
        ("cut", vec![Step::ReadRequest, Step::Send(head), Step::Cut]),
    ];
    for (name, steps) in scripts {
        let host = format!("{name}.example");
        let leaf = world.net.authority.leaf(&[&host]);
        kept.push(world.net.serve(&host, Script::tls(&leaf, steps)).await);
        hostile.push(world.register(0, &uri(&host), B256::repeat_byte(9), None));
    }
    let mut good = Vec::new();
    for number in 0..12 {
        let (id, server) = world.tool(&format!("good{number}.example"), |_| {}).await;
        kept.push(server);
        good.push(id);
    }
    // A name full of controls, in a manifest that is not what was committed.
    let mut evil = manifest("evil.example");
    evil["name"] = json!("\u{1b}[2J\u{202e}<script>");
    let bytes = evil.to_string().into_bytes();
    let _evil = world.net.honest("evil.example", move |_| ok(&bytes)).await;
    let named = world.register(0, &uri("evil.example"), B256::repeat_byte(9), None);
    assert_ne!(hash_of(evil.to_string().as_bytes()), B256::repeat_byte(9));
    for stage in world.stages().await {
        for id in hostile.iter().chain(&good).chain([&named]) {
            stage.follow(&world, *id).await;
        }
        let begun = Instant::now();
        let round = stage.work(&world).await;
        assert_eq!(round.leased, hostile.len() + good.len() + 1);
        assert_eq!(round.written, round.leased, "each has an answer: {round:?}");
        toolcrib_testkit::assert_not_hung(begun, "a round over hostile servers");
        let mut listed = stage.listed().await;
        listed.sort();
        assert_eq!(listed, good);
        for id in &hostile {
            let listing = stage.listing(*id).await;
            assert_eq!(listing.verdict, Verdict::Refused, "{id}: {:?}", listing.failed);
            let evidence = stage.queue.evidence(stage.key(*id)).await.expect("read").expect("kept");
            assert!(evidence.len() < 3 << 20, "{}", evidence.len());
        }
        let claims = stage.listing(named).await.claims.expect("it claims something");
        assert_eq!(claims.name.as_deref(), Some("\\u{1b}[2J\\u{202e}<script>"));
    }
}
