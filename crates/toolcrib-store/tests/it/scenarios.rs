//! How a gate uses a store, on all backends.

use std::future::Future;
use std::sync::Arc;

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Error;
use toolcrib_store::replay::{
    Action, Again, EXPIRE_BATCH, Limits, MAX_CONTENT_TYPE_BYTES, MAX_NOTE_BYTES, MAX_RECEIPT_BYTES, MAX_RESERVATION_SECONDS,
    MAX_RESULT_SECONDS, MAX_ROUTE_BYTES, Proof, RERUNS, RETRY_PAUSE_SECONDS, Receipt, Redeem, ReplayStore, Reservation, Reserve,
    ResultRetention, Settlement, State, StoredResult, Ticket,
};
use toolcrib_x402::ReplayKey;

use toolcrib_testkit::databases::{ALL, Backend, NOW, TestStore, at, key, reservation};

type Store = Arc<dyn ReplayStore>;

/// The reservation of a free call: its lease ends with it, so the reservation uses the payment up.
pub(crate) fn free(now: UnixTime) -> Reservation<'static> {
    let reservation = reservation(now);
    Reservation { lease_until: reservation.expires_at, ..reservation }
}

/// Largest result with the usual limits.
const LARGEST: usize = 1024 * 1024;

/// Runs a scenario on an empty store of every backend.
pub(crate) async fn on_all<F: Future<Output = ()>>(limits: Limits, scenario: impl Fn(Store) -> F) {
    for backend in ALL {
        let Some(place) = TestStore::new(backend).await else { continue };
        println!("on {backend:?}");
        scenario(place.store(limits).await).await;
    }
}

/// Makes a test of a scenario with the usual limits.
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident => |$store:ident| $body:block)*) => {$(
        $(#[$meta])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            on_all(Limits::default(), |$store| async move { $body }).await;
        }
    )*};
}

pub(crate) async fn reserved(store: &dyn ReplayStore, key: &ReplayKey, reservation: &Reservation<'_>, seconds: i64) -> Ticket {
    match store.reserve(key, reservation, at(seconds)).await.expect("an answer") {
        Reserve::Reserved(ticket) => ticket,
        other => panic!("{key} is {other:?}"),
    }
}

pub(crate) fn receipt(number: u8) -> Receipt {
    Receipt { transaction: B256::repeat_byte(number), response: vec![number; 40] }
}

pub(crate) fn result(body: &[u8]) -> StoredResult {
    StoredResult { status: 200, content_type: "application/json".to_owned(), body: body.to_vec() }
}

pub(crate) const fn sending(result: Option<&StoredResult>) -> Settlement<'_> {
    Settlement { lease_until: at(90), note: b"the payment", result, from_block: Some(7) }
}

pub(crate) fn again(secret: &[u8]) -> Again<'static> {
    let first = reservation(NOW);
    Again { route: first.route, body_hash: first.body_hash, proof: Some(Proof::of(secret)), lease_until: at(600) }
}

