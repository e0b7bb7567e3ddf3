//! The replay store in the memory of one process: for development, tests, and gates that run alone and may lose it on restart.
//!
//! The same steps and results as in a database, under one lock. Sorted indexes make sure that no step iterates over all payments.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;

use super::{
    Action, Again, Claim, Counts, EVICT_BATCH, EXPIRE_BATCH, Entry, FOR_GOOD, Limits, MAX_LIST, Proof, RERUNS, Receipt, Redeem,
    ReplayKey, ReplayStore, Reservation, Reserve, ResultRetention, Room, Settled, Settlement, Standing, State, StoredResult,
    Ticket, retry_at, standing,
};
use crate::Error;

/// Payments in memory, lost when the process ends: an identity signature, which no chain records, could then be used again until it
/// expires.
pub struct MemoryReplay {
    limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    payments: HashMap<ReplayKey, Payment>,
    /// By the time until which a payment is kept. Those that are kept permanently are not in it.
    ending: BTreeSet<(i64, ReplayKey)>,
    /// By the end of their lease: `settling` and `unknown` ones.
    open: BTreeSet<(i64, ReplayKey)>,
    /// By the time of delivery: those whose stored result was delivered.
    delivered: BTreeSet<(i64, ReplayKey)>,
    /// By the identifier that the caller chose.
    ids: HashMap<B256, ReplayKey>,
    result_bytes: u64,
}

struct Payment {
    state: State,
    ticket: Ticket,
    reserved_at: i64,
    expires_at: i64,
    lease_until: i64,
    keep_until: i64,
    route: Box<str>,
    body_hash: B256,
    proof: Option<Proof>,
    /// Fields that few payments have, or only for a short time.
    more: Option<Box<More>>,
    payment_id: Option<B256>,
    delivered_at: Option<i64>,
    runs: i64,
    result_until: i64,
}

#[derive(Default)]
struct More {
    note: Vec<u8>,
    from_block: Option<u64>,
    sent: Option<B256>,
    receipt: Option<Receipt>,
    result: Option<StoredResult>,
}

impl MemoryReplay {
    /// Returns an empty store.
    pub fn new(limits: Limits) -> Self {
        Self { limits, inner: Mutex::default() }
    }

    /// Every step updates the indexes before anything could panic, so a poisoned lock is usable.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReplay").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Default for MemoryReplay {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Inner {
    /// Looks up a payment for a step that needs its ticket and a state that allows it.
    fn held(&self, key: &ReplayKey, ticket: Option<Ticket>, action: Action) -> Result<&Payment, Error> {
        let payment = self.payments.get(key).ok_or(Error::NotFound { action })?;
        if ticket.is_some_and(|ticket| ticket != payment.ticket) {
            return Err(Error::NotHolder { action });
        }
        if !action.allowed_in(payment.state) {
            return Err(Error::Transition { action, state: payment.state });
        }
        Ok(payment)
    }

    /// Changes an existing payment, and updates its indexes.
    fn change<T>(&mut self, key: &ReplayKey, change: impl FnOnce(&mut Payment) -> T) -> Option<T> {
        let payment = self.payments.get_mut(key)?;
        self.ending.remove(&(payment.keep_until, *key));
        self.open.remove(&(payment.lease_until, *key));
        let done = change(payment);
        if payment.keep_until != FOR_GOOD {
            self.ending.insert((payment.keep_until, *key));
        }
        if matches!(payment.state, State::Settling | State::Unknown) {
            self.open.insert((payment.lease_until, *key));
        }
        Some(done)
    }

    fn insert(&mut self, key: &ReplayKey, payment: Payment) {
        self.remove(key);
        self.ending.insert((payment.keep_until, *key));
        if let Some(id) = payment.payment_id {
            self.ids.insert(id, *key);
        }
        self.payments.insert(*key, payment);
    }

