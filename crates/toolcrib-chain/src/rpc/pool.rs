//! Several nodes of one chain behind alloy's client: failover, retries with backoff, and quorum reads.
//!
//! A node's chain id is checked before any other request. A wrong chain id is an error, not a reason to try the
//! next node, because either the settings are wrong or the node lies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use alloy_json_rpc::{ErrorPayload, Id, Request, RequestPacket, ResponsePacket, ResponsePayload};
use alloy_primitives::U64;
use alloy_transport::{TransportError, TransportErrorKind, TransportFut};
use futures_util::future::join_all;

use super::node::{Node, TransportFault};
use crate::error::Exhausted;

/// Request extension: the maximum size of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxBytes(pub(crate) usize);

/// Request extension: how many nodes must return the same response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorum(pub(crate) usize);

/// Request extension of requests for the newest block: use the highest number that this many nodes have reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReachedBy(pub(crate) usize);

/// Request extension: the only node to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Only(pub(crate) usize);

/// Request extension of requests for a block: nodes must agree only on its number and hash. The hash commits to the rest, and different
/// node implementations add different fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockIdentity;

/// The transport of alloy's client.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    nodes: Vec<Node>,
    chain_id: u64,
    /// The node that responded last.
    preferred: AtomicUsize,
    retries: Retries,
    max_bytes: usize,
}

/// How often, and with which backoff, a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Attempts in total, across all nodes. At least one.
    pub attempts: u32,
    /// The pause after every node has failed once. It doubles each round.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Retries {
    /// Five attempts within about four seconds: long enough for a node that restarts, short enough for a user who waits.
    fn default() -> Self {
        Self { attempts: 5, first_pause: Duration::from_millis(250), longest_pause: Duration::from_secs(2) }
    }
}

impl Pool {
    pub(super) fn new(nodes: Vec<Node>, chain_id: u64, retries: Retries, max_bytes: usize) -> Self {
        Self(Arc::new(Shared { nodes, chain_id, preferred: AtomicUsize::new(0), retries, max_bytes }))
    }
}

impl tower::Service<RequestPacket> for Pool {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> TransportFut<'static> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.answer(packet).await.map_err(TransportErrorKind::custom) })
    }
}

impl Shared {
    async fn answer(&self, packet: RequestPacket) -> Result<ResponsePacket, Exhausted> {
        let limit =
            packet.requests().iter().filter_map(|request| request.meta().extensions().get::<MaxBytes>()).map(|max| max.0).max();
        let limit = limit.unwrap_or(self.max_bytes).min(self.max_bytes);
        let quorum =
            packet.requests().iter().find_map(|request| request.meta().extensions().get::<Quorum>()).map(|quorum| quorum.0);
        let reached_by =
            packet.requests().iter().find_map(|request| request.meta().extensions().get::<ReachedBy>()).map(|reached| reached.0);
        if let Some(needed) = reached_by {
            return self.newest(packet, limit, needed).await.map_err(|fault| Exhausted { fault, attempts: 1 });
        }
        let only = packet.requests().iter().find_map(|request| request.meta().extensions().get::<Only>()).map(|only| only.0);
        match quorum {
            Some(needed) => self.by_quorum(packet, limit, needed).await.map_err(|fault| Exhausted { fault, attempts: 1 }),
            None => self.by_failover(packet, limit, only).await,
        }
    }

    /// Asks the preferred node, and the next ones if it fails; with `only`, retries one node.
    async fn by_failover(&self, packet: RequestPacket, limit: usize, only: Option<usize>) -> Result<ResponsePacket, Exhausted> {
        let attempts = if is_repeatable(&packet) { self.retries.attempts.max(1) } else { 1 };
        let mut pause = self.retries.first_pause;
        let mut attempt = 0;
        loop {
            let at = only.unwrap_or_else(|| self.preferred.load(Ordering::Relaxed)) % self.nodes.len();
            let fault = match self.ask(&self.nodes[at], &packet, limit).await {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            attempt += 1;
            if !fault.is_retryable() || attempt >= attempts {
                return Err(Exhausted { fault, attempts: attempt });
            }
            if only.is_none() {
                self.preferred.store(at + 1, Ordering::Relaxed);
            }
            if only.is_some() || (attempt as usize).is_multiple_of(self.nodes.len()) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(self.retries.longest_pause);
            }
        }
    }

    async fn by_quorum(&self, packet: RequestPacket, limit: usize, needed: usize) -> Result<ResponsePacket, TransportFault> {
        let answers = join_all(self.nodes.iter().map(|node| self.ask(node, &packet, limit))).await;
        let is_identity = packet.requests().iter().any(|request| request.meta().extensions().get::<BlockIdentity>().is_some());
        let mut groups: Vec<(Vec<serde_json::Value>, ResponsePacket, usize)> = Vec::new();
        let mut fault = None;
        for answer in answers {
            match answer {
                Ok(response) => {
                    let key = comparable(&response, is_identity);
                    match groups.iter_mut().find(|(other, ..)| *other == key) {
                        Some((.., count)) => *count += 1,
                        None => groups.push((key, response, 1)),
                    }
                }
                // A node on another chain is an error even if the others agree.
                Err(wrong @ TransportFault::WrongChain { .. }) => return Err(wrong),
                Err(other) => fault = Some(other),
            }
        }
        let agreeing = groups.iter().map(|(.., count)| *count).max().unwrap_or_default();
        let asked = self.nodes.len();
        let is_split = groups.iter().filter(|(.., count)| *count >= needed).count() > 1;
        match groups.into_iter().find(|(.., count)| !is_split && *count >= needed.max(1)) {
            Some((_, response, _)) => Ok(response),
            None if agreeing == 0 => Err(fault.unwrap_or(TransportFault::NoQuorum { asked, agreeing, needed })),
            None => Err(TransportFault::NoQuorum { asked, agreeing, needed }),
        }
    }

