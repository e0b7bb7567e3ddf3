//! Room in the store: removing expired payments and, if room is scarce, delivered results.

use toolcrib_core::clock::UnixTime;

use super::super::statements::{self as sql, DeliveredRow, Gone, RoomTotals};
use super::super::{EVICT_BATCH, EXPIRE_BATCH, ReplayKey, Room};
use super::{SqlReplay, time};
use crate::Error;
use crate::database::{FromRow as _, Transaction, Value, again};

impl SqlReplay {
    /// Drops delivered results, at most one batch, until `bytes` are free. Returns their size in bytes.
    pub(super) async fn try_evict(&self, bytes: i64) -> Result<i64, Error> {
        let mut transaction = self.database.begin().await?;
        let found = transaction.fetch(self.database.pick(sql::DELIVERED), &[Value::Integer(EVICT_BATCH as i64)]).await?;
        let (mut rooms, mut freed) = (Rooms::default(), 0);
        for row in DeliveredRow::from_rows(&found) {
            let row = row?;
            if freed >= bytes {
                break;
            }
            let id = Value::Bytes(row.id);
            transaction.execute(sql::FORGET_RESULT, &[id]).await?;
            transaction.execute(sql::DROP_RESULT, &[id]).await?;
            rooms.leave(row.room, 0, row.result_bytes)?;
            freed += row.result_bytes;
        }
        rooms.write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(freed)
    }

    pub(super) async fn room(&self) -> Result<Room, Error> {
        let rows = step!(self.database.fetch(sql::ROOM, &[]))?;
        let row = rows.first().ok_or(Error::Corrupt { what: "rooms" })?;
        let totals = RoomTotals::from_row(row)?;
        Ok(self.limits.room(totals.entries.cast_unsigned(), totals.bytes.cast_unsigned()))
    }

    pub(super) async fn try_mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error> {
        let mut transaction = self.database.begin().await?;
        for key in keys {
            transaction.execute(sql::MARK_DELIVERED, &[Value::Bytes(&key.to_bytes()), time(now)]).await?;
        }
        transaction.commit().await
    }

    pub(super) async fn try_expire(&self, now: UnixTime) -> Result<usize, Error> {
        let mut transaction = self.database.begin().await?;
        let values = [time(now), Value::Integer(EXPIRE_BATCH as i64)];
        let gone = transaction.fetch(self.database.pick(sql::EXPIRE), &values).await?;
        let mut rooms = Rooms::default();
        for row in Gone::from_rows(&gone) {
            let row = row?;
            rooms.leave(row.room, 1, row.result_bytes)?;
        }
        rooms.write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(gone.len())
    }
}

/// What one transaction removes from the rooms, so that each is changed once.
#[derive(Default)]
struct Rooms([(i64, i64); sql::ROOMS as usize]);

impl Rooms {
    fn leave(&mut self, room: i64, entries: i64, bytes: i64) -> Result<(), Error> {
        let room = usize::try_from(room).ok().and_then(|room| self.0.get_mut(room));
        let counts = room.ok_or(Error::Corrupt { what: "room" })?;
        counts.0 += entries;
        counts.1 += bytes;
        Ok(())
    }

    async fn write(self, transaction: &mut Transaction) -> Result<(), Error> {
        for (room, (entries, bytes)) in (0..).zip(self.0) {
            if (entries, bytes) != (0, 0) {
                transaction.execute(sql::LEAVE, &[Value::Integer(room), Value::Integer(entries), Value::Integer(bytes)]).await?;
            }
        }
        Ok(())
    }
}
