//! Derived facts: predicates, collections, duplicates, life, and signs of a takeover.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256};
use alloy_sol_types::SolValue;
use futures_util::future::BoxFuture;
use serde_json::json;
use toolcrib_chain::predicate::IMPLEMENTATION_SLOT;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::registry::RequirementKind;
use toolcrib_index::facts::{CollectionProvider, NOT_ADVERTISED, Provided};
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::listing::{AccessKind, Life, Listing};
use toolcrib_index::work::{NameServers, WorkOptions, Worker};

use super::{World, hash_of, manifest, uri};
use toolcrib_testkit::servers::{NOW, Script, Step, ok};

const DAY: i64 = 86_400;

/// Code that returns these bytes to every call: a short loader, and the bytes behind it.
fn returns(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
    // PUSH4 length, DUP1, PUSH1 14, PUSH1 0, CODECOPY, PUSH1 0, RETURN
    [&[0x63][..], &length, &[0x80, 0x60, 14, 0x60, 0, 0x39, 0x60, 0, 0xf3], bytes].concat()
}

/// A predicate that asks for a token of a collection and does not speak ERC-165.
fn asks_for(collection: Address) -> Vec<u8> {
    let kind = FixedBytes::<4>::from(RequirementKind::Erc721Holding.id());
    let entries = vec![(kind, Bytes::from(collection.abi_encode()), "Any token".to_owned())];
    returns(&(entries, U256::ZERO).abi_encode_params())
}

fn has(listing: &Listing, code: &str) -> bool {
    listing.findings.iter().any(|finding| finding.code == code)
}

/// A provider with a picture and a price.
#[derive(Debug)]
struct Market;

impl CollectionProvider for Market {
    fn collection(&self, _: u64, _: Address) -> BoxFuture<'_, Option<Provided>> {
        let image = Some("https://img.example/a.png".to_owned());
        Box::pin(async { Some(Provided { image, floor_price: Some("1.5 ETH\u{202e}".to_owned()) }) })
    }
}

// req: IDX-002, IDX-005
#[tokio::test(flavor = "multi_thread")]
async fn predicates_are_shown_as_the_chain_has_them() {
    let world = World::start().await;
    let (collection, gate, proxy) = (Address::repeat_byte(0xc1), Address::repeat_byte(0xc2), Address::repeat_byte(0xc3));
    world.devchain.set_code(collection, returns(&"Apes\u{1b}[31m".abi_encode()));
    for address in [gate, proxy] {
        world.devchain.set_code(address, asks_for(collection));
    }
    world.devchain.set_storage_at(proxy, U256::from_be_bytes(IMPLEMENTATION_SLOT.0), U256::from(7));
    let (plain, _a) = world.gated("plain.example", Some(gate), |_| {}).await;
    let (behind, _b) = world.gated("proxy.example", Some(proxy), |_| {}).await;
    let (denied, _c) = world.gated("deny.example", Some(world.deny_all), |_| {}).await;
    let (open, _d) = world.tool("open.example", |_| {}).await;
    for stage in world.stages().await {
        for id in [plain, behind, denied, open] {
            stage.follow(&world, id).await;
        }
        let looks = world.live().collections(Arc::new(Market));
        let worker = Worker::new(stage.queue.clone(), looks, Arc::new(stage.clock.clone()), WorkOptions::default());
        assert_eq!(worker.round().await.expect("a round").written, 4);

        let listing = stage.listing(plain).await;
        assert_eq!((listing.verified, listing.access.kind), (true, AccessKind::NftGated));
        assert_eq!((listing.access.predicate_is_proxy, listing.access.is_advertised), (Some(false), Some(false)));
        let warning = listing.findings.iter().find(|finding| finding.code == "predicate.not_advertised").expect("a warning");
        assert_eq!((warning.title.as_str(), warning.severity.as_str()), (NOT_ADVERTISED, "warning"));
        let asked = &listing.access.requirements[0];
        assert_eq!((asked.meaning.as_str(), asked.contract, asked.label.as_str()), ("erc721", Some(collection), "Any token"));
        let facts = asked.collection.as_ref().expect("its name was read");
        assert_eq!((facts.name.as_deref(), facts.symbol.as_deref()), (Some("Apes\\u{1b}[31m"), Some("Apes\\u{1b}[31m")));
        assert_eq!(facts.image.as_deref(), Some("https://img.example/a.png"));
        assert_eq!(facts.floor_price.as_deref(), Some("1.5 ETH\\u{202e}"));

        let listing = stage.listing(behind).await;
        assert_eq!(listing.access.predicate_is_proxy, Some(true));
        assert!(listing.verified && has(&listing, "predicate.is_proxy"));

        let listing = stage.listing(denied).await;
        assert_eq!((listing.access.is_advertised, &listing.access.kind), (Some(true), &AccessKind::Gated));
        assert!(!has(&listing, "predicate.not_advertised"));
        assert_eq!(listing.life, Life::Retired("always_deny".to_owned()));

        let listing = stage.listing(open).await;
        assert_eq!((listing.access.predicate_is_proxy, listing.access.is_advertised), (None, None));
        let nft = toolcrib_index::List { access: Some(AccessKind::NftGated), limit: 9, ..toolcrib_index::List::default() };
        assert_eq!(stage.index.list(&nft).await.expect("a page").tools.len(), 2);
    }
}

