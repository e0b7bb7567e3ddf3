//! Probes resources for their price.
//!
//! Others write the catalogues, so a probe goes to an untrusted host: it uses the untrusted client with its egress policy, carries no
//! data, is not repeated within a day, and waits for the origin's time slot as verification does. Only GET and POST without arguments are
//! sent; a resource with another method is not probed.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Headers, Limits, Target, Untrusted};
use toolcrib_judge::evidence::Exchange;
use toolcrib_store::database::{FromRow as _, PerEngine, Value};
use toolcrib_store::{row, sql};
use toolcrib_x402::{ItemAccess, MAX_BODY_BYTES, ProbeAnswer, ProbeState, Subject, judge_probe, read_answer};

use super::model::{ProbeFacts, ResourceView, prices};
use super::options::BazaarOptions;
use super::{Token, token};
use crate::feed::{self, Kinds};
use crate::work::kept::json;
use crate::work::origins::{self, Holder, Turn};
use crate::work::pace::{grown, spread_by};
use crate::{Error, Index};

/// The duration of a lease in seconds: a probe takes at most fifteen, and writing is quick.
const LEASE_SECONDS: i64 = 60;

/// The pause after a probe that failed because of this machine's network. Each following pause is twice as long, up to the interval.
const UNCLEAR_SECONDS: i64 = 300;

/// Consecutive probes after which the cause is not this machine's network: they span over half an hour, and other hosts respond meanwhile.
const UNCLEAR_ATTEMPTS: u32 = 3;

/// The body of a POST: an object without arguments.
const NOTHING: &[u8] = b"{}";

/// The state of a resource that is not probed.
const NOT_PROBED: &str = "not_probed";

/// Returns how a resource may be probed, as the database stores it: tools of MCP servers and other methods are not probed.
pub(super) const fn method(access: &ItemAccess) -> &'static str {
    match access {
        ItemAccess::Http { method: Some(method) } => match method.as_bytes() {
            b"GET" | b"HEAD" => "GET",
            b"POST" => "POST",
            _ => "other",
        },
        // A resource without a stated method is requested with the safe method.
        ItemAccess::Http { method: None } => "GET",
        ItemAccess::Mcp { .. } => "mcp",
    }
}

/// What one round of a prober did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeRound {
    /// Resources that were leased.
    pub leased: usize,
    /// Probes whose outcome was written.
    pub probed: usize,
    /// Outcomes that differ from the previous one.
    pub changed: usize,
    /// Resources whose origin had no free time slot, or whose probe failed because of this machine's network.
    pub postponed: usize,
}

/// Probes resources that are due.
pub struct Prober {
    index: Index,
    client: Untrusted,
    clock: Arc<dyn Clock + Send + Sync>,
    options: BazaarOptions,
    token: Token,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A resource that this prober has leased.
struct Job {
    id: i64,
    url: String,
    method: String,
    attempts: u32,
    last: Option<ProbeFacts>,
}

row! {
    /// A resource that was leased.
    struct LeasedRow<'r> {
        id: i64,
        url: String,
        method: String,
        attempts: i64,
        probe: Option<&'r str>,
    }
}

/// Of those that are due, the one that waits longest goes first.
const LEASE: PerEngine = PerEngine {
    sqlite: sql!(
        "WITH due AS MATERIALIZED (SELECT id FROM index_bazaar_resource
            WHERE listed AND due_at <= $3 AND (leased_until IS NULL OR leased_until <= $3) ORDER BY due_at LIMIT $4)
        UPDATE index_bazaar_resource SET leased_until = $1, lease = $2 WHERE id IN (SELECT id FROM due)
        RETURNING ",
        LeasedRow::COLUMNS
    ),
    postgres: sql!(
        "WITH due AS MATERIALIZED (SELECT id FROM index_bazaar_resource
            WHERE listed AND due_at <= $3 AND (leased_until IS NULL OR leased_until <= $3) ORDER BY due_at LIMIT $4
            FOR UPDATE SKIP LOCKED)
        UPDATE index_bazaar_resource SET leased_until = $1, lease = $2 WHERE id IN (SELECT id FROM due)
        RETURNING ",
        LeasedRow::COLUMNS
    ),
};
const POSTPONE: &str = "UPDATE index_bazaar_resource SET due_at = $3, attempts = $4, leased_until = NULL, lease = NULL
    WHERE id = $1 AND lease = $2";
