//! A store that is full of delivered results still accepts paid calls.

use toolcrib_store::replay::{Limits, Proof, Redeem, ReplayStore, Reservation, Reserve, ResultRetention};

use crate::scenarios::{again, on_all, receipt, reserved, result, sending};
use toolcrib_testkit::databases::{NOW, at, key, reservation};

/// What a result of [`BODY`] counts for: its body, its content type and what a row takes.
const COST: u64 = BODY.len() as u64 + 16 + 128;
const BODY: &[u8] = &[7; 1000];

/// Sells a result, and gives whether it was kept.
async fn sell(store: &dyn ReplayStore, nonce: u64) -> ResultRetention {
    let proof = Some(Proof::of(b"salt"));
    let ticket = reserved(store, &key(nonce), &Reservation { proof, ..reservation(NOW) }, 0).await;
    let kept = store.begin_settlement(&key(nonce), ticket, &sending(Some(&result(BODY)))).await.unwrap();
    if kept == ResultRetention::Yes {
        store.settle(&key(nonce), &receipt(1), NOW).await.unwrap();
    } else {
        store.release(&key(nonce), ticket).await.unwrap();
    }
    kept
}

async fn is_there(store: &dyn ReplayStore, nonce: u64) -> bool {
    match store.redeem(&key(nonce), &again(b"salt"), at(1)).await.unwrap() {
        Redeem::Result(..) => true,
        Redeem::ReceiptOnly(Some(_)) => false,
        other => panic!("{nonce} is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivered_results_make_room_the_oldest_first_and_others_never() {
    on_all(Limits { result_bytes: 5 * COST, ..Limits::default() }, |store| async move {
        for nonce in 0..5 {
            assert_eq!(sell(&*store, nonce).await, ResultRetention::Yes);
        }
        assert_eq!(store.make_room(COST).await.unwrap().result_bytes, 0, "nothing was delivered, so nothing may go");
        store.mark_delivered(&[key(3)], at(1)).await.unwrap();
        // Saying it again changes nothing, and what is not there is passed over.
        store.mark_delivered(&[key(1), key(3), key(77)], at(2)).await.unwrap();
        assert_eq!(store.make_room(COST).await.unwrap().result_bytes, COST as i64);
        assert!(!is_there(&*store, 3).await, "delivered first");
        assert!(is_there(&*store, 1).await, "one was enough");
        assert_eq!(store.make_room(3 * COST).await.unwrap().result_bytes, 2 * COST as i64);
        for (nonce, expected) in [(0, true), (1, false), (2, true), (3, false), (4, true)] {
            assert_eq!(is_there(&*store, nonce).await, expected, "{nonce}");
        }
        assert_eq!(store.counts().await.unwrap().result_bytes, 3 * COST);
        assert_eq!(store.counts().await.unwrap().settled, 5, "that they were used is not forgotten");
    })
    .await;
}

/// Small results are kept in their payment's row, larger ones beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_every_size_come_back_and_go() {
    const SIZES: [usize; 5] = [0, 1, 1_024, 1_025, 200_000];
    on_all(Limits::default(), |store| async move {
        let body = |size: usize| (0..size).map(|at| (at % 251) as u8).collect::<Vec<_>>();
        let proof = Some(Proof::of(b"salt"));
        for (nonce, size) in (0..).zip(SIZES) {
            let ticket = reserved(&*store, &key(nonce), &Reservation { proof, ..reservation(NOW) }, 0).await;
            let result = result(&body(size));
            assert_eq!(store.begin_settlement(&key(nonce), ticket, &sending(Some(&result))).await.unwrap(), ResultRetention::Yes);
            store.settle(&key(nonce), &receipt(1), NOW).await.unwrap();
            let redeemed = store.redeem(&key(nonce), &again(b"salt"), at(1)).await.unwrap();
            assert_eq!(redeemed, Redeem::Result(result, receipt(1)), "{size} bytes");
        }
        let keys: Vec<_> = (0..SIZES.len() as u64).map(key).collect();
        store.mark_delivered(&keys, at(1)).await.unwrap();
        store.make_room(u64::MAX >> 1).await.unwrap();
        for nonce in 0..SIZES.len() as u64 {
            assert!(!is_there(&*store, nonce).await, "{nonce}");
        }
        assert_eq!(store.counts().await.unwrap().result_bytes, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ran_while_there_was_room_is_kept_beyond_the_limit() {
    on_all(Limits { result_bytes: 3 * COST, ..Limits::default() }, |store| async move {
        for nonce in 0..6 {
            assert_eq!(sell(&*store, nonce).await, ResultRetention::Yes, "{nonce}");
        }
        assert_eq!(store.make_room(0).await.unwrap().result_bytes, -3 * COST as i64);
        assert_eq!(sell(&*store, 6).await, ResultRetention::NoRoom);
        assert_eq!(store.counts().await.unwrap().result_bytes, 6 * COST, "what was not kept counts for nothing");
        store.mark_delivered(&[key(2)], at(1)).await.unwrap();
        assert_eq!(sell(&*store, 7).await, ResultRetention::Yes, "a delivered one went for it");
        assert!(!is_there(&*store, 2).await && is_there(&*store, 7).await);
        assert_eq!(store.counts().await.unwrap().result_bytes, 6 * COST);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivered_payments_make_room_for_others_once_their_authorization_is_over() {
    on_all(Limits { entries: 4, ..Limits::default() }, |store| async move {
        for nonce in 0..4 {
            assert_eq!(sell(&*store, nonce).await, ResultRetention::Yes);
        }
        let full = async |seconds| store.reserve(&key(9), &reservation(at(seconds)), at(seconds)).await.unwrap();
        // Results stay for an hour, authorizations for 960 seconds.
        assert_eq!(full(1000).await, Reserve::Full, "nothing was delivered");
        store.mark_delivered(&[key(1)], at(1)).await.unwrap();
        assert_eq!(full(900).await, Reserve::Full, "it could still be used");
        assert!(matches!(full(1000).await, Reserve::Reserved(_)));
        assert!(store.entry(&key(1)).await.unwrap().is_none());
        assert_eq!(store.make_room(0).await.unwrap().entries, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_result_is_a_setting() {
    on_all(Limits { one_result_bytes: BODY.len() as u64 - 1, ..Limits::default() }, |store| async move {
        assert_eq!(sell(&*store, 1).await, ResultRetention::TooLarge);
    })
    .await;
    on_all(Limits { one_result_bytes: BODY.len() as u64, ..Limits::default() }, |store| async move {
        assert_eq!(sell(&*store, 1).await, ResultRetention::Yes);
    })
    .await;
}
