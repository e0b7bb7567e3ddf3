//! Proven calls, one by one and in sums.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, U256};
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};
use toolcrib_x402::usage::{EIP3009_AUTHORIZATION, X402_SETTLEMENT};

use crate::model::{IdBytes, ToolKey, UsageTotals};
use crate::tools::MAX_TOOLS;
use crate::{Error, Index};

/// The maximum number of calls on one page, as in the public API.
pub const MAX_ACTIVITY: usize = 100;

const DAY: i64 = 86_400;
const WEEK: i64 = 7 * DAY;

/// A proven call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// The id of its report.
    pub id: String,
    /// The kind of proof: `x402_settlement` or `eip3009_authorization`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The attribution to this tool: `verified`, or `creator` for calls that the tool's owner paid.
    pub attribution: &'static str,
    /// Whether money was transferred.
    pub paid: bool,
    /// The caller.
    pub caller: Address,
    /// The recipient of the payment or of the signed authorization.
    pub seller: Address,
    /// The time of the block, or of the report if there is no block.
    pub timestamp: UnixTime,
    /// The amount in the smallest unit, in decimal digits.
    pub amount: Option<String>,
    /// The token.
    pub asset: Option<Address>,
    /// The chain.
    pub chain_id: u64,
    /// The transaction.
    pub tx_hash: Option<B256>,
}

/// Statistics of the paid calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PaymentStats {
    /// The number of paid calls.
    pub total_payments: u64,
    /// The amount paid in micro-dollars (millionths of a dollar).
    pub volume: u64,
    /// Distinct accounts that paid.
    pub unique_buyers: u64,
    /// Paid calls of the last day.
    pub payments_last_24h: u64,
    /// Paid calls of the last week.
    pub payments_last_7d: u64,
}

row! {
    struct CallRow<'r> {
        id: String,
        paid: bool,
        counts: bool,
        payer: Address,
        seller: Address,
        at: UnixTime,
        amount: &'r [u8],
        token: Address,
        chain: u64,
        transaction_hash: Option<B256>,
    }
}

row! {
    /// The paid calls of a tool in the last week, and those of the last day.
    struct RecentRow<'r> from "u" {
        registry: i64,
        tool: &'r [u8],
        week: u64 = "COUNT(*)",
        day: u64 = "COUNT(CASE WHEN u.at > $2 THEN 1 END)",
    }
}

const CALLS: &str = sql!(
    "SELECT ",
    CallRow::COLUMNS,
    " FROM index_usage WHERE registry = $1 AND tool = $2 AND counts IN ($3, $4) ORDER BY at DESC, id DESC LIMIT $5 OFFSET $6"
);

impl Index {
    /// Returns the proven calls of a tool, the newest first, from `offset` on. Those that its owner paid are included only on request.
    /// Also returns whether there are more.
    pub async fn activity(
        &self,
        key: ToolKey,
        include_creator_payments: bool,
        limit: usize,
        offset: usize,
    ) -> Result<(Vec<Activity>, bool), Error> {
        let limit = limit.clamp(1, MAX_ACTIVITY);
        let values = [
            Value::Integer(key.registry.0),
            Value::Bytes(&key.id_bytes()),
            Value::Boolean(true),
            Value::Boolean(!include_creator_payments),
            Value::Integer(i64::try_from(limit + 1).unwrap_or(i64::MAX)),
            Value::Integer(i64::try_from(offset).unwrap_or(i64::MAX)),
        ];
        let rows = self.database().fetch(CALLS, &values).await?;
        let calls = CallRow::from_rows(&rows).take(limit).map(|row| read(row?)).collect::<Result<_, Error>>()?;
        Ok((calls, rows.len() > limit))
    }

    /// Returns statistics of the paid calls of some tools with known totals, in their order. Only for tools that were used in the last
    /// week are single calls read.
    pub async fn payment_stats(&self, tools: &[(ToolKey, UsageTotals)], now: UnixTime) -> Result<Vec<PaymentStats>, Error> {
        let (week, day) = (now.plus(-WEEK), now.plus(-DAY));
        let recent = tools.iter().filter(|(_, totals)| totals.last_at.is_some_and(|last| last > week)).map(|(key, _)| *key);
        let recent: Vec<ToolKey> = recent.collect();
        let mut counts: HashMap<ToolKey, (u64, u64)> = HashMap::with_capacity(recent.len());
        for keys in recent.chunks(MAX_TOOLS) {
            // As in `tools.rs`: only a few lengths, so that there are few prepared statements.
            let length = keys.len().next_power_of_two().min(MAX_TOOLS);
            let ids: Vec<IdBytes> = keys.iter().map(ToolKey::id_bytes).collect();
            let mut values = vec![Value::Integer(week.seconds()), Value::Integer(day.seconds())];
            for (key, id) in keys.iter().zip(&ids) {
                values.extend([Value::Integer(key.registry.0), Value::Bytes(id)]);
            }
            // A repeated key would count twice, so the list is padded with a tool of no registry.
            values.extend([Value::Integer(-1), Value::Bytes(&[])].into_iter().cycle().take(2 * (length - keys.len())));
            let places: Vec<String> = (0..length).map(|place| format!("(${}, ${})", 2 * place + 3, 2 * place + 4)).collect();
            let sql = format!(
                "WITH k (registry, tool) AS (VALUES {}) SELECT {}
                FROM k CROSS JOIN index_usage u WHERE u.registry = k.registry AND u.tool = k.tool AND u.counts = TRUE AND u.paid = TRUE
                AND u.at > $1 GROUP BY u.registry, u.tool",
                places.join(", "),
                RecentRow::COLUMNS
            );
            for row in RecentRow::from_rows(&self.database().fetch_made(sql, &values).await?) {
                let row = row?;
                counts.insert(ToolKey::from_columns(row.registry, row.tool)?, (row.week, row.day));
            }
        }
        let stats = tools.iter().map(|(key, totals)| {
            let (week, day) = counts.get(key).copied().unwrap_or_default();
            PaymentStats {
                total_payments: totals.paid_calls,
                volume: totals.volume,
                unique_buyers: totals.payers,
                payments_last_24h: day,
                payments_last_7d: week,
            }
        });
        Ok(stats.collect())
    }
}

fn read(row: CallRow<'_>) -> Result<Activity, Error> {
    let amount = U256::try_from_be_slice(row.amount).ok_or(Error::Corrupt { what: "amount of a call" })?;
    Ok(Activity {
        id: row.id,
        kind: if row.paid { X402_SETTLEMENT } else { EIP3009_AUTHORIZATION },
        attribution: if row.counts { "verified" } else { "creator" },
        paid: row.paid,
        caller: row.payer,
        seller: row.seller,
        timestamp: row.at,
        amount: row.paid.then(|| amount.to_string()),
        asset: row.paid.then_some(row.token),
        chain_id: row.chain,
        tx_hash: row.transaction_hash,
    })
}