const WRITE: &str = "UPDATE index_bazaar_resource SET due_at = $3, attempts = 0, leased_until = NULL, lease = NULL, probe = $4,
    updated_at = CASE WHEN $5 THEN $6 ELSE updated_at END WHERE id = $1 AND lease = $2";

/// The outcome of a probe.
enum Outcome {
    Facts(ProbeFacts),
    /// The origin has no free time slot before this time.
    Turn(UnixTime),
    /// The cause may be this machine's network.
    Unclear,
}

/// The outcome of a job.
struct Step {
    /// Whether the outcome was written; `false` when another prober has the lease, `None` when the probe was postponed.
    is_probed: Option<bool>,
    is_change: bool,
}

impl Prober {
    /// Creates a prober that uses this client.
    pub fn new(
        index: Index,
        client: Untrusted,
        clock: Arc<dyn Clock + Send + Sync>,
        options: BazaarOptions,
    ) -> Result<Self, Error> {
        Ok(Self { index, client, clock, options, token: token()? })
    }

    /// Runs until `shutdown`.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        loop {
            // A round is short, so a round in progress is finished.
            if let Err(error) = self.round().await {
                tracing::warn!(code = error.code().id(), %error, "resources could not be probed, retrying");
            }
            // Also after a full round: this limits the rate.
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(self.options.poll) => {}
            }
        }
    }

    /// Leases what is due, up to the number of concurrent probes, and writes the outcomes.
    pub async fn round(&self) -> Result<ProbeRound, Error> {
        let jobs = self.lease().await?;
        let mut round = ProbeRound { leased: jobs.len(), ..ProbeRound::default() };
        // Each writes its own outcome: a probe in progress may hold what the database waits for.
        let mut steps = stream::iter(jobs.into_iter().map(|job| self.step(job))).buffer_unordered(self.options.probes.max(1));
        while let Some(step) = steps.next().await {
            let Step { is_probed, is_change } = step?;
            round.probed += usize::from(is_probed == Some(true));
            round.postponed += usize::from(is_probed.is_none());
            round.changed += usize::from(is_change);
        }
        Ok(round)
    }

    /// Probes a resource and writes the outcome.
    async fn step(&self, job: Job) -> Result<Step, Error> {
        let (at, attempts) = match self.probe(&job).await? {
            Outcome::Facts(facts) => {
                let is_change = !job.last.as_ref().is_some_and(|last| last.is_same(&facts));
                let is_probed = self.write(&job, &facts, is_change).await?;
                return Ok(Step { is_probed: Some(is_probed), is_change: is_probed && is_change });
            }
            Outcome::Turn(at) => (at, job.attempts),
            Outcome::Unclear => {
                let pause = grown(UNCLEAR_SECONDS, job.attempts, self.options.probe_interval);
                (self.clock.now().plus(pause), job.attempts.saturating_add(1))
            }
        };
        self.postpone(&job, at, attempts).await?;
        Ok(Step { is_probed: None, is_change: false })
    }

    async fn lease(&self) -> Result<Vec<Job>, Error> {
        let now = self.clock.now();
        let count = i64::try_from(self.options.probes.max(1)).unwrap_or(1);
        let values = [
            Value::Integer(now.plus(LEASE_SECONDS).seconds()),
            Value::Bytes(&self.token),
            Value::Integer(now.seconds()),
            Value::Integer(count),
        ];
        let mut transaction = self.index.database().begin().await?;
        let rows = transaction.fetch_made(self.index.database().pick(LEASE).to_owned(), &values).await?;
        transaction.commit().await?;
        let read = |row: LeasedRow<'_>| Job {
            id: row.id,
            url: row.url,
            method: row.method,
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            last: row.probe.and_then(|document| serde_json::from_str(document).ok()),
        };
        LeasedRow::from_rows(&rows).map(|row| Ok(read(row?))).collect()
    }

    async fn probe(&self, job: &Job) -> Result<Outcome, Error> {
        let now = self.clock.now();
        let not_probed = |code: Code| {
            let (state, code) = (NOT_PROBED.to_owned(), Some(code.id().to_owned()));
            Ok(Outcome::Facts(ProbeFacts { at: now, state, status: None, code, prices: Vec::new() }))
        };
        let is_post = match job.method.as_str() {
            "GET" => false,
            "POST" => true,
            "mcp" => return not_probed(codes::bazaar::MCP),
            _ => return not_probed(codes::bazaar::METHOD),
        };
        let Ok(url) = HttpsUrl::parse(&job.url) else { return Err(Error::Corrupt { what: "URL of a resource" }) };
        let origin = url.origin().to_string();
        let holder = Holder { token: &self.token, is_requested: false };
        let turn = origins::take(&self.index, &origin, holder, LEASE_SECONDS, self.options.origin_pause, now).await?;
        if let Turn::At(at) = turn {
            return Ok(Outcome::Turn(at));
        }
        let exchange = self.ask(&url, is_post).await;
        origins::leave(&self.index, &origin, &self.token, self.options.origin_pause, self.clock.now()).await?;
        let is_unclear = exchange.failure.as_ref().is_some_and(|failure| codes::fetch::is_transient(failure.code));
        if is_unclear && job.attempts < UNCLEAR_ATTEMPTS {
            return Ok(Outcome::Unclear);
        }
        Ok(Outcome::Facts(facts(&exchange, is_post, now)))
    }

    async fn ask(&self, url: &HttpsUrl, is_post: bool) -> Exchange {
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_BODY_BYTES;
        // Never the development environment: a catalogue is not a tool of its chain.
        let target = Target::endpoint(url, None).limits(limits);
        // Both are constant names and values, so they are always valid.
        let headers = Headers::new().with("accept", "application/json").unwrap_or_default();
        if !is_post {
            return self.client.get_with(&target, &headers).await;
        }
        let headers = headers.with("content-type", "application/json").unwrap_or_default();
        self.client.post(&target, &headers, NOTHING).await
    }

    async fn postpone(&self, job: &Job, at: UnixTime, attempts: u32) -> Result<(), Error> {
        let (at, attempts) = (Value::Integer(at.seconds()), Value::Integer(i64::from(attempts)));
        let values = [Value::Integer(job.id), Value::Bytes(&self.token), at, attempts];
        self.index.database().execute(POSTPONE, &values).await?;
        Ok(())
    }

    /// Writes an outcome. `false` when another prober has the lease.
    async fn write(&self, job: &Job, facts: &ProbeFacts, is_change: bool) -> Result<bool, Error> {
        let now = self.clock.now();
        let pause = self.options.probe_interval;
        let due = now.plus(pause.saturating_add(spread_by(&job.id.to_be_bytes(), pause)));
        let document = json(facts)?;
        let values = [
            Value::Integer(job.id),
            Value::Bytes(&self.token),
            Value::Integer(due.seconds()),
            Value::Text(&document),
            Value::Boolean(is_change),
            Value::Integer(now.seconds()),
        ];
        let mut transaction = self.index.database().begin().await?;
        if transaction.execute(WRITE, &values).await? == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        if is_change {
            feed::record(&mut transaction, &[(ResourceView::key_of(job.id), Kinds::FACTS)], now).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}

/// Converts an HTTP exchange to the facts of a probe.
fn facts(exchange: &Exchange, is_post: bool, at: UnixTime) -> ProbeFacts {
    let code = exchange.failure.as_ref().map(|failure| failure.code.id().to_owned());
    let Some(response) = exchange.complete() else {
        return ProbeFacts { at, state: word(ProbeState::NoAnswer).to_owned(), status: None, code, prices: Vec::new() };
    };
    let answer = ProbeAnswer {
        method: if is_post { toolcrib_x402::Method::Post } else { toolcrib_x402::Method::Get },
        status: response.status,
        headers: response.headers.clone(),
        body: response.body.as_bytes().to_vec(),
    };
    let subject = Subject { pricing: &[], is_gated: false, creator: None };
    let report = judge_probe(std::slice::from_ref(&answer), &subject);
    let reading = read_answer(&answer);
    let prices = match (report.state, reading.challenge()) {
        (ProbeState::Challenges, Some(challenge)) => prices(&challenge.accepts),
        _ => Vec::new(),
    };
    ProbeFacts { at, state: word(report.state).to_owned(), status: Some(response.status), code: None, prices }
}

const fn word(state: ProbeState) -> &'static str {
    match state {
        ProbeState::Missing => "missing",
        ProbeState::Redirects => "redirects",
        ProbeState::Fails => "fails",
        ProbeState::Refuses => "refuses",
        ProbeState::Challenges => "challenges",
        ProbeState::Serves => "serves",
        // Includes states of a later version, which this version does not know.
        _ => "no_answer",
    }
}
