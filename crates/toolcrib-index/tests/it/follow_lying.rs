//! Nodes that omit logs, truncate responses, repeat or reorder logs, or contradict each other.
//!
//! While a node lies, the follower reports it in its metrics, in the index and in its log; when the node is honest again, the index equals
//! a model that replays the chain.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bloom, BloomInput, U256, keccak256};
use alloy_sol_types::SolEvent as _;
use serde_json::{Value, json};
use toolcrib_chain::abi::IToolRegistry::{AccessPredicateUpdated, ToolDeregistered, ToolMetadataUpdated, ToolRegistered};
use toolcrib_chain::predicate::UPGRADED_TOPIC;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_index::Index;
use toolcrib_index::follow::{Completeness, Difference, Follower, Progress, Step};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_store::database::Value as Column;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::follow::send;
use crate::follow_forks::{catch_up, indexed, indexes, model, options, release};
use crate::scripted::{Emitted, Fault, REGISTRY, Script, World, deregistered, gated, quantity, registered, updated, upgraded};
use toolcrib_testkit::nodes::fake::{Reply, config};
use toolcrib_testkit::nodes::{Node, deploy};

/// Events of a registry that numbers its tools from 1, as ERC-8257 requires: up to three in a block.
fn grow_honestly(world: &mut World, blocks: u64, seed: u64) {
    let count = |world: &World, topic: B256| {
        world.blocks.iter().flat_map(|block| &block.logs).filter(|log| log.topics[0] == topic).count() as u64
    };
    let mut tools = count(world, ToolRegistered::SIGNATURE_HASH);
    for block in 0..blocks {
        let mut logs: Vec<Emitted> = Vec::new();
        for n in 0..keccak256([seed.to_be_bytes(), block.to_be_bytes()].concat())[0] % 4 {
            let word = keccak256((U256::from(seed), U256::from(block), U256::from(n)).abi_encode_words());
            let predicate = if word[2].is_multiple_of(2) { Address::ZERO } else { Address::repeat_byte(0x50 + word[2] % 4) };
            let uri = format!("https://tool.example/{}", &word.to_string()[2..10]);
            let id = u64::from(word[0]) % tools.max(1) + 1;
            logs.push(match word[1] % 10 {
                _ if tools == 0 => registered(1, Address::repeat_byte(word[4]), predicate, &uri, word),
                0..=4 => registered(tools + 1, Address::repeat_byte(word[4]), predicate, &uri, word),
                5..=6 => updated(id, &uri, word),
                7 => gated(id, predicate),
                8 => deregistered(id),
                _ => upgraded(Address::repeat_byte(0x50 + word[5] % 4), Address::repeat_byte(word[6])),
            });
            tools += u64::from(logs.last().is_some_and(|log| log.topics[0] == ToolRegistered::SIGNATURE_HASH));
        }
        world.grow(logs);
    }
}

trait Words {
    fn abi_encode_words(&self) -> Vec<u8>;
}

impl Words for (U256, U256, U256) {
    fn abi_encode_words(&self) -> Vec<u8> {
        [self.0.to_be_bytes::<32>(), self.1.to_be_bytes::<32>(), self.2.to_be_bytes::<32>()].concat()
    }
}

/// How a node falsifies the logs of a response.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Omits this number of a thousand, the same ones each time.
    Drop(u64),
    /// Omits this number of a thousand, others each time.
    DropAtRandom(u64),
    /// Returns the first ones and silently omits the rest.
    Cap(usize),
    /// Omits one kind of event.
    DropKind(B256),
    /// Returns every log once, and omits it from later responses.
    GiveOnce,
    /// Returns every log twice.
    Duplicate,
    /// Returns logs in another order.
    Reorder,
}

impl Lie {
    /// Returns the falsified response for the right one. Counts what it hides.
    fn tell(self, world: &World, right: Vec<Value>) -> Vec<Value> {
        let place = |log: &Value| (log["blockHash"].to_string(), log["logIndex"].to_string());
        let said = self.change(world, right.clone());
        let places: BTreeSet<_> = said.iter().map(place).collect();
        let hidden = right.iter().filter(|log| !places.contains(&place(log)) && counts(world, log)).count();
        world.hidden.fetch_add(hidden as u64, Ordering::Relaxed);
        world.given.lock().expect("no panic").extend(places);
        said
    }

