//! Statements over many payments at once. Those of one payment are in [`statements`](super::super::statements).

/// Sets whether the commit waits for the disk, `on` or `off`, for this transaction only.
macro_rules! durability {
    ($level:literal) => {
        concat!(
            "durable AS MATERIALIZED (
    SELECT CASE WHEN ",
            $level,
            " = 'off' THEN set_config('synchronous_commit', 'off', TRUE) ELSE ",
            $level,
            " END AS level)"
        )
    };
}

/// Reserves payments, as RESERVE does: $1 to $9, the room, and the limit of payments less the margin.
macro_rules! reserved {
    ($room:literal, $limit:literal) => {
        concat!(
            "made AS (INSERT INTO replay
    (id, state, ticket, room, reserved_at, expires_at, lease_until, keep_until, route, body_hash, proof, payment_id,
    runs, result_bytes, result_until)
    SELECT g.id, 0, g.ticket, ",
            $room,
            ", g.now, g.expires_at, g.lease_until, g.expires_at, g.route, g.body_hash, g.proof, g.payment_id, 0, 0, 0
    FROM UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[],
    $9::bytea[]) AS g (id, ticket, now, expires_at, lease_until, route, body_hash, proof, payment_id)
    WHERE (SELECT SUM(entries) FROM replay_room) < ",
            $limit,
            " AND (SELECT level FROM durable) IS NOT NULL
    ON CONFLICT DO NOTHING RETURNING ticket)"
        )
    };
}

/// Counts reserved payments in a room, as ENTER does.
macro_rules! entered {
    ($room:literal) => {
        concat!(
            "counted AS (UPDATE replay_room SET entries = entries + (SELECT COUNT(*) FROM made)
    WHERE room = ",
            $room,
            " AND EXISTS (SELECT 1 FROM made)"
        )
    };
}

/// Settles payments, as SETTLE does: identifiers, transactions, receipts, and until when results are kept.
macro_rules! settled {
    ($ids:literal, $transactions:literal, $receipts:literal, $until:literal) => {
        concat!(
            "settled AS (
    UPDATE replay SET state = 2, tx = paid.tx, receipt = paid.receipt, note = NULL, result_until = paid.until,
    keep_until = CASE WHEN paid.until > expires_at THEN paid.until ELSE expires_at END
    FROM UNNEST(",
            $ids,
            "::bytea[], ",
            $transactions,
            "::bytea[], ",
            $receipts,
            "::bytea[], ",
            $until,
            "::bigint[]) AS paid (id, tx, receipt, until)
    WHERE replay.id = paid.id AND replay.state IN (1, 3) AND (SELECT level FROM durable) IS NOT NULL RETURNING replay.id)"
        )
    };
}

// A statement for each kind of group: preparing an empty part takes PostgreSQL as long as the work on several rows.
pub(super) const RESERVE: &str =
    concat!("WITH ", durability!("$12"), ", ", reserved!("$10", "$11"), ", ", entered!("$10"), ") SELECT ticket FROM made");
pub(super) const SETTLE: &str =
    concat!("WITH ", durability!("$5"), ", ", settled!("$1", "$2", "$3", "$4"), " SELECT id FROM settled");
// The count of settled payments is there to make all payments come before the room.
pub(super) const RESERVE_AND_SETTLE: &str = concat!(
    "WITH ",
    durability!("$16"),
    ", ",
    reserved!("$14", "$15"),
    ", ",
    settled!("$10", "$11", "$12", "$13"),
    ", ",
    entered!("$14"),
    " AND (SELECT COUNT(*) FROM settled) >= 0) SELECT ticket FROM made UNION ALL SELECT id FROM settled"
);

/// Counts stored results, as FILL does, in a room.
macro_rules! filled {
    ($room:literal) => {
        concat!(
            "counted AS (UPDATE replay_room SET bytes = bytes + (SELECT CAST(SUM(begun.bytes) AS BIGINT) FROM begun)
    WHERE room = ",
            $room,
            " AND EXISTS (SELECT 1 FROM begun))"
        )
    };
}

// Begins settlements with small results, as BEGIN_SETTLEMENT does: $1 to $9, the room, and the limit of bytes less those of these results.
pub(super) const BEGIN: &str = concat!(
    "WITH begun AS (UPDATE replay SET state = 1, lease_until = given.lease_until, keep_until = 9223372036854775807,
    note = given.note, runs = 0, result_bytes = given.bytes, from_block = given.from_block, status = given.status,
    content_type = given.content_type, body = given.body
    FROM UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
    $9::bytea[]) AS given (id, ticket, lease_until, note, bytes, from_block, status, content_type, body)
    WHERE replay.id = given.id AND replay.ticket = given.ticket AND replay.state = 0
    AND (SELECT SUM(bytes) FROM replay_room) <= $11 RETURNING replay.ticket, given.bytes), ",
    filled!("$10"),
    " SELECT ticket FROM begun"
);

// The same where some results are not small, with KEEP_RESULT: $1 to $10, the room, and the limit.
pub(super) const BEGIN_LARGE: &str = concat!(
    "WITH given AS (SELECT * FROM
    UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::bytea[],
    $10::boolean[]) AS g (id, ticket, lease_until, note, bytes, from_block, status, content_type, body, is_small)),
    begun AS (UPDATE replay SET state = 1, lease_until = given.lease_until, keep_until = 9223372036854775807, note = given.note,
    runs = 0, result_bytes = given.bytes, from_block = given.from_block, status = CASE WHEN given.is_small THEN given.status END,
    content_type = CASE WHEN given.is_small THEN given.content_type END, body = CASE WHEN given.is_small THEN given.body END FROM given
    WHERE replay.id = given.id AND replay.ticket = given.ticket AND replay.state = 0
    AND (SELECT SUM(bytes) FROM replay_room) <= $12 RETURNING replay.id, replay.ticket, given.bytes),
    kept AS (INSERT INTO replay_result (id, status, content_type, body)
    SELECT begun.id, given.status, given.content_type, given.body FROM begun JOIN given ON given.ticket = begun.ticket
    WHERE NOT given.is_small), ",
    filled!("$11"),
    " SELECT ticket FROM begun"
);
