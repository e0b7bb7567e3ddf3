//! The tables of the replay store, and every statement on them. One text for both engines, except for row locks.
//!
//! Rooms count what the store contains, so that checking its limits does not read all rows. PostgreSQL uses several, since commits would
//! wait for each other for a row that every step changes. Only their sum has a meaning: a payment may be added in one and subtracted in
//! another. The line above a statement lists its parameters, from $1 on. Locks are acquired in a fixed order: payments before rooms, rooms
//! by number.

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;

use super::State;
use crate::database::{FromRow, Migration, PerEngine};
use crate::{row, sql};

/// The module's name in the table of migrations.
pub(super) const MODULE: &str = "replay";

/// Number of rooms that the counters are spread over.
pub(super) const ROOMS: u8 = 16;

/// How close to its limit a store counts exactly, with all rooms locked. Farther away, concurrent reservations do not see each other; a
/// margin above the number of connections of all replicas together keeps the limit exact.
pub(super) const MARGIN: u64 = 1_024;

/// Largest body of a result that is stored in its payment's row. The row is written again when the payment is settled, so a larger one is
/// stored in a separate table.
pub(super) const SMALL_BODY: usize = 1_024;

pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: "
CREATE TABLE replay_room (room BIGINT PRIMARY KEY, entries BIGINT NOT NULL, bytes BIGINT NOT NULL);
INSERT INTO replay_room (room, entries, bytes) VALUES
    (0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0), (6, 0, 0), (7, 0, 0),
    (8, 0, 0), (9, 0, 0), (10, 0, 0), (11, 0, 0), (12, 0, 0), (13, 0, 0), (14, 0, 0), (15, 0, 0);
CREATE TABLE replay (
    id BYTES PRIMARY KEY,
    state BIGINT NOT NULL,
    ticket BYTES NOT NULL,
    room BIGINT NOT NULL,
    reserved_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    keep_until BIGINT NOT NULL,
    route TEXT NOT NULL,
    body_hash BYTES NOT NULL,
    proof BYTES,
    note BYTES,
    tx BYTES,
    receipt BYTES,
    runs BIGINT NOT NULL,
    result_bytes BIGINT NOT NULL,
    result_until BIGINT NOT NULL
);
CREATE INDEX replay_keep_until ON replay (keep_until);
CREATE INDEX replay_open ON replay (lease_until) WHERE state IN (1, 3);
CREATE TABLE replay_result (
    id BYTES PRIMARY KEY REFERENCES replay (id) ON DELETE CASCADE,
    status BIGINT NOT NULL,
    content_type TEXT NOT NULL,
    body BYTES NOT NULL
);
",
    },
    Migration {
        // The proof that a transfer on the chain is the one that this payment's settlement made.
        version: 2,
        sql: "
ALTER TABLE replay ADD COLUMN from_block BIGINT;
ALTER TABLE replay ADD COLUMN sent BYTES;
",
    },
    Migration {
        // Which results are dropped first when room is needed, and which payment has an identifier.
        version: 3,
        sql: "
ALTER TABLE replay ADD COLUMN delivered_at BIGINT;
ALTER TABLE replay ADD COLUMN payment_id BYTES;
CREATE INDEX replay_delivered_at ON replay (delivered_at) WHERE delivered_at IS NOT NULL;
CREATE UNIQUE INDEX replay_payment_id ON replay (payment_id) WHERE payment_id IS NOT NULL;
",
    },
    Migration {
        // A small result is a part of its payment's row: one row to write, and no other index. Payments with an unknown outcome are found
        // by `keep_until`, so that two steps of three write one index less.
        version: 4,
        sql: "
DROP INDEX replay_open;
ALTER TABLE replay ADD COLUMN status BIGINT;
ALTER TABLE replay ADD COLUMN content_type TEXT;
ALTER TABLE replay ADD COLUMN body BYTES;
",
    },
];

row! {
    /// The columns that decide whether a payment counts as used.
    pub(super) struct StandingRow<'r> {
        state: State,
        ticket: &'r [u8],
        keep_until: i64,
        lease_until: i64,
        tx: Option<B256>,
        receipt: Option<&'r [u8]>,
        room: i64,
        result_bytes: i64,
    }
}

