//! The fast path of a step on PostgreSQL: steps of concurrent calls in one statement.
//!
//! There are two lanes, each with a connection and a task of its own: one for steps that need not be durable at once, reservations and
//! receipts, and one for the intention to settle, which must be durable before money moves. A lane takes all waiting steps and makes them
//! with one statement, which is one round trip and one commit; meanwhile the next ones queue up. One lane for each kind makes the groups as
//! large as possible. Each step is made completely or not at all. If it is not made, the case is not the usual one: the payment is known,
//! another process has leased it, or the store is nearly full. Then [`sql`](super::sql) makes the step alone, in a transaction, and returns
//! why. Locks are acquired in the same order as there: payments before rooms.
//!
//! Each lane counts in a room of its own, so that no two wait for each other's commit. Only the sum of all rooms has a meaning: what one
//! adds, another may subtract.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use alloy_primitives::B256;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use toolcrib_core::clock::UnixTime;

use super::sql::{cost, is_small, signed};
use super::statements as sql;
use super::{Limits, Receipt, ReplayKey, Reservation, Settlement, StoredResult, Ticket};
use crate::Error;
use crate::database::{Column, Database, Lane, Row, Value};

mod statements;

use statements::{BEGIN, BEGIN_LARGE, RESERVE, RESERVE_AND_SETTLE, SETTLE};

/// Most steps of one statement. Sixteen replicas that reserve as many at the same time stay within the margin of the limit.
const MOST: usize = (sql::MARGIN / 16) as usize;

/// How often at most a lane yields to other tasks before it sends what it has. It stops as soon as no step was added.
const GATHER_ROUNDS: usize = 8;

/// How long a step without a waiting caller waits for others. Other processes may not see it for that long.
const LATEST: Duration = Duration::from_millis(5);

/// Most steps in a lane's queue; further callers wait.
const QUEUE: usize = 1_024;

/// The lanes of a store. Clones share them; they end with the last one.
#[derive(Clone)]
pub(super) struct Batches {
    /// Steps whose commit does not wait for the disk.
    soon: mpsc::Sender<Job<Soon>>,
    begin: mpsc::Sender<Job<Beginning>>,
    limits: Limits,
}

impl Batches {
    /// Starts the lanes for this database, if it is PostgreSQL.
    pub(super) fn start(database: &Database, limits: Limits) -> Option<Self> {
        Some(Self { soon: start(database, limits)?, begin: start(database, limits)?, limits })
    }

    /// Reserves a payment that the store has never seen. `None` for every other.
    pub(super) async fn reserve(
        &self,
        key: &ReplayKey,
        reservation: &Reservation<'_>,
        now: UnixTime,
    ) -> Result<Option<Ticket>, Error> {
        reservation.check(now)?;
        let ticket = Ticket::random()?;
        let step = Reserving {
            id: key.to_bytes().to_vec(),
            ticket,
            times: [now, reservation.expires_at, reservation.lease_until].map(UnixTime::seconds),
            route: reservation.route.to_owned(),
            body_hash: reservation.body_hash,
            proof: reservation.proof.map(|proof| proof.0),
            payment_id: reservation.payment_id,
            is_leased: reservation.is_leased(),
        };
        Ok(make(&self.soon, Soon::Reserve(step)).await?.then_some(ticket))
    }

    /// Begins the settlement of a call whose result fits. Returns whether it did; otherwise the caller has to use the slow path.
    pub(super) async fn begin(&self, key: &ReplayKey, ticket: Ticket, settlement: &Settlement<'_>) -> Result<bool, Error> {
        settlement.check()?;
        let Some(result) = settlement.result.filter(|result| result.fits(&self.limits)) else { return Ok(false) };
        let step = Beginning {
            id: key.to_bytes().to_vec(),
            ticket,
            lease_until: settlement.lease_until.seconds(),
            note: settlement.note.to_owned(),
            from_block: settlement.from_block.and_then(|block| i64::try_from(block).ok()),
            result: result.clone(),
        };
        make(&self.begin, step).await
    }

    /// Records the settlement of a payment that is `settling`. Returns whether it did.
    pub(super) async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<bool, Error> {
        make(&self.soon, Soon::Settle(Settling::new(key, receipt, now, false)?)).await
    }

    /// Records a settlement without a waiting caller: it is made with the next reservations, if some come soon.
    pub(super) async fn settle_in_background(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<bool, Error> {
        make(&self.soon, Soon::Settle(Settling::new(key, receipt, now, true)?)).await
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batches")
    }
}

/// A step and its reply channel.
struct Job<S> {
    step: S,
    reply: oneshot::Sender<Result<bool, Error>>,
}

/// A step that can be made together with others of its kind.
trait Step: Sized + Send + Sync + 'static {
    /// Makes steps. Returns the marks of those that were made.
    fn make(lane: &mut Lane, room: i64, limits: &Limits, steps: &[&Self])
    -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// Returns the bytes that identify it.
    fn mark(&self) -> &[u8];

