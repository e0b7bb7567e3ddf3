//! The replay store in a database.
//!
//! Every step is one transaction, or one statement, that begins by naming the state and the ticket it leads on from, so it is the
//! database that decides between two that come at once. When a step touched no row, the row is read to say why.

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;

use super::statements as sql;
use super::{
    Action, Again, Claim, Counts, Entry, Kept, Limits, MAX_LIST, RERUNS, RETRY_PAUSE_SECONDS, Receipt, Redeem, ReplayKey,
    ReplayStore, Reservation, Reserve, Room, Settled, Settlement, Standing, State, StoredResult, Ticket, standing,
};
use crate::Error;
use crate::database::{ATTEMPTS, Database, Engine, Row, Transaction, Value, again};

/// Tries a step again while others are in its way. A step is one transaction, so nothing of a failed attempt is left.
macro_rules! step {
    ($step:expr) => {{
        let mut attempt = 0;
        loop {
            match $step.await {
                Err(error) if again(&error, &mut attempt).await => {}
                done => break done,
            }
        }
    }};
}

mod room;

/// Payments in a database, shared by every process that opens it.
#[derive(Clone, Debug)]
pub(super) struct SqlReplay {
    database: Database,
    limits: Limits,
}

impl SqlReplay {
    /// Makes the tables where they are missing.
    pub(super) async fn open(database: Database, limits: Limits) -> Result<Self, Error> {
        database.migrate(sql::MODULE, sql::MIGRATIONS).await?;
        Ok(Self { database, limits })
    }

    /// The same store, through another connection to the same database.
    pub(super) fn with_database(&self, database: Database) -> Self {
        Self { database, ..self.clone() }
    }

