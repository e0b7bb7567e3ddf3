//! The usual course of a step on PostgreSQL, in one statement and so in one round trip.
//!
//! Each statement does all of a step or nothing. Nothing means that something is not as usual: the payment is known, another holds it,
//! or the store is nearly full. Then [`sql`](super::sql) takes the step, in a transaction, and says why. Locks are taken in the same order
//! there: payments before rooms.

use toolcrib_core::clock::UnixTime;

use super::sql::{cost, room, signed, time};
use super::statements as sql;
use super::{Kept, Limits, RERUNS, ReplayKey, Reservation, Settlement, Ticket};
use crate::Error;
use crate::database::{Database, Value};

// As RESERVE and ENTER; the last is the limit less the margin.
const RESERVE: &str = "WITH made AS (
    INSERT INTO replay
    (id, state, ticket, room, reserved_at, expires_at, lease_until, keep_until, route, body_hash, proof, payment_id,
    runs, result_bytes, result_until)
    SELECT $1, 0, $2, $3, $4, $5, $6, $5, $7, $8, $9, $10, 0, 0, 0 WHERE (SELECT SUM(entries) FROM replay_room) < $11
    ON CONFLICT DO NOTHING RETURNING room)
    UPDATE replay_room SET entries = entries + 1 FROM made WHERE replay_room.room = made.room";

// As BEGIN_SETTLEMENT, FILL and KEEP_RESULT: the limit of bytes is $8, the result $9 to $11.
const BEGIN_WITH_RESULT: &str = "WITH begun AS (
    UPDATE replay SET state = 1, lease_until = $3, keep_until = 9223372036854775807, note = $4, runs = $5, result_bytes = $6, from_block = $7
    WHERE id = $1 AND ticket = $2 AND state = 0 AND (SELECT SUM(bytes) FROM replay_room) <= $8 - $6 RETURNING id, room),
    kept AS (INSERT INTO replay_result (id, status, content_type, body) SELECT id, $9, $10, $11 FROM begun)
    UPDATE replay_room SET bytes = bytes + $6 FROM begun WHERE replay_room.room = begun.room";

/// Reserves a payment that the store has never seen. `None` for every other.
pub(super) async fn reserve(
    database: &Database,
    limits: &Limits,
    key: &ReplayKey,
    reservation: &Reservation<'_>,
    now: UnixTime,
) -> Result<Option<Ticket>, Error> {
    reservation.check(now)?;
    let ticket = Ticket::random()?;
    let values = [
        Value::Bytes(&key.to_bytes()),
        Value::Bytes(&ticket.0),
        room(key),
        time(now),
        time(reservation.expires_at),
        time(reservation.lease_until),
        Value::Text(reservation.route),
        Value::Bytes(reservation.body_hash.as_slice()),
        Value::OptionalBytes(reservation.proof.as_ref().map(|proof| proof.0.as_slice())),
        Value::OptionalBytes(reservation.payment_id.as_ref().map(|id| id.as_slice())),
        Value::Integer(signed(limits.entries.saturating_sub(sql::MARGIN))),
    ];
    Ok((unless_busy(database.execute(RESERVE, &values).await)? == 1).then_some(ticket))
}

/// Begins the settlement of a payment whose result fits. `None` for every other.
pub(super) async fn begin_settlement(
    database: &Database,
    limits: &Limits,
    key: &ReplayKey,
    ticket: Ticket,
    settlement: &Settlement<'_>,
) -> Result<Option<Kept>, Error> {
    settlement.check()?;
    let bytes = match settlement.result {
        Some(result) if result.fits(limits) => cost(result),
        Some(_) => return Ok(None),
        None => 0,
    };
    let id = key.to_bytes();
    let mut values = vec![
        Value::Bytes(&id),
        Value::Bytes(&ticket.0),
        time(settlement.lease_until),
        Value::Bytes(settlement.note),
        Value::Integer(if settlement.result.is_some() { 0 } else { 1 + RERUNS }),
        Value::Integer(bytes),
        Value::OptionalInteger(settlement.from_block.and_then(|block| i64::try_from(block).ok())),
    ];
    let Some(result) = settlement.result else {
        let begun = unless_busy(database.execute(sql::BEGIN_SETTLEMENT, &values).await)? == 1;
        return Ok(begun.then_some(Kept::Nothing));
    };
    values.extend([
        Value::Integer(signed(limits.most_result_bytes())),
        Value::Integer(result.status.into()),
        Value::Text(&result.content_type),
        Value::Bytes(&result.body),
    ]);
    Ok((unless_busy(database.execute(BEGIN_WITH_RESULT, &values).await)? == 1).then_some(Kept::Yes))
}

/// What others are in the way of was not done; the longer way tries again.
fn unless_busy(rows: Result<u64, Error>) -> Result<u64, Error> {
    match rows {
        Err(Error::Busy { .. }) => Ok(0),
        rows => rows,
    }
}
