//! Retrieval from HTTP gateways, which are all untrusted.
//!
//! Every gateway is asked for blocks (`?format=raw`, the trustless gateway specification), and every block must match its hash. The
//! gateways are asked in the order of the settings, with a short delay between them and limited concurrency. The first one that serves the
//! complete content ends the retrieval; so does the first one whose genuine blocks show that the content cannot be used, because every
//! honest gateway has the same blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::Bytes;
use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout, timeout_at};
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes;
use toolcrib_fetch::{Configured, ConfiguredUrl, Error, Headers, Limits};
use toolcrib_judge::evidence::{Exchange, Response};

use super::cid::{Cid, Codec};
use super::dag::{MAX_BLOCK_BYTES, WalkLimits};
use super::retrieve::{Ended, Retriever, Untaken, millis, refused_cid, unreachable};
use crate::evidence::{GatewayAttempt, GatewayOutcome, Retrieval};
use crate::source::ContentSource;

/// The media type of a block.
const BLOCK: &str = "application/vnd.ipld.raw";

/// Maximum time reserved for reporting what each gateway did. Of a short time, a twentieth.
const REPORT_TIME: Duration = Duration::from_millis(100);

/// Limits of asking gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// The limits of the file.
    pub content: WalkLimits,
    /// Maximum number of concurrent gateways. Eight is also what the HTTP client allows for one host.
    pub concurrency: usize,
    /// Delay before the next gateway is asked too. Most gateways that have the block respond within it.
    pub stagger: Duration,
    /// Time limit of one gateway for all blocks. Shortened if the last gateway would otherwise not be asked in time.
    pub gateway: Duration,
    /// Idle timeout of a gateway.
    pub idle: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            content: WalkLimits::default(),
            concurrency: 8,
            stagger: Duration::from_millis(300),
            gateway: Duration::from_secs(10),
            idle: Duration::from_secs(5),
        }
    }
}

/// How the time of a retrieval is divided.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Delay before the next gateway is asked too.
    stagger: Duration,
    /// Time limit of one gateway.
    turn: Duration,
}

/// The gateways from the operator's settings.
#[derive(Clone, Debug)]
pub struct Gateways {
    client: Configured,
    gateways: Vec<ConfiguredUrl>,
    headers: Headers,
    limits: GatewayLimits,
}

impl Gateways {
    /// Uses these gateways, such as `https://gateway.example`, in this order. `/ipfs/{cid}` is appended to each URL.
    ///
    /// A client with keep-alive saves a handshake for each further block of a file.
    pub fn new(client: Configured, gateways: Vec<ConfiguredUrl>, limits: GatewayLimits) -> Result<Self, Error> {
        let headers = Headers::new().with("accept", BLOCK)?;
        Ok(Self { client, gateways, headers, limits })
    }

    /// Retrieves the content of a CID, and ends a little before `until`.
    pub async fn get(&self, cid: &Cid, until: Instant) -> (Option<Vec<u8>>, Vec<GatewayAttempt>) {
        let count = self.gateways.len();
        let started = Instant::now();
        let remaining = until.saturating_duration_since(started);
        let window = remaining.saturating_sub((remaining / 20).min(REPORT_TIME));
        let end = started + window;
        let Plan { stagger, turn } = self.plan(window);
        let read: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let mut began: Vec<Option<Instant>> = vec![None; count];
        let mut ended: Vec<Option<(GatewayOutcome, Duration)>> = vec![None; count];
        let mut running = FuturesUnordered::new();
        let (mut next, mut start_next) = (0, started);
        let mut content = None;
        // The outcome for gateways without one of their own.
        let left = loop {
            let now = Instant::now();
            let may_start = next < count && running.len() < self.limits.concurrency.max(1);
            if may_start && (running.is_empty() || now >= start_next) {
                if let (Some(gateway), Some(read), Some(began)) = (self.gateways.get(next), read.get(next), began.get_mut(next)) {
                    running.push(self.ask(next, gateway, cid, turn, read));
                    *began = Some(now);
                }
                (next, start_next) = (next + 1, now + stagger);
                continue;
            }
            if running.is_empty() {
                break GatewayOutcome::Cancelled;
            }
            let until = if may_start { start_next.min(end) } else { end };
            match timeout_at(until, running.next()).await {
                Ok(Some((index, result))) => {
                    let took = began.get(index).copied().flatten().map_or(Duration::ZERO, |began| began.elapsed());
                    let (outcome, is_final) = match result {
                        Ok(bytes) => {
                            content = Some(bytes);
                            (GatewayOutcome::Served, true)
                        }
                        Err(outcome) => {
                            let is_final = matches!(outcome, GatewayOutcome::Refused { .. });
                            (outcome, is_final)
                        }
                    };
                    if let Some(slot) = ended.get_mut(index) {
                        *slot = Some((outcome, took));
                    }
                    if is_final {
                        break GatewayOutcome::Cancelled;
                    }
                    // A failed gateway is replaced at once.
                    start_next = Instant::now();
                }
                Ok(None) => {}
                Err(_) if Instant::now() >= end => {
                    let message = format!("no answer within {} ms", window.as_millis());
                    break unreachable(codes::fetch::TOTAL_TIMEOUT, message);
                }
                Err(_) => {}
            }
        };
        drop(running);
        let attempts = self.gateways.iter().zip(ended).zip(began).zip(&read).map(|(((gateway, ended), began), read)| {
            let (outcome, took) = ended.unwrap_or_else(|| (left.clone(), began.map_or(Duration::ZERO, |began| began.elapsed())));
            GatewayAttempt { gateway: gateway.origin(), outcome, bytes: read.load(Ordering::Relaxed), millis: millis(took) }
        });
        (content, attempts.collect())
    }