    fn change(self, world: &World, mut logs: Vec<Value>) -> Vec<Value> {
        let dice = |log: &Value, salt: u64| {
            let text = format!("{} {} {salt}", log["blockHash"], log["logIndex"]);
            u64::from(u16::from_be_bytes([keccak256(&text)[0], keccak256(&text)[1]])) % 1_000
        };
        match self {
            Self::Drop(share) => logs.retain(|log| dice(log, 0) >= share),
            Self::DropAtRandom(share) => {
                let salt = world.asked.values().sum();
                logs.retain(|log| dice(log, salt) >= share);
            }
            Self::Cap(most) => logs.truncate(most),
            Self::DropKind(topic) => logs.retain(|log| log["topics"][0] != json!(topic)),
            Self::GiveOnce => {
                let given = world.given.lock().expect("no panic");
                logs.retain(|log| !given.contains(&(log["blockHash"].to_string(), log["logIndex"].to_string())));
            }
            Self::Duplicate => logs = logs.iter().flat_map(|log| [log.clone(), log.clone()]).collect(),
            Self::Reorder => logs.reverse(),
        }
        logs
    }

    /// Returns the fault that applies the lie to every response with logs. The node has no receipts.
    fn fault(self) -> Fault {
        Arc::new(move |world: &World, method: &str, params: &Value| match method {
            "eth_getLogs" => Some(Reply::Result(json!(self.tell(world, world.asked_logs(&params[0]))))),
            "eth_getBlockReceipts" => Some(Reply::Error(-32_601, "the method does not exist".to_owned(), Value::Null)),
            _ => None,
        })
    }
}

/// Whether an index has this log: upgrades of a predicate count from its first use by a tool, as in [`model`].
fn counts(world: &World, log: &Value) -> bool {
    let address: Address = serde_json::from_value(log["address"].clone()).expect("an address");
    let [block, index] = ["blockNumber", "logIndex"].map(|key| quantity(log[key].as_str().expect("a quantity")) as usize);
    let before = world.blocks[..block].iter().flat_map(|block| &block.logs).chain(&world.blocks[block].logs[..index]);
    let names = |log: &Emitted| log.topics.len() > 2 && log.topics.last() == Some(&address.into_word());
    address == REGISTRY || before.filter(|log| log.address == REGISTRY).any(names)
}

fn follower(index: &Index, chain: Chain) -> Follower {
    let mut options = options(&chain);
    options.numbering = true;
    Follower::new(index.clone(), chain, REGISTRY, options)
}