    /// Whether it may wait a moment for steps of other calls, since no caller waits for it.
    fn may_wait(&self) -> bool {
        false
    }
}

fn start<S: Step>(database: &Database, limits: Limits) -> Option<mpsc::Sender<Job<S>>> {
    static ROOM: AtomicU32 = AtomicU32::new(0);
    // Replicas start with different rooms.
    let _ = ROOM.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    let room = ROOM.fetch_add(1, Ordering::Relaxed) % u32::from(sql::ROOMS);
    let (queue, steps) = mpsc::channel(QUEUE);
    tokio::spawn(run::<S>(Lane::of(database)?, room.into(), limits, steps));
    Some(queue)
}

/// Returns `false` if the step has to use the slow path.
async fn make<S: Step>(lane: &mpsc::Sender<Job<S>>, step: S) -> Result<bool, Error> {
    let (reply, answer) = oneshot::channel();
    // A lane whose runtime has ended accepts nothing any more.
    if lane.send(Job { step, reply }).await.is_err() {
        return Ok(false);
    }
    let ended = |_| Error::Lost { detail: "the writer task has ended".to_owned() };
    answer.await.map_err(ended)?
}

/// Takes the steps of all calls that can run now. A statement costs PostgreSQL more than the rows in it, and the calls whose steps were in
/// the last statement are about to send their next ones.
async fn gather<S>(steps: &mut mpsc::Receiver<Job<S>>, jobs: &mut Vec<Job<S>>) {
    for _ in 0..GATHER_ROUNDS {
        let before = jobs.len();
        tokio::task::yield_now().await;
        while jobs.len() < MOST
            && let Ok(job) = steps.try_recv()
        {
            jobs.push(job);
        }
        if jobs.len() == before {
            return;
        }
    }
}

/// Waits while no caller waits for any of the steps, for a few milliseconds at most.
async fn wait_for_others<S: Step>(steps: &mut mpsc::Receiver<Job<S>>, jobs: &mut Vec<Job<S>>) {
    let until = Instant::now() + LATEST;
    while jobs.len() < MOST && jobs.iter().all(|job| job.step.may_wait()) {
        let most = MOST - jobs.len();
        // At the deadline, and when no more can come.
        if !timeout_at(until, steps.recv_many(jobs, most)).await.is_ok_and(|received| received > 0) {
            return;
        }
    }
}

async fn run<S: Step>(mut lane: Lane, room: i64, limits: Limits, mut steps: mpsc::Receiver<Job<S>>) {
    let mut jobs: Vec<Job<S>> = Vec::new();
    while steps.recv_many(&mut jobs, MOST).await > 0 {
        wait_for_others(&mut steps, &mut jobs).await;
        gather(&mut steps, &mut jobs).await;
        jobs.retain(|job| !job.reply.is_closed());
        // Of two steps with the same mark, the second uses the slow path, after the first.
        let is_first: Vec<bool> = {
            let mut marks = HashSet::with_capacity(jobs.len());
            jobs.iter().map(|job| marks.insert(job.step.mark())).collect()
        };
        if is_first.is_empty() {
            continue;
        }
        let mut is_first = is_first.into_iter();
        let (first, twice): (Vec<_>, Vec<_>) = jobs.drain(..).partition(|_| is_first.next().unwrap_or_default());
        let made = S::make(&mut lane, room, &limits, &first.iter().map(|job| &job.step).collect::<Vec<_>>()).await;
        let marks = made.as_ref().map(|rows| rows.iter().map(Row::scalar::<&[u8]>).collect::<Result<HashSet<_>, Error>>());
        for job in first {
            let answer = match &marks {
                Ok(Ok(made)) => Ok(made.contains(job.step.mark())),
                // It is unknown whether it was made.
                Err(Error::Lost { detail }) | Ok(Err(Error::Lost { detail })) => Err(Error::Lost { detail: detail.clone() }),
                // Nothing was made, perhaps because of one of them.
                Err(_) | Ok(Err(_)) => Ok(false),
            };
            // Fails if the caller is gone.
            let _ = job.reply.send(answer);
        }
        for job in twice {
            let _ = job.reply.send(Ok(false));
        }
    }
}

struct Reserving {
    id: Vec<u8>,
    ticket: Ticket,
    /// Now, the end of the authorization, and the end of the lease.
    times: [i64; 3],
    route: String,
    body_hash: B256,
    proof: Option<B256>,
    payment_id: Option<B256>,
    is_leased: bool,
}

struct Settling {
    id: Vec<u8>,
    receipt: Receipt,
    now: UnixTime,
    may_wait: bool,
}

impl Settling {
    fn new(key: &ReplayKey, receipt: &Receipt, now: UnixTime, may_wait: bool) -> Result<Self, Error> {
        receipt.check()?;
        Ok(Self { id: key.to_bytes().to_vec(), receipt: receipt.clone(), now, may_wait })
    }
}

