//! The usual course of a step on PostgreSQL: steps of concurrent calls in one statement.
//!
//! There are two lanes, each with a connection and a task of its own: one for reservations, which need not be on the disk at once, and
//! one for the steps around a settlement, which must. A lane takes all steps that wait and makes them with one statement, which is one
//! round trip and one commit; the next ones gather meanwhile. One lane for each makes the groups as large as
//! they can be. Each step is made whole or not at all. Not at all means that something is not as usual: the payment is known, another
//! holds it, or the store is nearly full. Then [`sql`](super::sql) takes the step by itself, in a transaction, and says why. Locks are
//! taken in the same order as there: payments before rooms.
//!
//! Each lane counts in a room of its own, so that no two wait for each other's commit. Only the sum of all rooms means anything: what
//! one counts, another may take away.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use alloy_primitives::B256;
use tokio::sync::{mpsc, oneshot};
use toolcrib_core::clock::UnixTime;

use super::sql::{cost, is_small, signed};
use super::statements as sql;
use super::{Limits, Receipt, ReplayKey, Reservation, Settlement, StoredResult, Ticket};
use crate::Error;
use crate::database::{Column, Database, Lane, Row, Value};

/// Steps of one statement at most. Sixteen replicas that reserve as many at the same moment stay within the margin of the limit.
const MOST: usize = (sql::MARGIN / 16) as usize;

/// Steps that wait in a lane at most; who comes later waits before.
const QUEUE: usize = 1_024;

// As RESERVE and ENTER: $1 to $9, the room, the limit less the margin, and whether the commit waits for the disk: `on` or `off`.
const RESERVE: &str = "WITH durable AS MATERIALIZED (
    SELECT CASE WHEN $12 = 'off' THEN set_config('synchronous_commit', 'off', TRUE) ELSE $12 END AS level),
    made AS (
    INSERT INTO replay
    (id, state, ticket, room, reserved_at, expires_at, lease_until, keep_until, route, body_hash, proof, payment_id,
    runs, result_bytes, result_until)
    SELECT g.id, 0, g.ticket, $10, g.now, g.expires_at, g.lease_until, g.expires_at, g.route, g.body_hash, g.proof,
    g.payment_id, 0, 0, 0
    FROM UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[],
    $9::bytea[]) AS g (id, ticket, now, expires_at, lease_until, route, body_hash, proof, payment_id)
    WHERE (SELECT SUM(entries) FROM replay_room) < $11 AND (SELECT level FROM durable) IS NOT NULL
    ON CONFLICT DO NOTHING RETURNING ticket),
    counted AS (UPDATE replay_room SET entries = entries + (SELECT COUNT(*) FROM made)
    WHERE room = $10 AND EXISTS (SELECT 1 FROM made))
    SELECT ticket FROM made";

/// Begins settlements with small results, as `BEGIN_SETTLEMENT` does: $1 to $9, and the limit of bytes less those of these results.
macro_rules! begun {
    ($limit:literal) => {
        concat!(
            "begun AS (UPDATE replay SET state = 1, lease_until = given.lease_until, keep_until = 9223372036854775807,
    note = given.note, runs = 0, result_bytes = given.bytes, from_block = given.from_block, status = given.status,
    content_type = given.content_type, body = given.body
    FROM UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
    $9::bytea[]) AS given (id, ticket, lease_until, note, bytes, from_block, status, content_type, body)
    WHERE replay.id = given.id AND replay.ticket = given.ticket AND replay.state = 0
    AND (SELECT SUM(bytes) FROM replay_room) <= ",
            $limit,
            " RETURNING replay.ticket, given.bytes)"
        )
    };
}

