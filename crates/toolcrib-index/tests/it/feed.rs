//! The change feed, and rows in bulk.

use alloy_primitives::{Address, U256};
use toolcrib_core::clock::UnixTime;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::{Error, Index, List};

use crate::databases::{Backend, Place};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn key(id: u64) -> ToolKey {
    ToolKey { registry: RegistryId(1), id: U256::from(id) }
}

async fn indexes() -> Vec<(Place, Index)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = Place::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        all.push((place, index));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_committed_in_their_order() {
    for (_place, index) in indexes().await {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let index = index.clone();
                tokio::spawn(async move {
                    for round in 0..10_u64 {
                        let mut transaction = index.database().begin().await.expect("a transaction");
                        let changes: Vec<_> = (0..300).map(|tool| (key(writer * 1_000 + tool), Kinds::FACTS)).collect();
                        feed::record(&mut transaction, &changes, NOW).await.expect("recorded");
                        if round % 3 == 2 {
                            transaction.rollback().await.expect("undone");
                        } else {
                            transaction.commit().await.expect("committed");
                        }
                    }
                })
            })
            .collect();
        let (mut cursor, wanted) = (0, 8 * 7 * 300);
        while cursor < wanted {
            for change in index.changes(cursor, 997).await.expect("changes") {
                assert_eq!(change.seq, cursor + 1, "no gap and no surprise");
                cursor = change.seq;
            }
        }
        for writer in writers {
            writer.await.expect("a writer");
        }
        assert_eq!(index.last_change().await.expect("the last"), wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_past_is_said() {
    for (_place, index) in indexes().await {
        assert!(index.changes(0, 10).await.expect("none yet").is_empty());
        let mut transaction = index.database().begin().await.expect("a transaction");
        for (key, kinds) in [(key(1), Kinds::REGISTERED.and(Kinds::METADATA)), (key(2), Kinds::USAGE)] {
            feed::record(&mut transaction, &[(key, kinds)], NOW).await.expect("recorded");
        }
        transaction.execute("DELETE FROM index_change WHERE seq = 1", &[]).await.expect("deleted");
        transaction.commit().await.expect("committed");
        assert!(matches!(index.changes(0, 10).await, Err(Error::Forgotten { cursor: 0, oldest: 2 })));
        assert_eq!(index.changes(1, 10).await.expect("the rest").len(), 1);
        assert_eq!(Kinds::REGISTERED.and(Kinds::METADATA).names().collect::<Vec<_>>(), ["registered", "metadata"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_have_one_number() {
    for (_place, index) in indexes().await {
        let adding = (0..6).map(|n| {
            let index = index.clone();
            tokio::spawn(async move { index.add_registry(8453 + n % 2, Address::ZERO, 7).await.expect("a registry").id })
        });
        let mut ids: Vec<_> = futures_util::future::join_all(adding).await.into_iter().map(|id| id.expect("an id")).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 2);
        assert_eq!(index.registries().await.expect("registries").len(), 2);
        assert!(index.list(&List { limit: 5, ..List::default() }).await.expect("a page").tools.is_empty());
    }
}
