//! Garbage collection of objects that no row refers to.
//!
//! An object may lose its last reference (a newer verification replaced it), or never get one (its writer died). The former have a row in
//! `index_object`, the latter are found by listing the store. Both are condemned in the database first, and only then deleted:
//!
//! - A writer claims its reference in the transaction that writes the row. Claiming and condemning change the same row, so one of them waits
//!   for the other and then sees what it did: a claimed object is not condemned, and a condemned one cannot be claimed.
//! - A claim is rejected later than half the grace period after its object was put. The mark of a condemned object stays for the whole
//!   grace period after its deletion. So a writer that put an object before its deletion finds the mark, or is too late, and a writer that
//!   puts it afterwards has stored it anew. The clocks of store and database may differ by half the grace period.

use std::sync::PoisonError;

use futures_util::TryStreamExt as _;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::objects::Entry;
use toolcrib_store::{row, sql};

use super::{EVIDENCE, EvidenceObjects, INDEXES, Reference};
use crate::{Error, Index};

/// The number of references that one statement condemns or reads: a transaction of milliseconds.
const PAGE: i64 = 500;

/// The number of pages in one call, so that a large collection does not delay other work: a million references. The next call continues
/// there.
const MAX_PAGES: usize = 2_000;

/// A position among references, in the order of `at`.
pub(super) type Cursor = (i64, Vec<u8>);

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that were deleted.
    pub deleted: u64,
    /// Marks of deleted objects that were dropped.
    pub forgotten: u64,
}

row! {
    /// A reference that was claimed long ago.
    struct OldRow {
        at: i64,
        reference: Vec<u8>,
    }
}

const OLD: &str = sql!(
    "SELECT ",
    OldRow::COLUMNS,
    " FROM index_object WHERE condemned_at IS NULL AND at < $1 AND (at, reference) > ($2, $3)
    ORDER BY at, reference LIMIT $4"
);
/// Of the references between two places. The length is said for the index, which has references alone. A row that was claimed meanwhile has
/// another time.
const CONDEMN: &str =
    "UPDATE index_object SET condemned_at = $1 WHERE condemned_at IS NULL AND at < $2 AND (at, reference) > ($3, $4)
    AND (at, reference) <= ($5, $6)
    AND NOT EXISTS (SELECT 1 FROM index_evidence e WHERE e.bytes = index_object.reference AND length(e.bytes) = 36)";
const CONDEMNED: &str =
    "SELECT reference FROM index_object WHERE condemned_at IS NOT NULL AND NOT deleted ORDER BY condemned_at LIMIT $1";
/// An orphan has no row. If one appears meanwhile, its writer was faster.
const CONDEMN_ORPHAN: &str =
    "INSERT INTO index_object (reference, at, condemned_at) VALUES ($1, $2, $2) ON CONFLICT (reference) DO NOTHING";
const DELETED: &str = "UPDATE index_object SET deleted = TRUE, condemned_at = $2 WHERE reference = $1";
const FORGET: &str = "DELETE FROM index_object WHERE deleted AND condemned_at < $1";

impl Index {
    /// Deletes objects that no row has referred to for the grace period. Several processes may do so at once.
    pub async fn collect_objects(&self) -> Result<Collected, Error> {
        let Some(store) = self.evidence_objects() else { return Ok(Collected::default()) };
        self.database().build_indexes(&[("index.objects.indexes", INDEXES)]).await?;
        let mut collected = Collected::default();
        let mut place = store.collected.lock().unwrap_or_else(PoisonError::into_inner).take();
        for _ in 0..MAX_PAGES {
            let now = self.database().now().await?;
            let (at, reference) = place.take().unwrap_or((i64::MIN, Vec::new()));
            let (before, from) =
                (Value::Integer(now - store.options.grace_seconds), [Value::Integer(at), Value::Bytes(&reference)]);
            let old = self.database().fetch(OLD, &[before, from[0], from[1], Value::Integer(PAGE)]).await?;
            let Some(last) = old.last() else { break };
            let last = OldRow::from_row(last)?;
            let last = (last.at, last.reference);
            let to = [Value::Integer(last.0), Value::Bytes(&last.1)];
            self.database().execute(CONDEMN, &[Value::Integer(now), before, from[0], from[1], to[0], to[1]]).await?;
            collected.deleted += self.delete_condemned(store).await?;
            place = (old.len() == PAGE as usize).then_some(last);
            if place.is_none() {
                break;
            }
        }
        *store.collected.lock().unwrap_or_else(PoisonError::into_inner) = place;
        // Objects left over from a collection that was interrupted.
        collected.deleted += self.delete_condemned(store).await?;
        let now = self.database().now().await?;
        collected.forgotten = self.database().execute(FORGET, &[Value::Integer(now - store.options.grace_seconds)]).await?;
        Ok(collected)
    }