/// Settles payments, as SETTLE does: identifiers, transactions, receipts, and until when results are kept.
macro_rules! settled {
    ($ids:literal, $transactions:literal, $receipts:literal, $until:literal) => {
        concat!(
            "UPDATE replay SET state = 2, tx = paid.tx, receipt = paid.receipt, note = NULL, result_until = paid.until,
    keep_until = CASE WHEN paid.until > expires_at THEN paid.until ELSE expires_at END
    FROM UNNEST(",
            $ids,
            "::bytea[], ",
            $transactions,
            "::bytea[], ",
            $receipts,
            "::bytea[], ",
            $until,
            "::bigint[]) AS paid (id, tx, receipt, until)
    WHERE replay.id = paid.id AND replay.state IN (1, 3) RETURNING replay.id"
        )
    };
}

/// Counts results that are kept, as FILL does, in a room.
macro_rules! counted {
    ($room:literal) => {
        concat!(
            "counted AS (UPDATE replay_room SET bytes = bytes + (SELECT CAST(SUM(begun.bytes) AS BIGINT) FROM begun)
    WHERE room = ",
            $room,
            " AND EXISTS (SELECT 1 FROM begun)"
        )
    };
}

// A statement for each kind of group: preparing a part that has nothing to do takes PostgreSQL as long as the work on several rows.
const BEGIN: &str = concat!("WITH ", begun!("$11"), ", ", counted!("$10"), ") SELECT ticket FROM begun");
const SETTLE: &str = settled!("$1", "$2", "$3", "$4");
// That all payments come before the room is what the count of those that are settled is for.
const BEGIN_AND_SETTLE: &str = concat!(
    "WITH ",
    begun!("$15"),
    ", settled AS (",
    settled!("$10", "$11", "$12", "$13"),
    "), ",
    counted!("$14"),
    " AND (SELECT COUNT(*) FROM settled) >= 0) SELECT ticket FROM begun UNION ALL SELECT id FROM settled"
);

// The same where some results are not small, with KEEP_RESULT: $1 to $10 and $11 to $14; the room, and the limit.
const BEGIN_LARGE_AND_SETTLE: &str = concat!(
    "WITH given AS (SELECT * FROM
    UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::bytea[],
    $10::boolean[]) AS g (id, ticket, lease_until, note, bytes, from_block, status, content_type, body, is_small)),
    begun AS (UPDATE replay SET state = 1, lease_until = given.lease_until, keep_until = 9223372036854775807, note = given.note,
    runs = 0, result_bytes = given.bytes, from_block = given.from_block, status = CASE WHEN given.is_small THEN given.status END,
    content_type = CASE WHEN given.is_small THEN given.content_type END, body = CASE WHEN given.is_small THEN given.body END FROM given
    WHERE replay.id = given.id AND replay.ticket = given.ticket AND replay.state = 0
    AND (SELECT SUM(bytes) FROM replay_room) <= $16 RETURNING replay.id, replay.ticket, given.bytes),
    kept AS (INSERT INTO replay_result (id, status, content_type, body)
    SELECT begun.id, given.status, given.content_type, given.body FROM begun JOIN given ON given.ticket = begun.ticket
    WHERE NOT given.is_small),
    settled AS (",
    settled!("$11", "$12", "$13", "$14"),
    "), ",
    counted!("$15"),
    " AND (SELECT COUNT(*) FROM settled) >= 0) SELECT ticket FROM begun UNION ALL SELECT id FROM settled"
);

/// The lanes of a store. Clones share them; they end with the last.
#[derive(Clone)]
pub(super) struct Batches {
    reserve: mpsc::Sender<Job<Reserving>>,
    change: mpsc::Sender<Job<Change>>,
    limits: Limits,
}

impl Batches {
    /// The lanes to this database, if it is PostgreSQL.
    pub(super) fn start(database: &Database, limits: Limits) -> Option<Self> {
        Some(Self { reserve: start(database, limits)?, change: start(database, limits)?, limits })
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
        Ok(make(&self.reserve, step).await?.then_some(ticket))
    }