/// Follows for a while, through all temporary errors. Steps are not cancelled: one that is cancelled in a commit loses its lease.
async fn follow_for(follower: &mut Follower, time: Duration) {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < time {
        match follower.step().await {
            Ok(Step::Advanced | Step::Unwound) => {}
            Ok(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

async fn completeness(index: &Index) -> Option<Completeness> {
    index.completeness().await.expect("read").pop()
}

/// Follows until no logs are known to be missing, no rescan is left, and every tool was compared.
async fn settle(index: &Index, follower: &mut Follower, script: &Script) {
    for _ in 0..400 {
        catch_up(follower, script).await;
        follow_for(follower, Duration::from_millis(50)).await;
        let known = completeness(index).await;
        let is_settled = |known: &Completeness| {
            known.rescan_from.is_none() && known.incomplete_since.is_none() && known.reason.is_none() && known.wrong_tools == 0
        };
        if known.as_ref().is_some_and(is_settled) {
            let progress = *follower.progress().borrow();
            assert!(!progress.incomplete && progress.wrong_tools == 0 && progress.doubtful == 0, "{progress:?}");
            return;
        }
    }
    panic!("it does not settle: {:?}", completeness(index).await);
}

async fn is_equal(index: &Index, script: &Script) -> bool {
    indexed(index).await == script.change(|world| model(world))
}

async fn compare(index: &Index, script: &Script, what: &str) {
    const PLACES: &str = "SELECT block_number, log_index FROM index_event ORDER BY block_number, log_index";
    let (index_says, model_says) = (indexed(index).await, script.change(|world| model(world)));
    if index_says == model_says {
        return;
    }
    let rows = index.database().fetch(PLACES, &[]).await.expect("events");
    let stored: Vec<_> = rows
        .iter()
        .map(|row| (row.get::<i64>("block_number").expect("a block"), row.get::<i64>("log_index").expect("a place")))
        .collect();
    let blocks = script.change(|world| world.blocks.clone());
    let all = blocks.iter().enumerate().flat_map(|(block, content)| {
        content.logs.iter().enumerate().map(move |(place, log)| ((block as i64, place as i64), log.topics[0]))
    });
    let missing: Vec<_> = all.filter(|(place, _)| !stored.contains(place)).collect();
    panic!("{what}: {} events, the model has {}; missing or not counted: {missing:?}", index_says.0, model_says.0);
}

/// What was reported of a lie while it lasted.
#[derive(Debug)]
struct Said {
    /// When the lie ended.
    progress: Progress,
    /// Whether the follower's progress, the index, and the log always reported omitted logs.
    is_known: [bool; 3],
    lines: Vec<String>,
    /// Logs that the node omitted. One that omits logs at random may omit none.
    hidden: u64,
}

/// Whether progress, the index and the log report omitted logs.
async fn says(index: &Index, progress: &Progress, log: &Recorder) -> [bool; 3] {
    let known = completeness(index).await;
    let lines = log.0.lock().expect("no panic");
    [
        progress.missed > 0 || progress.incomplete,
        known.is_some_and(|known| known.omitted > 0 || known.incomplete_since.is_some()),
        lines.iter().any(|line| line.contains("RPC node omitted logs") || line.contains("logs missing")),
    ]
}

/// Follows a lying node, then the same node without the lie, and compares. Returns what was reported while it lied, for each store.
async fn lie_and_recover(lie: Lie) -> Vec<Said> {
    let mut said = Vec::new();
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| {
            grow_honestly(world, 250, 5);
            world.fault = Some(lie.fault());
        });
        let hidden = || script.change(|world| world.hidden.load(Ordering::Relaxed));
        let mut following = follower(&index, script.chain());
        let (log, mut is_known) = (Recorder::default(), [false; 3]);
        {
            let _guard = tracing::subscriber::set_default(log.clone());
            // Until it is noticed, or for as long as a lie that hides nothing needs to do harm; then once more.
            let mut is_last = false;
            for round in 0..40 {
                // Longer each time: an interrupted step starts over, and on a loaded machine a full rescan takes a while.
                follow_for(&mut following, Duration::from_millis(250 + 50 * round)).await;
                let (progress, head) = (*following.progress().borrow(), script.change(|world| world.head()));
                let says = says(&index, &progress, &log).await;
                is_known = std::array::from_fn(|n| is_known[n] || says[n]);
                if is_last && (hidden() == 0 || is_known == [true; 3]) {
                    break;
                }
                assert!(round < 39, "{lie:?} hid {} logs; said: {is_known:?} {progress:?}", hidden());
                is_last |= is_known[0] || (progress.checkpoint == head as i64 && hidden() == 0);
                // The chain grows, and each block is another chance to lie and to be caught.
                script.change(|world| grow_honestly(world, 5, 100 + round));
            }
        }
        let (progress, lines) = (*following.progress().borrow(), log.0.lock().expect("no panic").clone());
        said.push(Said { progress, is_known, lines, hidden: hidden() });

        script.change(|world| world.fault = None);
        script.change(|world| grow_honestly(world, 5, 7));
        settle(&index, &mut following, &script).await;
        compare(&index, &script, &format!("{lie:?}")).await;
    }
    said
}

/// A lie that hides something is reported while it lasts, for each store: by the follower, the index and the log.
async fn hidden_and_known(lie: Lie) {
    for Said { progress, is_known, lines, hidden } in lie_and_recover(lie).await {
        assert!(hidden == 0 || is_known == [true; 3], "{lie:?} hid {hidden}; said: {is_known:?} {progress:?} {lines:#?}");
        // Small shares of logs may be none; every other lie hides something.
        let may_hide_nothing = matches!(lie, Lie::Drop(10) | Lie::DropAtRandom(10) | Lie::Cap(50..));
        assert!(hidden > 0 || may_hide_nothing, "{lie:?} hid nothing");
    }
}

/// Records the log lines of this thread.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("toolcrib")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        if std::env::var_os("TOOLCRIB_TEST_LOG").is_some() {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", text.0));
        }
        self.0.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn logs_that_are_left_out_are_missed_and_healed() {
    for share in [10, 100, 500] {
        hidden_and_known(Lie::Drop(share)).await;
        hidden_and_known(Lie::DropAtRandom(share)).await;
    }
}

#[tokio::test]
async fn answers_that_are_cut_short_are_noticed() {
    for most in [1, 5, 50] {
        hidden_and_known(Lie::Cap(most)).await;
    }
}

/// A node that no longer returns indexed logs has lost them, and may have lost more.
#[tokio::test]
async fn logs_that_are_given_once_are_missed() {
    hidden_and_known(Lie::GiveOnce).await;
}

/// A second response that lacks logs of the first one is as wrong as one that has more.
#[tokio::test]
async fn second_reads_notice_what_they_lack() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| {
            grow_honestly(world, 250, 5);
            world.fault = Some(Lie::GiveOnce.fault());
        });
        let chain = script.chain();
        let mut options = options(&chain);
        (options.numbering, options.second_reads, options.headers_per_range) = (true, 1, 0);
        let mut following = Follower::new(index.clone(), chain, REGISTRY, options);
        // Only final blocks: those near the head are read again anyway.
        let caught = tokio::time::timeout(Duration::from_secs(60), following.catch_up_to(200)).await;
        caught.expect("in time").expect("caught up");
        let (progress, known) = (*following.progress().borrow(), completeness(&index).await);
        assert!(progress.missed > 0 && known.is_some_and(|known| known.omitted > 0), "{progress:?}");
        script.change(|world| world.fault = None);
        settle(&index, &mut following, &script).await;
        compare(&index, &script, "second reads").await;
    }
}