    fn remove(&mut self, key: &ReplayKey) {
        if let Some(payment) = self.payments.remove(key) {
            self.ending.remove(&(payment.keep_until, *key));
            self.open.remove(&(payment.lease_until, *key));
            self.delivered.remove(&(payment.delivered_at.unwrap_or_default(), *key));
            if let Some(id) = payment.payment_id {
                self.ids.remove(&id);
            }
            self.result_bytes -= payment.result().map_or(0, |result| result.cost() as u64);
        }
    }

    /// Drops the result that was delivered first. Its payment is then kept only until its authorization ends. Returns whether there was
    /// one.
    fn evict_one(&mut self) -> bool {
        let Some((_, key)) = self.delivered.pop_first() else { return false };
        let freed = self.change(&key, |payment| {
            payment.delivered_at = None;
            payment.keep_until = payment.expires_at;
            payment.more().result.take().map_or(0, |result| result.cost() as u64)
        });
        self.result_bytes -= freed.unwrap_or_default();
        true
    }

    /// Drops delivered results until at most `most` bytes are stored, or none is left.
    fn evict_to(&mut self, most: u64) {
        while self.result_bytes > most && self.evict_one() {}
    }

    /// Makes room for payments: removes expired ones, then those whose result was delivered.
    fn clear(&mut self, now: UnixTime) {
        if self.expire(now) == 0 {
            for _ in 0..EVICT_BATCH {
                self.evict_one();
            }
            self.expire(now);
        }
    }

    fn expire(&mut self, now: UnixTime) -> usize {
        let mut gone = 0;
        while gone < EXPIRE_BATCH
            && let Some(&(until, key)) = self.ending.first()
            && until <= now.seconds()
        {
            self.remove(&key);
            gone += 1;
        }
        gone
    }

    /// Stores a result, if there is room.
    fn keep(&mut self, limits: &Limits, key: &ReplayKey, result: Option<&StoredResult>) -> ResultRetention {
        let Some(result) = result else { return ResultRetention::Nothing };
        if !result.fits(limits) {
            return ResultRetention::TooLarge;
        }
        let cost = result.cost() as u64;
        let Some(most) = limits.most_result_bytes().checked_sub(cost) else { return ResultRetention::NoRoom };
        self.evict_to(most);
        if self.result_bytes > most {
            return ResultRetention::NoRoom;
        }
        if let Some(payment) = self.payments.get_mut(key) {
            payment.more().result = Some(result.clone());
            self.result_bytes += cost;
        }
        ResultRetention::Yes
    }
}

impl Payment {
    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    fn receipt(&self) -> Option<&Receipt> {
        self.more.as_ref()?.receipt.as_ref()
    }

    fn result(&self) -> Option<&StoredResult> {
        self.more.as_ref()?.result.as_ref()
    }

    fn entry(&self, key: &ReplayKey) -> Entry {
        Entry {
            key: *key,
            state: self.state,
            reserved_at: UnixTime::from_seconds(self.reserved_at),
            expires_at: UnixTime::from_seconds(self.expires_at),
            lease_until: UnixTime::from_seconds(self.lease_until),
            route: self.route.to_string(),
            body_hash: self.body_hash,
            note: self.more.as_ref().map(|more| more.note.clone()).unwrap_or_default(),
            receipt: self.receipt().cloned(),
            from_block: self.more.as_ref().and_then(|more| more.from_block),
            sent: self.more.as_ref().and_then(|more| more.sent),
        }
    }
}