    /// Begins the settlement of a call that gave a result which fits. Gives whether it did; every other has to go the longer way.
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
        make(&self.change, Change::Begin(step)).await
    }

    /// Writes down that a payment was settled that was being settled. Gives whether it did.
    pub(super) async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<bool, Error> {
        receipt.check()?;
        let step = Settling { id: key.to_bytes().to_vec(), receipt: receipt.clone(), now };
        make(&self.change, Change::Settle(step)).await
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batches")
    }
}

/// A step, and who waits for it.
struct Job<S> {
    step: S,
    reply: oneshot::Sender<Result<bool, Error>>,
}

/// A step that can be made together with others of its kind.
trait Step: Sized + Send + Sync + 'static {
    /// Makes steps. Gives the marks of those that were made.
    fn make(lane: &mut Lane, room: i64, limits: &Limits, steps: &[&Self])
    -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// What tells it from the others.
    fn mark(&self) -> &[u8];
}

fn start<S: Step>(database: &Database, limits: Limits) -> Option<mpsc::Sender<Job<S>>> {
    static ROOM: AtomicU32 = AtomicU32::new(0);
    // Replicas begin at different rooms.
    let _ = ROOM.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    let room = ROOM.fetch_add(1, Ordering::Relaxed) % u32::from(sql::ROOMS);
    let (queue, steps) = mpsc::channel(QUEUE);
    tokio::spawn(run::<S>(Lane::of(database)?, room.into(), limits, steps));
    Some(queue)
}

/// `false` when it has to go the longer way.
async fn make<S: Step>(lane: &mpsc::Sender<Job<S>>, step: S) -> Result<bool, Error> {
    let (reply, answer) = oneshot::channel();
    // A lane whose runtime has ended takes nothing any more.
    if lane.send(Job { step, reply }).await.is_err() {
        return Ok(false);
    }
    let ended = |_| Error::Lost { detail: "the task that writes has ended".to_owned() };
    answer.await.map_err(ended)?
}

