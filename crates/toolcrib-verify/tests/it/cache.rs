//! How long a verification is cached, and that a failure is never served as a success.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::B256;
use serde_json::{Value as Json, json};
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::tool::ToolManifest;
use toolcrib_judge::evidence::ToolState;
use toolcrib_judge::{MAX_WINDOW, Policy, Verdict};
use toolcrib_verify::{Cache, Cached, MAX_ENTRIES, Onchain, ToolSource, Verified, Verifier};

use crate::sources::{FixedSource, present};
use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::registry::{RegistryChain, hash_of, manifest};
use toolcrib_testkit::servers::{Script, Server, Step, World, answer, ok, quick};

const HOST: &str = "tools.example.com";
const URI: &str = "https://tools.example.com/.well-known/ai-tool/word-count.json";

/// A tool with a server whose response can be changed.
struct Scene {
    world: World,
    server: Server,
    answer: Arc<Mutex<Vec<u8>>>,
    clock: MovingClock,
    body: Vec<u8>,
    tool: FixedSource,
}

impl Scene {
    async fn new(change: impl FnOnce(&mut Json)) -> Self {
        let mut manifest = manifest("https://tools.example.com/word-count");
        change(&mut manifest);
        let body = manifest.to_string().into_bytes();
        let world = World::new();
        let answer = Arc::new(Mutex::new(ok(&body)));
        let server = world
            .honest(HOST, {
                let answer = answer.clone();
                move |_| answer.lock().expect("unpoisoned").clone()
            })
            .await;
        let tool = FixedSource::registered(8453, 1, DEV_ACCOUNTS[0], URI, hash_of(&body));
        Self { world, server, answer, clock: MovingClock::new(), body, tool }
    }

    async fn honest() -> Self {
        Self::new(|_| {}).await
    }

    fn verifier(&self) -> Verifier {
        Verifier::new(self.world.fetch(), Arc::new(self.clock.clone()), "test").limits(quick())
    }

    fn cache(&self, policy: Policy) -> Cache {
        Cache::new(self.verifier(), policy)
    }

    fn answers(&self, bytes: Vec<u8>) {
        *self.answer.lock().expect("unpoisoned") = bytes;
    }

    /// Number of requests for the manifest.
    fn fetches(&self) -> usize {
        self.server.requests().len()
    }
}

fn window(seconds: u64) -> Policy {
    Policy::default().with_window(seconds).expect("short enough")
}

#[track_caller]
fn usable(cached: Cached) -> Arc<Verified<ToolManifest>> {
    match cached {
        Cached::Usable(verified) => verified,
        Cached::Refused(report) => panic!("refused: {:?} {:?}", report.failed, report.findings),
    }
}

#[track_caller]
fn refused(cached: Cached, code: Code) {
    match cached {
        Cached::Refused(report) => assert_eq!(report.failed.map(|failed| failed.code), Some(code), "{:?}", report.findings),
        Cached::Usable(verified) => panic!("usable: {verified:?}"),
    }
}

/// Gets the tool at these seconds; the second number is the expected total of fetches.
async fn fetched_at(scene: &Scene, cache: &Cache, times: &[(i64, usize)]) {
    for (seconds, fetches) in times {
        scene.clock.set(*seconds);
        usable(cache.get(&scene.tool).await.expect("the chain answers"));
        assert_eq!(scene.fetches(), *fetches, "after {seconds} seconds");
    }
}

// req: VERIFY-011, VERIFY-012
#[tokio::test]
async fn a_verification_is_used_for_five_minutes() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    fetched_at(&scene, &cache, &[(0, 1), (0, 1), (1, 1), (300, 1), (301, 2), (601, 2), (602, 3)]).await;
    let first = usable(cache.get(&scene.tool).await.expect("an answer"));
    let second = usable(cache.get(&scene.tool).await.expect("an answer"));
    assert!(Arc::ptr_eq(&first, &second), "the same proof");
    assert_eq!(first.tool(), scene.tool.tool());
    assert_eq!(scene.tool.reads(), 3, "the chain is asked as often as the server");
}

// req: VERIFY-013
#[tokio::test]
async fn a_day_is_the_longest() {
    assert!(Policy::default().with_window(MAX_WINDOW + 1).is_none());
    let scene = Scene::honest().await;
    let cache = scene.cache(window(MAX_WINDOW));
    fetched_at(&scene, &cache, &[(0, 1), (86_400, 1), (86_401, 2)]).await;
}

// req: VERIFY-012
#[tokio::test]
async fn whoever_pays_verifies_each_time() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::pay());
    fetched_at(&scene, &cache, &[(0, 1), (0, 2), (0, 3), (1, 4)]).await;
}

// req: VERIFY-021
#[tokio::test]
async fn the_manifest_can_only_shorten() {
    for (age, times) in [
        (json!(60), &[(0, 1), (60, 1), (61, 2)][..]),
        (json!(9_999), &[(0, 1), (300, 1), (301, 2)]),
        (json!(0), &[(0, 1), (0, 2)]),
        (json!("60"), &[(0, 1), (61, 1), (300, 1), (301, 2)]),
        (json!(-1), &[(0, 1), (300, 1), (301, 2)]),
    ] {
        let scene = Scene::new(|manifest| manifest["maxAge"] = age).await;
        fetched_at(&scene, &scene.cache(Policy::default()), times).await;
    }
}

