//! Nodes that leave logs out, cut answers short, send them twice or out of order, or contradict each other.
//!
//! While a node lies the follower says so, in its metrics, in the index and in its log; when the node is honest again, the index is what a
//! model that replays the chain says.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::SolEvent as _;
use serde_json::{Value, json};
use toolcrib_chain::abi::IToolRegistry::{AccessPredicateUpdated, ToolDeregistered, ToolMetadataUpdated, ToolRegistered};
use toolcrib_chain::predicate::UPGRADED_TOPIC;
use toolcrib_index::Index;
use toolcrib_index::follow::Follower;

use crate::fake::Reply;
use crate::follow_forks::{catch_up, indexed, indexes, model, options};
use crate::scripted::{Emitted, REGISTRY, Script, World, deregistered, gated, registered, updated, upgraded};

/// Events of a registry that counts its tools from 1, as ERC-8257 asks for: up to three in a block.
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

/// How a node treats the logs of an answer.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Leaves out so many of a thousand, the same ones each time.
    Drop(u64),
    /// Leaves out so many of a thousand, others each time.
    DropAtRandom(u64),
    /// Gives the first ones and says nothing of the rest.
    Cap(usize),
    /// Leaves out one kind of event.
    DropKind(B256),
    /// Gives every log twice.
    Duplicate,
    /// Gives logs in another order.
    Reorder,
}

impl Lie {
    fn tell(self, world: &World, mut logs: Vec<Value>) -> Vec<Value> {
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
            Self::Duplicate => logs = logs.iter().flat_map(|log| [log.clone(), log.clone()]).collect(),
            Self::Reorder => logs.reverse(),
        }
        logs
    }

    /// The fault that makes a node tell it in every answer about logs. It knows no receipts.
    fn fault(self) -> Arc<dyn Fn(&World, &str, &Value) -> Option<Reply> + Send + Sync> {
        Arc::new(move |world: &World, method: &str, params: &Value| match method {
            "eth_getLogs" => Some(Reply::Result(json!(self.tell(world, world.asked_logs(&params[0]))))),
            "eth_getBlockReceipts" => Some(Reply::Error(-32_601, "the method does not exist".to_owned(), Value::Null)),
            _ => None,
        })
    }
}

fn follower(index: &Index, script: &Script) -> Follower {
    let chain = script.chain();
    let options = options(&chain);
    Follower::new(index.clone(), chain, REGISTRY, options)
}

/// Follows while the node lies, as far as it gets.
async fn follow_for(follower: &mut Follower, script: &Script, time: Duration) {
    let head = script.change(|world| world.head());
    let _ = tokio::time::timeout(time, follower.catch_up_to(head)).await;
}

/// Follows a lying node, then the same node without the lie, and compares.
async fn lie_and_recover(lie: Lie) {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| {
            grow_honestly(world, 250, 5);
            world.fault = Some(lie.fault());
        });
        let mut following = follower(&index, &script);
        follow_for(&mut following, &script, Duration::from_millis(1_500)).await;
        script.change(|world| grow_honestly(world, 5, 6));
        follow_for(&mut following, &script, Duration::from_millis(500)).await;

        script.change(|world| world.fault = None);
        script.change(|world| grow_honestly(world, 5, 7));
        catch_up(&mut following, &script).await;
        let (index_says, model_says) = (indexed(&index).await, script.change(|world| model(world)));
        assert_eq!(index_says, model_says, "{lie:?}");
    }
}

#[tokio::test]
async fn logs_that_are_left_out_are_missed_and_healed() {
    for share in [10, 100, 500] {
        lie_and_recover(Lie::Drop(share)).await;
        lie_and_recover(Lie::DropAtRandom(share)).await;
    }
}

#[tokio::test]
async fn answers_that_are_cut_short_are_noticed() {
    for most in [1, 5, 50] {
        lie_and_recover(Lie::Cap(most)).await;
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
        lie_and_recover(Lie::DropKind(topic)).await;
    }
}

#[tokio::test]
async fn logs_that_come_twice_or_out_of_order_count_once() {
    lie_and_recover(Lie::Duplicate).await;
    lie_and_recover(Lie::Reorder).await;
}