    /// Divides the time, so that every gateway is asked within it and has the same share.
    fn plan(&self, window: Duration) -> Plan {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let slots = self.limits.concurrency.clamp(1, self.gateways.len().max(1));
        let waves = count(self.gateways.len().div_ceil(slots));
        // The first starts of all slots take at most a quarter of the time; a twentieth is for the gaps between an end and the next start.
        let stagger = self.limits.stagger.min(window / count(slots).saturating_mul(4));
        let starts = stagger.saturating_mul(count(slots) - 1);
        let turn = (window * 19 / 20).saturating_sub(starts) / waves;
        Plan { stagger, turn: turn.min(self.limits.gateway) }
    }

    /// Retrieves the complete content from one gateway.
    async fn ask(&self, index: usize, gateway: &ConfiguredUrl, cid: &Cid, turn: Duration, read: &AtomicU64) -> (usize, Ended) {
        let walk = self.walk(gateway, cid, turn, read);
        let ended = timeout(turn, walk).await.unwrap_or_else(|_| {
            Err(unreachable(codes::fetch::TOTAL_TIMEOUT, format!("no content within {} ms", turn.as_millis())))
        });
        (index, ended)
    }

    async fn walk(&self, gateway: &ConfiguredUrl, cid: &Cid, turn: Duration, read: &AtomicU64) -> Ended {
        let mut limits = Limits::default();
        limits.wait = turn;
        limits.idle = self.limits.idle;
        limits.total = turn;
        // A block cannot be larger. A root is read completely even if the content limit is smaller: only its hash proves
        // that it is too large.
        limits.body = MAX_BLOCK_BYTES;
        let mut retriever = Retriever::new(cid.clone(), self.limits.content);
        while let Some(wanted) = retriever.wanted()? {
            let url = gateway
                .below(&["ipfs".to_owned(), wanted.to_string()], &[("format", "raw".to_owned())])
                .map_err(|error| unreachable(error.code(), error.to_string()))?;
            let exchange = self.client.get(&url, &self.headers, limits).await;
            let response = answer(&exchange)?;
            let body = response.body.as_bytes();
            read.fetch_add(body.len() as u64, Ordering::Relaxed);
            retriever.take(&wanted, body).map_err(|untaken| match untaken {
                Untaken::Mismatch(block) => mismatch(&block, response),
                Untaken::Refused(outcome) => outcome,
            })?;
        }
        Ok(retriever.finish())
    }
}

#[async_trait]
impl ContentSource for Gateways {
    async fn retrieve(&self, cid: &CidText, until: Instant) -> Retrieval {
        match Cid::try_from(cid) {
            Ok(parsed) => {
                let (content, attempts) = self.get(&parsed, until).await;
                Retrieval { cid: cid.as_str().to_owned(), content: content.map(Bytes::from), attempts }
            }
            Err(error) => refused_cid(cid, &error),
        }
    }
}

/// The response of a gateway, if it can contain a block.
fn answer(exchange: &Exchange) -> Result<&Response, GatewayOutcome> {
    let status = exchange.response.as_ref().map(|response| response.status);
    let refuse = |code: codes::Code, status: u16| Err(unreachable(code, format!("status {status}")));
    match (status, &exchange.failure, &exchange.response) {
        (Some(404 | 410), ..) => Err(GatewayOutcome::NotFound),
        (Some(status @ 300..=399), ..) => refuse(codes::fetch::REDIRECT, status),
        (Some(status @ 400..=499), ..) => refuse(codes::fetch::CLIENT_ERROR, status),
        (Some(status @ 500..=599), ..) => refuse(codes::fetch::SERVER_ERROR, status),
        (_, Some(failure), _) => Err(unreachable(failure.code, failure.detail.clone())),
        (Some(200), None, Some(response)) => Ok(response),
        (status, ..) => refuse(codes::fetch::STATUS, status.unwrap_or_default()),
    }
}

/// Interprets a response that does not match the hash of the block.
fn mismatch(wanted: &Cid, response: &Response) -> GatewayOutcome {
    let media = response.header("content-type").next().and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let is = |wanted: &str| media.eq_ignore_ascii_case(wanted);
    if is("text/html") || is("application/xhtml+xml") {
        return unreachable(codes::agent::GATEWAY_ANSWER, "a web page instead of the block");
    }
    match wanted.codec() {
        // Gateways that ignore the format serve the file. Without its blocks it cannot be compared with the CID.
        Codec::DagPb if !is(BLOCK) => {
            GatewayOutcome::Unverifiable { reason: "a file instead of the block, in a layout that is not known".to_owned() }
        }
        Codec::DagPb | Codec::Raw => GatewayOutcome::Tampered { block: wanted.to_string() },
    }
}
