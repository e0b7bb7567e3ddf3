//! A payment identifier of a caller belongs to one payment.

use std::sync::Arc;

use alloy_primitives::B256;
use toolcrib_store::replay::{Limits, Reservation, Reserve};

use crate::scenarios::{on_all, reserved};
use toolcrib_testkit::databases::{NOW, at, key, reservation};

fn named(id: u8, now: i64) -> Reservation<'static> {
    Reservation { payment_id: Some(B256::repeat_byte(id)), ..reservation(at(now)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_payment_with_the_same_identifier_is_refused() {
    on_all(Limits::default(), |store| async move {
        let ticket = reserved(&*store, &key(1), &named(7, 0), 0).await;
        assert_eq!(store.reserve(&key(2), &named(7, 0), NOW).await.unwrap(), Reserve::IdInUse);
        assert!(matches!(store.reserve(&key(1), &named(7, 0), NOW).await.unwrap(), Reserve::AlreadyUsed { .. }));
        reserved(&*store, &key(3), &named(8, 0), 0).await;
        reserved(&*store, &key(4), &reservation(NOW), 0).await;
        // Given back, it is free with all that belongs to it.
        store.release(&key(1), ticket).await.unwrap();
        reserved(&*store, &key(2), &named(7, 0), 0).await;
        assert_eq!(store.counts().await.unwrap().entries(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identifier_is_free_again_when_its_payment_is_over_or_its_holder_crashed() {
    on_all(Limits::default(), |store| async move {
        reserved(&*store, &key(1), &named(7, 0), 0).await;
        // Leases last for 60 seconds, authorizations for 960.
        reserved(&*store, &key(2), &named(7, 60), 60).await;
        assert_eq!(store.reserve(&key(3), &named(7, 100), at(100)).await.unwrap(), Reserve::IdInUse);
        reserved(&*store, &key(3), &named(7, 2000), 2000).await;
        // The one that crashed comes back with another identifier, or finds its own taken.
        assert_eq!(store.reserve(&key(1), &named(7, 2001), at(2001)).await.unwrap(), Reserve::IdInUse);
        reserved(&*store, &key(1), &named(9, 2002), 2002).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_payments_that_come_at_once_with_one_identifier_one_is_taken() {
    on_all(Limits::default(), |store| async move {
        let tasks: Vec<_> = (0..12)
            .map(|nonce| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.reserve(&key(nonce), &named(7, 0), NOW).await.unwrap() })
            })
            .collect();
        let mut taken = 0;
        for task in tasks {
            match task.await.unwrap() {
                Reserve::Reserved(_) => taken += 1,
                other => assert_eq!(other, Reserve::IdInUse),
            }
        }
        assert_eq!((taken, store.counts().await.unwrap().entries()), (1, 1));
    })
    .await;
}
