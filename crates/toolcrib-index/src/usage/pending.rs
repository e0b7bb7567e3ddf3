//! Reports of payments that cannot be decided yet: kept, and checked again.

use alloy_primitives::{Address, B256};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, usage as code};
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};

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

row! {
    struct WaitRow<'r> {
        id: String,
        registry: i64,
        tool: &'r [u8],
        chain: u64,
        caller: Address,
        transaction_hash: B256,
        latency_ms: Option<u64>,
        reported_at: UnixTime,
    }
}

const KEEP: &str = "INSERT INTO index_usage_pending (id, registry, tool, chain, caller, transaction_hash, latency_ms, reported_at, tries, next_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9) ON CONFLICT DO NOTHING";
const KEPT: &str = "SELECT reported_at FROM index_usage_pending WHERE id = $1";
const MANY: &str = "SELECT COUNT(*) FROM index_usage_pending WHERE registry = $1 AND tool = $2";
const DROP: &str = "DELETE FROM index_usage_pending WHERE id = $1";
/// The next look is set before this one, so that others take other reports, and one that breaks off is repeated.
const TAKE: &str = sql!(
    "UPDATE index_usage_pending SET tries = tries + 1, next_at = $2 + CASE WHEN tries > 6 THEN $3 ELSE $4 * (1 << CAST(tries AS INTEGER)) END
    WHERE next_at <= $2 AND id IN (SELECT id FROM index_usage_pending WHERE next_at <= $2 ORDER BY next_at LIMIT $1)
    RETURNING ",
    WaitRow::COLUMNS
);

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
        Some(row) => row.scalar()?,
        None => {
            let place = [Value::Integer(wait.key.registry.0), Value::Bytes(&tool)];
            let row = index.database().fetch_optional(MANY, &place).await?;
            if row.map(|row| row.scalar::<i64>()).transpose()?.unwrap_or_default() >= MAX_PENDING_PER_TOOL {
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
    let waits: Vec<Wait> = WaitRow::from_rows(&rows).map(|row| read(row?)).collect::<Result<_, Error>>()?;
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

fn read(row: WaitRow<'_>) -> Result<Wait, Error> {
    Ok(Wait {
        id: row.id,
        key: ToolKey::from_columns(row.registry, row.tool)?,
        chain: row.chain,
        caller: row.caller,
        transaction: row.transaction_hash,
        latency_ms: row.latency_ms,
        reported_at: row.reported_at,
    })
}