/// The same by twelve tasks at the same moment.
async fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(store: &Store, work: impl Fn(Store) -> F) -> Vec<T> {
    let tasks: Vec<_> = (0..12).map(|_| tokio::spawn(work(Arc::clone(store)))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, code: &str) {
    assert_eq!(answer.expect_err("a refusal").code().id(), code);
}

scenarios! {
    // req: PAY-005
    a_payment_is_used_once => |store| {
        let ticket = reserved(&*store, &key(1), &reservation(NOW), 0).await;
        let used = |state, receipt| Reserve::AlreadyUsed { state, receipt };
        assert_eq!(store.reserve(&key(1), &reservation(NOW), at(1)).await.unwrap(), used(State::Reserved, None));
        assert_eq!(store.begin_settlement(&key(1), ticket, &sending(None)).await.unwrap(), ResultRetention::Nothing);
        assert_eq!(store.reserve(&key(1), &reservation(NOW), at(2)).await.unwrap(), used(State::Settling, None));
        store.settle(&key(1), &receipt(7), at(3)).await.unwrap();
        assert_eq!(store.reserve(&key(1), &reservation(NOW), at(4)).await.unwrap(), used(State::Settled, Some(receipt(7))));
        let entry = store.entry(&key(1)).await.unwrap().unwrap();
        assert_eq!((entry.state, entry.reserved_at, entry.expires_at), (State::Settled, NOW, at(960)));
        assert_eq!((entry.route.as_str(), entry.note.len(), entry.receipt), ("weather", 0, Some(receipt(7))));
        assert_eq!(store.entry(&key(2)).await.unwrap(), None);
    }

    each_part_of_the_key_counts => |store| {
        let one = key(1);
        let mut others = [one; 4];
        others[0].chain = 1;
        others[1].asset.0[0] ^= 1;
        others[2].from.0[19] ^= 1;
        others[3].nonce.0[0] ^= 1;
        reserved(&*store, &one, &reservation(NOW), 0).await;
        for other in others {
            reserved(&*store, &other, &free(NOW), 0).await;
        }
        let largest = ReplayKey { chain: u64::MAX, ..one };
        reserved(&*store, &largest, &reservation(NOW), 0).await;
        assert_eq!(store.entry(&largest).await.unwrap().unwrap().key, largest);
        assert_eq!(store.counts().await.unwrap().entries(), 6);
    }

    // The first of them to ask wins, all others lose: research cases T1 to T4.
    of_many_at_once_one_wins => |store| {
        for nonce in 0..8 {
            let mut won = 0;
            for answer in at_once(&store, move |store| async move { store.reserve(&key(nonce), &reservation(NOW), NOW).await.unwrap() }).await {
                match answer {
                    Reserve::Reserved(_) => won += 1,
                    Reserve::AlreadyUsed { state, receipt } => assert_eq!((state, receipt), (State::Reserved, None)),
                    Reserve::Full | Reserve::IdInUse => panic!("there is room"),
                }
            }
            assert_eq!(won, 1);
        }
    }

    of_many_that_take_over_one_wins => |store| {
        for nonce in 0..20 {
            reserved(&*store, &key(nonce), &reservation(NOW), 0).await;
        }
        for nonce in 0..20 {
            // The lease ran out at 60, the authorization itself at 960.
            let now = at(if nonce % 2 == 0 { 60 } else { 960 });
            let answers = at_once(&store, move |store| async move { store.reserve(&key(nonce), &reservation(now), now).await.unwrap() }).await;
            assert_eq!(answers.iter().filter(|answer| matches!(answer, Reserve::Reserved(_))).count(), 1);
        }
    }

    of_many_that_claim_each_payment_goes_to_one => |store| {
        for nonce in 0..60 {
            let ticket = reserved(&*store, &key(nonce), &reservation(NOW), 0).await;
            store.begin_settlement(&key(nonce), ticket, &sending(None)).await.unwrap();
        }
        for round in 0..5 {
            let (now, until) = (at(90 + 10 * round), at(100 + 10 * round));
            let claims = at_once(&store, move |store| async move { store.claim_unknowns(now, until, 20).await.unwrap() }).await;
            let mut keys: Vec<_> = claims.into_iter().flatten().map(|(entry, _)| entry.key).collect();
            keys.extend(store.claim_unknowns(now, until, 60).await.unwrap().into_iter().map(|(entry, _)| entry.key));
            keys.sort();
            assert_eq!(keys, (0..60).map(key).collect::<Vec<_>>(), "each once");
        }
    }

    what_is_denied_is_given_back => |store| {
        let first = reserved(&*store, &key(1), &reservation(NOW), 0).await;
        store.release(&key(1), first).await.unwrap();
        assert_eq!(store.counts().await.unwrap().entries(), 0);
        let second = reserved(&*store, &key(1), &reservation(NOW), 1).await;
        // A late release of the first must not free what the second holds.
        refused(store.release(&key(1), first).await, "store.not_holder");
        refused(store.begin_settlement(&key(1), first, &sending(None)).await, "store.not_holder");
        store.begin_settlement(&key(1), second, &sending(None)).await.unwrap();
        store.settle(&key(1), &receipt(1), NOW).await.unwrap();
        refused(store.release(&key(1), second).await, "store.transition");
    }

    a_settlement_that_was_refused_is_given_back_with_its_result => |store| {
        let ticket = reserved(&*store, &key(1), &reservation(NOW), 0).await;
        store.begin_settlement(&key(1), ticket, &sending(Some(&result(b"sunny")))).await.unwrap();
        assert!(store.counts().await.unwrap().result_bytes > 0);
        store.release(&key(1), ticket).await.unwrap();
        assert_eq!(store.counts().await.unwrap(), Default::default());
        assert_eq!(store.redeem(&key(1), &again(b"salt"), NOW).await.unwrap(), Redeem::NotUsed);
    }

    steps_that_skip_one_are_refused => |store| {
        let nothing = key(9);
        let ticket = reserved(&*store, &key(1), &reservation(NOW), 0).await;
        refused(store.settle(&nothing, &receipt(1), NOW).await, "store.not_found");
        refused(store.release(&nothing, ticket).await, "store.not_found");
        refused(store.settle(&key(1), &receipt(1), NOW).await, "store.transition");
        refused(store.mark_unknown(&key(1), ticket, NOW).await, "store.transition");
        refused(store.store_result(&key(1), ticket, &result(b"")).await, "store.transition");
        store.begin_settlement(&key(1), ticket, &sending(Some(&result(b"")))).await.unwrap();
        refused(store.begin_settlement(&key(1), ticket, &sending(None)).await, "store.transition");
        store.settle(&key(1), &receipt(1), NOW).await.unwrap();
        store.settle(&key(1), &receipt(1), at(9)).await.expect("saying it again changes nothing");
        refused(store.settle(&key(1), &receipt(2), NOW).await, "store.other_receipt");
        refused(store.mark_unknown(&key(1), ticket, NOW).await, "store.transition");
        // It has its result.
        refused(store.store_result(&key(1), ticket, &result(b"")).await, "store.transition");
        // What cost nothing has no receipt and gets none.
        let ticket = reserved(&*store, &key(2), &free(NOW), 0).await;
        refused(store.settle(&key(2), &receipt(1), NOW).await, "store.transition");
        refused(store.store_result(&key(2), ticket, &result(b"")).await, "store.transition");
    }

    // A holder that crashed before any money could move does not block others for long.
    a_lease_that_ran_out_is_taken_over => |store| {
        let crashed = reserved(&*store, &key(1), &reservation(NOW), 0).await;
        assert!(matches!(store.reserve(&key(1), &reservation(NOW), at(59)).await.unwrap(), Reserve::AlreadyUsed { .. }));
        let next = reserved(&*store, &key(1), &Reservation { route: "other", ..reservation(NOW) }, 60).await;
        assert_eq!(store.entry(&key(1)).await.unwrap().unwrap().route, "other");
        refused(store.begin_settlement(&key(1), crashed, &sending(None)).await, "store.not_holder");
        store.begin_settlement(&key(1), next, &sending(None)).await.unwrap();
        // Once money may have moved, never.
        assert!(matches!(store.reserve(&key(1), &reservation(at(800)), at(800)).await.unwrap(),
            Reserve::AlreadyUsed { state: State::Settling, .. }));
        assert_eq!(store.counts().await.unwrap().entries(), 1);
    }

    // req: PAY-005
    what_is_over_is_forgotten_and_not_before => |store| {
        reserved(&*store, &key(1), &free(NOW), 0).await;
        assert_eq!(store.expire(at(959)).await.unwrap(), 0);
        assert!(matches!(store.reserve(&key(1), &reservation(at(959)), at(959)).await.unwrap(), Reserve::AlreadyUsed { .. }));
        // At its end it is free, whether or not anybody swept.
        reserved(&*store, &key(1), &reservation(at(960)), 960).await;
        assert_eq!(store.expire(at(960)).await.unwrap(), 0);
        assert_eq!(store.expire(at(1920)).await.unwrap(), 1);
        assert_eq!(store.counts().await.unwrap(), Default::default());
    }

    what_is_not_known_is_never_forgotten => |store| {
        for nonce in 0..2 {
            let ticket = reserved(&*store, &key(nonce), &reservation(NOW), 0).await;
            store.begin_settlement(&key(nonce), ticket, &sending(None)).await.unwrap();
            if nonce == 1 {
                store.mark_unknown(&key(1), ticket, at(1)).await.unwrap();
            }
        }
        assert_eq!(store.expire(at(1_000_000)).await.unwrap(), 0);
        let counts = store.counts().await.unwrap();
        assert_eq!((counts.settling, counts.unknown), (1, 1));
        let shown: Vec<_> = store.unknowns(10).await.unwrap().into_iter().map(|entry| (entry.key, entry.state)).collect();
        assert_eq!(shown, [(key(1), State::Unknown), (key(0), State::Settling)], "the oldest lease comes first");
        assert_eq!(store.unknowns(1).await.unwrap().len(), 1);
    }

    unknowns_are_claimed_by_one_at_a_time => |store| {
        let mut tickets = Vec::new();
        for nonce in 0..5 {
            let ticket = reserved(&*store, &key(nonce), &reservation(NOW), 0).await;
            store.begin_settlement(&key(nonce), ticket, &sending(Some(&result(b"sunny")))).await.unwrap();
            tickets.push(ticket);
        }
        // What proves whose transfer is on the chain outlives the process that began the settlement.
        store.record_sent(&key(4), tickets[4], B256::repeat_byte(8)).await.unwrap();
        store.record_sent(&key(4), tickets[4], B256::repeat_byte(9)).await.unwrap();
        refused(store.record_sent(&key(4), tickets[3], B256::repeat_byte(7)).await, "store.not_holder");
        store.mark_unknown(&key(4), tickets[4], at(5)).await.unwrap();
        assert_eq!(store.claim_unknowns(at(4), at(40), 10).await.unwrap(), []);
        let claimed = store.claim_unknowns(at(5), at(40), 10).await.unwrap();
        assert_eq!(claimed.len(), 1, "four are still being settled");
        assert_eq!((claimed[0].0.key, claimed[0].0.note.as_slice()), (key(4), b"the payment".as_slice()));
        assert_eq!((claimed[0].0.from_block, claimed[0].0.sent), (Some(7), Some(B256::repeat_byte(9))));
        let other = store.entry(&key(3)).await.unwrap().unwrap();
        assert_eq!((other.from_block, other.sent), (Some(7), None));
        assert_eq!(store.claim_unknowns(at(39), at(80), 10).await.unwrap(), []);
        // At 90 the leases of the others are over too, and two claim at once.
        let (one, two) = tokio::join!(store.claim_unknowns(at(90), at(150), 3), store.claim_unknowns(at(90), at(150), 3));
        let mut nonces: Vec<_> = one.unwrap().into_iter().chain(two.unwrap()).map(|(entry, _)| entry.key).collect();
        let rest = store.claim_unknowns(at(90), at(150), 10).await.unwrap();
        nonces.extend(rest.iter().map(|(entry, _)| entry.key));
        nonces.sort();
        assert_eq!(nonces, (0..5).map(key).collect::<Vec<_>>());
        // Who was slow may still say that it was settled, which is a fact, but not give it back.
        refused(store.release(&key(0), tickets[0]).await, "store.not_holder");
        refused(store.mark_unknown(&key(0), tickets[0], at(91)).await, "store.not_holder");
        store.settle(&key(0), &receipt(3), at(91)).await.unwrap();
        // This one was not reported as settled, and the chain says no.
        let last = store.claim_unknowns(at(150), at(200), 10).await.unwrap();
        assert_eq!(last.len(), 4);
        let (entry, ticket) = last.into_iter().find(|(entry, _)| entry.key == key(2)).unwrap();
        assert_eq!(entry.state, State::Unknown);
        store.release(&key(2), ticket).await.unwrap();
        assert_eq!(store.counts().await.unwrap().entries(), 4);
    }

    a_result_is_given_to_who_proves_possession => |store| {
        let first = Reservation { proof: Some(Proof::of(b"salt")), ..reservation(NOW) };
        let ticket = reserved(&*store, &key(1), &first, 0).await;
        assert_eq!(store.redeem(&key(1), &again(b"salt"), NOW).await.unwrap(), Redeem::Pending(State::Reserved));
        assert_eq!(store.begin_settlement(&key(1), ticket, &sending(Some(&result(b"sunny")))).await.unwrap(), ResultRetention::Yes);
        assert_eq!(store.redeem(&key(1), &again(b"salt"), NOW).await.unwrap(), Redeem::Pending(State::Settling));
        store.settle(&key(1), &receipt(7), at(10)).await.unwrap();

        let mine = Redeem::Result(result(b"sunny"), receipt(7));
        let theirs = Redeem::ReceiptOnly(Some(receipt(7)));
        let good = again(b"salt");
        assert_eq!(store.redeem(&key(1), &good, at(11)).await.unwrap(), mine);
        assert_eq!(store.redeem(&key(1), &good, at(12)).await.unwrap(), mine);
        for stranger in [
            Again { proof: None, ..good },
            Again { proof: Some(Proof::of(b"")), ..good },
            Again { proof: Some(Proof::of(b"salt ")), ..good },
            Again { route: "other", ..good },
            Again { body_hash: B256::ZERO, ..good },
        ] {
            assert_eq!(store.redeem(&key(1), &stranger, at(11)).await.unwrap(), theirs);
        }
        // An hour after it was settled, which is longer than the authorization lasts.
        let hour = 10 + MAX_RESULT_SECONDS;
        assert_eq!(store.expire(at(hour - 1)).await.unwrap(), 0);
        assert_eq!(store.redeem(&key(1), &good, at(hour - 1)).await.unwrap(), mine);
        assert_eq!(store.redeem(&key(1), &good, at(hour)).await.unwrap(), theirs);
        assert_eq!(store.expire(at(hour)).await.unwrap(), 1);
        assert_eq!(store.redeem(&key(1), &good, at(hour)).await.unwrap(), Redeem::NotUsed);
        assert_eq!(store.counts().await.unwrap(), Default::default());
    }

    without_a_proof_nobody_gets_the_result => |store| {
        let ticket = reserved(&*store, &key(1), &reservation(NOW), 0).await;
        store.begin_settlement(&key(1), ticket, &sending(Some(&result(b"sunny")))).await.unwrap();
        store.settle(&key(1), &receipt(7), NOW).await.unwrap();
        for proof in [None, Some(Proof::of(b""))] {
            let answer = store.redeem(&key(1), &Again { proof, ..again(b"") }, NOW).await.unwrap();
            assert_eq!(answer, Redeem::ReceiptOnly(Some(receipt(7))));
        }
        // A free call gives nothing a second time.
        let free = Reservation { proof: Some(Proof::of(b"salt")), ..free(NOW) };
        reserved(&*store, &key(2), &free, 0).await;
        assert_eq!(store.redeem(&key(2), &again(b"salt"), at(900)).await.unwrap(), Redeem::Pending(State::Reserved));
    }

    // Settled first, then run: a crash between the two must not cost the caller what was paid for.
    what_was_paid_first_is_run_again_after_a_crash => |store| {
        let first = Reservation { proof: Some(Proof::of(b"salt")), ..reservation(NOW) };
        let crashed = reserved(&*store, &key(1), &first, 0).await;
        store.begin_settlement(&key(1), crashed, &sending(None)).await.unwrap();
        store.settle(&key(1), &receipt(7), at(1)).await.unwrap();
        let come = |lease_until| Again { lease_until: at(lease_until), ..again(b"salt") };
        assert_eq!(store.redeem(&key(1), &come(200), at(89)).await.unwrap(), Redeem::Pending(State::Settled));
        let stranger = Again { proof: None, ..come(200) };
        assert_eq!(store.redeem(&key(1), &stranger, at(90)).await.unwrap(), Redeem::ReceiptOnly(Some(receipt(7))));
        let (id, request) = (key(1), come(200));
        let (one, two) = tokio::join!(store.redeem(&id, &request, at(90)), store.redeem(&id, &request, at(90)));
        let mut tickets: Vec<_> = [one.unwrap(), two.unwrap()].into_iter().filter_map(|answer| match answer {
            Redeem::Rerun(ticket, _) => Some(ticket),
            other => { assert_eq!(other, Redeem::Pending(State::Settled)); None }
        }).collect();
        assert_eq!(tickets.len(), 1);
        refused(store.store_result(&key(1), crashed, &result(b"late")).await, "store.not_holder");
        // It crashes again, as often as it may.
        for round in 1..RERUNS {
            let Redeem::Rerun(ticket, paid) = store.redeem(&key(1), &come(200 + 100 * round), at(100 + 100 * round)).await.unwrap() else {
                panic!("another run")
            };
            assert_eq!(paid, receipt(7));
            tickets.push(ticket);
        }
        let ticket = *tickets.last().unwrap();
        assert_eq!(store.redeem(&key(1), &come(900), at(850)).await.unwrap(), Redeem::ReceiptOnly(Some(receipt(7))), "enough");
        assert_eq!(store.store_result(&key(1), ticket, &result(b"sunny")).await.unwrap(), ResultRetention::Yes);
        assert_eq!(store.redeem(&key(1), &come(900), at(860)).await.unwrap(), Redeem::Result(result(b"sunny"), receipt(7)));
        refused(store.store_result(&key(1), ticket, &result(b"sunny")).await, "store.transition");
    }

    // Settled first, and then the tool fails: the payer can have it run again, not at will, for as long as results are kept.
    a_failed_run_may_be_made_again_after_a_pause => |store| {
        let first = Reservation { proof: Some(Proof::of(b"salt")), ..reservation(NOW) };
        let mut ticket = reserved(&*store, &key(1), &first, 0).await;
        refused(store.run_failed(&key(1), ticket, at(1)).await, "store.transition");
        store.begin_settlement(&key(1), ticket, &sending(None)).await.unwrap();
        store.settle(&key(1), &receipt(7), at(1)).await.unwrap();
        let come = |now: i64| Again { lease_until: at(now + 85), ..again(b"salt") };
        // Each pause is as long as all the time before it.
        let (mut failed, mut runs) = (1, 0);
        while failed < 3_000 {
            store.run_failed(&key(1), ticket, at(failed)).await.unwrap();
            let next = failed + failed.max(RETRY_PAUSE_SECONDS);
            if next > 3_600 { break; }
            assert_eq!(store.redeem(&key(1), &come(next - 1), at(next - 1)).await.unwrap(), Redeem::Pending(State::Settled));
            let Redeem::Rerun(now, paid) = store.redeem(&key(1), &come(next), at(next)).await.unwrap() else { panic!("a run") };
            assert_eq!(paid, receipt(7));
            refused(store.run_failed(&key(1), ticket, at(next)).await, "store.not_holder");
            (ticket, failed, runs) = (now, next, runs + 1);
        }
        assert!((RERUNS + 1..12).contains(&runs), "{runs}");
        assert_eq!(store.store_result(&key(1), ticket, &result(b"sunny")).await.unwrap(), ResultRetention::Yes);
        refused(store.run_failed(&key(1), ticket, at(3_500)).await, "store.transition");
        assert_eq!(store.redeem(&key(1), &come(3_500), at(3_500)).await.unwrap(), Redeem::Result(result(b"sunny"), receipt(7)));
        assert_eq!(store.limits().kept_seconds(), 3_600);
    }

    limits_hold_to_the_byte => |store| {
        let route = |length| "r".repeat(length);
        let (longest, longer) = (route(MAX_ROUTE_BYTES), route(MAX_ROUTE_BYTES + 1));
        let ticket = reserved(&*store, &key(1), &Reservation { route: &longest, ..reservation(NOW) }, 0).await;
        refused(store.reserve(&key(2), &Reservation { route: &longer, ..reservation(NOW) }, NOW).await, "store.too_large");
        for (seconds, good) in [(0, false), (1, true), (MAX_RESERVATION_SECONDS, true), (MAX_RESERVATION_SECONDS + 1, false)] {
            let answer = store.reserve(&key(100 + seconds as u64), &Reservation { expires_at: at(seconds), ..reservation(NOW) }, NOW).await;
            if good { answer.unwrap(); } else { refused(answer, "store.expiry"); }
        }
        let note = vec![7; MAX_NOTE_BYTES + 1];
        refused(store.begin_settlement(&key(1), ticket, &Settlement { note: &note, ..sending(None) }).await, "store.too_large");
        let largest = StoredResult { content_type: "t".repeat(MAX_CONTENT_TYPE_BYTES), ..result(&vec![1; LARGEST]) };
        let settlement = Settlement { note: &note[1..], ..sending(Some(&largest)) };
        assert_eq!(store.begin_settlement(&key(1), ticket, &settlement).await.unwrap(), ResultRetention::Yes);
        assert_eq!(store.entry(&key(1)).await.unwrap().unwrap().note, &note[1..]);
        let response = |length| Receipt { response: vec![1; length], ..receipt(1) };
        refused(store.settle(&key(1), &response(MAX_RECEIPT_BYTES + 1), NOW).await, "store.too_large");
        store.settle(&key(1), &response(MAX_RECEIPT_BYTES), NOW).await.unwrap();

        for (nonce, large) in [
            (2, result(&vec![1; LARGEST + 1])),
            (3, StoredResult { content_type: "t".repeat(MAX_CONTENT_TYPE_BYTES + 1), ..result(b"") }),
        ] {
            let ticket = reserved(&*store, &key(nonce), &reservation(NOW), 0).await;
            assert_eq!(store.begin_settlement(&key(nonce), ticket, &sending(Some(&large))).await.unwrap(), ResultRetention::TooLarge);
            store.settle(&key(nonce), &receipt(2), NOW).await.unwrap();
            // The call ran and was answered; there is nothing to run again.
            assert_eq!(store.redeem(&key(nonce), &again(b"salt"), at(900)).await.unwrap(), Redeem::ReceiptOnly(Some(receipt(2))));
        }
        let bytes = LARGEST + MAX_CONTENT_TYPE_BYTES + 128;
        assert_eq!(store.counts().await.unwrap().result_bytes, bytes as u64);
    }

    what_is_over_goes_in_batches => |store| {
        let all = EXPIRE_BATCH as u64 + 20;
        for nonce in 0..all {
            reserved(&*store, &key(nonce), &Reservation { expires_at: at(100 + nonce as i64), ..reservation(NOW) }, 0).await;
        }
        assert_eq!(store.expire(at(109)).await.unwrap(), 10);
        assert_eq!(store.expire(at(10_000)).await.unwrap(), EXPIRE_BATCH);
        assert_eq!(store.counts().await.unwrap().entries(), 10);
        assert_eq!(store.expire(at(10_000)).await.unwrap(), 10);
        assert_eq!(store.expire(at(10_000)).await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_takes_nothing_more() {
    on_all(Limits { entries: 20, ..Limits::default() }, |store| async move {
        let tasks: Vec<_> = (0..60)
            .map(|nonce| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { (nonce, store.reserve(&key(nonce), &reservation(NOW), NOW).await.unwrap()) })
            })
            .collect();
        let mut held = Vec::new();
        for task in tasks {
            match task.await.unwrap() {
                (nonce, Reserve::Reserved(ticket)) => held.push((nonce, ticket)),
                (_, other) => assert_eq!(other, Reserve::Full),
            }
        }
        assert_eq!(held.len(), 20);
        assert_eq!(store.counts().await.unwrap().entries(), 20);
        let (nonce, ticket) = held[0];
        assert_eq!(store.reserve(&key(99), &reservation(NOW), NOW).await.unwrap(), Reserve::Full);
        // What is used stays used, full or not.
        assert!(matches!(store.reserve(&key(nonce), &reservation(NOW), NOW).await.unwrap(), Reserve::AlreadyUsed { .. }));
        store.release(&key(nonce), ticket).await.unwrap();
        reserved(&*store, &key(99), &reservation(NOW), 0).await;
        assert_eq!(store.reserve(&key(100), &reservation(NOW), NOW).await.unwrap(), Reserve::Full);
        // What is over makes room by itself.
        reserved(&*store, &key(100), &reservation(at(960)), 960).await;
        assert_eq!(store.counts().await.unwrap().entries(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_beyond_the_limit_are_not_kept() {
    let cost = 128 + "application/json".len() as u64 + 1000;
    // Twice the limit is the hard one.
    on_all(Limits { result_bytes: cost, result_seconds: 60, ..Limits::default() }, |store| async move {
        let body = vec![5; 1000];
        for (nonce, kept) in [(0, ResultRetention::Yes), (1, ResultRetention::Yes), (2, ResultRetention::NoRoom)] {
            let ticket =
                reserved(&*store, &key(nonce), &Reservation { proof: Some(Proof::of(b"salt")), ..reservation(NOW) }, 0).await;
            assert_eq!(store.begin_settlement(&key(nonce), ticket, &sending(Some(&result(&body)))).await.unwrap(), kept);
            store.settle(&key(nonce), &receipt(1), NOW).await.unwrap();
        }
        assert_eq!(store.redeem(&key(2), &again(b"salt"), at(1)).await.unwrap(), Redeem::ReceiptOnly(Some(receipt(1))));
        assert!(matches!(store.redeem(&key(1), &again(b"salt"), at(59)).await.unwrap(), Redeem::Result(..)));
        assert!(matches!(store.redeem(&key(1), &again(b"salt"), at(60)).await.unwrap(), Redeem::ReceiptOnly(_)));
        // A row that is reserved anew gives the room of its result back.
        let ticket = reserved(&*store, &key(0), &reservation(at(960)), 960).await;
        assert_eq!(store.begin_settlement(&key(0), ticket, &sending(Some(&result(&body)))).await.unwrap(), ResultRetention::Yes);
        assert_eq!(store.expire(at(10_000)).await.unwrap(), 2);
        assert_eq!(store.counts().await.unwrap().result_bytes, cost);
    })
    .await;
}

#[test]
fn errors_name_what_was_asked_and_nothing_else() {
    let error = Error::Transition { action: Action::Release, state: State::Settled };
    assert_eq!(error.to_string(), "invalid payment state transition: a payment that is settled cannot be released");
    let body = result(b"secret");
    let settlement = Settlement { note: b"secret", ..sending(Some(&body)) };
    let shown = format!("{settlement:?} {:?}", Proof::of(b"secret"));
    let expected =
        "Settlement(until 1800000090, note of 6 bytes, Some(StoredResult(200, \"application/json\", 6 bytes))) Proof(…)";
    assert_eq!(shown, expected);
    assert!(!Error::NotFound { action: Action::Settle }.is_retryable());
    assert_eq!(Backend::Memory, ALL[0]);
}
