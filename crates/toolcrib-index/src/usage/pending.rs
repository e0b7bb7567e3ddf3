//! Reports of payments that cannot be decided yet: kept, and checked again.

use alloy_primitives::{Address, B256};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, usage as code};
use toolcrib_store::database::{Row, Value};

use super::{Judged, count, settlement};
use crate::model::{ToolKey, ToolView};
use crate::{Chains, Error, Index};

/// Seconds for which a report is kept. Rollups take an hour or so until a block is final, and on some days longer.
pub const PENDING_SECONDS: i64 = 86_400;

/// Seconds after which a transaction that no node knows is given up: it was dropped, or never existed.
pub const NOT_FOUND_SECONDS: i64 = 3_600;

/// The maximum number of reports kept for one tool. A reporter who invents transactions fills no more than this, for an hour.
pub const MAX_PENDING_PER_TOOL: i64 = 1_000;

/// The number of reports that one call of [`settle_pending`] checks.
pub const PENDING_BATCH: usize = 64;

/// Concurrent checks, so that one slow node does not delay all.
const AT_ONCE: usize = 8;

/// The pause before the first retry; each following pause is twice as long.
const FIRST_WAIT_SECONDS: i64 = 15;

/// The longest pause.
const LONGEST_WAIT_SECONDS: i64 = 900;

/// A report of a payment.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) id: String,
    pub(super) key: ToolKey,
    pub(super) chain: u64,
    pub(super) caller: Address,
    pub(super) transaction: B256,
    pub(super) latency_ms: Option<u64>,
    pub(super) reported_at: UnixTime,
}

const KEEP: &str = "INSERT INTO index_usage_pending (id, registry, tool, chain, caller, transaction_hash, latency_ms, reported_at, tries, next_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9) ON CONFLICT DO NOTHING";
const KEPT: &str = "SELECT reported_at FROM index_usage_pending WHERE id = $1";
const MANY: &str = "SELECT COUNT(*) FROM index_usage_pending WHERE registry = $1 AND tool = $2";
const DROP: &str = "DELETE FROM index_usage_pending WHERE id = $1";
/// The next check is scheduled before this one, so that other processes take other reports, and an interrupted check is repeated.
const TAKE: &str = "UPDATE index_usage_pending SET tries = tries + 1, next_at = $2 + CASE WHEN tries > 6 THEN $3 ELSE $4 * (1 << CAST(tries AS INTEGER)) END
    WHERE next_at <= $2 AND id IN (SELECT id FROM index_usage_pending WHERE next_at <= $2 ORDER BY next_at LIMIT $1)
    RETURNING id, registry, tool, chain, caller, transaction_hash, latency_ms, reported_at";

/// Checks a report, and applies the result. Returns the reason when it was not counted.
pub(super) async fn look(
    index: &Index,
    chains: &Chains,
    view: &ToolView,
    wait: &Wait,
    now: UnixTime,
) -> Result<Option<Code>, Error> {
    let code = match settlement::judge(index, chains, view, wait).await? {
        Judged::Proven(calls) => match count::count(index, &wait.id, &calls, now).await? {
            None => return Ok(None),
            Some(code) => code,
        },
        Judged::Refused(code) => code,
        Judged::Later(code) => {
            let Some(code) = keep(index, wait, code, now).await? else { return Ok(Some(code)) };
            code
        }
    };
    index.database().execute(DROP, &[Value::Text(&wait.id)]).await?;
    Ok(Some(code))
}

/// Keeps a report. Returns a code when it is not kept, or no longer.
async fn keep(index: &Index, wait: &Wait, reason: Code, now: UnixTime) -> Result<Option<Code>, Error> {
    let tool = wait.key.id_bytes();
    let since = match index.database().fetch_optional(KEPT, &[Value::Text(&wait.id)]).await? {
        Some(row) => UnixTime::from_seconds(row.integer(0)?),
        None => {
            let place = [Value::Integer(wait.key.registry.0), Value::Bytes(&tool)];
            let row = index.database().fetch_optional(MANY, &place).await?;
            if row.map(|row| row.integer(0)).transpose()?.unwrap_or_default() >= MAX_PENDING_PER_TOOL {
                return Ok(Some(code::TOO_MANY_PENDING));
            }
            let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let values = [
                Value::Text(&wait.id),
                Value::Integer(wait.key.registry.0),
                Value::Bytes(&tool),
                Value::Integer(number(wait.chain)),
                Value::Bytes(wait.caller.as_slice()),
                Value::Bytes(wait.transaction.as_slice()),
                Value::OptionalInteger(wait.latency_ms.map(number)),
                Value::Integer(wait.reported_at.seconds()),
                Value::Integer(now.plus(FIRST_WAIT_SECONDS).seconds()),
            ];
            index.database().execute(KEEP, &values).await?;
            wait.reported_at
        }
    };
    let most = if reason == code::NOT_FOUND { NOT_FOUND_SECONDS } else { PENDING_SECONDS };
    Ok((now.since(since) >= most).then_some(code::EXPIRED))
}

/// Checks reports that are due again, at most [`PENDING_BATCH`]. Returns how many were checked: fewer means that no more are due. Any
/// number of processes may call this concurrently.
pub async fn settle_pending(index: &Index, chains: &Chains, now: UnixTime) -> Result<usize, Error> {
    let values = [
        Value::Integer(i64::try_from(PENDING_BATCH).unwrap_or(i64::MAX)),
        Value::Integer(now.seconds()),
        Value::Integer(LONGEST_WAIT_SECONDS),
        Value::Integer(FIRST_WAIT_SECONDS),
    ];
    let mut transaction = index.database().begin().await?;
    let rows = transaction.fetch(TAKE, &values).await?;
    transaction.commit().await?;
    let waits: Vec<Wait> = rows.iter().map(read).collect::<Result<_, _>>()?;
    let mut looks = Vec::with_capacity(waits.len());
    for wait in &waits {
        looks.push(again(index, chains, wait, now).boxed());
    }
    let looks: Vec<Result<(), Error>> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
    looks.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(waits.len())
}

async fn again(index: &Index, chains: &Chains, wait: &Wait, now: UnixTime) -> Result<(), Error> {
    match index.tools(&[wait.key]).await?.pop() {
        Some(view) => look(index, chains, &view, wait, now).await.map(drop),
        None => index.database().execute(DROP, &[Value::Text(&wait.id)]).await.map(drop).map_err(Error::from),
    }
}

fn read(row: &Row) -> Result<Wait, Error> {
    let number = |value: i64| u64::try_from(value).map_err(|_| Error::Corrupt { what: "number of a report" });
    Ok(Wait {
        id: row.text(0)?.to_owned(),
        key: ToolKey::from_columns(row.integer(1)?, row.bytes(2)?)?,
        chain: number(row.integer(3)?)?,
        caller: Address::try_from(row.bytes(4)?).map_err(|_| Error::Corrupt { what: "caller of a report" })?,
        transaction: B256::try_from(row.bytes(5)?).map_err(|_| Error::Corrupt { what: "transaction of a report" })?,
        latency_ms: row.optional_integer(6)?.map(number).transpose()?,
        reported_at: UnixTime::from_seconds(row.integer(7)?),
    })
}