async fn run<S: Step>(mut lane: Lane, room: i64, limits: Limits, mut steps: mpsc::Receiver<Job<S>>) {
    let mut jobs: Vec<Job<S>> = Vec::new();
    while steps.recv_many(&mut jobs, MOST).await > 0 {
        jobs.retain(|job| !job.reply.is_closed());
        // Of two steps with one mark, the second takes the longer way, after the first.
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
        let marks = made.as_ref().map(|rows| rows.iter().map(|row| row.bytes(0)).collect::<Result<HashSet<_>, Error>>());
        for job in first {
            let answer = match &marks {
                Ok(Ok(made)) => Ok(made.contains(job.step.mark())),
                // Nobody knows whether it was made.
                Err(Error::Lost { detail }) | Ok(Err(Error::Lost { detail })) => Err(Error::Lost { detail: detail.clone() }),
                // Nothing was made, perhaps because of one of them.
                Err(_) | Ok(Err(_)) => Ok(false),
            };
            // Who has gone away meanwhile does not hear of it.
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
    /// Now, the end of the authorization, and that of the lease.
    times: [i64; 3],
    route: String,
    body_hash: B256,
    proof: Option<B256>,
    payment_id: Option<B256>,
    is_leased: bool,
}

impl Step for Reserving {
    async fn make(lane: &mut Lane, room: i64, limits: &Limits, steps: &[&Self]) -> Result<Vec<Row>, Error> {
        // In one order, so that two replicas that reserve the same payments do not wait for each other.
        let mut steps = steps.to_vec();
        steps.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let time = |at: usize| steps.iter().map(|step| step.times[at]).collect::<Vec<_>>();
        let [now, expires_at, lease_until] = [time(0), time(1), time(2)];
        let columns = [
            Column::Bytes(&steps.iter().map(|step| step.id.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&steps.iter().map(|step| step.ticket.0.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&now),
            Column::Integers(&expires_at),
            Column::Integers(&lease_until),
            Column::Texts(&steps.iter().map(|step| step.route.as_str()).collect::<Vec<_>>()),
            Column::Bytes(&steps.iter().map(|step| step.body_hash.as_slice()).collect::<Vec<_>>()),
            Column::OptionalBytes(
                &steps.iter().map(|step| step.proof.as_ref().map(|proof| proof.as_slice())).collect::<Vec<_>>(),
            ),
            Column::OptionalBytes(&steps.iter().map(|step| step.payment_id.as_ref().map(|id| id.as_slice())).collect::<Vec<_>>()),
        ];
        let limit = Value::Integer(signed(limits.entries.saturating_sub(sql::MARGIN)));
        // One that must be on the disk takes the others along.
        let durable = if steps.iter().all(|step| step.is_leased) { "off" } else { "on" };
        lane.fetch(RESERVE, &columns, &[Value::Integer(room), limit, Value::Text(durable)]).await
    }

    fn mark(&self) -> &[u8] {
        &self.ticket.0
    }
}

struct Beginning {
    id: Vec<u8>,
    ticket: Ticket,
    lease_until: i64,
    note: Vec<u8>,
    from_block: Option<i64>,
    result: StoredResult,
}

struct Settling {
    id: Vec<u8>,
    receipt: Receipt,
    now: UnixTime,
}

/// A step that must be on the disk before its caller goes on.
enum Change {
    Begin(Beginning),
    Settle(Settling),
}

impl Step for Change {
    async fn make(lane: &mut Lane, room: i64, limits: &Limits, steps: &[&Self]) -> Result<Vec<Row>, Error> {
        let (mut begun, mut settled) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Self::Begin(step) => begun.push(step),
                Self::Settle(step) => settled.push(step),
            }
        }
        let costs: Vec<i64> = begun.iter().map(|step| cost(&step.result)).collect();
        let limit = signed(limits.most_result_bytes()).saturating_sub(costs.iter().sum());
        let begin = [
            Column::Bytes(&begun.iter().map(|step| step.id.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&begun.iter().map(|step| step.ticket.0.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&begun.iter().map(|step| step.lease_until).collect::<Vec<_>>()),
            Column::Bytes(&begun.iter().map(|step| step.note.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&costs),
            Column::OptionalIntegers(&begun.iter().map(|step| step.from_block).collect::<Vec<_>>()),
            Column::Integers(&begun.iter().map(|step| step.result.status.into()).collect::<Vec<_>>()),
            Column::Texts(&begun.iter().map(|step| step.result.content_type.as_str()).collect::<Vec<_>>()),
            Column::Bytes(&begun.iter().map(|step| step.result.body.as_slice()).collect::<Vec<_>>()),
        ];
        let settle = [
            Column::Bytes(&settled.iter().map(|step| step.id.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&settled.iter().map(|step| step.receipt.transaction.as_slice()).collect::<Vec<_>>()),
            Column::Bytes(&settled.iter().map(|step| step.receipt.response.as_slice()).collect::<Vec<_>>()),
            Column::Integers(&settled.iter().map(|step| limits.result_until(step.now)).collect::<Vec<_>>()),
        ];
        let small: Vec<bool> = begun.iter().map(|step| is_small(&step.result)).collect();
        let values = [Value::Integer(room), Value::Integer(limit)];
        if begun.is_empty() {
            return lane.fetch(SETTLE, &settle, &[]).await;
        }
        if small.contains(&false) {
            let columns = [&begin[..], &[Column::Booleans(&small)], &settle].concat();
            return lane.fetch(BEGIN_LARGE_AND_SETTLE, &columns, &values).await;
        }
        if settled.is_empty() {
            return lane.fetch(BEGIN, &begin, &values).await;
        }
        lane.fetch(BEGIN_AND_SETTLE, &[&begin[..], &settle].concat(), &values).await
    }

    fn mark(&self) -> &[u8] {
        match self {
            Self::Begin(step) => &step.ticket.0,
            Self::Settle(step) => &step.id,
        }
    }
}
