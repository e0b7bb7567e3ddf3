//! The ledger's tables and statements, in SQL for both engines.

use std::sync::LazyLock;

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::FromRow as _;
use toolcrib_store::{Migration, row, sql};
use toolcrib_x402::asset;

use crate::Usdc;

pub(super) const MODULE: &str = "client";

/// `client_turn` has one row, which a reservation updates first: on PostgreSQL that is the lock that serialises reservations; SQLite has a
/// single writer anyway.
pub(super) const MIGRATIONS: &[Migration] = &[TABLES, SETTLEMENTS];

const TABLES: Migration = Migration {
    version: 1,
    sql: "CREATE TABLE client_spend (
    id TEXT PRIMARY KEY,
    state BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    chain BIGINT NOT NULL,
    asset TEXT NOT NULL,
    recipient TEXT NOT NULL,
    payer TEXT NOT NULL,
    tool TEXT NOT NULL,
    origin TEXT NOT NULL,
    is_tool BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    nonce BYTES,
    valid_before BIGINT NOT NULL DEFAULT 0,
    from_block BIGINT NOT NULL DEFAULT 0,
    method TEXT NOT NULL DEFAULT '',
    url TEXT NOT NULL DEFAULT '',
    body BYTES,
    version BIGINT NOT NULL DEFAULT 0,
    payment TEXT NOT NULL DEFAULT '',
    salt BYTES,
    retry_token TEXT NOT NULL DEFAULT '',
    transaction_hash BYTES,
    note TEXT NOT NULL DEFAULT '');
CREATE INDEX client_spend_time ON client_spend (created_at);
CREATE INDEX client_spend_state ON client_spend (state, created_at);
CREATE TABLE client_turn (id BIGINT PRIMARY KEY, turn BIGINT NOT NULL);
INSERT INTO client_turn (id, turn) VALUES (1, 0)",
};

/// Adds whether the settlement was found on the chain, and until when the server keeps the result (0 if it has not said).
const SETTLEMENTS: Migration = Migration {
    version: 2,
    sql: "ALTER TABLE client_spend ADD COLUMN confirmed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE client_spend ADD COLUMN redeemable_until BIGINT NOT NULL DEFAULT 0;
UPDATE client_spend SET redeemable_until = updated_at + 3600 WHERE state = 2",
};

pub(super) const TURN: &str = "UPDATE client_turn SET turn = turn + 1 WHERE id = 1";

pub(super) const PRUNE: &str =
    "DELETE FROM client_spend WHERE id IN (SELECT id FROM client_spend WHERE created_at < $1 ORDER BY created_at LIMIT $2)";

/// Deletes signatures and inputs that no server accepts any more: of open payments that are older than $1, and of settled ones whose
/// results are removed at $2.
pub(super) const FORGET: &str = "UPDATE client_spend SET body = NULL, payment = '', salt = NULL, retry_token = ''
    WHERE payment <> '' AND ((state IN (1, 4) AND created_at < $1) OR (state = 2 AND redeemable_until < $2))";

pub(super) const COUNT: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM client_spend";

/// $1 an hour ago, $2 a day ago, $3 now, $4 recipient, $5 tool, $6 chain, $7 asset, $8 whether test money is counted, or real money.
/// Reservations count until their lease ends. The chains are those with test money: only their numbers, from the table of this process.
pub(super) static SPENT: LazyLock<String> = LazyLock::new(|| {
    let chains: Vec<_> = asset::test_chains().iter().map(ToString::to_string).collect();
    format!("{SPENT_OF_CHAINS}({})) = $8", chains.join(", "))
});

row! {
    /// What is spent of each budget, and what of it is not settled yet.
    pub(super) struct SpentRow {
        hour: Usdc = "CAST(COALESCE(SUM(CASE WHEN created_at > $1 THEN amount ELSE 0 END), 0) AS BIGINT)",
        day: Usdc = "CAST(COALESCE(SUM(amount), 0) AS BIGINT)",
        to_recipient: Usdc = "CAST(COALESCE(SUM(CASE WHEN recipient = $4 THEN amount ELSE 0 END), 0) AS BIGINT)",
        to_tool: Usdc = "CAST(COALESCE(SUM(CASE WHEN tool = $5 THEN amount ELSE 0 END), 0) AS BIGINT)",
        of_asset: Usdc = "CAST(COALESCE(SUM(CASE WHEN chain = $6 AND asset = $7 THEN amount ELSE 0 END), 0) AS BIGINT)",
        open: Usdc = "CAST(COALESCE(SUM(CASE WHEN state = 1 OR state = 4 THEN amount ELSE 0 END), 0) AS BIGINT)",
    }
}

