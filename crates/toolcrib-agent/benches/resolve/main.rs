//! Benchmarks judging and resolving names, without a network and over loopback.
//!
//! - `judge` on the evidence of one verified name: parsing, canonical bytes, SHA-256, recovery of the signer;
//! - 10,000 names through the resolver, with in-process test doubles for DNS, gateways and a node: first with an empty cache, then
//!   again. The doubles respond at once, so this is the cost of resolution itself;
//! - the same names through the resolver with its real sources: `DnsSource` over UDP, `Gateways` over HTTP, and `Fns` on a `Chain` over
//!   JSON-RPC, against servers on loopback. The first pass retrieves every manifest; the second re-checks, with cached content,
//!   and with TXT records and owners read again. The target is 500 names per second.
//!
//! The servers on loopback run on their own thread of this process and compete with the resolver for the same cores; their CPU time
//! is also shown separately. Not included: TLS, DNSSEC, network latency (a re-check makes four sequential requests), rate limits of
//! gateways and nodes, several sources or a quorum of nodes, and a memory in a file.
//!
//! `cargo bench -p toolcrib-agent --bench resolve` measures; with `-- --quick` it only checks that everything runs and agrees.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, Bytes};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use async_trait::async_trait;
use serde_json::json;
use tokio::task::JoinSet;
use toolcrib_agent::content_hash::raw_sha256_cid;
use toolcrib_agent::evidence::{
    Dnssec, GatewayAttempt, GatewayOutcome, OwnerOutcome, OwnerRead, Retrieval, TxtAnswer, TxtLookup,
};
use toolcrib_agent::source::{ContentSource, OwnerSource, TxtSource};
use toolcrib_agent::{AgentPolicy, Resolver, judge};
use toolcrib_chain::fns::{FNS_CHAIN_ID, FNS_REGISTRY};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::signing::{AgentSignature, SigningPayload, with_signature};
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::json::{Limits, read};

mod servers;

use servers::Servers;

const NOW: UnixTime = UnixTime::from_seconds(1_780_000_000);

/// Names in flight.
const IN_FLIGHT: usize = 32;

/// Target of a re-check over loopback, in names per second.
const TARGET: f64 = 500.0;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let names = if quick { 100 } else { 10_000 };
    let world = Arc::new(World::new(names));
    judging(&runtime, &world, quick);
    resolving(&runtime, &world);
    over_loopback(&runtime, &world, quick);
}

/// Measures `judge` alone, on evidence gathered by the resolver.
fn judging(runtime: &tokio::runtime::Runtime, world: &Arc<World>, quick: bool) {
    let resolution = runtime.block_on(world.resolver().resolve(&name(0)));
    assert!(resolution.report.is_usable(), "{:?}", resolution.report.findings);
    let (evidence, policy) = (resolution.evidence, AgentPolicy::default());
    let passes = if quick { 20 } else { 5_000 };
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            let before = cpu();
            for _ in 0..passes {
                black_box(judge(black_box(&evidence), &policy, None, NOW));
            }
            (cpu() - before).as_secs_f64() * 1e6 / f64::from(passes)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let bytes = evidence.content.and_then(|content| content.content).map_or(0, |content| content.len());
    println!("judge, a manifest of {bytes} bytes: {:.1} µs CPU (median of 9), best {:.1} µs", rounds[4], rounds[0]);
}

/// Measures all names, with an empty cache and again.
fn resolving(runtime: &tokio::runtime::Runtime, world: &Arc<World>) {
    let resolver = Arc::new(world.resolver());
    for pass in ["first resolution", "again"] {
        let (started, before) = (Instant::now(), cpu());
        runtime.block_on(in_flight(world.names, {
            let resolver = Arc::clone(&resolver);
            move |at| {
                let resolver = Arc::clone(&resolver);
                async move {
                    let report = resolver.resolve(&name(at)).await.report;
                    assert!(report.is_usable(), "{:?}", report.findings);
                }
            }
        }));
        let seconds = started.elapsed().as_secs_f64();
        let each = (cpu() - before).as_secs_f64() * 1e6 / world.names as f64;
        println!(
            "{} names, {pass}: {:.0} a second, {each:.0} µs CPU each ({IN_FLIGHT} in flight)",
            world.names,
            world.names as f64 / seconds
        );
    }
}

/// Measures all names with the real sources, against servers on loopback: with an empty cache, and again.
fn over_loopback(runtime: &tokio::runtime::Runtime, world: &Arc<World>, quick: bool) {
    let servers = Servers::start(world);
    let resolver = Resolver::new(Arc::new(servers.gateways()), Arc::new(FixedClock(NOW)), "bench");
    let resolver = Arc::new(resolver.txt_source(Arc::new(servers.dns())).owners(Arc::new(servers.fns())));
    for (pass, retrieved) in [("first pass", world.names), ("re-check", 0)] {
        let (requests, served) = (servers.requests(), runtime.block_on(servers.cpu()));
        let (started, before) = (Instant::now(), cpu());
        runtime.block_on(in_flight(world.names, {
            let resolver = Arc::clone(&resolver);
            move |at| {
                let resolver = Arc::clone(&resolver);
                async move {
                    let report = resolver.resolve(&name(at)).await.report;
                    assert!(report.is_usable(), "{:?}", report.findings);
                }
            }
        }));
        let (seconds, used) = (started.elapsed().as_secs_f64(), cpu() - before);
        let served = runtime.block_on(servers.cpu()) - served;
        let (names, now) = (world.names as f64, servers.requests());
        assert_eq!(now.blocks - requests.blocks, retrieved as u64, "blocks in the {pass}");
        let each = |time: Duration| time.as_secs_f64() * 1e6 / names;
        println!(
            "{} names over loopback, {pass}: {:.0} a second ({IN_FLIGHT} in flight), {:.0} µs CPU each and {:.0} µs of the servers",
            world.names,
            names / seconds,
            each(used.saturating_sub(served)),
            each(served)
        );
        println!(
            "  requests a name: {:.2} DNS, {:.2} gateway, {:.2} RPC; {} new TCP connections",
            (now.questions - requests.questions) as f64 / names,
            (now.blocks - requests.blocks) as f64 / names,
            (now.calls - requests.calls) as f64 / names,
            now.connections - requests.connections
        );
        if !quick {
            println!("  target {TARGET:.0}/s: {}", if names / seconds >= TARGET { "met" } else { "MISSED" });
        }
    }
}