#[tokio::test]
async fn a_clock_that_goes_back_makes_nothing_fresh() {
    let scene = Scene::honest().await;
    fetched_at(&scene, &scene.cache(Policy::default()), &[(1_000, 1), (999, 2), (0, 3)]).await;
}

// req: VERIFY-008, VERIFY-010, VERIFY-011
#[tokio::test]
async fn a_server_that_is_down_refuses_after_the_window() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    fetched_at(&scene, &cache, &[(0, 1)]).await;
    scene.world.recorder.fail("5.5.5.1", std::io::ErrorKind::ConnectionRefused);
    fetched_at(&scene, &cache, &[(300, 1)]).await;
    scene.clock.set(301);
    for _ in 0..2 {
        let cached = cache.get(&scene.tool).await.expect("the chain answers");
        let Cached::Refused(report) = cached else { panic!("{cached:?}") };
        assert_eq!(report.verdict, Verdict::Unknown);
        assert!(report.about.is_none() && !report.is_usable());
    }
    // Not even for a clock that shows a time at which the cached success was fresh.
    scene.clock.set(10);
    refused(cache.get(&scene.tool).await.expect("an answer"), codes::fetch::CONNECT_REFUSED);
    scene.world.recorder.route("5.5.5.1", scene.server.address);
    usable(cache.get(&scene.tool).await.expect("an answer"));
}

// req: VERIFY-011, VERIFY-019
#[tokio::test]
async fn a_failure_takes_the_old_success_away_and_is_not_kept() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    let other = String::from_utf8(scene.body.clone()).expect("JSON").replace("Counts", "Sells");
    for (bytes, code) in [
        (answer("404 Not Found", "", b""), codes::fetch::NOT_FOUND),
        (answer("302 Found", "Location: /\r\n", b""), codes::fetch::REDIRECT),
        (ok("{}"), codes::verify::HASH_MISMATCH),
        (ok(&other), codes::verify::HASH_MISMATCH),
    ] {
        scene.answers(ok(&scene.body));
        scene.clock.set(0);
        usable(cache.get(&scene.tool).await.expect("an answer"));
        scene.answers(bytes);
        scene.clock.set(301);
        let before = scene.fetches();
        let code = if code == codes::verify::HASH_MISMATCH { first_of(&scene, &cache).await } else { code };
        refused(cache.get(&scene.tool).await.expect("an answer"), code);
        scene.clock.set(5);
        refused(cache.get(&scene.tool).await.expect("an answer"), code);
        assert!(scene.fetches() >= before + 2, "a refusal is not remembered");
        cache.forget(&scene.tool.tool());
    }
}

/// The code of a fresh verification, for bodies with more than one error.
async fn first_of(scene: &Scene, cache: &Cache) -> Code {
    match cache.get(&scene.tool).await.expect("an answer") {
        Cached::Refused(report) => report.failed.expect("a reason").code,
        Cached::Usable(verified) => panic!("usable: {verified:?}"),
    }
}

#[tokio::test]
async fn what_the_chain_takes_away_is_gone() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    fetched_at(&scene, &cache, &[(0, 1)]).await;
    scene.tool.set(ToolState::Deregistered);
    fetched_at(&scene, &cache, &[(300, 1)]).await;
    // An event reports it before the window is over.
    cache.forget(&scene.tool.tool());
    refused(cache.get(&scene.tool).await.expect("an answer"), codes::chain::TOOL_DEREGISTERED);
    scene.tool.set(present(DEV_ACCOUNTS[1], URI, hash_of(&scene.body)));
    refused(cache.get(&scene.tool).await.expect("an answer"), codes::verify::CREATOR_MISMATCH);
}

// req: VERIFY-008
#[tokio::test]
async fn a_flawed_manifest_and_one_that_is_not_pinned_are_never_kept() {
    let scene = Scene::new(|manifest| manifest["name"] = json!("")).await;
    let cache = scene.cache(Policy::default());
    for fetches in 1..3 {
        let Cached::Refused(report) = cache.get(&scene.tool).await.expect("an answer") else { panic!("usable") };
        assert!(report.verified && !report.conformant);
        assert_eq!(scene.fetches(), fetches);
    }
    let scene = Scene::honest().await;
    let mut policy = Policy::default();
    policy.pinned_manifest = Some(B256::repeat_byte(1));
    let cache = scene.cache(policy);
    for fetches in 1..3 {
        let Cached::Refused(report) = cache.get(&scene.tool).await.expect("an answer") else { panic!("usable") };
        assert_eq!((report.verified, report.pinned), (true, Some(false)));
        assert_eq!(scene.fetches(), fetches);
    }
}

