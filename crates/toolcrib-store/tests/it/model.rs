//! Random steps in random order, compared with a model that is too simple to be wrong: the same results on every backend, and only legal
//! transitions.

use std::collections::HashMap;

use alloy_primitives::B256;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use toolcrib_store::Error;
use toolcrib_store::replay::{Action, Counts, Limits, ReplayStore, Reserve, ResultRetention, Settlement, State, Ticket};

use crate::scenarios::{receipt, result};
use toolcrib_testkit::databases::{Backend, NOW, TestStore, at, key, reservation};

const ENTRIES: usize = 4;

/// One step. `ticket` says whose: the last one given for this payment, or the one before.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve(u64),
    Act { action: Action, nonce: u64, stale: bool },
    Claim,
    Expire,
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        4 => Just(Action::BeginSettlement),
        2 => Just(Action::RecordSent),
        4 => Just(Action::Settle),
        2 => Just(Action::MarkUnknown),
        2 => Just(Action::Release),
        1 => Just(Action::StoreResult),
    ];
    let nonce = 0_u64..6;
    let step = prop_oneof![
        6 => nonce.clone().prop_map(Step::Reserve),
        9 => (action, nonce, prop::bool::weighted(0.15)).prop_map(|(action, nonce, stale)| Step::Act { action, nonce, stale }),
        1 => Just(Step::Claim),
        1 => Just(Step::Expire),
        2 => prop_oneof![Just(1_i64), Just(60), Just(960), Just(3_600)].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

/// What the model knows of a payment.
#[derive(Clone, Copy)]
struct Known {
    state: State,
    holder: u32,
    expires: i64,
    lease: i64,
    keep: i64,
    may_store: bool,
}

#[derive(Default)]
struct Model {
    payments: HashMap<u64, Known>,
    holders: u32,
    now: i64,
}

impl Model {
    fn holder(&mut self) -> u32 {
        self.holders += 1;
        self.holders
    }

    fn expire(&mut self) -> usize {
        let before = self.payments.len();
        self.payments.retain(|_, known| known.keep > self.now);
        before - self.payments.len()
    }

    fn reserve(&mut self, nonce: u64) -> &'static str {
        match self.payments.get(&nonce).copied() {
            Some(known) if known.keep > self.now && !(known.state == State::Reserved && known.lease <= self.now) => return "used",
            None if self.payments.len() >= ENTRIES && self.expire() == 0 => return "full",
            _ => {}
        }
        let holder = self.holder();
        let (expires, lease) = (self.now + 960, self.now + 60);
        let known = Known { state: State::Reserved, holder, expires, lease, keep: expires, may_store: false };
        self.payments.insert(nonce, known);
        "reserved"
    }

    fn act(&mut self, action: Action, nonce: u64, holder: u32) -> &'static str {
        let now = self.now;
        let Some(known) = self.payments.get_mut(&nonce) else { return "store.not_found" };
        match (action, known.state) {
            (Action::Settle, State::Settled) => return "ok",
            (Action::Settle, _) => {}
            _ if known.holder != holder => return "store.not_holder",
            _ => {}
        }
        match (action, known.state) {
            (Action::BeginSettlement, State::Reserved) => {
                (known.state, known.lease, known.keep, known.may_store) = (State::Settling, now + 30, i64::MAX, true);
            }
            (Action::Settle, State::Settling | State::Unknown) => {
                (known.state, known.keep) = (State::Settled, known.expires.max(now + 3_600));
            }
            (Action::RecordSent, State::Settling) => {}
            (Action::MarkUnknown, State::Settling) => (known.state, known.lease) = (State::Unknown, now),
            (Action::Release, State::Reserved | State::Settling | State::Unknown) => drop(self.payments.remove(&nonce)),
            (Action::StoreResult, State::Settled) if known.may_store => known.may_store = false,
            _ => return "store.transition",
        }
        "ok"
    }

    fn claim(&mut self) -> usize {
        let (now, holder) = (self.now, self.holder());
        let open = |known: &&mut Known| matches!(known.state, State::Settling | State::Unknown) && known.lease <= now;
        let claimed = self.payments.values_mut().filter(open);
        claimed.map(|known| (known.state, known.holder, known.lease) = (State::Unknown, holder, now + 30)).count()
    }

    fn counts(&self) -> (u64, u64, u64, u64) {
        let count = |state| self.payments.values().filter(|known| known.state == state).count() as u64;
        (count(State::Reserved), count(State::Settling), count(State::Settled), count(State::Unknown))
    }
}

