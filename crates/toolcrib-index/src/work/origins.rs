//! Politeness: at most one concurrent request to an origin, and a pause between two, across all workers.
//!
//! A row for each origin has the time from which on the next request may be sent. A worker first moves that time past the end of its own
//! request, so that a worker that dies does not block the others for long. Workers that come too early get consecutive time slots, instead
//! of all trying again at once.

use std::collections::BTreeMap;

use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_store::database::{Column, PerEngine, Value};

use crate::{Error, Index};

/// The furthest slot in the future, in seconds. An origin with more tools than that needs several rounds.
const MAX_WAIT: i64 = 3_600;

/// A time slot at an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Now.
    Now,
    /// At this time.
    At(UnixTime),
}

/// On PostgreSQL the commit does not wait for the disk, and neither does that of [`LEAVE`]: a slot lost in a crash of the server only
/// causes a request that comes too early, and waiting took most of the time of a verdict.
const TAKE: PerEngine = PerEngine {
    sqlite: "INSERT INTO index_origin (origin, next_at, turns_until, holder) VALUES ($1, $2, 0, $3)
    ON CONFLICT (origin) DO UPDATE SET next_at = excluded.next_at, holder = excluded.holder WHERE index_origin.next_at <= $4",
    postgres: "INSERT INTO index_origin (origin, next_at, turns_until, holder)
    SELECT $1, $2, 0, $3 FROM (SELECT set_config('synchronous_commit', 'off', TRUE) AS set) AS c WHERE c.set IS NOT NULL
    ON CONFLICT (origin) DO UPDATE SET next_at = excluded.next_at, holder = excluded.holder WHERE index_origin.next_at <= $4",
};
const WAIT: &str = "UPDATE index_origin SET turns_until = CASE
        WHEN turns_until < $2 THEN $2 + $3
        WHEN turns_until > $4 THEN turns_until
        ELSE turns_until + $3 END
    WHERE origin = $1 RETURNING turns_until";
const LEAVE: PerEngine = PerEngine {
    sqlite: "UPDATE index_origin SET next_at = $3, holder = NULL WHERE origin = $1 AND holder = $2",
    postgres: "UPDATE index_origin SET next_at = $3, holder = NULL
    FROM (SELECT set_config('synchronous_commit', 'off', TRUE) AS set) AS c WHERE c.set IS NOT NULL AND origin = $1 AND holder = $2",
};

/// Many slots in one statement, each origin once and sorted, so that two concurrent statements wait for each other instead of deadlocking.
/// Origins whose slot is not free are not among the returned rows.
const TAKE_MANY: &str = "INSERT INTO index_origin AS o (origin, next_at, turns_until, holder)
    SELECT v.origin, v.next_at, 0, v.holder FROM UNNEST($1::text[], $2::bigint[], $3::bytea[]) AS v (origin, next_at, holder)
    ON CONFLICT (origin) DO UPDATE SET next_at = excluded.next_at, holder = excluded.holder WHERE o.next_at <= ($4::bigint[])[1]
    RETURNING origin";
const LEAVE_MANY: &str = r#"WITH held AS MATERIALIZED (SELECT o.origin, v.next_at
        FROM UNNEST($1::text[], $2::bytea[], $3::bigint[]) AS v (origin, holder, next_at)
        JOIN index_origin o ON o.origin = v.origin AND o.holder = v.holder ORDER BY o.origin COLLATE "C" FOR UPDATE OF o)
    UPDATE index_origin o SET next_at = held.next_at, holder = NULL FROM held WHERE o.origin = held.origin"#;
/// Rows are found by key, whatever the planner's statistics about the size of the table, and the commit does not wait: see [`TAKE`].
const SETTINGS: &str = "SELECT set_config('enable_seqscan', 'off', TRUE), set_config('enable_hashjoin', 'off', TRUE),
    set_config('enable_mergejoin', 'off', TRUE), set_config('plan_cache_mode', 'force_generic_plan', TRUE),
    set_config('synchronous_commit', 'off', TRUE)";

/// Returns the origin that a manifest URI is fetched from; `None` when nothing is fetched.
pub(crate) fn origin_of(metadata_uri: &str) -> Option<String> {
    HttpsUrl::parse(metadata_uri).ok().map(|url| url.origin().to_string())
}

/// The worker that asks for a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    /// The random token of the worker.
    pub(crate) token: &'a [u8],
    /// Whether a caller waits for the result, and so does not queue behind the others.
    pub(crate) is_requested: bool,
}

/// Takes the slot of an origin for at most `hold` seconds.
pub(crate) async fn take(
    index: &Index,
    origin: &str,
    holder: Holder<'_>,
    hold: i64,
    pause: i64,
    now: UnixTime,
) -> Result<Turn, Error> {
    if take_one(index, origin, holder.token, hold, now).await? {
        return Ok(Turn::Now);
    }
    later(index, origin, holder, pause, now).await
}