#[tokio::test]
async fn each_kind_of_event_is_missed() {
    for topic in [
        ToolRegistered::SIGNATURE_HASH,
        ToolMetadataUpdated::SIGNATURE_HASH,
        AccessPredicateUpdated::SIGNATURE_HASH,
        ToolDeregistered::SIGNATURE_HASH,
        UPGRADED_TOPIC,
    ] {
        hidden_and_known(Lie::DropKind(topic)).await;
    }
}

#[tokio::test]
async fn logs_that_come_twice_or_out_of_order_count_once() {
    for lie in [Lie::Duplicate, Lie::Reorder] {
        for Said { progress, .. } in lie_and_recover(lie).await {
            assert!(progress.repeats > 0 && progress.missed == 0 && !progress.incomplete, "{lie:?}: {progress:?}");
        }
    }
}

/// Two nodes, one of them hiding logs: whichever is asked first, the logs of the other are found at once.
#[tokio::test]
async fn of_two_nodes_that_disagree_the_one_with_more_logs_is_believed() {
    for lie in [Lie::Drop(100), Lie::DropKind(ToolMetadataUpdated::SIGNATURE_HASH), Lie::Cap(5)] {
        for (_place, index) in indexes().await {
            let (liar, honest) = (Script::start().await, Script::start().await);
            honest.change(|world| grow_honestly(world, 250, 5));
            let share = |from: &Script, to: &Script| {
                let blocks = from.change(|world| world.blocks.clone());
                to.change(|world| world.blocks = blocks);
            };
            share(&honest, &liar);
            liar.change(|world| world.fault = Some(lie.fault()));
            let chain = Chain::lazy(config(&[&liar.node, &honest.node])).expect("a client");
            let mut following = follower(&index, chain);
            for _ in 0..150 {
                follow_for(&mut following, Duration::from_millis(200)).await;
                if is_equal(&index, &honest).await {
                    break;
                }
            }
            let progress = *following.progress().borrow();
            assert!(progress.missed > 0, "{lie:?}: {progress:?}");
            assert_eq!(progress.checkpoint, 250, "{lie:?}: it does not wait for the liar: {progress:?}");
            compare(&index, &honest, &format!("{lie:?} while it lasts")).await;
            liar.change(|world| world.fault = None);
            honest.change(|world| grow_honestly(world, 5, 6));
            share(&honest, &liar);
            settle(&index, &mut following, &honest).await;
            compare(&index, &honest, &format!("{lie:?}")).await;
        }
    }
}

