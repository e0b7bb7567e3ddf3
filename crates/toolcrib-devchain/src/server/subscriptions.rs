//! Subscriptions of a connection: `newHeads`, `logs`, `newPendingTransactions`.

use std::collections::HashMap;

use alloy_primitives::{B256, keccak256};
use alloy_rpc_types_eth::Filter;
use serde::Serialize;
use serde_json::{Value, json};

use crate::chain::{Event, check_filter};
use crate::limits::MAX_SUBSCRIPTIONS;
use crate::node::{Node, Numbered};
use crate::rpc::{Answer, Extra, Params, RpcError};

#[derive(Debug)]
enum Topic {
    Heads,
    Logs(Box<Filter>),
    Pending,
}

#[derive(Debug)]
struct Subscription {
    topic: Topic,
    /// Events up to this sequence number came before the subscription.
    since: u64,
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: HashMap<B256, Subscription>,
    made: u64,
}

impl Subscriptions {
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The notifications of an event.
    pub(crate) fn notifications(&self, numbered: &Numbered) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        for (id, subscription) in &self.wanted {
            if numbered.sequence <= subscription.since {
                continue;
            }
            match (&subscription.topic, &numbered.event) {
                (Topic::Heads, Event::Block { header, .. }) => messages.push(notification(*id, header)),
                (Topic::Logs(filter), Event::Block { logs, .. } | Event::Removed { logs }) => {
                    messages.extend(logs.iter().filter(|log| filter.matches(&log.inner)).map(|log| notification(*id, log)));
                }
                (Topic::Pending, Event::Pending(hash)) => messages.push(notification(*id, hash)),
                _ => {}
            }
        }
        messages
    }

    fn subscribe(&mut self, node: &Node, mut params: Params) -> Answer {
        let kind: String = params.next()?;
        let topic = match kind.as_str() {
            "newHeads" => Topic::Heads,
            "newPendingTransactions" => match params.optional()? {
                None | Some(false) => Topic::Pending,
                Some(true) => return Err(RpcError::params("whole pending transactions are not supported")),
            },
            "logs" => {
                let filter: Filter = params.optional()?.unwrap_or_default();
                check_filter(&filter)?;
                Topic::Logs(Box::new(filter))
            }
            _ => return Err(RpcError::params("there are subscriptions to newHeads, logs and newPendingTransactions")),
        };
        if self.wanted.len() >= MAX_SUBSCRIPTIONS {
            return Err(RpcError::limit(format!("more than {MAX_SUBSCRIPTIONS} subscriptions on one connection")));
        }
        self.made += 1;
        let since = node.sequence();
        // Ids are valid on this connection only, so they need not be hard to guess.
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&self.made.to_be_bytes());
        seed[8..].copy_from_slice(&since.to_be_bytes());
        let id = keccak256(seed);
        self.wanted.insert(id, Subscription { topic, since });
        Ok(json!(id))
    }
}

impl Extra for Subscriptions {
    fn call(&mut self, node: &Node, method: &str, mut params: Params) -> Result<Answer, Params> {
        match method {
            "eth_subscribe" => Ok(self.subscribe(node, params)),
            "eth_unsubscribe" => Ok(params.next::<B256>().map(|id| Value::Bool(self.wanted.remove(&id).is_some()))),
            _ => Err(params),
        }
    }
}

fn notification(id: B256, result: &impl Serialize) -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "method": "eth_subscription", "params": { "subscription": id, "result": result } })
        .to_string()
        .into_bytes()
}
