//! Politeness: one request at a time to an origin, and a pause between two, across all workers.
//!
//! A row for each origin says from when on it may be asked again. Whoever asks moves that time past the end of its own request first, so
//! that a worker that dies keeps nobody out for long. Those who come too early get a turn of their own, one after the other, instead of
//! all trying again at once.

use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_store::database::{PerEngine, Value};

use crate::{Error, Index};

/// The furthest turn that is given out. An origin with more tools than that takes them in several rounds.
const MAX_WAIT: i64 = 3_600;

/// A turn at an origin, or the time of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Now.
    Now,
    /// At this time.
    At(UnixTime),
}

/// On PostgreSQL the commit does not wait for the disk, and neither does that of [`LEAVE`]: a turn that a crash of the server forgets costs a
/// request that comes too early, and waiting took most of the time of a verdict.
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

/// The origin that is asked for the manifest behind a URI; `None` when nobody is.
pub(crate) fn origin_of(metadata_uri: &str) -> Option<String> {
    HttpsUrl::parse(metadata_uri).ok().map(|url| url.origin().to_string())
}

/// Who asks for a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    /// The secret of the worker.
    pub(crate) token: &'a [u8],
    /// Whether a caller waits for the answer, and so does not queue behind the others.
    pub(crate) is_requested: bool,
}

/// Takes the turn at an origin for at most `hold` seconds.
pub(crate) async fn take(
    index: &Index,
    origin: &str,
    holder: Holder<'_>,
    hold: i64,
    pause: i64,
    now: UnixTime,
) -> Result<Turn, Error> {
    let until = now.plus(hold).seconds();
    let values = [Value::Text(origin), Value::Integer(until), Value::Bytes(holder.token), Value::Integer(now.seconds())];
    if index.database().execute(index.database().pick(TAKE), &values).await? == 1 {
        return Ok(Turn::Now);
    }
    let soon = now.plus(pause + 1);
    if holder.is_requested {
        return Ok(Turn::At(soon));
    }
    let last = now.plus(MAX_WAIT).seconds();
    let values = [Value::Text(origin), Value::Integer(now.seconds()), Value::Integer(pause + 1), Value::Integer(last)];
    let mut transaction = index.database().begin().await?;
    let row = transaction.fetch_optional(WAIT, &values).await?;
    let turn = row.ok_or(Error::Corrupt { what: "origin" })?.integer(0)?;
    transaction.commit().await?;
    Ok(Turn::At(UnixTime::from_seconds(turn)))
}

/// Leaves an origin. Clocks count whole seconds, so that one more makes the pause at least as long as it is meant to be.
pub(crate) async fn leave(index: &Index, origin: &str, token: &[u8], pause: i64, now: UnixTime) -> Result<(), Error> {
    let values = [Value::Text(origin), Value::Bytes(token), Value::Integer(now.plus(pause + 1).seconds())];
    index.database().execute(index.database().pick(LEAVE), &values).await?;
    Ok(())
}