row! {
    /// The payment that has an identifier.
    pub(super) struct IdHolder<'r> {
        id: &'r [u8],
        state: State,
        ticket: &'r [u8],
        keep_until: i64,
        lease_until: i64,
    }
}

row! {
    /// A payment whose result may be dropped.
    pub(super) struct DeliveredRow<'r> {
        id: &'r [u8],
        room: i64,
        result_bytes: i64,
    }
}

row! {
    /// The counters of the store.
    pub(super) struct RoomTotals {
        entries: i64 = "CAST(SUM(entries) AS BIGINT)",
        bytes: i64 = "CAST(SUM(bytes) AS BIGINT)",
    }
}

row! {
    /// What a removed payment had taken up.
    pub(super) struct Gone {
        room: i64,
        result_bytes: i64,
    }
}

row! {
    /// A replayed payment, with its result.
    pub(super) struct RedeemRow<'r> from "r" {
        state: State,
        ticket: &'r [u8],
        tx: Option<B256>,
        receipt: Option<&'r [u8]>,
        proof: Option<&'r [u8]>,
        route: &'r str,
        body_hash: &'r [u8],
        result_bytes: i64,
        result_until: i64,
        lease_until: i64,
        runs: i64,
        status: Option<i64> = "COALESCE(r.status, s.status)",
        content_type: Option<&'r str> = "COALESCE(r.content_type, s.content_type)",
        body: Option<&'r [u8]> = "COALESCE(r.body, s.body)",
    }
}

row! {
    /// A payment as operators and reconciliation see it.
    pub(super) struct EntryRow<'r> {
        id: &'r [u8],
        state: State,
        reserved_at: UnixTime,
        expires_at: UnixTime,
        lease_until: UnixTime,
        route: &'r str,
        body_hash: B256,
        note: Option<&'r [u8]>,
        tx: Option<B256>,
        receipt: Option<&'r [u8]>,
        from_block: Option<i64>,
        sent: Option<B256>,
    }
}

row! {
    /// The payments in one state.
    pub(super) struct StateCount {
        state: State,
        payments: i64 = "COUNT(*)",
        result_bytes: i64 = "CAST(SUM(result_bytes) AS BIGINT)",
    }
}

// id, ticket, room, now, expires_at, lease_until, route, body_hash, proof, payment_id. Neither key may exist.
pub(super) const RESERVE: &str = "INSERT INTO replay
    (id, state, ticket, room, reserved_at, expires_at, lease_until, keep_until, route, body_hash, proof, payment_id,
    runs, result_bytes, result_until)
    VALUES ($1, 0, $2, $3, $4, $5, $6, $5, $7, $8, $9, $10, 0, 0, 0) ON CONFLICT DO NOTHING";

// payment_id. The payment that has an identifier.
pub(super) const HOLDER_OF_ID: &str = sql!("SELECT ", IdHolder::COLUMNS, " FROM replay WHERE payment_id = $1");
// id, ticket, state. An expired payment loses its identifier.
pub(super) const FORGET_ID: &str = "UPDATE replay SET payment_id = NULL WHERE id = $1 AND ticket = $2 AND state = $3";

// id, ticket, now, expires_at, lease_until, route, body_hash, proof, the previous ticket, the previous state, payment_id.
pub(super) const RESERVE_AGAIN: &str = "UPDATE replay SET
    state = 0, ticket = $2, reserved_at = $3, expires_at = $4, lease_until = $5, keep_until = $4, route = $6, body_hash = $7, proof = $8,
    note = NULL, tx = NULL, receipt = NULL, runs = 0, result_bytes = 0, result_until = 0, from_block = NULL, sent = NULL,
    delivered_at = NULL, payment_id = $11, status = NULL, content_type = NULL, body = NULL
    WHERE id = $1 AND ticket = $9 AND state = $10";

// id. For deciding about an existing payment.
pub(super) const STANDING: &str = sql!("SELECT ", StandingRow::COLUMNS, " FROM replay WHERE id = $1");