// req: IDX-003
#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_predicate_is_looked_at_and_told() {
    let world = World::start().await;
    let (collection, proxy) = (Address::repeat_byte(0xc1), Address::repeat_byte(0xc3));
    let slot = U256::from_be_bytes(IMPLEMENTATION_SLOT.0);
    world.devchain.set_code(proxy, asks_for(collection));
    let (id, _a) = world.gated("proxy.example", Some(proxy), |_| {}).await;
    let (other, _b) = world.tool("open.example", |_| {}).await;
    for stage in world.stages().await {
        world.devchain.set_storage_at(proxy, slot, U256::from(7));
        for id in [id, other] {
            stage.follow(&world, id).await;
        }
        stage.work(&world).await;
        assert!(!has(&stage.listing(id).await, "predicate.upgraded"));
        let cursor = stage.index.last_change().await.expect("a number");

        // What a follower does when it sees the event.
        world.devchain.set_storage_at(proxy, slot, U256::from(8));
        let now = stage.clock.now();
        let mut transaction = stage.index.database().begin().await.expect("a transaction");
        feed::record(&mut transaction, &[(stage.key(id), Kinds::UPGRADED)], now).await.expect("recorded");
        transaction.commit().await.expect("committed");

        stage.clock.advance(5);
        assert_eq!(stage.work(&world).await.written, 1);
        let listing = stage.listing(id).await;
        assert!(listing.verified && has(&listing, "predicate.upgraded"), "{:?}", listing.findings);
        let changes = stage.index.changes(cursor, 10).await.expect("changes");
        assert!(changes.iter().all(|change| change.key == stage.key(id)));
        assert_eq!(changes.iter().filter(|change| change.kinds.has(Kinds::UPGRADED)).count(), 2, "when announced and when seen");
        // It stays to be seen for a month, and no longer.
        stage.clock.advance(DAY);
        stage.work(&world).await;
        assert!(has(&stage.listing(id).await, "predicate.upgraded"));
        stage.clock.advance(31 * DAY);
        stage.work(&world).await;
        assert!(!has(&stage.listing(id).await, "predicate.upgraded"));
    }
}

