//! What was proven, call by call, and sums of it.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, U256};
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::x402::usage::{EIP3009_AUTHORIZATION, X402_SETTLEMENT};
use toolcrib_store::database::{Row, Value};

use crate::model::ToolKey;
use crate::tools::MAX_TOOLS;
use crate::{Error, Index};

/// Most calls of one page, as the public interface has it.
pub const MAX_ACTIVITY: usize = 100;

const DAY: i64 = 86_400;
const WEEK: i64 = 7 * DAY;

/// A call that was proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// The id of its report.
    pub id: String,
    /// The kind of proof: `x402_settlement` or `eip3009_authorization`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// How sure it is that the call was this tool's: `verified`, or `creator` for what the tool's owner paid.
    pub attribution: &'static str,
    /// Whether money moved.
    pub paid: bool,
    /// Who called.
    pub caller: Address,
    /// Who was paid, or signed for.
    pub seller: Address,
    /// When: the time of the block, or of the report where there is none.
    pub timestamp: UnixTime,
    /// How much, in the smallest unit and in decimal digits.
    pub amount: Option<String>,
    /// In which token.
    pub asset: Option<Address>,
    /// On which chain.
    pub chain_id: u64,
    /// In which transaction.
    pub tx_hash: Option<B256>,
}

/// Sums over the paid calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PaymentStats {
    /// All of them.
    pub total_payments: u64,
    /// What was paid, in millionths of a dollar.
    pub volume: u64,
    /// Different accounts that paid.
    pub unique_buyers: u64,
    /// Those of the last day.
    pub payments_last_24h: u64,
    /// Those of the last week.
    pub payments_last_7d: u64,
}

const CALLS: &str = "SELECT id, paid, counts, payer, seller, at, amount, token, chain, transaction_hash FROM index_usage
    WHERE registry = $1 AND tool = $2 AND counts IN ($3, $4) ORDER BY at DESC, id DESC LIMIT $5 OFFSET $6";

impl Index {
    /// The proven calls of a tool, the newest first, from `offset` on. Those that its owner paid only when they are asked for. The answer
    /// says whether there are more.
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
        let calls = rows.iter().take(limit).map(read).collect::<Result<_, _>>()?;
        Ok((calls, rows.len() > limit))
    }

    /// Sums over the paid calls of some tools, in the order of the keys.
    pub async fn payment_stats(&self, keys: &[ToolKey], now: UnixTime) -> Result<Vec<PaymentStats>, Error> {
        let mut found: HashMap<ToolKey, PaymentStats> = HashMap::with_capacity(keys.len());
        for keys in keys.chunks(MAX_TOOLS) {
            // As in `tools.rs`: a few lengths alone, so that there are a few statements.
            let length = keys.len().next_power_of_two().min(MAX_TOOLS);
            let ids: Vec<[u8; 32]> = keys.iter().map(ToolKey::id_bytes).collect();
            let mut values = vec![Value::Integer(now.plus(-WEEK).seconds()), Value::Integer(now.plus(-DAY).seconds())];
            let mut places = String::new();
            for place in 0..length {
                let at = place.min(keys.len() - 1);
                let or = if place == 0 { "" } else { " OR " };
                places.push_str(&format!("{or}(registry = ${} AND tool = ${})", 2 * place + 3, 2 * place + 4));
                values.push(Value::Integer(keys[at].registry.0));
                values.push(Value::Bytes(&ids[at]));
            }
            let sums =
                format!("SELECT registry, tool, paid_calls, volume, payers FROM index_usage_total WHERE $1 > $2 OR {places}");
            // The first condition is never true: it makes the two statements take the same values.
            for row in self.database().fetch_made(sums, &values).await? {
                let stats = PaymentStats {
                    total_payments: number(row.integer(2)?)?,
                    volume: number(row.integer(3)?)?,
                    unique_buyers: number(row.integer(4)?)?,
                    ..PaymentStats::default()
                };
                found.insert(ToolKey::from_columns(row.integer(0)?, row.bytes(1)?)?, stats);
            }
            let recent = format!(
                "SELECT registry, tool, COUNT(*), COUNT(CASE WHEN at > $2 THEN 1 END) FROM index_usage
                WHERE counts AND paid AND at > $1 AND ({places}) GROUP BY registry, tool"
            );
            for row in self.database().fetch_made(recent, &values).await? {
                if let Some(stats) = found.get_mut(&ToolKey::from_columns(row.integer(0)?, row.bytes(1)?)?) {
                    stats.payments_last_7d = number(row.integer(2)?)?;
                    stats.payments_last_24h = number(row.integer(3)?)?;
                }
            }
        }
        Ok(keys.iter().map(|key| found.get(key).copied().unwrap_or_default()).collect())
    }
}

fn read(row: &Row) -> Result<Activity, Error> {
    let address = |column: usize| -> Result<Address, Error> {
        Address::try_from(row.bytes(column)?).map_err(|_| Error::Corrupt { what: "account of a call" })
    };
    let (paid, counts) = (row.boolean(1)?, row.boolean(2)?);
    let amount = U256::try_from_be_slice(row.bytes(6)?).ok_or(Error::Corrupt { what: "amount of a call" })?;
    let hash = row.optional_bytes(9)?.map(B256::try_from).transpose();
    Ok(Activity {
        id: row.text(0)?.to_owned(),
        kind: if paid { X402_SETTLEMENT } else { EIP3009_AUTHORIZATION },
        attribution: if counts { "verified" } else { "creator" },
        paid,
        caller: address(3)?,
        seller: address(4)?,
        timestamp: UnixTime::from_seconds(row.integer(5)?),
        amount: paid.then(|| amount.to_string()),
        asset: if paid { Some(address(7)?) } else { None },
        chain_id: number(row.integer(8)?)?,
        tx_hash: hash.map_err(|_| Error::Corrupt { what: "transaction of a call" })?,
    })
}

fn number(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::Corrupt { what: "count" })
}
