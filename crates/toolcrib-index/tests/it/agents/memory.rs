//! What an index remembers of names: it survives restarts, is shared, and never gets older.

use std::sync::{Arc, Mutex};

use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::agents::{AgentMemory, AgentOptions, AgentResolution, AgentWorker, ResolveAgent};

use super::scripted::{MovingClock, NOW, good, indexes, name, set, unreachable};

/// Resolves as it is told, and notes what it was told to remember.
struct Noting {
    answer: Box<dyn Fn(&AgtDomain) -> AgentResolution + Send + Sync>,
    remembered: Arc<Mutex<Vec<Option<AgentMemory>>>>,
}

impl ResolveAgent for Noting {
    async fn resolve(&self, domain: &AgtDomain, remembered: Option<&AgentMemory>) -> AgentResolution {
        self.remembered.lock().expect("no panic").push(remembered.cloned());
        (self.answer)(domain)
    }
}

/// One check of the one name that is due, in a process of its own: what it was told to remember.
async fn check(
    index: &Index,
    clock: &MovingClock,
    answer: impl Fn(&AgtDomain) -> AgentResolution + Send + Sync + 'static,
) -> Option<AgentMemory> {
    let remembered = Arc::new(Mutex::new(Vec::new()));
    let resolver = Noting { answer: Box::new(answer), remembered: Arc::clone(&remembered) };
    let worker = AgentWorker::new(index.clone(), resolver, Arc::new(clock.clone()), AgentOptions::default()).expect("a worker");
    assert_eq!(worker.round().await.expect("a round").leased, 1);
    clock.advance(200_000);
    let mut remembered = remembered.lock().expect("no panic");
    assert_eq!(remembered.len(), 1);
    remembered.remove(0)
}

fn made(memory: Option<&AgentMemory>) -> Option<(i64, &str)> {
    memory.map(|memory| (memory.created_at.seconds(), memory.cid.as_str()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_verified_is_remembered_across_processes() {
    for (place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt"], &clock).await;
        assert_eq!(check(&index, &clock, |domain| good(domain, 1_000, |_| ())).await, None);
        // Another process of the same index, and one after a restart.
        let other = Index::open(place.database().await).await.expect("an index");
        let memory = check(&other, &clock, |domain| good(domain, 2_000, |_| ())).await.expect("remembered");
        let AgentResolution::Judged { verdict, .. } = good(&name("a.agt"), 1_000, |_| ()) else { panic!("a verdict") };
        assert_eq!(made(Some(&memory)), Some((1_000, "bafk1000")));
        assert_eq!((Some(memory.digest), Some(memory.owner)), (verdict.content_digest, verdict.owner));
        // An older manifest that is verified all the same does not take the memory back.
        assert_eq!(made(check(&index, &clock, |domain| good(domain, 1_500, |_| ())).await.as_ref()), Some((2_000, "bafk2000")));
        // Neither does what is not verified, nor what could not be told.
        let refusal = |domain: &AgtDomain| {
            let AgentResolution::Judged { mut verdict, report } = good(domain, 3_000, |_| ()) else { panic!("a verdict") };
            (verdict.verified, verdict.state) = (false, "invalid-owner".to_owned());
            AgentResolution::Judged { verdict, report }
        };
        assert_eq!(made(check(&other, &clock, refusal).await.as_ref()), Some((2_000, "bafk2000")));
        assert_eq!(made(check(&other, &clock, |_| unreachable()).await.as_ref()), Some((2_000, "bafk2000")));
        // A name that leaves the list and comes back is not a new one.
        set(&index, &["b.agt"], &clock).await;
        set(&index, &["a.agt"], &clock).await;
        let restarted = Index::open(place.database().await).await.expect("an index");
        assert_eq!(made(check(&restarted, &clock, |_| unreachable()).await.as_ref()), Some((2_000, "bafk2000")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_in_the_future_does_not_make_updates_look_old() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt"], &clock).await;
        let future = NOW + 10_000_000;
        check(&index, &clock, move |domain| good(domain, future, |_| ())).await;
        let first = check(&index, &clock, move |domain| good(domain, future, |_| ())).await.expect("remembered");
        assert_eq!(first.created_at, UnixTime::from_seconds(NOW), "the time of the verification");
        let again = check(&index, &clock, |_| unreachable()).await.expect("remembered");
        assert_eq!(again, first, "the same content is no news");
        assert!(clock.now() > first.created_at);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_lease_does_not_remember() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt"], &clock).await;
        // The name leaves the list and comes back while it is resolved, so that the lease is gone.
        let (begun, open) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let slow = Slow { begun: Arc::clone(&begun), open: Arc::clone(&open) };
        let worker = AgentWorker::new(index.clone(), slow, Arc::new(clock.clone()), AgentOptions::default()).expect("a worker");
        let working = tokio::spawn(async move { worker.round().await.expect("a round") });
        begun.notified().await;
        set(&index, &[], &clock).await;
        set(&index, &["a.agt"], &clock).await;
        open.notify_one();
        assert_eq!(working.await.expect("ended").lost, 1);
        assert_eq!(check(&index, &clock, |_| unreachable()).await, None);
    }
}

/// Verifies, when it may.
struct Slow {
    begun: Arc<tokio::sync::Notify>,
    open: Arc<tokio::sync::Notify>,
}

impl ResolveAgent for Slow {
    async fn resolve(&self, domain: &AgtDomain, _: Option<&AgentMemory>) -> AgentResolution {
        self.begun.notify_one();
        self.open.notified().await;
        good(domain, 1_000, |_| ())
    }
}