const SPENT_OF_CHAINS: &str = sql!(
    "SELECT ",
    SpentRow::COLUMNS,
    " FROM client_spend
    WHERE created_at > $2 AND (state IN (1, 2, 4) OR (state = 0 AND lease_until > $3)) AND (chain IN "
);

pub(super) const RESERVE: &str = "INSERT INTO client_spend
    (id, state, amount, chain, asset, recipient, payer, tool, origin, is_tool, created_at, updated_at, lease_until)
    VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11)";

pub(super) const SIGN: &str =
    "UPDATE client_spend SET state = 1, updated_at = $2, nonce = $3, valid_before = $4, from_block = $5,
    method = $6, url = $7, body = $8, version = $9 WHERE id = $1 AND state = 0 AND lease_until > $2";

pub(super) const ATTACH: &str = "UPDATE client_spend SET updated_at = $2, payment = $3, salt = $4 WHERE id = $1 AND state = 1";

/// $3 is empty and $4 is 0 if the server does not say.
pub(super) const REDEMPTION: &str = "UPDATE client_spend SET updated_at = $2,
    retry_token = CASE WHEN $3 = '' THEN retry_token ELSE $3 END,
    redeemable_until = CASE WHEN CAST($4 AS BIGINT) > 0 THEN $4 ELSE redeemable_until END
    WHERE id = $1 AND state IN (1, 2, 4)";

/// Request and signature are kept: with them the result of a settled payment can be redeemed until the server removes it, at $6 unless it
/// has said otherwise. $4 says whether the chain shows the settlement; a server's statement never replaces what the chain shows.
pub(super) const SETTLE: &str = "UPDATE client_spend SET state = 2, updated_at = $2,
    transaction_hash = CASE WHEN $4 THEN $3 WHEN confirmed THEN transaction_hash ELSE COALESCE($3, transaction_hash) END,
    confirmed = (confirmed OR $4), note = $5,
    redeemable_until = CASE WHEN redeemable_until > 0 THEN redeemable_until ELSE $6 END
    WHERE id = $1 AND state IN (1, 2, 4)";

pub(super) const UNKNOWN: &str = "UPDATE client_spend SET state = 4, updated_at = $2, note = $3,
    transaction_hash = COALESCE($4, transaction_hash) WHERE id = $1 AND state IN (1, 4)";

/// For a settlement that only a server has stated, and that the chain does not show.
pub(super) const REOPEN: &str =
    "UPDATE client_spend SET state = 4, updated_at = $2, note = $3 WHERE id = $1 AND state = 2 AND NOT confirmed";

/// The caller knows that it was never signed, or can never settle, whatever a server has stated.
pub(super) const RELEASE: &str =
    "UPDATE client_spend SET state = 3, updated_at = $2, note = $3, transaction_hash = NULL, body = NULL, payment = '', salt = NULL,
    retry_token = '' WHERE id = $1 AND (state IN (0, 1, 4) OR (state = 2 AND NOT confirmed))";

row! {
    /// A payment.
    pub(super) struct EntryRow<'r> {
        id: &'r str,
        state: i64,
        amount: Usdc,
        chain: u64,
        asset: &'r str,
        recipient: &'r str,
        payer: &'r str,
        tool: &'r str,
        origin: &'r str,
        is_tool: bool,
        created_at: UnixTime,
        updated_at: UnixTime,
        lease_until: UnixTime,
        nonce: Option<B256>,
        valid_before: u64,
        from_block: u64,
        method: String,
        url: String,
        body: Option<&'r [u8]>,
        version: i64,
        payment: &'r str,
        salt: Option<B256>,
        retry_token: &'r str,
        transaction_hash: Option<B256>,
        note: String,
        confirmed: bool,
        redeemable_until: UnixTime,
    }
}

pub(super) const ENTRY: &str = sql!("SELECT ", EntryRow::COLUMNS, " FROM client_spend WHERE id = $1");
pub(super) const NEWEST: &str = sql!("SELECT ", EntryRow::COLUMNS, " FROM client_spend ORDER BY created_at DESC, id LIMIT $1");
pub(super) const OPEN: &str =
    sql!("SELECT ", EntryRow::COLUMNS, " FROM client_spend WHERE state IN (1, 4) ORDER BY created_at, id LIMIT $1");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_money_is_what_the_pinned_table_says() {
        let mut chains: Vec<_> = asset::ALL.iter().filter(|token| token.is_test).map(|token| token.chain).collect();
        chains.sort_unstable();
        let list = chains.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        assert!(SPENT.ends_with(&format!("AND (chain IN ({list})) = $8")), "{list}");
        assert_eq!(list, "31337, 43113, 80002, 84532, 421614, 11155111, 11155420");
    }
}