/// A head that stays or moves back, and missing blocks: nothing is lost or rolled back, and it is reported.
#[tokio::test]
async fn a_stale_head_and_missing_blocks_are_said_and_pass() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow_honestly(world, 250, 5));
        let mut following = follower(&index, script.chain());
        settle(&index, &mut following, &script).await;
        let log = Recorder::default();
        {
            let _guard = tracing::subscriber::set_default(log.clone());
            script.change(|world| {
                world.fault = Some(Arc::new(|world: &World, method: &str, params: &Value| {
                    (method == "eth_getBlockByNumber" && params[0] == "latest").then(|| Reply::Result(world.header(200)))
                }));
            });
            follow_for(&mut following, Duration::from_millis(100)).await;
            assert!(following.progress().borrow().behind > 0);
        }
        assert!(log.0.lock().expect("no panic").iter().any(|line| line.contains("RPC node is behind")));
        compare(&index, &script, "behind").await;
        script.change(|world| {
            grow_honestly(world, 30, 6);
            world.fault = Some(Arc::new(|_: &World, method: &str, params: &Value| {
                let is_numbered = params[0].as_str().is_some_and(|block| block.starts_with("0x"));
                (method == "eth_getBlockByNumber" && is_numbered).then(|| Reply::Result(Value::Null))
            }));
        });
        let error = following.step().await.expect_err("no block can be read");
        assert_eq!(error.code().id(), "index.inconsistent");
        script.change(|world| world.fault = None);
        settle(&index, &mut following, &script).await;
        compare(&index, &script, "no blocks").await;
    }
}

/// A log that sets the bits of the registry's events in a header does not stop the follower: receipts show that there is nothing.
#[tokio::test]
async fn a_header_that_somebody_else_filled_does_not_stop_the_index() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let decoy = Emitted {
            address: Address::repeat_byte(0x99),
            topics: vec![ToolDeregistered::SIGNATURE_HASH, ToolRegistered::SIGNATURE_HASH],
            data: alloy_primitives::Bytes::new(),
        };
        script.change(|world| {
            grow_honestly(world, 60, 5);
            // The address is the only value that no other contract can log, and three topics have all of its bits.
            let topics = topics_with_the_bits_of(REGISTRY);
            world.grow(vec![decoy.clone(), Emitted { topics, ..decoy }]);
        });
        let mut following = follower(&index, script.chain());
        settle(&index, &mut following, &script).await;
        compare(&index, &script, "decoy").await;
        assert!(script.change(|world| world.asked.contains_key("eth_getBlockReceipts")), "the header promised something");
        assert_eq!(following.progress().borrow().missed, 0);
    }
}

/// Returns topics that together set the bits that an address sets in a bloom filter.
fn topics_with_the_bits_of(address: Address) -> Vec<B256> {
    let filter = |value: &[u8]| {
        let mut bloom = Bloom::ZERO;
        bloom.accrue(BloomInput::Raw(value));
        bloom
    };
    let wanted = filter(address.as_slice());
    let mut have = Bloom::ZERO;
    let mut topics = Vec::new();
    for n in 0_u64.. {
        let topic = B256::from(U256::from(n));
        let with = have | filter(topic.as_slice());
        if (with & wanted) != (have & wanted) {
            (have, topics) = (with, [topics, vec![topic]].concat());
        }
        if have & wanted == wanted {
            break;
        }
    }
    topics
}