// room, limit less the margin. SQLite's single writer counts everything in one room, and need not read the others.
pub(super) const ENTER: PerEngine = PerEngine {
    sqlite: "UPDATE replay_room SET entries = entries + 1 WHERE room = $1 AND entries < $2",
    postgres: "UPDATE replay_room SET entries = entries + 1
        WHERE room = $1 AND (SELECT SUM(entries) FROM replay_room) < $2",
};
// room.
pub(super) const ENTER_EXACT: &str = "UPDATE replay_room SET entries = entries + 1 WHERE room = $1";
/// All rooms. SQLite's writer has them to itself.
pub(super) const LOCK_ROOMS: PerEngine = PerEngine {
    sqlite: "SELECT entries FROM replay_room ORDER BY room",
    postgres: "SELECT entries FROM replay_room ORDER BY room FOR UPDATE",
};
// room, entries, bytes.
pub(super) const LEAVE: &str = "UPDATE replay_room SET entries = entries - $2, bytes = bytes - $3 WHERE room = $1";
// room, bytes, limit.
pub(super) const FILL: PerEngine = PerEngine {
    sqlite: "UPDATE replay_room SET bytes = bytes + $2 WHERE room = $1 AND bytes <= $3 - $2",
    postgres: "UPDATE replay_room SET bytes = bytes + $2
        WHERE room = $1 AND (SELECT SUM(bytes) FROM replay_room) <= $3 - $2",
};

// id, ticket, lease_until, note, runs, result_bytes, from_block; status, content_type and body of a small result. A settling payment is
// kept permanently.
pub(super) const BEGIN_SETTLEMENT: &str = "UPDATE replay SET
    state = 1, lease_until = $3, keep_until = 9223372036854775807, note = $4, runs = $5, result_bytes = $6, from_block = $7,
    status = $8, content_type = $9, body = $10
    WHERE id = $1 AND ticket = $2 AND state = 0";
// id, ticket, transaction.
pub(super) const RECORD_SENT: &str = "UPDATE replay SET sent = $3 WHERE id = $1 AND ticket = $2 AND state = 1";
// id, ticket, result_bytes.
pub(super) const STORE_RESULT: &str =
    "UPDATE replay SET runs = 0, result_bytes = $3 WHERE id = $1 AND ticket = $2 AND state = 2 AND runs > 0";
// id, ticket, result_bytes.
pub(super) const SIZE_RESULT: &str = "UPDATE replay SET result_bytes = $3 WHERE id = $1 AND ticket = $2 AND state = 1";
// id, ticket, now, runs, pause.
pub(super) const RUN_FAILED: &str = "UPDATE replay SET runs = $4,
    lease_until = $3 + CASE WHEN $3 - reserved_at > $5 THEN $3 - reserved_at ELSE $5 END
    WHERE id = $1 AND ticket = $2 AND state = 2 AND runs > 0";
// id.
pub(super) const RESULT_NOT_KEPT: &str =
    "UPDATE replay SET result_bytes = 0, status = NULL, content_type = NULL, body = NULL WHERE id = $1";
// id, status, content_type, body.
pub(super) const KEEP_RESULT: &str = "INSERT INTO replay_result (id, status, content_type, body) VALUES ($1, $2, $3, $4)";
// id.
pub(super) const FORGET_RESULT: &str = "DELETE FROM replay_result WHERE id = $1";

// id, now. Only a settled payment has a result that could be delivered.
pub(super) const MARK_DELIVERED: &str =
    "UPDATE replay SET delivered_at = $2 WHERE id = $1 AND state = 2 AND result_bytes > 0 AND delivered_at IS NULL";