/// A step whose loss in a power failure is harmless: a reservation that is lost was not used, and a payment whose receipt is lost is still
/// recorded as `settling`, with its result.
enum Soon {
    Reserve(Reserving),
    Settle(Settling),
}

impl Step for Soon {
    async fn make(lane: &mut Lane, room: i64, limits: &Limits, steps: &[&Self]) -> Result<Vec<Row>, Error> {
        let (mut reserved, mut settled) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Self::Reserve(step) => reserved.push(step),
                Self::Settle(step) => settled.push(step),
            }
        }
        // In a fixed order, so that two replicas that reserve the same payments do not deadlock.
        reserved.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let time = |at: usize| reserved.iter().map(|step| step.times[at]).collect::<Vec<_>>();
        let [now, expires_at, lease_until] = [time(0), time(1), time(2)];
        let reserve = [
            Column::Bytes(&reserved.iter().map(|step| step.id.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&reserved.iter().map(|step| step.ticket.0.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&now),
            Column::Integers(&expires_at),
            Column::Integers(&lease_until),
            Column::Texts(&reserved.iter().map(|step| step.route.as_str()).collect::<Vec<_>>()),
            Column::Bytes(&reserved.iter().map(|step| step.body_hash.as_slice()).collect::<Vec<_>>()),
            Column::OptionalBytes(
                &reserved.iter().map(|step| step.proof.as_ref().map(|proof| proof.as_slice())).collect::<Vec<_>>(),
            ),
            Column::OptionalBytes(
                &reserved.iter().map(|step| step.payment_id.as_ref().map(|id| id.as_slice())).collect::<Vec<_>>(),
            ),
        ];
        let settle = [
            Column::Bytes(&settled.iter().map(|step| step.id.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&settled.iter().map(|step| step.receipt.transaction.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&settled.iter().map(|step| step.receipt.response.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&settled.iter().map(|step| limits.result_until(step.now)).collect::<Vec<_>>()),
        ];
        let limit = Value::Integer(signed(limits.entries.saturating_sub(sql::MARGIN)));
        // One durable reservation makes the whole commit durable.
        let durable = Value::Text(if reserved.iter().all(|step| step.is_leased) { "off" } else { "on" });
        match (reserved.is_empty(), settled.is_empty()) {
            (true, _) => lane.fetch(SETTLE, &settle, &[durable]).await,
            (false, true) => lane.fetch(RESERVE, &reserve, &[Value::Integer(room), limit, durable]).await,
            (false, false) => {
                let columns = [&reserve[..], &settle].concat();
                lane.fetch(RESERVE_AND_SETTLE, &columns, &[Value::Integer(room), limit, durable]).await
            }
        }
    }

    fn mark(&self) -> &[u8] {
        match self {
            Self::Reserve(step) => &step.ticket.0,
            Self::Settle(step) => &step.id,
        }
    }

    fn may_wait(&self) -> bool {
        matches!(self, Self::Settle(Settling { may_wait: true, .. }))
    }
}

/// Must be on disk before its caller continues.
struct Beginning {
    id: Vec<u8>,
    ticket: Ticket,
    lease_until: i64,
    note: Vec<u8>,
    from_block: Option<i64>,
    result: StoredResult,
}

impl Step for Beginning {
    async fn make(lane: &mut Lane, room: i64, limits: &Limits, steps: &[&Self]) -> Result<Vec<Row>, Error> {
        let costs: Vec<i64> = steps.iter().map(|step| cost(&step.result)).collect();
        let limit = signed(limits.most_result_bytes()).saturating_sub(costs.iter().sum());
        let begin = [
            Column::Bytes(&steps.iter().map(|step| step.id.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&steps.iter().map(|step| step.ticket.0.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&steps.iter().map(|step| step.lease_until).collect::<Vec<_>>()),
            Column::Bytes(&steps.iter().map(|step| step.note.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&costs),
            Column::OptionalIntegers(&steps.iter().map(|step| step.from_block).collect::<Vec<_>>()),
            Column::Integers(&steps.iter().map(|step| step.result.status.into()).collect::<Vec<_>>()),
            Column::Texts(&steps.iter().map(|step| step.result.content_type.as_str()).collect::<Vec<_>>()),
            Column::Bytes(&steps.iter().map(|step| step.result.body.as_slice()).collect::<Vec<_>>()),
        ];
        let small: Vec<bool> = steps.iter().map(|step| is_small(&step.result)).collect();
        let values = [Value::Integer(room), Value::Integer(limit)];
        if small.contains(&false) {
            let columns = [&begin[..], &[Column::Booleans(&small)]].concat();
            return lane.fetch(BEGIN_LARGE, &columns, &values).await;
        }
        lane.fetch(BEGIN, &begin, &values).await
    }

    fn mark(&self) -> &[u8] {
        &self.ticket.0
    }
}