/// An index with the falsified logs of a lying node, as a follower without these checks would have written it.
async fn with_losses(index: &Index, script: &Script) -> Follower {
    script.change(|world| {
        grow_honestly(world, 250, 5);
        world.fault = Some(Lie::Drop(100).fault());
    });
    let chain = script.chain();
    let mut unchecked = options(&chain);
    (unchecked.numbering, unchecked.headers_per_range, unchecked.second_reads, unchecked.audited_tools) = (false, 0, 0, 0);
    unchecked.doubt = Duration::ZERO;
    catch_up(&mut Follower::new(index.clone(), chain, REGISTRY, unchecked), script).await;
    script.change(|world| world.fault = None);
    release(index).await;
    follower(index, script.chain())
}

#[tokio::test]
async fn a_check_names_what_is_wrong_and_a_rescan_mends_it() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let mut following = with_losses(&index, &script).await;
        let registry = Registry::new(script.chain(), REGISTRY);
        let report = index.check(&registry).await.expect("a report");
        assert!(report.wrong > 5 && report.is_final && report.unreadable == 0, "{report:?}");
        assert_eq!((report.block, report.differences.len() as u64), (230, report.wrong));
        let fields: Vec<_> = report.differences.iter().flat_map(Difference::fields).collect();
        assert!(fields.contains(&"registration") && fields.contains(&"metadataURI"), "{fields:?}");
        // The node has pruned the state: the newest block of the index is compared.
        script.change(|world| {
            world.fault = Some(Arc::new(|_: &World, method: &str, params: &Value| {
                let is_old = method == "eth_call" && params[1] == json!("0xe6");
                is_old.then(|| Reply::Error(-32_000, "missing trie node".to_owned(), Value::Null))
            }));
        });
        let newest = index.check(&registry).await.expect("a report");
        assert_eq!((newest.block, newest.is_final), (250, false));
        assert!(newest.wrong >= report.wrong, "{newest:?}");
        script.change(|world| world.fault = None);

        let registry_id = index.registry_of(8_453, REGISTRY).await.expect("read").expect("followed");
        index.request_rescan(registry_id, newest.rescan_from.expect("something is missing")).await.expect("asked for");
        settle(&index, &mut following, &script).await;
        let mended = index.check(&registry).await.expect("a report");
        assert_eq!((mended.wrong, mended.rescan_from), (0, None), "{mended:?}");
        index.request_rescan(registry_id, 0).await.expect("asked for");
        settle(&index, &mut following, &script).await;
        compare(&index, &script, "after a rescan").await;
        let known = completeness(&index).await.expect("known");
        assert!(known.omitted > 0 && known.audited_at.is_some(), "{known:?}");
    }
}

/// Rows that no check was requested for are compared in the background, and what they lack is found by reading the logs of one tool.
#[tokio::test]
async fn losses_of_the_past_are_found_by_comparing_tools() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let mut following = with_losses(&index, &script).await;
        assert!(!is_equal(&index, &script).await);
        for _ in 0..300 {
            follow_for(&mut following, Duration::from_millis(50)).await;
            if following.progress().borrow().missed > 0 {
                break;
            }
        }
        settle(&index, &mut following, &script).await;
        compare(&index, &script, "compared").await;
        let progress = *following.progress().borrow();
        assert!(progress.audited > 0 && progress.missed > 0, "{progress:?}");
    }
}