#[tokio::test]
async fn callers_at_once_share_one_verification() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    let all = futures_util::future::join_all((0..20).map(|_| cache.get(&scene.tool))).await;
    let all: Vec<_> = all.into_iter().map(|cached| usable(cached.expect("an answer"))).collect();
    assert!(all.iter().all(|verified| Arc::ptr_eq(verified, &all[0])));
    assert_eq!((scene.fetches(), scene.tool.reads()), (1, 1));

    // A policy for payments shares nothing.
    let cache = scene.cache(Policy::pay());
    let all = futures_util::future::join_all((0..5).map(|_| cache.get(&scene.tool))).await;
    assert!(all.into_iter().all(|cached| matches!(cached, Ok(Cached::Usable(_)))));
    assert_eq!(scene.fetches(), 6);
}

#[tokio::test]
async fn a_slow_server_does_not_make_callers_wait_one_after_the_other() {
    let world = World::new();
    let leaf = world.authority.leaf(&[HOST]);
    let server = world.serve(HOST, Script::tls(&leaf, vec![Step::ReadRequest, Step::Hold])).await;
    let clock = MovingClock::new();
    let cache = Cache::new(Verifier::new(world.fetch(), Arc::new(clock), "test").limits(quick()), Policy::default());
    let body = manifest("https://tools.example.com/word-count").to_string();
    let tool = FixedSource::registered(8453, 1, DEV_ACCOUNTS[0], URI, hash_of(body.as_bytes()));
    for round in 1..3 {
        let all = futures_util::future::join_all((0..10).map(|_| cache.get(&tool))).await;
        for cached in all {
            refused(cached.expect("an answer"), codes::fetch::READ_TIMEOUT);
        }
        assert_eq!(server.requests().len(), round, "one for all, and a new one for those who come later");
    }
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_nothing_behind() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    scene.world.recorder.silent("5.5.5.1");
    assert!(tokio::time::timeout(Duration::from_millis(50), cache.get(&scene.tool)).await.is_err());
    scene.world.recorder.route("5.5.5.1", scene.server.address);
    usable(cache.get(&scene.tool).await.expect("an answer"));
    assert_eq!(scene.fetches(), 1);
}

#[tokio::test]
async fn entries_are_bounded_and_fresh_ones_stay() {
    let scene = Scene::honest().await;
    let cache = scene.cache(Policy::default());
    assert!(cache.is_empty());
    fetched_at(&scene, &cache, &[(0, 1)]).await;
    for id in 2..2 * MAX_ENTRIES as u64 {
        let cached = cache.get(&FixedSource::new(8453, id, ToolState::NotFound)).await.expect("an answer");
        refused(cached, codes::chain::TOOL_NOT_FOUND);
        assert!(cache.len() <= MAX_ENTRIES, "{}", cache.len());
    }
    fetched_at(&scene, &cache, &[(1, 1)]).await;
    assert!(cache.len() > MAX_ENTRIES / 2, "the limit was reached");
}

// req: VERIFY-010
#[tokio::test]
async fn without_a_chain_there_is_an_error_and_nothing_is_kept() {
    let scene = Scene::honest().await;
    let ledger = RegistryChain::start().await;
    let id = ledger.register(0, URI, hash_of(&scene.body), None);
    let tool = Onchain::new(ledger.registry.clone(), id);
    let cache = scene.cache(Policy::default());
    usable(cache.get(&tool).await.expect("the chain answers"));
    drop(ledger);
    scene.clock.set(300);
    usable(cache.get(&tool).await.expect("still fresh"));
    scene.clock.set(301);
    let error = cache.get(&tool).await.expect_err("nobody can be asked");
    assert_eq!(error.code(), codes::chain::RPC_UNREACHABLE);
    scene.clock.set(10);
    cache.get(&tool).await.expect_err("what was known is gone");
    assert_eq!(scene.fetches(), 1, "and the server is not asked before the chain");
}

/// A source whose chain fails on the second read: the hash did not match, and it is unknown whether an update was pending.
#[tokio::test]
async fn a_second_read_that_fails_is_an_error() {
    struct Flaky(FixedSource, AtomicBool);
    impl ToolSource for Flaky {
        fn tool(&self) -> toolcrib_core::caip::ToolRef {
            self.0.tool()
        }
        async fn config(&self) -> Result<toolcrib_judge::evidence::ConfigRead, toolcrib_verify::Error> {
            if self.1.swap(true, Ordering::SeqCst) {
                let registry = crate::sources::REGISTRY;
                return Err(toolcrib_verify::Error::NotARegistry { address: registry, reason: "a test" });
            }
            self.0.config().await
        }
        async fn details(
            &self,
            reads: toolcrib_judge::evidence::ChainReads,
        ) -> Result<toolcrib_judge::evidence::ChainReads, toolcrib_verify::Error> {
            Ok(reads)
        }
    }
    let scene = Scene::honest().await;
    let tool = FixedSource::registered(8453, 1, DEV_ACCOUNTS[0], URI, B256::repeat_byte(9));
    let cache = scene.cache(Policy::default());
    cache.get(&Flaky(tool, AtomicBool::new(false))).await.expect_err("the chain failed");
    assert_eq!(scene.fetches(), 1);
}
