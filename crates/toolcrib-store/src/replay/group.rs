//! The public replay store in a database.
//!
//! On a SQLite file every step goes to the one [`Writer`] of this store, where concurrent steps share a commit. On PostgreSQL concurrent
//! steps of the usual kinds share a statement ([`Batches`]). Everything else, and every database in memory, uses [`sql::SqlReplay`](Steps),
//! which has the rules.

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;

use super::batch::Batches;
use super::sql::SqlReplay as Steps;
use super::{
    Again, Counts, Entry, Limits, Receipt, Redeem, ReplayKey, ReplayStore, Reservation, Reserve, ResultRetention, Room,
    Settlement, StoredResult, Ticket,
};
use crate::Error;
use crate::database::{Database, Writer, run_now};

/// Payments in a database, shared by every process that opens it.
#[derive(Clone, Debug)]
pub struct SqlReplay {
    steps: Steps,
    /// Makes the changes, if `steps` does not.
    writer: Option<Writer<Steps>>,
    /// Tries the usual steps first.
    batches: Option<Batches>,
}

impl SqlReplay {
    /// Opens the store, and creates the tables if they are missing.
    pub async fn open(database: Database, limits: Limits) -> Result<Self, Error> {
        let steps = Steps::open(database.clone(), limits).await?;
        let writer = Writer::start(&database, |local| steps.with_database(local))?;
        Ok(Self { steps, writer, batches: Batches::start(&database, limits) })
    }
}

#[async_trait]
impl ReplayStore for SqlReplay {
    async fn reserve(&self, key: &ReplayKey, reservation: &Reservation<'_>, now: UnixTime) -> Result<Reserve, Error> {
        if let Some(batches) = &self.batches
            && let Some(ticket) = batches.reserve(key, reservation, now).await?
        {
            return Ok(Reserve::Reserved(ticket));
        }
        let Some(writer) = &self.writer else { return self.steps.reserve(key, reservation, now).await };
        let (key, route) = (*key, reservation.route.to_owned());
        let Reservation { expires_at, lease_until, route: _, body_hash, proof, payment_id } = *reservation;
        let reserve = move |steps: &Steps| {
            let reservation = Reservation { expires_at, lease_until, route: &route, body_hash, proof, payment_id };
            run_now(steps.reserve(&key, &reservation, now))
        };
        if reservation.is_leased() { writer.change_soon(reserve).await } else { writer.change(reserve).await }
    }

    async fn begin_settlement(
        &self,
        key: &ReplayKey,
        ticket: Ticket,
        settlement: &Settlement<'_>,
    ) -> Result<ResultRetention, Error> {
        if let Some(batches) = &self.batches
            && batches.begin(key, ticket, settlement).await?
        {
            return Ok(ResultRetention::Yes);
        }
        let Some(writer) = &self.writer else { return self.steps.begin_settlement(key, ticket, settlement).await };
        let (key, note, result) = (*key, settlement.note.to_owned(), settlement.result.cloned());
        let Settlement { lease_until, note: _, result: _, from_block } = *settlement;
        writer
            .change(move |steps| {
                let settlement = Settlement { lease_until, note: &note, result: result.as_ref(), from_block };
                run_now(steps.begin_settlement(&key, ticket, &settlement))
            })
            .await
    }

    async fn record_sent(&self, key: &ReplayKey, ticket: Ticket, transaction: B256) -> Result<(), Error> {
        let Some(writer) = &self.writer else { return self.steps.record_sent(key, ticket, transaction).await };
        let key = *key;
        writer.change(move |steps| run_now(steps.record_sent(&key, ticket, transaction))).await
    }

    async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        if let Some(batches) = &self.batches
            && batches.settle(key, receipt, now).await?
        {
            return Ok(());
        }
        let Some(writer) = &self.writer else { return self.steps.settle(key, receipt, now).await };
        let (key, receipt) = (*key, receipt.clone());
        writer.change_soon(move |steps| run_now(steps.settle(&key, &receipt, now))).await
    }

    async fn settle_in_background(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        if let Some(batches) = &self.batches
            && batches.settle_in_background(key, receipt, now).await?
        {
            return Ok(());
        }
        let Some(writer) = &self.writer else { return self.steps.settle(key, receipt, now).await };
        let (key, receipt) = (*key, receipt.clone());
        writer.change_soon(move |steps| run_now(steps.settle(&key, &receipt, now))).await
    }

    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let Some(writer) = &self.writer else { return self.steps.mark_unknown(key, ticket, now).await };
        let key = *key;
        writer.change(move |steps| run_now(steps.mark_unknown(&key, ticket, now))).await
    }

    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        let Some(writer) = &self.writer else { return self.steps.release(key, ticket).await };
        let key = *key;
        writer.change(move |steps| run_now(steps.release(&key, ticket))).await
    }

    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error> {
        let Some(writer) = &self.writer else { return self.steps.store_result(key, ticket, result).await };
        let (key, result) = (*key, result.clone());
        writer.change(move |steps| run_now(steps.store_result(&key, ticket, &result))).await
    }

    async fn run_failed(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        let Some(writer) = &self.writer else { return self.steps.run_failed(key, ticket, now).await };
        let key = *key;
        writer.change(move |steps| run_now(steps.run_failed(&key, ticket, now))).await
    }

    async fn redeem(&self, key: &ReplayKey, request: &Again<'_>, now: UnixTime) -> Result<Redeem, Error> {
        let Some(writer) = &self.writer else { return self.steps.redeem(key, request, now).await };
        let (key, route) = (*key, request.route.to_owned());
        let Again { route: _, body_hash, proof, lease_until } = *request;
        writer
            .change(move |steps| {
                let request = Again { route: &route, body_hash, proof, lease_until };
                run_now(steps.redeem(&key, &request, now))
            })
            .await
    }

    async fn claim_unknowns(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error> {
        let Some(writer) = &self.writer else { return self.steps.claim_unknowns(now, lease_until, limit).await };
        writer.change(move |steps| run_now(steps.claim_unknowns(now, lease_until, limit))).await
    }

    fn limits(&self) -> Limits {
        self.steps.limits()
    }

    async fn make_room(&self, bytes: u64) -> Result<Room, Error> {
        let Some(writer) = &self.writer else { return self.steps.make_room(bytes).await };
        writer.change(move |steps| run_now(steps.make_room(bytes))).await
    }

    async fn mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error> {
        let Some(writer) = &self.writer else { return self.steps.mark_delivered(keys, now).await };
        let keys = keys.to_owned();
        writer.change(move |steps| run_now(steps.mark_delivered(&keys, now))).await
    }

    async fn unknowns(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        self.steps.unknowns(limit).await
    }

    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error> {
        self.steps.entry(key).await
    }

    async fn expire(&self, now: UnixTime) -> Result<usize, Error> {
        let Some(writer) = &self.writer else { return self.steps.expire(now).await };
        writer.change(move |steps| run_now(steps.expire(now))).await
    }

    async fn counts(&self) -> Result<Counts, Error> {
        self.steps.counts().await
    }
}