    /// The room that a payment is counted in.
    const fn room_of(&self, key: &ReplayKey) -> Value<'static> {
        Value::Integer(match self.database.engine() {
            Engine::Sqlite => 0,
            Engine::Postgres => (key.nonce.0[31] % sql::ROOMS) as i64,
        })
    }

    /// `None` when another changed the payment between two looks.
    async fn try_reserve(
        &self,
        key: &ReplayKey,
        reservation: &Reservation<'_>,
        ticket: Ticket,
        now: UnixTime,
    ) -> Result<Option<Reserve>, Error> {
        let id = key.to_bytes();
        let room = self.room_of(key);
        let proof = Value::OptionalBytes(reservation.proof.as_ref().map(|proof| proof.0.as_slice()));
        let (route, body_hash) = (Value::Text(reservation.route), Value::Bytes(reservation.body_hash.as_slice()));
        let (expires_at, lease_until) = (time(reservation.expires_at), time(reservation.lease_until));
        let payment_id = Value::OptionalBytes(reservation.payment_id.as_ref().map(|id| id.as_slice()));

        let mut transaction = self.database.begin().await?;
        let values = [
            Value::Bytes(&id),
            Value::Bytes(&ticket.0),
            room,
            time(now),
            expires_at,
            lease_until,
            route,
            body_hash,
            proof,
            payment_id,
        ];
        if transaction.execute(sql::RESERVE, &values).await? == 1 {
            if !self.enter(&mut transaction, room).await? {
                transaction.rollback().await?;
                return Ok(Some(Reserve::Full));
            }
            transaction.commit().await?;
            return Ok(Some(Reserve::Reserved(ticket)));
        }

        let Some(row) = transaction.fetch_optional(sql::STANDING, &[Value::Bytes(&id)]).await? else {
            let is_free = is_id_free(&mut transaction, payment_id, &id, now).await?;
            transaction.commit().await?;
            return Ok((!is_free).then_some(Reserve::IdInUse));
        };
        let state = State::read(row.integer(0)?)?;
        if let Standing::Used = standing(state, row.integer(2)?, row.integer(3)?, now) {
            let receipt = receipt(&row, 4)?;
            transaction.rollback().await?;
            return Ok(Some(Reserve::AlreadyUsed { state, receipt }));
        }
        if !is_id_free(&mut transaction, payment_id, &id, now).await? {
            transaction.rollback().await?;
            return Ok(Some(Reserve::IdInUse));
        }
        let values = [
            Value::Bytes(&id),
            Value::Bytes(&ticket.0),
            time(now),
            expires_at,
            lease_until,
            route,
            body_hash,
            proof,
            Value::Bytes(row.bytes(1)?),
            Value::Integer(state as i64),
            payment_id,
        ];
        if transaction.execute(sql::RESERVE_AGAIN, &values).await? == 0 {
            return Ok(None);
        }
        let bytes = row.integer(7)?;
        if bytes > 0 {
            transaction.execute(sql::FORGET_RESULT, &[Value::Bytes(&id)]).await?;
            transaction.execute(sql::LEAVE, &[Value::Integer(row.integer(6)?), Value::Integer(0), Value::Integer(bytes)]).await?;
        }
        transaction.commit().await?;
        Ok(Some(Reserve::Reserved(ticket)))
    }

    /// Counts one more payment, unless that were too many.
    async fn enter(&self, transaction: &mut Transaction, room: Value<'_>) -> Result<bool, Error> {
        let nearly = signed(self.limits.entries.saturating_sub(sql::MARGIN));
        if transaction.execute(self.database.pick(sql::ENTER), &[room, Value::Integer(nearly)]).await? == 1 {
            return Ok(true);
        }
        let mut entries = 0;
        for row in transaction.fetch(self.database.pick(sql::LOCK_ROOMS), &[]).await? {
            entries += row.integer(0)?;
        }
        if entries >= signed(self.limits.entries) {
            return Ok(false);
        }
        transaction.execute(sql::ENTER_EXACT, &[room]).await?;
        Ok(true)
    }

    async fn try_begin(&self, key: &ReplayKey, ticket: Ticket, settlement: &Settlement<'_>) -> Result<Kept, Error> {
        let id = key.to_bytes();
        let mut transaction = self.database.begin().await?;
        let fitting = settlement.result.filter(|result| result.fits(&self.limits));
        let small = fitting.filter(|result| is_small(result));
        let values = [
            Value::Bytes(&id),
            Value::Bytes(&ticket.0),
            time(settlement.lease_until),
            Value::Bytes(settlement.note),
            Value::Integer(if settlement.result.is_some() { 0 } else { 1 + RERUNS }),
            Value::Integer(fitting.map_or(0, cost)),
            Value::OptionalInteger(settlement.from_block.and_then(|block| i64::try_from(block).ok())),
            Value::OptionalInteger(small.map(|result| result.status.into())),
            Value::OptionalText(small.map(|result| result.content_type.as_str())),
            Value::OptionalBytes(small.map(|result| result.body.as_slice())),
        ];
        if transaction.execute(sql::BEGIN_SETTLEMENT, &values).await? == 0 {
            return Err(refusal(transaction, key, Some(ticket), Action::BeginSettlement).await);
        }
        let kept = self.keep(&mut transaction, key, settlement.result, small.is_some()).await?;
        transaction.commit().await?;
        Ok(kept)
    }

    /// Keeps the result of a payment that is settling, for which there was no room before.
    async fn try_keep(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<Kept, Error> {
        let mut transaction = self.database.begin().await?;
        let values = [Value::Bytes(&key.to_bytes()), Value::Bytes(&ticket.0), Value::Integer(cost(result))];
        if transaction.execute(sql::SIZE_RESULT, &values).await? == 0 {
            return Err(refusal(transaction, key, Some(ticket), Action::BeginSettlement).await);
        }
        let kept = self.keep(&mut transaction, key, Some(result), false).await?;
        transaction.commit().await?;
        Ok(kept)
    }

    async fn try_store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<Kept, Error> {
        let id = key.to_bytes();
        let mut transaction = self.database.begin().await?;
        let bytes = if result.fits(&self.limits) { cost(result) } else { 0 };
        let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), Value::Integer(bytes)];
        if transaction.execute(sql::STORE_RESULT, &values).await? == 0 {
            return Err(refusal(transaction, key, Some(ticket), Action::StoreResult).await);
        }
        let kept = self.keep(&mut transaction, key, Some(result), false).await?;
        transaction.commit().await?;
        Ok(kept)
    }

    /// Keeps a result whose size the payment's row has already, and which may be in that row.
    async fn keep(
        &self,
        transaction: &mut Transaction,
        key: &ReplayKey,
        result: Option<&StoredResult>,
        is_in_row: bool,
    ) -> Result<Kept, Error> {
        let id = key.to_bytes();
        let Some(result) = result else { return Ok(Kept::Nothing) };
        if !result.fits(&self.limits) {
            return Ok(Kept::TooLarge);
        }
        let values = [self.room_of(key), Value::Integer(cost(result)), Value::Integer(signed(self.limits.most_result_bytes()))];
        if transaction.execute(self.database.pick(sql::FILL), &values).await? == 0 {
            transaction.execute(sql::RESULT_NOT_KEPT, &[Value::Bytes(&id)]).await?;
            return Ok(Kept::NoRoom);
        }
        if is_in_row {
            return Ok(Kept::Yes);
        }
        let values = [
            Value::Bytes(&id),
            Value::Integer(result.status.into()),
            Value::Text(&result.content_type),
            Value::Bytes(&result.body),
        ];
        transaction.execute(sql::KEEP_RESULT, &values).await?;
        Ok(Kept::Yes)
    }

    /// One statement that leads on from named states, or the reason why it did not.
    async fn change(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
        key: &ReplayKey,
        ticket: Ticket,
        action: Action,
    ) -> Result<(), Error> {
        if self.database.execute(sql, values).await? == 1 {
            return Ok(());
        }
        Err(refusal(self.database.begin().await?, key, Some(ticket), action).await)
    }

    async fn try_settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        let id = key.to_bytes();
        let until = Value::Integer(self.limits.result_until(now));
        let values = [Value::Bytes(&id), Value::Bytes(receipt.transaction.as_slice()), Value::Bytes(&receipt.response), until];
        if self.database.execute(sql::SETTLE, &values).await? == 1 {
            return Ok(());
        }
        let mut transaction = self.database.begin().await?;
        if let Some(row) = transaction.fetch_optional(sql::STANDING, &[Value::Bytes(&id)]).await?
            && State::read(row.integer(0)?)? == State::Settled
            && let Some(known) = row.optional_bytes(4)?
        {
            transaction.rollback().await?;
            return if known == receipt.transaction.as_slice() { Ok(()) } else { Err(Error::OtherReceipt) };
        }
        Err(refusal(transaction, key, None, Action::Settle).await)
    }

    async fn try_release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        let mut transaction = self.database.begin().await?;
        let gone = transaction.fetch_optional(sql::RELEASE, &[Value::Bytes(&key.to_bytes()), Value::Bytes(&ticket.0)]).await?;
        let Some(row) = gone else { return Err(refusal(transaction, key, Some(ticket), Action::Release).await) };
        let values = [Value::Integer(row.integer(0)?), Value::Integer(1), Value::Integer(row.integer(1)?)];
        transaction.execute(sql::LEAVE, &values).await?;
        transaction.commit().await
    }

    async fn try_claim(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error> {
        let ticket = Ticket::random()?;
        let mut transaction = self.database.begin().await?;
        let values = [time(now), Value::Bytes(&ticket.0), time(lease_until), list(limit)];
        let rows = transaction.fetch(self.database.pick(sql::CLAIM), &values).await?;
        let claimed = rows.iter().map(|row| Ok((entry(row)?, ticket))).collect::<Result<_, Error>>()?;
        transaction.commit().await?;
        Ok(claimed)
    }
}