#[async_trait]
impl ReplayStore for MemoryReplay {
    async fn reserve(&self, key: &ReplayKey, reservation: &Reservation<'_>, now: UnixTime) -> Result<Reserve, Error> {
        reservation.check(now)?;
        let ticket = Ticket::random()?;
        let mut inner = self.inner();
        if let Some(payment) = inner.payments.get(key) {
            if let Standing::Used = standing(payment.state, payment.keep_until, payment.lease_until, now) {
                return Ok(Reserve::AlreadyUsed { state: payment.state, receipt: payment.receipt().cloned() });
            }
        } else if inner.payments.len() as u64 >= self.limits.entries {
            inner.clear(now);
        }
        let other = reservation.payment_id.and_then(|id| inner.ids.get(&id).copied()).filter(|other| other != key);
        if let Some(other) = other
            && let Some(payment) = inner.payments.get(&other)
        {
            if let Standing::Used = standing(payment.state, payment.keep_until, payment.lease_until, now) {
                return Ok(Reserve::IdInUse);
            }
            inner.remove(&other);
        }
        if !inner.payments.contains_key(key) && inner.payments.len() as u64 >= self.limits.entries {
            return Ok(Reserve::Full);
        }
        let payment = Payment {
            state: State::Reserved,
            ticket,
            reserved_at: now.seconds(),
            expires_at: reservation.expires_at.seconds(),
            lease_until: reservation.lease_until.seconds(),
            keep_until: reservation.expires_at.seconds(),
            route: reservation.route.into(),
            body_hash: reservation.body_hash,
            proof: reservation.proof,
            payment_id: reservation.payment_id,
            delivered_at: None,
            more: None,
            runs: 0,
            result_until: 0,
        };
        inner.insert(key, payment);
        Ok(Reserve::Reserved(ticket))
    }

    async fn begin_settlement(
        &self,
        key: &ReplayKey,
        ticket: Ticket,
        settlement: &Settlement<'_>,
    ) -> Result<ResultRetention, Error> {
        settlement.check()?;
        let mut inner = self.inner();
        inner.held(key, Some(ticket), Action::BeginSettlement)?;
        inner.change(key, |payment| {
            payment.state = State::Settling;
            payment.lease_until = settlement.lease_until.seconds();
            payment.keep_until = FOR_GOOD;
            payment.more().note = settlement.note.to_vec();
            payment.more().from_block = settlement.from_block;
            payment.runs = if settlement.result.is_some() { 0 } else { 1 + RERUNS };
        });
        Ok(inner.keep(&self.limits, key, settlement.result))
    }

    async fn record_sent(&self, key: &ReplayKey, ticket: Ticket, transaction: B256) -> Result<(), Error> {
        let mut inner = self.inner();
        inner.held(key, Some(ticket), Action::RecordSent)?;
        inner.change(key, |payment| payment.more().sent = Some(transaction));
        Ok(())
    }