/// Runs `count` tasks, [`IN_FLIGHT`] at a time.
async fn in_flight<F: Future<Output = ()> + Send + 'static>(count: usize, task: impl Fn(usize) -> F) {
    let mut tasks = JoinSet::new();
    for at in 0..count {
        if tasks.len() >= IN_FLIGHT {
            tasks.join_next().await.expect("one is there").expect("no panic");
        }
        tasks.spawn(task(at));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    time_of(rustix::time::ClockId::ProcessCPUTime)
}

fn time_of(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn name(at: usize) -> AgtDomain {
    AgtDomain::parse(&format!("agent-{at}.agt")).expect("a name")
}

/// A test double for every source: the manifests of all names, signed with one key.
struct World {
    names: usize,
    key: PrivateKeySigner,
    pointers: HashMap<String, Bytes>,
    contents: HashMap<String, Bytes>,
}

impl World {
    fn new(names: usize) -> Self {
        let key: PrivateKeySigner = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80".parse().expect("a key");
        let mut world = Self { names, key, pointers: HashMap::new(), contents: HashMap::new() };
        for at in 0..names {
            let manifest = world.manifest(&name(at));
            let cid = raw_sha256_cid(manifest.as_bytes());
            world.pointers.insert(name(at).as_str().to_owned(), Bytes::from(format!("agt-manifest=ipfs://{cid}").into_bytes()));
            world.contents.insert(cid, Bytes::from(manifest.into_bytes()));
        }
        world
    }

    /// The specification's example with this name, the owner, and a valid signature.
    fn manifest(&self, domain: &AgtDomain) -> String {
        let fields = json!({
            "agt": "1.0", "domain": domain.as_str(), "name": "Example Agent", "description": "Research and source citation agent.",
            "icon": "https://agents.toolcrib.dev/icon.png", "website": "https://agents.toolcrib.dev",
            "owner": self.key.address().to_checksum(None), "created_at": "2026-05-01T18:00:00Z",
            "protocols": [
                { "id": "mcp", "version": "2025-11-05", "endpoint": "https://agents.toolcrib.dev/mcp" },
                { "id": "http", "endpoint": "https://agents.toolcrib.dev/api/v1", "auth": "bearer" },
            ],
            "capabilities": [
                {
                    "id": "research", "description": "Searches academic and web sources, returns a cited summary.",
                    "input": { "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] },
                    "output": { "type": "object", "properties": { "summary": { "type": "string" }, "sources": { "type": "array" } } },
                },
                { "id": "summarization" },
            ],
            "pricing": {
                "model": "freemium", "free_tier": "10 queries/day",
                "paid": { "currency": "USD", "amount": "0.01", "unit": "per_request" },
            },
        });
        let text = serde_json::to_string_pretty(&fields).expect("JSON");
        let document = read(text.as_bytes(), Limits::default()).document.expect("JSON");
        let payload = SigningPayload::of(&document).expect("canonical");
        let signature = self.key.sign_hash_sync(&payload.digest()).expect("signed").as_bytes();
        with_signature(&document, &AgentSignature::from_bytes(signature).expect("well-formed")).expect("an object")
    }

    fn resolver(self: &Arc<Self>) -> Resolver {
        Resolver::new(self.clone(), Arc::new(FixedClock(NOW)), "bench").txt_source(self.clone()).owners(self.clone())
    }
}

#[async_trait]
impl TxtSource for World {
    fn name(&self) -> &str {
        "bench"
    }

    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer {
        let outcome = match self.pointers.get(domain.as_str()) {
            Some(record) => TxtLookup::Records(vec![record.clone()]),
            None => TxtLookup::NotFound,
        };
        TxtAnswer { source: "bench".to_owned(), outcome, dnssec: Dnssec::Unchecked, millis: 0 }
    }
}

#[async_trait]
impl ContentSource for World {
    async fn retrieve(&self, cid: &CidText, _: tokio::time::Instant) -> Retrieval {
        let attempt = GatewayAttempt { gateway: "bench".to_owned(), outcome: GatewayOutcome::Served, bytes: 0, millis: 0 };
        Retrieval { cid: cid.as_str().to_owned(), content: self.contents.get(cid.as_str()).cloned(), attempts: vec![attempt] }
    }
}

#[async_trait]
impl OwnerSource for World {
    async fn holder(&self, domain: &AgtDomain, _: Option<(B256, &[u8; 65])>) -> OwnerRead {
        OwnerRead {
            chain_id: FNS_CHAIN_ID,
            registry: FNS_REGISTRY,
            token_id: domain.token_id(),
            block: Some(1),
            block_hash: None,
            outcome: OwnerOutcome::Holder(self.key.address()),
            contract: None,
        }
    }
}