#[async_trait]
impl ReplayStore for SqlReplay {
    async fn reserve(&self, key: &ReplayKey, reservation: &Reservation<'_>, now: UnixTime) -> Result<Reserve, Error> {
        reservation.check(now)?;
        let ticket = Ticket::random()?;
        let mut swept = false;
        for _ in 0..ATTEMPTS {
            match step!(self.try_reserve(key, reservation, ticket, now))? {
                // What is over takes no room, even when nobody swept. Where nothing is left to sweep, somebody else may just have.
                Some(Reserve::Full) if !swept => {
                    swept = true;
                    if step!(self.try_expire(now))? == 0 {
                        step!(self.try_evict(i64::MAX))?;
                        step!(self.try_expire(now))?;
                    }
                }
                Some(answer) => return Ok(answer),
                None => {}
            }
        }
        Err(Error::Busy { detail: "the payment was changed concurrently too often".to_owned() })
    }

    async fn begin_settlement(&self, key: &ReplayKey, ticket: Ticket, settlement: &Settlement<'_>) -> Result<Kept, Error> {
        settlement.check()?;
        let kept = step!(self.try_begin(key, ticket, settlement))?;
        let (Kept::NoRoom, Some(result)) = (kept, settlement.result) else { return Ok(kept) };
        // The payment is marked by now; its result comes after it, if dropping delivered ones makes room.
        if step!(self.try_evict(cost(result)))? == 0 {
            return Ok(kept);
        }
        step!(self.try_keep(key, ticket, result))
    }

