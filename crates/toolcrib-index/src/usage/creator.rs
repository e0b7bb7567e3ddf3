//! Accounts that paid any tool of a creator: the creator signal of search ranking.
//!
//! Registrations and updates cost a creator nothing but gas, so only payments count: each account once for all tools of a creator, and
//! never the creator or a recipient of one of those tools. Search reads the number with each tool. So that a payment does not reindex
//! thousands of tools, the number counts in doublings, and the feed announces the other tools when one is reached.

use toolcrib_store::database::{FromRow as _, Transaction, Value};

use super::count::Call;
use crate::Error;
use crate::model::ToolKey;

/// The maximum number of other tools that one doubling announces in the feed. The tools of larger creators get the new number when they
/// change.
const MAX_ANNOUNCED: i64 = 10_000;

/// The payer may be the recipient of another tool of the creator: such a payment does not count.
const PAYER: &str = "INSERT INTO index_creator_payer (creator, payer) SELECT t.creator, $3 FROM index_tool t
    WHERE t.registry = $1 AND t.tool = $2 AND t.creator <> $3 AND NOT EXISTS (SELECT 1 FROM index_payee p
        JOIN index_tool o ON o.registry = p.registry AND o.tool = p.tool
        WHERE p.chain = $4 AND p.token = $5 AND p.recipient = $3 AND o.creator = t.creator)
    ON CONFLICT DO NOTHING";
const TOTAL: &str = "INSERT INTO index_creator_total (creator, payers)
    SELECT t.creator, 1 FROM index_tool t WHERE t.registry = $1 AND t.tool = $2
    ON CONFLICT (creator) DO UPDATE SET payers = index_creator_total.payers + 1 RETURNING payers";
const OTHERS: &str = "SELECT o.registry, o.tool FROM index_tool t JOIN index_tool o ON o.creator = t.creator
    WHERE t.registry = $1 AND t.tool = $2 AND o.listed = $3 AND NOT (o.registry = $1 AND o.tool = $2)
    ORDER BY o.registry, o.tool LIMIT $4";

/// Returns how often the count has doubled since one: 0 for 0, 1 for 1, 2 from 2 on, 3 from 4 on.
pub(crate) const fn doublings(count: u64) -> u32 {
    u64::BITS - count.leading_zeros()
}

/// Counts the payer of a call for the creator of its tool. Returns the other tools whose creator signal rises.
pub(super) async fn count(transaction: &mut Transaction, call: &Call) -> Result<Vec<ToolKey>, Error> {
    let tool = call.key.id_bytes();
    let (registry, tool) = (Value::Integer(call.key.registry.0), Value::Bytes(&tool));
    let chain = i64::try_from(call.chain).map_err(|_| Error::Corrupt { what: "chain" })?;
    let (payer, token) = (Value::Bytes(call.payer.as_slice()), Value::Bytes(call.token.as_slice()));
    if transaction.execute(PAYER, &[registry, tool, payer, Value::Integer(chain), token]).await? == 0 {
        return Ok(Vec::new());
    }
    let row = transaction.fetch_optional(TOTAL, &[registry, tool]).await?.ok_or(Error::Corrupt { what: "payers" })?;
    let payers = row.scalar::<u64>()?;
    if !payers.is_power_of_two() {
        return Ok(Vec::new());
    }
    let rows = transaction.fetch(OTHERS, &[registry, tool, Value::Boolean(true), Value::Integer(MAX_ANNOUNCED)]).await?;
    ToolKey::from_rows(&rows).map(|key| Ok(key?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doublings_change_at_powers_of_two_alone() {
        assert_eq!([0, 1, 2, 3, 4, 8_191, 8_192, u64::MAX].map(doublings), [0, 1, 2, 2, 3, 13, 14, 64]);
        for count in 1..10_000_u64 {
            assert_eq!(doublings(count) > doublings(count - 1), count.is_power_of_two(), "{count}");
        }
    }
}
