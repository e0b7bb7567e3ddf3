//! The replay store in a database.
//!
//! Every step is one transaction, or one statement, whose condition names the required state and ticket, so the database decides between
//! concurrent steps. If a step affected no row, the row is read to find out why.

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;

use super::statements::{self as sql, EntryRow, Gone, IdHolder, RedeemRow, StandingRow, StateCount};
use super::{
    Action, Again, Claim, Counts, Entry, Limits, MAX_LIST, RERUNS, RETRY_PAUSE_SECONDS, Receipt, Redeem, ReplayKey, ReplayStore,
    Reservation, Reserve, ResultRetention, Room, Settled, Settlement, Standing, State, StoredResult, Ticket, standing,
};
use crate::Error;
use crate::database::{ATTEMPTS, Database, Engine, FromRow as _, Transaction, Value, again};

/// Retries a step on conflicts. A step is one transaction, so a failed attempt leaves nothing behind.
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
    /// Opens the store, and creates the tables if they are missing.
    pub(super) async fn open(database: Database, limits: Limits) -> Result<Self, Error> {
        database.migrate(sql::MODULE, sql::MIGRATIONS).await?;
        Ok(Self { database, limits })
    }

    /// Returns the same store with another connection to the same database.
    pub(super) fn with_database(&self, database: Database) -> Self {
        Self { database, ..self.clone() }
    }

    /// Returns the room in which a payment is counted.
    const fn room_of(&self, key: &ReplayKey) -> Value<'static> {
        Value::Integer(match self.database.engine() {
            Engine::Sqlite => 0,
            Engine::Postgres => (key.nonce.0[31] % sql::ROOMS) as i64,
        })
    }

    /// `None` if another process changed the payment between two reads.
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
        let known = StandingRow::from_row(&row)?;
        let state = known.state;
        if let Standing::Used = standing(state, known.keep_until, known.lease_until, now) {
            let receipt = receipt(known.tx, known.receipt);
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
            Value::Bytes(known.ticket),
            Value::Integer(state as i64),
            payment_id,
        ];
        if transaction.execute(sql::RESERVE_AGAIN, &values).await? == 0 {
            return Ok(None);
        }
        if known.result_bytes > 0 {
            transaction.execute(sql::FORGET_RESULT, &[Value::Bytes(&id)]).await?;
            let values = [Value::Integer(known.room), Value::Integer(0), Value::Integer(known.result_bytes)];
            transaction.execute(sql::LEAVE, &values).await?;
        }
        transaction.commit().await?;
        Ok(Some(Reserve::Reserved(ticket)))
    }

    /// Counts one more payment. Returns `false` if the limit is reached.
    async fn enter(&self, transaction: &mut Transaction, room: Value<'_>) -> Result<bool, Error> {
        let nearly = signed(self.limits.entries.saturating_sub(sql::MARGIN));
        if transaction.execute(self.database.pick(sql::ENTER), &[room, Value::Integer(nearly)]).await? == 1 {
            return Ok(true);
        }
        let mut entries = 0;
        for row in transaction.fetch(self.database.pick(sql::LOCK_ROOMS), &[]).await? {
            entries += row.scalar::<i64>()?;
        }
        if entries >= signed(self.limits.entries) {
            return Ok(false);
        }
        transaction.execute(sql::ENTER_EXACT, &[room]).await?;
        Ok(true)
    }

    async fn try_begin(&self, key: &ReplayKey, ticket: Ticket, settlement: &Settlement<'_>) -> Result<ResultRetention, Error> {
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

    /// Stores the result of a `settling` payment, for which there was no room before.
    async fn try_keep(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error> {
        let mut transaction = self.database.begin().await?;
        let values = [Value::Bytes(&key.to_bytes()), Value::Bytes(&ticket.0), Value::Integer(cost(result))];
        if transaction.execute(sql::SIZE_RESULT, &values).await? == 0 {
            return Err(refusal(transaction, key, Some(ticket), Action::BeginSettlement).await);
        }
        let kept = self.keep(&mut transaction, key, Some(result), false).await?;
        transaction.commit().await?;
        Ok(kept)
    }

    async fn try_store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error> {
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

    /// Stores a result whose size is already in the payment's row, and which may be in that row itself.
    async fn keep(
        &self,
        transaction: &mut Transaction,
        key: &ReplayKey,
        result: Option<&StoredResult>,
        is_in_row: bool,
    ) -> Result<ResultRetention, Error> {
        let id = key.to_bytes();
        let Some(result) = result else { return Ok(ResultRetention::Nothing) };
        if !result.fits(&self.limits) {
            return Ok(ResultRetention::TooLarge);
        }
        let values = [self.room_of(key), Value::Integer(cost(result)), Value::Integer(signed(self.limits.most_result_bytes()))];
        if transaction.execute(self.database.pick(sql::FILL), &values).await? == 0 {
            transaction.execute(sql::RESULT_NOT_KEPT, &[Value::Bytes(&id)]).await?;
            return Ok(ResultRetention::NoRoom);
        }
        if is_in_row {
            return Ok(ResultRetention::Yes);
        }
        let values = [
            Value::Bytes(&id),
            Value::Integer(result.status.into()),
            Value::Text(&result.content_type),
            Value::Bytes(&result.body),
        ];
        transaction.execute(sql::KEEP_RESULT, &values).await?;
        Ok(ResultRetention::Yes)
    }

    /// Runs one statement that requires certain states, or returns why it failed.
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
            && let StandingRow { state: State::Settled, tx: Some(known), .. } = StandingRow::from_row(&row)?
        {
            transaction.rollback().await?;
            return if known == receipt.transaction { Ok(()) } else { Err(Error::OtherReceipt) };
        }
        Err(refusal(transaction, key, None, Action::Settle).await)
    }

    async fn try_release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        let mut transaction = self.database.begin().await?;
        let gone = transaction.fetch_optional(sql::RELEASE, &[Value::Bytes(&key.to_bytes()), Value::Bytes(&ticket.0)]).await?;
        let Some(row) = gone else { return Err(refusal(transaction, key, Some(ticket), Action::Release).await) };
        let gone = Gone::from_row(&row)?;
        let values = [Value::Integer(gone.room), Value::Integer(1), Value::Integer(gone.result_bytes)];
        transaction.execute(sql::LEAVE, &values).await?;
        transaction.commit().await
    }

    async fn try_claim(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error> {
        let ticket = Ticket::random()?;
        let mut transaction = self.database.begin().await?;
        let values = [time(now), Value::Bytes(&ticket.0), time(lease_until), list(limit)];
        let rows = transaction.fetch(self.database.pick(sql::CLAIM), &values).await?;
        let claimed = EntryRow::from_rows(&rows).map(|row| Ok((entry(&row?)?, ticket))).collect::<Result<_, Error>>()?;
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
                // Expired payments must not take up room, even if they were not removed. If none is left to remove, another process may
                // just have removed them.
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

    async fn begin_settlement(
        &self,
        key: &ReplayKey,
        ticket: Ticket,
        settlement: &Settlement<'_>,
    ) -> Result<ResultRetention, Error> {
        settlement.check()?;
        let kept = step!(self.try_begin(key, ticket, settlement))?;
        let (ResultRetention::NoRoom, Some(result)) = (kept, settlement.result) else { return Ok(kept) };
        // The payment is marked already; its result follows, if dropping delivered ones makes room.
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

    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let id = key.to_bytes();
        let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), time(now)];
        step!(self.change(sql::MARK_UNKNOWN, &values, key, ticket, Action::MarkUnknown))
    }

    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        step!(self.try_release(key, ticket))
    }

    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error> {
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
        let row = RedeemRow::from_row(row)?;
        if row.state != State::Settled {
            return Ok(Redeem::Pending(row.state));
        }
        let receipt = receipt(row.tx, row.receipt);
        let settled = Settled {
            paid: receipt.is_some(),
            proof: row.proof,
            route: row.route,
            body_hash: row.body_hash,
            has_result: row.result_bytes > 0,
            result_until: row.result_until,
            lease_until: row.lease_until,
            runs: row.runs,
        };
        match (settled.claim(request, now), receipt) {
            (Claim::Result, Some(receipt)) => {
                let (Some(status), Some(content_type), Some(body)) = (row.status, row.content_type, row.body) else {
                    return Err(Error::Corrupt { what: "result" });
                };
                let status = u16::try_from(status).map_err(|_| Error::Corrupt { what: "status" })?;
                let result = StoredResult { status, content_type: content_type.to_owned(), body: body.to_vec() };
                Ok(Redeem::Result(result, receipt))
            }
            (Claim::Rerun, Some(receipt)) => {
                let ticket = Ticket::random()?;
                let before = Value::Bytes(row.ticket);
                let values = [Value::Bytes(&id), Value::Bytes(&ticket.0), time(request.lease_until), before];
                // Another process may have been faster; then the call is running.
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
        let rows = step!(self.database.fetch(sql::UNKNOWNS, &[list(limit)]))?;
        EntryRow::from_rows(&rows).map(|row| entry(&row?)).collect()
    }

    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error> {
        let rows = step!(self.database.fetch(sql::ENTRY, &[Value::Bytes(&key.to_bytes())]))?;
        rows.first().map(|row| entry(&EntryRow::from_row(row)?)).transpose()
    }

    async fn expire(&self, now: UnixTime) -> Result<usize, Error> {
        step!(self.try_expire(now))
    }

    async fn counts(&self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        for row in StateCount::from_rows(&step!(self.database.fetch(sql::COUNTS, &[]))?) {
            let row = row?;
            let entries = row.payments.cast_unsigned();
            match row.state {
                State::Reserved => counts.reserved = entries,
                State::Settling => counts.settling = entries,
                State::Settled => counts.settled = entries,
                State::Unknown => counts.unknown = entries,
            }
            counts.result_bytes += row.result_bytes.cast_unsigned();
        }
        Ok(counts)
    }
}

/// Whether no other payment than `id` has this identifier. An expired one loses it.
async fn is_id_free(transaction: &mut Transaction, payment_id: Value<'_>, id: &[u8], now: UnixTime) -> Result<bool, Error> {
    let Some(row) = transaction.fetch_optional(sql::HOLDER_OF_ID, &[payment_id]).await? else { return Ok(true) };
    let holder = IdHolder::from_row(&row)?;
    if holder.id == id {
        return Ok(true);
    }
    if let Standing::Used = standing(holder.state, holder.keep_until, holder.lease_until, now) {
        return Ok(false);
    }
    let values = [Value::Bytes(holder.id), Value::Bytes(holder.ticket), Value::Integer(holder.state as i64)];
    transaction.execute(sql::FORGET_ID, &values).await?;
    Ok(true)
}

/// Returns why a step failed: no such payment, another's ticket, or another state.
async fn refusal(mut transaction: Transaction, key: &ReplayKey, ticket: Option<Ticket>, action: Action) -> Error {
    let read = async {
        let row = transaction.fetch_optional(sql::STANDING, &[Value::Bytes(&key.to_bytes())]).await?;
        let Some(row) = row else { return Ok(Error::NotFound { action }) };
        let known = StandingRow::from_row(&row)?;
        if ticket.is_some_and(|ticket| known.ticket != ticket.0) {
            return Ok(Error::NotHolder { action });
        }
        Ok(Error::Transition { action, state: known.state })
    };
    let reason = read.await.unwrap_or_else(|error: Error| error);
    // Dropping would do it too, but only later, when the pool does it.
    transaction.rollback().await.err().unwrap_or(reason)
}

fn entry(row: &EntryRow<'_>) -> Result<Entry, Error> {
    let id = row.id.try_into().map_err(|_| Error::Corrupt { what: "key of a payment" })?;
    Ok(Entry {
        key: ReplayKey::from_bytes(id),
        state: row.state,
        reserved_at: row.reserved_at,
        expires_at: row.expires_at,
        lease_until: row.lease_until,
        route: row.route.to_owned(),
        body_hash: row.body_hash,
        note: row.note.unwrap_or_default().to_vec(),
        receipt: receipt(row.tx, row.receipt),
        from_block: row.from_block.map(i64::cast_unsigned),
        sent: row.sent,
    })
}

fn receipt(transaction: Option<B256>, response: Option<&[u8]>) -> Option<Receipt> {
    transaction.map(|transaction| Receipt { transaction, response: response.unwrap_or_default().to_vec() })
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