    async fn record_sent(&self, key: &ReplayKey, ticket: Ticket, transaction: B256) -> Result<(), Error> {
        let id = key.to_bytes();
        let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), Value::Bytes(transaction.as_slice())];
        step!(self.change(sql::RECORD_SENT, &values, key, ticket, Action::RecordSent))
    }

    async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        receipt.check()?;
        step!(self.try_settle(key, receipt, now))
    }

    async fn consume(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        let id = key.to_bytes();
        let values = [Value::Bytes(&id), Value::Bytes(&ticket.0)];
        step!(self.change(sql::CONSUME, &values, key, ticket, Action::Consume))
    }

    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let id = key.to_bytes();
        let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), time(now)];
        step!(self.change(sql::MARK_UNKNOWN, &values, key, ticket, Action::MarkUnknown))
    }

    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        step!(self.try_release(key, ticket))
    }

    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<Kept, Error> {
        step!(self.try_store_result(key, ticket, result))
    }

    async fn run_failed(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let id = key.to_bytes();
        let pause = Value::Integer(RETRY_PAUSE_SECONDS);
        let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), time(now), Value::Integer(1 + RERUNS), pause];
        step!(self.change(sql::RUN_FAILED, &values, key, ticket, Action::StoreResult))
    }

    async fn redeem(&self, key: &ReplayKey, request: &Again<'_>, now: UnixTime) -> Result<Redeem, Error> {
        let id = key.to_bytes();
        let rows = step!(self.database.fetch(sql::REDEEM, &[Value::Bytes(&id)]))?;
        let Some(row) = rows.first() else { return Ok(Redeem::NotUsed) };
        let state = State::read(row.integer(0)?)?;
        if state != State::Settled {
            return Ok(Redeem::Pending(state));
        }
        let receipt = receipt(row, 2)?;
        let settled = Settled {
            paid: receipt.is_some(),
            proof: row.optional_bytes(4)?,
            route: row.text(5)?,
            body_hash: row.bytes(6)?,
            has_result: row.integer(7)? > 0,
            result_until: row.integer(8)?,
            lease_until: row.integer(9)?,
            runs: row.integer(10)?,
        };
        match (settled.claim(request, now), receipt) {
            (Claim::Result, Some(receipt)) => {
                let status = u16::try_from(row.integer(11)?).map_err(|_| Error::Corrupt { what: "status" })?;
                let result = StoredResult { status, content_type: row.text(12)?.to_owned(), body: row.bytes(13)?.to_vec() };
                Ok(Redeem::Result(result, receipt))
            }
            (Claim::Rerun, Some(receipt)) => {
                let ticket = Ticket::random()?;
                let before = Value::Bytes(row.bytes(1)?);
                let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), time(request.lease_until), before];
                // Another may have been quicker; then the call is under way.
                let taken = step!(self.database.execute(sql::RERUN, &values))? == 1;
                Ok(if taken { Redeem::Rerun(ticket, receipt) } else { Redeem::Pending(State::Settled) })
            }
            (Claim::Wait, _) => Ok(Redeem::Pending(State::Settled)),
            (_, receipt) => Ok(Redeem::ReceiptOnly(receipt)),
        }
    }

    async fn claim_unknowns(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error> {
        step!(self.try_claim(now, lease_until, limit))
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    async fn make_room(&self, bytes: u64) -> Result<Room, Error> {
        loop {
            let room = self.room().await?;
            let missing = signed(bytes).saturating_sub(room.result_bytes);
            if missing <= 0 || step!(self.try_evict(missing))? == 0 {
                return Ok(room);
            }
        }
    }

    async fn mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error> {
        for keys in keys.chunks(MAX_LIST) {
            step!(self.try_mark_delivered(keys, now))?;
        }
        Ok(())
    }

    async fn unknowns(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        step!(self.database.fetch(sql::UNKNOWNS, &[list(limit)]))?.iter().map(entry).collect()
    }

    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error> {
        step!(self.database.fetch(sql::ENTRY, &[Value::Bytes(&key.to_bytes())]))?.first().map(entry).transpose()
    }

    async fn expire(&self, now: UnixTime) -> Result<usize, Error> {
        step!(self.try_expire(now))
    }

    async fn counts(&self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        for row in step!(self.database.fetch(sql::COUNTS, &[]))? {
            let entries = row.integer(1)?.cast_unsigned();
            match State::read(row.integer(0)?)? {
                State::Reserved => counts.reserved = entries,
                State::Settling => counts.settling = entries,
                State::Settled => counts.settled = entries,
                State::Unknown => counts.unknown = entries,
            }
            counts.result_bytes += row.integer(2)?.cast_unsigned();
        }
        Ok(counts)
    }
}

/// Whether no other payment than `id` has this identifier. One that no longer counts lets go of it.
async fn is_id_free(transaction: &mut Transaction, payment_id: Value<'_>, id: &[u8], now: UnixTime) -> Result<bool, Error> {
    let Some(row) = transaction.fetch_optional(sql::HOLDER_OF_ID, &[payment_id]).await? else { return Ok(true) };
    let (holder, state) = (row.bytes(0)?, State::read(row.integer(1)?)?);
    if holder == id {
        return Ok(true);
    }
    if let Standing::Used = standing(state, row.integer(3)?, row.integer(4)?, now) {
        return Ok(false);
    }
    let values = [Value::Bytes(holder), Value::Bytes(row.bytes(2)?), Value::Integer(state as i64)];
    transaction.execute(sql::FORGET_ID, &values).await?;
    Ok(true)
}

/// Why a step led nowhere: no such payment, another's, or one in another state.
async fn refusal(mut transaction: Transaction, key: &ReplayKey, ticket: Option<Ticket>, action: Action) -> Error {
    let read = async {
        let row = transaction.fetch_optional(sql::STANDING, &[Value::Bytes(&key.to_bytes())]).await?;
        let Some(row) = row else { return Ok(Error::NotFound { action }) };
        if ticket.is_some_and(|ticket| row.bytes(1).is_ok_and(|holder| holder != ticket.0)) {
            return Ok(Error::NotHolder { action });
        }
        Ok(Error::Transition { action, state: State::read(row.integer(0)?)? })
    };
    let reason = read.await.unwrap_or_else(|error: Error| error);
    // Dropping would do it too, but only when the pool gets round to it.
    transaction.rollback().await.err().unwrap_or(reason)
}

fn entry(row: &Row) -> Result<Entry, Error> {
    let id = row.bytes(0)?.try_into().map_err(|_| Error::Corrupt { what: "key of a payment" })?;
    Ok(Entry {
        key: ReplayKey::from_bytes(id),
        state: State::read(row.integer(1)?)?,
        reserved_at: UnixTime::from_seconds(row.integer(2)?),
        expires_at: UnixTime::from_seconds(row.integer(3)?),
        lease_until: UnixTime::from_seconds(row.integer(4)?),
        route: row.text(5)?.to_owned(),
        body_hash: hash(row.bytes(6)?)?,
        note: row.optional_bytes(7)?.unwrap_or_default().to_vec(),
        receipt: receipt(row, 8)?,
        from_block: row.optional_integer(10)?.map(i64::cast_unsigned),
        sent: row.optional_bytes(11)?.map(hash).transpose()?,
    })
}

/// The transaction stands in this column, the response in the next.
fn receipt(row: &Row, column: usize) -> Result<Option<Receipt>, Error> {
    let (transaction, response) = (row.optional_bytes(column)?, row.optional_bytes(column + 1)?);
    let Some(transaction) = transaction else { return Ok(None) };
    Ok(Some(Receipt { transaction: hash(transaction)?, response: response.unwrap_or_default().to_vec() }))
}

fn hash(bytes: &[u8]) -> Result<B256, Error> {
    B256::try_from(bytes).map_err(|_| Error::Corrupt { what: "hash" })
}

const fn time(time: UnixTime) -> Value<'static> {
    Value::Integer(time.seconds())
}

fn list(limit: usize) -> Value<'static> {
    Value::Integer(limit.min(MAX_LIST) as i64)
}

pub(super) const fn is_small(result: &StoredResult) -> bool {
    result.body.len() <= sql::SMALL_BODY
}

pub(super) fn cost(result: &StoredResult) -> i64 {
    i64::try_from(result.cost()).unwrap_or(i64::MAX)
}

pub(super) fn signed(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