    /// Returns the response with the highest block number that `needed` nodes have reached. A single node can neither raise it nor, by
    /// returning an old block as the newest, make the others agree on a past state.
    async fn newest(&self, packet: RequestPacket, limit: usize, needed: usize) -> Result<ResponsePacket, TransportFault> {
        let answers = join_all(self.nodes.iter().map(|node| self.ask(node, &packet, limit))).await;
        let mut heights: Vec<(u64, ResponsePacket)> = Vec::new();
        let mut fault = None;
        for answer in answers {
            match answer {
                Ok(response) => match height_in(&response) {
                    Some(height) => heights.push((height, response)),
                    None => fault = Some(TransportFault::Malformed),
                },
                Err(wrong @ TransportFault::WrongChain { .. }) => return Err(wrong),
                Err(other) => fault = Some(other),
            }
        }
        let (asked, agreeing) = (self.nodes.len(), heights.len());
        heights.sort_by_key(|&(height, _)| std::cmp::Reverse(height));
        match heights.into_iter().nth(needed.saturating_sub(1)) {
            Some((_, response)) => Ok(response),
            None if agreeing == 0 => Err(fault.unwrap_or(TransportFault::NoQuorum { asked, agreeing, needed })),
            None => Err(TransportFault::NoQuorum { asked, agreeing, needed }),
        }
    }

    async fn ask(&self, node: &Node, packet: &RequestPacket, limit: usize) -> Result<ResponsePacket, TransportFault> {
        self.check_chain(node).await?;
        let response = node.send(packet, limit).await?;
        // Rate limits also come as JSON-RPC errors.
        if response.iter_errors().any(is_rate_limit) {
            return Err(TransportFault::RateLimited);
        }
        Ok(response)
    }

    async fn check_chain(&self, node: &Node) -> Result<(), TransportFault> {
        /// A response with one number is short.
        const MAX_ANSWER: usize = 4_096;
        if node.is_checked() {
            return Ok(());
        }
        let request = Request::new("eth_chainId", Id::Number(0), ()).serialize().map_err(|_| TransportFault::Malformed)?;
        let response = node.send(&RequestPacket::Single(request), MAX_ANSWER).await?;
        if response.iter_errors().any(is_rate_limit) {
            return Err(TransportFault::RateLimited);
        }
        let Some(ResponsePayload::Success(value)) = response.single_payload() else { return Err(TransportFault::Malformed) };
        let got = serde_json::from_str::<U64>(value.get()).map_err(|_| TransportFault::Malformed)?.to::<u64>();
        if got != self.chain_id {
            return Err(TransportFault::WrongChain { node: node.url().to_string(), expected: self.chain_id, got });
        }
        node.set_checked();
        Ok(())
    }
}

/// The number in a single response.
fn height_in(response: &ResponsePacket) -> Option<u64> {
    match response.single_payload() {
        Some(ResponsePayload::Success(value)) => serde_json::from_str::<U64>(value.get()).ok().map(|height| height.to()),
        _ => None,
    }
}

/// Whether sending the request twice has the same effect as sending it once. A raw transaction is the same transaction each time.
fn is_repeatable(packet: &RequestPacket) -> bool {
    packet.method_names().all(|method| {
        method != "eth_sendTransaction" && ["eth_", "net_", "web3_"].iter().any(|prefix| method.starts_with(prefix))
    })
}

/// Whether an error is a rate limit. A revert's message is untrusted and never counts.
fn is_rate_limit(error: &ErrorPayload) -> bool {
    let is_revert = error.code == 3 || error.message.contains("revert");
    // Nodes that limit the response of eth_getLogs use the error code of rate limits for it.
    let is_cap = error.message.contains("more than") || error.message.contains("range");
    !is_revert && !is_cap && error.is_retry_err()
}

/// The parts of a response that nodes must agree on: results and revert data, not error messages.
fn comparable(response: &ResponsePacket, is_identity: bool) -> Vec<serde_json::Value> {
    response
        .payloads()
        .map(|payload| match payload {
            ResponsePayload::Success(value) => match serde_json::from_str(value.get()).unwrap_or_default() {
                serde_json::Value::Object(block) if is_identity => serde_json::json!([block.get("number"), block.get("hash")]),
                value => value,
            },
            ResponsePayload::Failure(error) => {
                let data = error.as_revert_data().map(|data| data.to_string());
                serde_json::json!({ "failed": data })
            }
        })
        .collect()
}