    /// Deletes objects that never got a reference because their writers died. It lists the whole store.
    pub async fn collect_orphans(&self) -> Result<Collected, Error> {
        let Some(store) = self.evidence_objects() else { return Ok(Collected::default()) };
        let now = self.database().now().await?;
        let before = now - store.options.grace_seconds;
        let mut listed = std::pin::pin!(store.objects.list(EVIDENCE));
        while let Some(Entry { key, modified, .. }) = listed.try_next().await? {
            let Some(reference) = Reference::of_key(&key).filter(|_| modified < before) else { continue };
            self.database().execute(CONDEMN_ORPHAN, &[Value::Bytes(&reference.0), Value::Integer(now)]).await?;
        }
        let mut collected = Collected::default();
        loop {
            match self.delete_condemned(store).await? {
                0 => break,
                deleted => collected.deleted += deleted,
            }
        }
        let grace = std::time::Duration::from_secs(store.options.grace_seconds.unsigned_abs());
        store.objects.sweep(grace).await?;
        Ok(collected)
    }

    async fn delete_condemned(&self, store: &EvidenceObjects) -> Result<u64, Error> {
        let mut deleted = 0;
        for row in self.database().fetch(CONDEMNED, &[Value::Integer(PAGE)]).await? {
            let reference = Reference::read(row.scalar()?).ok_or(Error::Corrupt { what: "reference to an object" })?;
            store.objects.delete(&reference.key()).await?;
            // The mark is kept from now on.
            let now = UnixTime::from_seconds(self.database().now().await?);
            let values = [Value::Bytes(&reference.0), Value::Integer(now.seconds())];
            self.database().execute(DELETED, &values).await?;
            deleted += 1;
        }
        Ok(deleted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use toolcrib_store::objects::{Objects, ObjectsLocation};
    use toolcrib_store::{Database, Location};

    use super::*;
    use crate::objects::{KeeperOptions, Put, claim};

    async fn index(folder: &std::path::Path) -> Index {
        let objects = Objects::open(&ObjectsLocation::folder(folder), |_| None).unwrap();
        let database = Database::open(&Location::memory()).await.unwrap();
        Index::open(database).await.unwrap().with_objects(objects, KeeperOptions::default()).await.unwrap()
    }

    async fn claims(index: &Index, put: Put) -> bool {
        let mut transaction = index.database().begin().await.unwrap();
        let is_claimed = claim(&mut transaction, put).await.unwrap();
        transaction.commit().await.unwrap();
        is_claimed
    }

    fn file(index: &Index, folder: &std::path::Path, identity: [u8; 16], put: Put) -> std::path::PathBuf {
        assert!(index.evidence_objects().is_some());
        folder.join(alloy_primitives::hex::encode(identity)).join(put.reference.key())
    }

    #[expect(clippy::disallowed_methods, reason = "files have the system's times")]
    fn grow_old(file: &std::path::Path) {
        let file = std::fs::File::options().append(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(10 * 24 * 3_600)).unwrap();
    }

    /// A writer that puts an object and then is suspended until after its collection.
    #[tokio::test]
    async fn an_object_that_was_collected_cannot_be_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path()).await;
        let identity = index.identity().await.unwrap();
        let put = index.put_bundle(b"{}", "{}").await.unwrap().unwrap();
        let object = file(&index, folder.path(), identity, put);
        assert_eq!(index.collect_orphans().await.unwrap(), Collected::default(), "it is new");
        grow_old(&object);
        assert_eq!(index.collect_orphans().await.unwrap(), Collected { deleted: 1, forgotten: 0 });
        assert!(!object.exists());
        assert!(!claims(&index, put).await, "the mark says so");
        // The same content is written again, and is stored in the database as long as the mark exists.
        let again = index.put_bundle(b"{}", "{}").await.unwrap().unwrap();
        assert_eq!(again.reference, put.reference);
        assert!(object.exists() && !claims(&index, again).await);
        index.database().execute("UPDATE index_object SET condemned_at = 0", &[]).await.unwrap();
        assert_eq!(index.collect_objects().await.unwrap(), Collected { deleted: 0, forgotten: 1 });
        // By then the writer of the deleted object is too late even without a mark.
        let late = Put { claim_until: index.database().now().await.unwrap() - 1, ..put };
        assert!(!claims(&index, late).await);
        assert!(claims(&index, again).await);
        // A claimed object is not collected before its time, and is not an orphan either.
        grow_old(&object);
        assert_eq!(index.collect_orphans().await.unwrap(), Collected::default());
        assert_eq!(index.collect_objects().await.unwrap(), Collected::default());
        assert!(object.exists());
    }

    #[tokio::test]
    async fn a_collection_that_was_cut_off_is_ended_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path()).await;
        let identity = index.identity().await.unwrap();
        let put = index.put_bundle(b"{}", "{}").await.unwrap().unwrap();
        assert!(claims(&index, put).await);
        // Condemned, and the process died before it deleted the object.
        index.database().execute("UPDATE index_object SET condemned_at = 1", &[]).await.unwrap();
        assert!(!claims(&index, put).await);
        assert_eq!(index.collect_objects().await.unwrap().deleted, 1);
        assert!(!file(&index, folder.path(), identity, put).exists());
        assert!(!claims(&index, put).await);
    }
}