// limit. Results that may be dropped, the first delivered first.
pub(super) const DELIVERED: PerEngine = PerEngine {
    sqlite: sql!(
        "SELECT ",
        DeliveredRow::COLUMNS,
        " FROM replay WHERE delivered_at IS NOT NULL ORDER BY delivered_at, id LIMIT $1"
    ),
    postgres: sql!(
        "SELECT ",
        DeliveredRow::COLUMNS,
        " FROM replay WHERE delivered_at IS NOT NULL ORDER BY delivered_at, id LIMIT $1 FOR UPDATE SKIP LOCKED"
    ),
};
// id. Without a result, a payment is kept only until its authorization ends.
pub(super) const DROP_RESULT: &str = "UPDATE replay SET result_bytes = 0, delivered_at = NULL, keep_until = expires_at,
    status = NULL, content_type = NULL, body = NULL WHERE id = $1";
/// Payments and bytes of results.
pub(super) const ROOM: &str = sql!("SELECT ", RoomTotals::COLUMNS, " FROM replay_room");

// id, tx, receipt, result_until.
pub(super) const SETTLE: &str = "UPDATE replay SET
    state = 2, tx = $2, receipt = $3, note = NULL, result_until = $4, keep_until = CASE WHEN $4 > expires_at THEN $4 ELSE expires_at END
    WHERE id = $1 AND state IN (1, 3)";
// id, ticket, now.
pub(super) const MARK_UNKNOWN: &str = "UPDATE replay SET state = 3, lease_until = $3 WHERE id = $1 AND ticket = $2 AND state = 1";
// id, ticket.
pub(super) const RELEASE: &str =
    sql!("DELETE FROM replay WHERE id = $1 AND ticket = $2 AND state IN (0, 1, 3) RETURNING ", Gone::COLUMNS);

// id.
pub(super) const REDEEM: &str =
    sql!("SELECT ", RedeemRow::COLUMNS, " FROM replay r LEFT JOIN replay_result s ON s.id = r.id WHERE r.id = $1");
// id, ticket, lease_until, the previous ticket.
pub(super) const RERUN: &str = "UPDATE replay SET ticket = $2, lease_until = $3, runs = runs - 1
    WHERE id = $1 AND ticket = $4 AND state = 2 AND runs > 1 AND result_bytes = 0";

// now, ticket, lease_until, limit. Payments that are kept permanently are `settling` and `unknown` ones.
pub(super) const CLAIM: PerEngine = PerEngine {
    sqlite: sql!(
        "UPDATE replay SET state = 3, ticket = $2, lease_until = $3 WHERE id IN (
        SELECT id FROM replay WHERE keep_until = 9223372036854775807 AND state IN (1, 3) AND lease_until <= $1
        ORDER BY lease_until, id LIMIT $4)
        RETURNING ",
        EntryRow::COLUMNS
    ),
    postgres: sql!(
        "UPDATE replay SET state = 3, ticket = $2, lease_until = $3 WHERE id IN (
        SELECT id FROM replay WHERE keep_until = 9223372036854775807 AND state IN (1, 3) AND lease_until <= $1
        ORDER BY lease_until, id LIMIT $4 FOR UPDATE SKIP LOCKED)
        RETURNING ",
        EntryRow::COLUMNS
    ),
};
// limit.
pub(super) const UNKNOWNS: &str = sql!(
    "SELECT ",
    EntryRow::COLUMNS,
    " FROM replay WHERE keep_until = 9223372036854775807 AND state IN (1, 3) ORDER BY lease_until, id LIMIT $1"
);
// id.
pub(super) const ENTRY: &str = sql!("SELECT ", EntryRow::COLUMNS, " FROM replay WHERE id = $1");

// now, limit.
pub(super) const EXPIRE: PerEngine = PerEngine {
    sqlite: sql!(
        "DELETE FROM replay WHERE id IN (SELECT id FROM replay WHERE keep_until <= $1 ORDER BY keep_until, id LIMIT $2) RETURNING ",
        Gone::COLUMNS
    ),
    postgres: sql!(
        "DELETE FROM replay WHERE id IN (
        SELECT id FROM replay WHERE keep_until <= $1 ORDER BY keep_until, id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING ",
        Gone::COLUMNS
    ),
};

// No parameters. Only settled, settling and unknown payments have results.
pub(super) const COUNTS: &str = sql!("SELECT ", StateCount::COLUMNS, " FROM replay GROUP BY state");