// req: IDX-012, IDX-013
#[tokio::test(flavor = "multi_thread")]
async fn silence_is_no_fault_and_removal_is_the_end() {
    let world = World::start().await;
    let (old, _a) = world.tool("old.example", |_| {}).await;
    let (removed, _b) = world.tool("removed.example", |_| {}).await;
    let stages = world.stages().await;
    for stage in &stages {
        stage.follow_at(&world, old, NOW.plus(-400 * DAY), NOW.plus(-400 * DAY)).await;
        stage.follow(&world, removed).await;
        stage.work(&world).await;
        let listing = stage.listing(old).await;
        assert_eq!((listing.life, listing.verified), (Life::MaybeStale, true));
        assert_eq!(stage.listing(removed).await.life, Life::Active);
        assert_eq!(stage.listed().await.len(), 2, "silence hides nothing");
    }
    world.send(0, &world.registry.deregister(removed));
    for stage in &stages {
        stage.follow(&world, removed).await;
        assert_eq!(stage.work(&world).await.written, 1);
        let listing = stage.listing(removed).await;
        assert_eq!(listing.life, Life::Retired("deregistered".to_owned()));
        assert_eq!(listing.failed.map(|failed| failed.step).as_deref(), Some("registration"));
        assert_eq!(listing.claims.and_then(|claims| claims.name).as_deref(), Some("word-count"), "the name that it had");
        assert_eq!(stage.listed().await, [old]);
        // Nobody looks at it again.
        stage.clock.advance(3_000 * DAY);
        let round = stage.work(&world).await;
        assert_eq!(round.leased, 1, "{round:?}");
        stage.clock.advance(-3_000 * DAY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_of_the_same_thing_are_named() {
    let world = World::start().await;
    let (first, _a) = world.tool("tools.example", |_| {}).await;
    let hash = hash_of(manifest("tools.example").to_string().as_bytes());
    let copy = world.register(1, &uri("tools.example"), hash, None);
    // Another manifest with the same endpoint, at another place of the same origin.
    let twin = world.register(0, "https://tools.example/.well-known/ai-tool/twin.json", hash, None);
    let (alone, _b) = world.tool("alone.example", |document| document["tags"] = json!(["text"])).await;
    for stage in world.stages().await {
        for id in [first, copy, twin, alone] {
            stage.follow(&world, id).await;
        }
        // One request at a time to an origin, so that it takes several rounds; and then everybody knows of everybody.
        for _ in 0..12 {
            stage.work(&world).await;
            stage.clock.advance(5);
        }
        stage.clock.advance(2 * 3_960);
        for _ in 0..12 {
            stage.work(&world).await;
            stage.clock.advance(5);
        }
        let listing = stage.listing(first).await;
        assert_eq!((listing.same_uri, listing.same_endpoint), (vec![stage.key(copy)], vec![stage.key(twin)]));
        let found = listing.findings.iter().find(|finding| finding.code == "tool.duplicate_registration").expect("a finding");
        assert_eq!(found.severity, "warning", "somebody else made one of them");
        assert_eq!(stage.listing(copy).await.same_uri, [stage.key(first)], "the squatter is not verified, and is told too");
        let listing = stage.listing(alone).await;
        assert!(listing.same_uri.is_empty() && listing.same_endpoint.is_empty() && !has(&listing, "tool.duplicate_registration"));
    }
}

/// Name servers that change after the first question.
#[derive(Debug, Default)]
struct Moving(AtomicUsize);

impl NameServers for Moving {
    fn of<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Option<Vec<String>>> {
        assert_eq!(host, "moved.example");
        let which = if self.0.fetch_add(1, Ordering::SeqCst) == 0 { "ns1.before.example" } else { "ns1.after.example" };
        Box::pin(async move { Some(vec![which.to_owned()]) })
    }
}

// req: IDX-007
#[tokio::test(flavor = "multi_thread")]
async fn a_young_certificate_and_other_name_servers_are_flagged() {
    let world = World::start().await;
    let bytes = manifest("moved.example").to_string().into_bytes();
    let hash = hash_of(&bytes);
    // Valid from 2026-01-01; the tool is registered for two years.
    let leaf = world.net.authority.leaf_between(&["moved.example"], 2026, 2030);
    let steps = vec![Step::ReadRequest, Step::answer(move |_| ok(&bytes))];
    let _server = world.net.serve("moved.example", Script::tls(&leaf, steps)).await;
    let id = world.register(0, &uri("moved.example"), hash, None);
    for stage in world.stages().await {
        stage.follow_at(&world, id, NOW.plus(-730 * DAY), NOW.plus(-730 * DAY)).await;
        let looks = world.live().name_servers(Arc::new(Moving::default()));
        let worker = Worker::new(stage.queue.clone(), looks, Arc::new(stage.clock.clone()), WorkOptions::default());
        worker.round().await.expect("a round");
        let listing = stage.listing(id).await;
        assert!(has(&listing, "takeover.certificate_younger") && !has(&listing, "takeover.name_servers_changed"));
        stage.clock.advance(3_960);
        worker.round().await.expect("a round");
        let listing = stage.listing(id).await;
        assert!(has(&listing, "takeover.name_servers_changed"), "{:?}", listing.findings);
        assert!(listing.verified, "a sign is no verdict");
    }
}

// req: IDX-008
#[tokio::test(flavor = "multi_thread")]
async fn an_update_after_a_quiet_time_is_looked_at_and_flagged() {
    let world = World::start().await;
    let (id, _a) = world.tool("quiet.example", |_| {}).await;
    let (_, _b) = world.tool("elsewhere.example", |_| {}).await;
    let hash = hash_of(manifest("elsewhere.example").to_string().as_bytes());
    let stages = world.stages().await;
    for stage in &stages {
        stage.follow_at(&world, id, NOW.plus(-300 * DAY), NOW.plus(-200 * DAY)).await;
        stage.work(&world).await;
        assert!(!has(&stage.listing(id).await, "takeover.update_after_quiet"));
    }
    world.send(0, &world.registry.update(id, &uri("elsewhere.example"), hash));
    for stage in &stages {
        stage.follow_at(&world, id, NOW.plus(-300 * DAY), NOW).await;
        assert!(stage.listed().await.is_empty(), "what was known is about another registration");
        let round = stage.work(&world).await;
        assert_eq!((round.leased, round.written), (1, 1));
        let listing = stage.listing(id).await;
        assert!(listing.verified && has(&listing, "takeover.update_after_quiet") && has(&listing, "takeover.origin_changed"));
        assert_eq!(listing.manifest_hash, hash);
        assert_ne!(listing.manifest_hash, B256::ZERO);
    }
}
