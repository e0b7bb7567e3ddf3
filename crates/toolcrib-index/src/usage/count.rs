//! Counts a call once, with the sums and the change feed in the same transaction.

use alloy_primitives::{Address, B256, U256, keccak256};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, usage as code};
use toolcrib_store::database::Value;

use super::creator;
use crate::feed::{self, Kinds};
use crate::model::ToolKey;
use crate::{Error, Index};

/// The maximum number of micro-dollars that one call adds: a billion dollars. Test tokens are minted at will, and sums have 64 bits.
const MAX_VOLUME: u64 = 1_000_000_000_000_000;

/// A proven call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) key: ToolKey,
    /// Whether a payment was made. A payment counts for one tool only.
    pub(super) paid: bool,
    /// Whether it counts: the tool's owner did not pay it.
    pub(super) counts: bool,
    pub(super) chain: u64,
    pub(super) token: Address,
    pub(super) payer: Address,
    pub(super) nonce: B256,
    pub(super) seller: Address,
    pub(super) amount: U256,
    /// The amount in micro-dollars (millionths of a dollar).
    pub(super) volume: u64,
    pub(super) transaction: Option<B256>,
    pub(super) at: UnixTime,
    pub(super) latency_ms: Option<u64>,
}

impl Call {
    fn claim(&self) -> B256 {
        let mut bytes = b"toolcrib.usage.claim.v1".to_vec();
        bytes.push(u8::from(self.paid));
        bytes.extend(self.chain.to_be_bytes());
        bytes.extend(self.token);
        bytes.extend(self.payer);
        bytes.extend(self.nonce);
        if !self.paid {
            bytes.extend(self.key.registry.0.to_be_bytes());
            bytes.extend(&*self.key.id_bytes());
        }
        keccak256(bytes)
    }
}

const KNOWN: &str = "SELECT counts FROM index_usage WHERE id = $1";
const INSERT: &str =
    "INSERT INTO index_usage (id, claim, registry, tool, paid, counts, chain, token, payer, nonce, seller, amount,
    transaction_hash, at, reported_at, latency_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
    ON CONFLICT DO NOTHING";
const PAYER: &str = "INSERT INTO index_usage_payer (registry, tool, payer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const TOTAL: &str =
    "INSERT INTO index_usage_total (registry, tool, paid_calls, payers, ranking_payers, volume, signed_calls, last_at)
    VALUES ($1, $2, $3, $4, $4, $5, $6, $7)
    ON CONFLICT (registry, tool) DO UPDATE SET paid_calls = index_usage_total.paid_calls + excluded.paid_calls,
    payers = index_usage_total.payers + excluded.payers, ranking_payers = index_usage_total.ranking_payers + excluded.ranking_payers,
    volume = CASE WHEN index_usage_total.volume > 9000000000000000000 THEN index_usage_total.volume
        ELSE index_usage_total.volume + excluded.volume END,
    signed_calls = index_usage_total.signed_calls + excluded.signed_calls,
    last_at = CASE WHEN index_usage_total.last_at > excluded.last_at THEN index_usage_total.last_at ELSE excluded.last_at END";
const SETTLED: &str = "DELETE FROM index_usage_pending WHERE id = $1";

/// Returns whether the call with this id was seen, and if so whether it counts.
pub(super) async fn known(index: &Index, id: &str) -> Result<Option<bool>, Error> {
    let row = index.database().fetch_optional(KNOWN, &[Value::Text(id)]).await?;
    Ok(row.map(|row| row.scalar()).transpose()?)
}

/// Counts the first of these calls that was not counted yet. Returns the reason when none was, or when it is stored without being counted.
pub(super) async fn count(index: &Index, id: &str, calls: &[Call], now: UnixTime) -> Result<Option<Code>, Error> {
    for call in calls {
        if write(index, id, call, now).await? {
            return Ok((!call.counts).then_some(code::SELF_PAYMENT));
        }
        // The same call may be reported twice concurrently.
        if let Some(counts) = known(index, id).await? {
            return Ok((!counts).then_some(code::SELF_PAYMENT));
        }
    }
    Ok(Some(code::ALREADY_COUNTED))
}

/// Writes the call, its payer, the sums and the feed in one transaction. `false` when its id or its authorization exists already.
async fn write(index: &Index, id: &str, call: &Call, now: UnixTime) -> Result<bool, Error> {
    let (claim, tool) = (call.claim(), call.key.id_bytes());
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut transaction = index.database().begin().await?;
    let values = [
        Value::Text(id),
        Value::Bytes(claim.as_slice()),
        Value::Integer(call.key.registry.0),
        Value::Bytes(&tool),
        Value::Boolean(call.paid),
        Value::Boolean(call.counts),
        Value::Integer(number(call.chain)),
        Value::Bytes(call.token.as_slice()),
        Value::Bytes(call.payer.as_slice()),
        Value::Bytes(call.nonce.as_slice()),
        Value::Bytes(call.seller.as_slice()),
        Value::Bytes(&call.amount.to_be_bytes::<32>()),
        Value::OptionalBytes(call.transaction.as_ref().map(|hash| hash.as_slice())),
        Value::Integer(call.at.seconds()),
        Value::Integer(now.seconds()),
        Value::OptionalInteger(call.latency_ms.map(number)),
    ];
    if transaction.execute(INSERT, &values).await? == 0 {
        transaction.rollback().await?;
        return Ok(false);
    }
    transaction.execute(SETTLED, &[Value::Text(id)]).await?;
    if call.counts {
        let place = [Value::Integer(call.key.registry.0), Value::Bytes(&tool), Value::Bytes(call.payer.as_slice())];
        let new_payers = if call.paid { transaction.execute(PAYER, &place).await? } else { 0 };
        let sums = [
            Value::Integer(call.key.registry.0),
            Value::Bytes(&tool),
            Value::Integer(i64::from(call.paid)),
            Value::Integer(number(new_payers)),
            Value::Integer(number(call.volume.min(MAX_VOLUME))),
            Value::Integer(i64::from(!call.paid)),
            Value::Integer(call.at.seconds()),
        ];
        transaction.execute(TOTAL, &sums).await?;
        let mut changes = vec![(call.key, Kinds::USAGE)];
        if new_payers > 0 {
            let others = creator::count(&mut transaction, call).await?;
            changes.extend(others.into_iter().map(|key| (key, Kinds::FACTS)));
        }
        feed::record(&mut transaction, &changes, now).await?;
    }
    transaction.commit().await?;
    Ok(true)
}