/// On real nodes, with the real registry: many tools are compared in one call, and a row that lacks an event gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_lacks_an_event_is_repaired_from_a_real_node() {
    const LOSE: &str = "DELETE FROM index_event WHERE registry = 1 AND kind = 2";
    const FORGET: &str =
        "UPDATE index_tool SET uri = 'https://a.example/40', hash = $1, events = 1, updated_block = registered_block,
        updated_at = registered_at WHERE registry = 1 AND tool = $2";
    for node in Node::each(31_337).await {
        let chain = node.chain().await;
        let address = deploy(&chain, "ToolRegistry", &[]).await;
        let registry = Registry::new(chain.clone(), address);
        for n in 1..=90_u64 {
            let hash = B256::from(U256::from(n));
            send(&chain, DEV_ACCOUNTS[0], &registry.register(&format!("https://a.example/{n}"), hash, None)).await;
        }
        let id = U256::from(40);
        send(&chain, DEV_ACCOUNTS[0], &registry.update(id, "https://b.example/", B256::repeat_byte(9))).await;
        let block = send(&chain, DEV_ACCOUNTS[0], &registry.deregister(U256::from(7))).await;
        for (_place, index) in indexes().await {
            let mut options = options(&chain);
            (options.numbering, options.largest_range) = (true, 10_000);
            let mut following = Follower::new(index.clone(), chain.clone(), address, options);
            following.catch_up_to(block).await.expect("caught up");
            let key = ToolKey { registry: RegistryId(1), id };
            let row = async || index.tools(&[key]).await.expect("read").remove(0).row;
            let right = row().await;
            assert_eq!((right.metadata_uri.as_str(), right.events), ("https://b.example/", 2));
            let hash = B256::from(id);
            assert_eq!(index.database().execute(LOSE, &[]).await.expect("lost"), 1);
            let values = [Column::Bytes(hash.as_slice()), Column::Bytes(&key.id_bytes())];
            assert_eq!(index.database().execute(FORGET, &values).await.expect("forgotten"), 1);
            for _ in 0..200 {
                follow_for(&mut following, Duration::from_millis(20)).await;
                if row().await == right {
                    break;
                }
            }
            assert_eq!(row().await, right);
            assert_eq!(index.events(key, None, 10).await.expect("a history").len(), 2);
            let progress = *following.progress().borrow();
            assert!(progress.missed > 0 && progress.audited >= 90 && progress.wrong_tools == 0, "{progress:?}");
            assert_eq!(index.check(&registry).await.expect("a report").wrong, 0);
        }
    }
}

/// Receipts that do not account for a header prove that logs are missing, however long it takes. Without receipts a header alone does not
/// stop the index for good.
#[tokio::test]
async fn receipts_decide_where_a_header_is_in_doubt() {
    let lie = Lie::DropKind(ToolMetadataUpdated::SIGNATURE_HASH);
    let and_in_receipts = move |world: &World, method: &str, params: &Value| {
        if method != "eth_getBlockReceipts" {
            return lie.fault()(world, method, params);
        }
        let number = world.blocks.iter().position(|block| params[0] == json!(block.hash))?;
        let everybody: Vec<Address> = world.blocks[number].logs.iter().map(|log| log.address).collect();
        Some(Reply::Result(json!([{ "logs": lie.tell(world, world.logs(number as u64, &everybody)) }])))
    };
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| {
            grow_honestly(world, 20, 5);
            world.grow(vec![updated(1, "https://new.example/", B256::repeat_byte(7))]);
            world.fault = Some(Arc::new(and_in_receipts));
        });
        let chain = script.chain();
        let mut options = options(&chain);
        (options.numbering, options.doubt, options.audited_tools) = (true, Duration::ZERO, 0);
        let mut following = Follower::new(index.clone(), chain, REGISTRY, options);
        follow_for(&mut following, Duration::from_millis(300)).await;
        let progress = *following.progress().borrow();
        assert!(progress.incomplete && progress.checkpoint < 21 && progress.doubtful == 0, "{progress:?}");
        let reason = completeness(&index).await.and_then(|known| known.reason).unwrap_or_default();
        assert!(reason.contains("receipts"), "{reason}");

        // A node without receipts.
        script.change(|world| world.fault = Some(lie.fault()));
        catch_up(&mut following, &script).await;
        let known = completeness(&index).await.expect("known");
        assert!(known.doubtful > 0 && following.progress().borrow().doubtful > 0, "{known:?}");
        assert!(!is_equal(&index, &script).await);

        script.change(|world| world.fault = None);
        let registry = index.registry_of(8_453, REGISTRY).await.expect("read").expect("followed");
        index.request_rescan(registry, 0).await.expect("asked for");
        catch_up(&mut following, &script).await;
        compare(&index, &script, "after a rescan").await;
    }
}