fn said<T>(answer: Result<T, Error>) -> &'static str {
    answer.map_or_else(|error| error.code().id(), |_| "ok")
}

/// Runs the steps on both, and compares every answer.
async fn compare(store: &dyn ReplayStore, steps: &[Step]) {
    let mut model = Model { now: NOW.seconds(), ..Model::default() };
    // For each payment the tickets that were given, with the model's number for each.
    let mut tickets: HashMap<u64, Vec<(Ticket, u32)>> = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        let now = at(model.now - NOW.seconds());
        let place = || format!("step {index}, {step:?}");
        match *step {
            Step::Wait(seconds) => model.now += seconds,
            Step::Expire => assert_eq!(store.expire(now).await.unwrap(), model.expire(), "{}", place()),
            Step::Reserve(nonce) => {
                let expected = model.reserve(nonce);
                let got = match store.reserve(&key(nonce), &reservation(now), now).await.unwrap() {
                    Reserve::Reserved(ticket) => {
                        tickets.entry(nonce).or_default().push((ticket, model.holders));
                        "reserved"
                    }
                    Reserve::AlreadyUsed { state, .. } => {
                        assert_eq!(Some(state), model.payments.get(&nonce).map(|known| known.state), "{}", place());
                        "used"
                    }
                    Reserve::Full => "full",
                    Reserve::IdInUse => "id in use",
                };
                assert_eq!(got, expected, "{}", place());
            }
            Step::Claim => {
                let expected = model.claim();
                let claimed = store.claim_unknowns(now, at(model.now - NOW.seconds() + 30), 100).await.unwrap();
                assert_eq!(claimed.len(), expected, "{}", place());
                for (entry, ticket) in claimed {
                    assert_eq!(entry.state, State::Unknown);
                    let nonce = u64::from_be_bytes(entry.key.nonce[24..].try_into().unwrap());
                    tickets.entry(nonce).or_default().push((ticket, model.holders));
                }
            }
            Step::Act { action, nonce, stale } => {
                let given = tickets.get(&nonce).map_or(&[][..], Vec::as_slice);
                let Some((ticket, holder)) = given.iter().rev().nth(usize::from(stale && given.len() > 1)).copied() else {
                    continue;
                };
                let state = model.payments.get(&nonce).map(|known| known.state);
                let expected = model.act(action, nonce, holder);
                if expected == "ok" && !(action == Action::Settle && state == Some(State::Settled)) {
                    assert!(state.is_some_and(|state| action.allowed_in(state)), "{}: the table disagrees", place());
                }
                let id = key(nonce);
                let settlement =
                    Settlement { lease_until: at(model.now - NOW.seconds() + 30), note: b"", result: None, from_block: None };
                let got = match action {
                    Action::BeginSettlement => said(store.begin_settlement(&id, ticket, &settlement).await),
                    Action::RecordSent => said(store.record_sent(&id, ticket, B256::repeat_byte(1)).await),
                    Action::Settle => said(store.settle(&id, &receipt(1), now).await),
                    Action::MarkUnknown => said(store.mark_unknown(&id, ticket, now).await),
                    Action::Release => said(store.release(&id, ticket).await),
                    Action::StoreResult => said(
                        store
                            .store_result(&id, ticket, &result(b"x"))
                            .await
                            .inspect(|kept| assert_eq!(*kept, ResultRetention::Yes)),
                    ),
                };
                assert_eq!(got, expected, "{}", place());
            }
        }
        let Counts { reserved, settling, settled, unknown, .. } = store.counts().await.unwrap();
        assert_eq!((reserved, settling, settled, unknown), model.counts(), "after {}", place());
        assert!(reserved + settling + settled + unknown <= ENTRIES as u64);
    }
}

fn run(backend: Backend, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let limits = Limits { entries: ENTRIES as u64, ..Limits::default() };
    TestRunner::new(config)
        .run(&steps(), |steps| {
            runtime.block_on(async {
                let Some(place) = TestStore::new(backend).await else { return };
                compare(&*place.store(limits).await, &steps).await;
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn memory_does_as_the_model() {
    run(Backend::Memory, 1_000);
}

#[test]
fn sqlite_does_as_the_model() {
    run(Backend::SqliteMemory, 100);
}

#[test]
fn postgres_does_as_the_model() {
    run(Backend::Postgres, 25);
}