    async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        receipt.check()?;
        let mut inner = self.inner();
        if let Some(known) = inner.payments.get(key).and_then(Payment::receipt) {
            return if known.transaction == receipt.transaction { Ok(()) } else { Err(Error::OtherReceipt) };
        }
        inner.held(key, None, Action::Settle)?;
        let until = self.limits.result_until(now);
        inner.change(key, |payment| {
            payment.state = State::Settled;
            payment.more().note = Vec::new();
            payment.more().receipt = Some(receipt.clone());
            payment.result_until = until;
            payment.keep_until = until.max(payment.expires_at);
        });
        Ok(())
    }

    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let mut inner = self.inner();
        inner.held(key, Some(ticket), Action::MarkUnknown)?;
        inner.change(key, |payment| {
            payment.state = State::Unknown;
            payment.lease_until = now.seconds();
        });
        Ok(())
    }

    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        let mut inner = self.inner();
        inner.held(key, Some(ticket), Action::Release)?;
        inner.remove(key);
        Ok(())
    }

    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error> {
        let mut inner = self.inner();
        if inner.held(key, Some(ticket), Action::StoreResult)?.runs <= 0 {
            return Err(Error::Transition { action: Action::StoreResult, state: State::Settled });
        }
        inner.change(key, |payment| payment.runs = 0);
        Ok(inner.keep(&self.limits, key, Some(result)))
    }

    async fn run_failed(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let mut inner = self.inner();
        if inner.held(key, Some(ticket), Action::StoreResult)?.runs <= 0 {
            return Err(Error::Transition { action: Action::StoreResult, state: State::Settled });
        }
        inner.change(key, |payment| {
            payment.runs = 1 + RERUNS;
            payment.lease_until = retry_at(payment.reserved_at, now);
        });
        Ok(())
    }

    async fn redeem(&self, key: &ReplayKey, request: &Again<'_>, now: UnixTime) -> Result<Redeem, Error> {
        let mut inner = self.inner();
        let Some(payment) = inner.payments.get(key) else { return Ok(Redeem::NotUsed) };
        if payment.state != State::Settled {
            return Ok(Redeem::Pending(payment.state));
        }
        let settled = Settled {
            paid: payment.receipt().is_some(),
            proof: payment.proof.as_ref().map(|proof| proof.0.as_slice()),
            route: &payment.route,
            body_hash: payment.body_hash.as_slice(),
            has_result: payment.result().is_some(),
            result_until: payment.result_until,
            lease_until: payment.lease_until,
            runs: payment.runs,
        };
        match (settled.claim(request, now), payment.receipt().cloned(), payment.result()) {
            (Claim::Result, Some(receipt), Some(result)) => Ok(Redeem::Result(result.clone(), receipt)),
            (Claim::Rerun, Some(receipt), _) => {
                let ticket = Ticket::random()?;
                inner.change(key, |payment| {
                    payment.ticket = ticket;
                    payment.lease_until = request.lease_until.seconds();
                    payment.runs -= 1;
                });
                Ok(Redeem::Rerun(ticket, receipt))
            }
            (Claim::Wait, ..) => Ok(Redeem::Pending(State::Settled)),
            (_, receipt, _) => Ok(Redeem::ReceiptOnly(receipt)),
        }
    }

    async fn claim_unknowns(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error> {
        let ticket = Ticket::random()?;
        let mut inner = self.inner();
        let over = inner.open.iter().take_while(|(until, _)| *until <= now.seconds());
        let keys: Vec<_> = over.take(limit.min(MAX_LIST)).map(|(_, key)| *key).collect();
        let claimed = keys.iter().filter_map(|key| {
            inner.change(key, |payment| {
                payment.state = State::Unknown;
                payment.ticket = ticket;
                payment.lease_until = lease_until.seconds();
                (payment.entry(key), ticket)
            })
        });
        Ok(claimed.collect())
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    async fn make_room(&self, bytes: u64) -> Result<Room, Error> {
        let mut inner = self.inner();
        inner.evict_to(self.limits.result_bytes.saturating_sub(bytes));
        Ok(self.limits.room(inner.payments.len() as u64, inner.result_bytes))
    }

    async fn mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error> {
        let mut inner = self.inner();
        for key in keys {
            let Some(payment) = inner.payments.get_mut(key) else { continue };
            if payment.delivered_at.is_none() && payment.state == State::Settled && payment.result().is_some() {
                payment.delivered_at = Some(now.seconds());
                inner.delivered.insert((now.seconds(), *key));
            }
        }
        Ok(())
    }

    async fn unknowns(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        let inner = self.inner();
        let keys = inner.open.iter().take(limit.min(MAX_LIST));
        Ok(keys.filter_map(|(_, key)| inner.payments.get(key).map(|payment| payment.entry(key))).collect())
    }

    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error> {
        Ok(self.inner().payments.get(key).map(|payment| payment.entry(key)))
    }

    async fn expire(&self, now: UnixTime) -> Result<usize, Error> {
        Ok(self.inner().expire(now))
    }

    async fn counts(&self) -> Result<Counts, Error> {
        let inner = self.inner();
        let mut counts = Counts { result_bytes: inner.result_bytes, ..Counts::default() };
        for payment in inner.payments.values() {
            match payment.state {
                State::Reserved => counts.reserved += 1,
                State::Settling => counts.settling += 1,
                State::Settled => counts.settled += 1,
                State::Unknown => counts.unknown += 1,
            }
        }
        Ok(counts)
    }
}