/// Returns whether the slot was taken.
async fn take_one(index: &Index, origin: &str, token: &[u8], hold: i64, now: UnixTime) -> Result<bool, Error> {
    let until = now.plus(hold).seconds();
    let values = [Value::Text(origin), Value::Integer(until), Value::Bytes(token), Value::Integer(now.seconds())];
    Ok(index.database().execute(index.database().pick(TAKE), &values).await? == 1)
}

/// Returns the next free slot for a worker that came too early.
pub(crate) async fn later(index: &Index, origin: &str, holder: Holder<'_>, pause: i64, now: UnixTime) -> Result<Turn, Error> {
    let soon = now.plus(pause + 1);
    if holder.is_requested {
        return Ok(Turn::At(soon));
    }
    let last = now.plus(MAX_WAIT).seconds();
    let values = [Value::Text(origin), Value::Integer(now.seconds()), Value::Integer(pause + 1), Value::Integer(last)];
    let mut transaction = index.database().begin().await?;
    let row = transaction.fetch_optional(WAIT, &values).await?;
    let turn = row.ok_or(Error::Corrupt { what: "origin" })?.scalar::<i64>()?;
    transaction.commit().await?;
    Ok(Turn::At(UnixTime::from_seconds(turn)))
}

/// Releases an origin. Clocks count whole seconds, so one is added to make the pause at least as long as configured.
pub(crate) async fn leave(index: &Index, origin: &str, token: &[u8], pause: i64, now: UnixTime) -> Result<(), Error> {
    let values = [Value::Text(origin), Value::Bytes(token), Value::Integer(now.plus(pause + 1).seconds())];
    index.database().execute(index.database().pick(LEAVE), &values).await?;
    Ok(())
}

/// A slot to take.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    pub(crate) origin: String,
    pub(crate) token: [u8; 16],
    /// For at most this number of seconds.
    pub(crate) hold: i64,
    pub(crate) now: UnixTime,
}

/// Takes slots of many origins at once, on PostgreSQL, and returns which were taken. Among several for one origin only the first can
/// succeed.
pub(crate) async fn take_many(index: &Index, taking: &[Taking]) -> Result<Vec<bool>, Error> {
    if let [one] = taking {
        // A transaction costs more than it saves.
        return Ok(vec![take_one(index, &one.origin, &one.token, one.hold, one.now).await?]);
    }
    let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, one) in taking.iter().enumerate() {
        firsts.entry(&one.origin).or_insert(place);
    }
    let Some(now) = taking.iter().map(|one| one.now).min() else { return Ok(Vec::new()) };
    let each: Vec<&Taking> = firsts.values().map(|place| &taking[*place]).collect();
    let mut transaction = index.database().begin().await?;
    transaction.fetch(SETTINGS, &[]).await?;
    let columns = [
        Column::Texts(&each.iter().map(|one| one.origin.as_str()).collect::<Vec<_>>()),
        Column::Integers(&each.iter().map(|one| one.now.plus(one.hold).seconds()).collect::<Vec<_>>()),
        Column::Bytes(&each.iter().map(|one| one.token.as_slice()).collect::<Vec<_>>()),
        Column::Integers(&[now.seconds()]),
    ];
    let rows = transaction.fetch_columns(TAKE_MANY, &columns).await?;
    transaction.commit().await?;
    let mut taken = vec![false; taking.len()];
    for row in rows {
        if let Some(is_taken) = firsts.get(row.scalar::<&str>()?).and_then(|place| taken.get_mut(*place)) {
            *is_taken = true;
        }
    }
    Ok(taken)
}

/// A slot to release.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) origin: String,
    pub(crate) token: [u8; 16],
    pub(crate) pause: i64,
    pub(crate) now: UnixTime,
}

/// Releases many origins at once, on PostgreSQL.
pub(crate) async fn leave_many(index: &Index, leaving: &[Leaving]) -> Result<(), Error> {
    if let [one] = leaving {
        return leave(index, &one.origin, &one.token, one.pause, one.now).await;
    }
    let mut transaction = index.database().begin().await?;
    transaction.fetch(SETTINGS, &[]).await?;
    let columns = [
        Column::Texts(&leaving.iter().map(|one| one.origin.as_str()).collect::<Vec<_>>()),
        Column::Bytes(&leaving.iter().map(|one| one.token.as_slice()).collect::<Vec<_>>()),
        Column::Integers(&leaving.iter().map(|one| one.now.plus(one.pause + 1).seconds()).collect::<Vec<_>>()),
    ];
    transaction.fetch_columns(LEAVE_MANY, &columns).await?;
    Ok(transaction.commit().await?)
}
