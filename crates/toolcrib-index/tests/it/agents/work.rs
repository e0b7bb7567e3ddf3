//! The list of names, and what the worker does with it.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::Clock as _;
use toolcrib_index::agents::{
    AgentMemory, AgentOptions, AgentQuery, AgentResolution, AgentRound, AgentWorker, NamesFile, ResolveAgent,
};

use super::scripted::{MovingClock, good, indexes, name, refused, set, unreachable, worker};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_followed() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("names");
        let mut file = NamesFile::new(path.clone());
        assert!(file.refresh(&index, clock.now()).await.is_err(), "no file yet");
        std::fs::write(&path, "a.agt\n# no\nB.agt\nnot a name\n").expect("written");
        let (list, changes) = file.refresh(&index, clock.now()).await.expect("read").expect("new");
        assert_eq!((list.names.len(), list.bad[0].line, changes.added, changes.left), (2, 4, 2, 0));
        assert!(file.refresh(&index, clock.now()).await.expect("read").is_none(), "nothing changed");
        let seen = Mutex::new(Vec::new());
        let worker = worker(&index, &clock, |domain: &AgtDomain| {
            seen.lock().unwrap().push(domain.to_string());
            good(domain, 1_000, |_| ())
        });
        assert_eq!(worker.round().await.expect("a round").judged, 2);
        let before = index.last_agent_change().await.expect("a number");
        // One leaves and another one comes: only the list is worked on, and nothing is lost.
        std::fs::write(&path, "a.agt\nc.agt").expect("written");
        let (_, changes) = file.refresh(&index, clock.now()).await.expect("read").expect("new");
        assert_eq!((changes.added, changes.left), (1, 1));
        assert!(index.last_agent_change().await.expect("a number") > before);
        clock.advance(10_000);
        seen.lock().unwrap().clear();
        worker.round().await.expect("a round");
        let mut names = std::mem::take(&mut *seen.lock().unwrap());
        names.sort();
        assert_eq!(names, ["a.agt", "c.agt"]);
        let left = index.agent(&name("b.agt")).await.expect("read").expect("kept");
        assert!(!left.listed && left.verdict.is_some() && !left.is_good(clock.now()) && left.facts(clock.now()).is_none());
        let everybody = AgentQuery { limit: 9, include_unverified: true, ..AgentQuery::default() };
        let page = index.find_agents(&everybody, clock.now()).await.expect("a page");
        assert_eq!(page.agents.len(), 2, "not listed");
        // A broken file changes nothing; a good one brings the name back, which is due at once.
        std::fs::write(&path, vec![b'#'; 3 << 20]).expect("written");
        assert!(file.refresh(&index, clock.now()).await.is_err());
        std::fs::write(&path, "a.agt\nb.agt\nc.agt\n").expect("written");
        let (_, changes) = file.refresh(&index, clock.now()).await.expect("read").expect("new");
        assert_eq!((changes.added, changes.left), (1, 0));
        assert_eq!(worker.round().await.expect("a round"), AgentRound { leased: 1, judged: 1, ..AgentRound::default() });
        assert_eq!(index.agent_changes(&name("b.agt"), 10).await.expect("changes").len(), 1, "the same verdict is no change");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flips_are_recorded_and_bounded() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt"], &clock).await;
        let round = AtomicUsize::new(0);
        let worker = worker(&index, &clock, |domain: &AgtDomain| match round.load(Ordering::SeqCst) {
            0 | 1 => good(domain, 1_000, |_| ()),
            2 => refused("invalid-owner", "agent.owner_malformed"),
            3 => good(domain, 1_000, |_| ()),
            4 => good(domain, 2_000, |_| ()),
            n if n % 2 == 0 => good(domain, 3_000, |_| ()),
            _ => refused("not-found", "agent.legacy"),
        });
        let domain = name("a.agt");
        let step = async || {
            clock.advance(100_000);
            worker.round().await.expect("a round");
            round.fetch_add(1, Ordering::SeqCst);
            index.agent(&domain).await.expect("read").expect("an agent")
        };
        assert!(step().await.is_good(clock.now()) && step().await.is_good(clock.now()));
        let bad = step().await;
        assert!(!bad.is_good(clock.now()) && bad.verdict.as_ref().is_some_and(|verdict| verdict.facts.is_none()));
        assert!(step().await.is_good(clock.now()) && step().await.is_good(clock.now()));
        let changes = index.agent_changes(&domain, 10).await.expect("changes");
        let words: Vec<_> = changes.iter().map(|change| (change.answer.state.as_str(), change.answer.code.as_deref())).collect();
        let expected =
            [("manifest", None), ("manifest", None), ("invalid-owner", Some("agent.owner_malformed")), ("manifest", None)];
        assert_eq!(words, expected, "newest first, the second good one is the same as the first");
        assert!(changes[0].answer.cid != changes[1].answer.cid && changes[0].at > changes[1].at);
        for _ in 0..210 {
            step().await;
        }
        let kept = index.agent_changes(&domain, 10_000).await.expect("changes").len();
        assert_eq!(kept, usize::try_from(toolcrib_index::agents::MAX_CHANGES).expect("small"));
    }
}

// req: AGT-020
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_reached_keeps_the_verdict() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt", "new.agt"], &clock).await;
        let is_down = std::sync::atomic::AtomicBool::new(false);
        let worker = worker(&index, &clock, |domain: &AgtDomain| {
            if is_down.load(Ordering::SeqCst) || domain.sld() == "new" { unreachable() } else { good(domain, 1_000, |_| ()) }
        });
        let first = worker.round().await.expect("a round");
        assert_eq!((first.judged, first.unreachable), (1, 1));
        let new = index.agent(&name("new.agt")).await.expect("read").expect("an agent");
        assert!(new.verdict.is_none() && new.checked_at.is_none() && new.trouble.is_some());
        is_down.store(true, Ordering::SeqCst);
        clock.advance(4_000);
        let begun = clock.now();
        assert_eq!(worker.round().await.expect("a round").unreachable, 2);
        let view = index.agent(&name("a.agt")).await.expect("read").expect("an agent");
        let (trouble, at) = view.trouble.clone().expect("trouble");
        assert_eq!((trouble.step.as_str(), trouble.code.as_str(), at), ("txt", "fetch.dns_failed", begun));
        assert!(view.is_good(clock.now()) && view.facts(clock.now()).is_some(), "the verdict stays");
        assert_eq!(index.agent_changes(&name("a.agt"), 10).await.expect("changes").len(), 1, "and nothing flipped");
        // It is tried again soon, and then less and less often.
        clock.advance(10);
        assert_eq!(worker.round().await.expect("a round").leased, 0);
        clock.advance(60);
        assert_eq!(worker.round().await.expect("a round").leased, 1);
        // A verdict does not hold for ever.
        clock.advance(90_000);
        worker.round().await.expect("a round");
        let old = index.agent(&name("a.agt")).await.expect("read").expect("an agent");
        assert!(old.verdict.as_ref().is_some_and(|verdict| verdict.verified) && !old.is_good(clock.now()));
        let page = index.find_agents(&AgentQuery { limit: 9, ..AgentQuery::default() }, clock.now()).await.expect("a page");
        assert!(page.agents.is_empty());
        // Back again: the trouble is over.
        is_down.store(false, Ordering::SeqCst);
        clock.advance(4_000);
        worker.round().await.expect("a round");
        let back = index.agent(&name("a.agt")).await.expect("read").expect("an agent");
        assert!(back.is_good(clock.now()) && back.trouble.is_none());
    }
}

/// Says when a resolution began, and waits until it may end.
struct Gate {
    begun: Arc<tokio::sync::Semaphore>,
    open: Arc<tokio::sync::Semaphore>,
}

impl ResolveAgent for Gate {
    async fn resolve(&self, _: &AgtDomain, _: Option<&AgentMemory>) -> AgentResolution {
        self.begun.add_permits(1);
        let _ = self.open.acquire().await;
        refused("not-found", "agent.legacy")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_writes_nothing() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt", "b.agt"], &clock).await;
        let (begun, open) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
        let gate = Gate { begun: begun.clone(), open: open.clone() };
        let slow = AgentWorker::new(index.clone(), gate, Arc::new(clock.clone()), AgentOptions::default()).expect("a worker");
        let quick = worker(&index, &clock, |domain: &AgtDomain| good(domain, 1_000, |_| ()));
        let waiting = tokio::spawn(async move { slow.round().await });
        let _ = begun.acquire_many(2).await.expect("both are held");
        assert_eq!(quick.round().await.expect("a round").leased, 0, "held by another");
        clock.advance(300);
        assert_eq!(quick.round().await.expect("a round").judged, 2, "the lease is over");
        open.add_permits(10);
        let late = waiting.await.expect("ended").expect("a round");
        assert_eq!(late, AgentRound { leased: 2, lost: 2, ..AgentRound::default() });
        for domain in [name("a.agt"), name("b.agt")] {
            assert!(index.agent(&domain).await.expect("read").expect("an agent").is_good(clock.now()));
            assert_eq!(index.agent_changes(&domain, 9).await.expect("changes").len(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_names_are_checked_again() {
    const NAMES: usize = 10_000;
    for (place, index) in indexes().await {
        let clock = MovingClock::new();
        let names = (0..NAMES).map(|n| name(&format!("agent-{n}.agt"))).collect();
        let begun = Instant::now();
        index.set_agent_names(&names, clock.now()).await.expect("a list");
        let listed = begun.elapsed();
        let resolved = AtomicUsize::new(0);
        let worker = worker(&index, &clock, |domain: &AgtDomain| {
            resolved.fetch_add(1, Ordering::Relaxed);
            good(domain, 1_000, |_| ())
        });
        let mut rates = Vec::new();
        for check in 1..=2 {
            let begun = Instant::now();
            let mut done = AgentRound::default();
            loop {
                let round = worker.round().await.expect("a round");
                if round.leased == 0 {
                    break;
                }
                done.judged += round.judged;
                done.changed += round.changed;
                done.lost += round.lost;
            }
            rates.push(NAMES as f64 / begun.elapsed().as_secs_f64());
            let changed = if check == 1 { NAMES } else { 0 };
            assert_eq!((done.judged, done.changed, done.lost), (NAMES, changed, 0));
            assert_eq!(resolved.swap(0, Ordering::Relaxed), NAMES, "each name once");
            clock.advance(2 * 3_600);
        }
        let begun = Instant::now();
        let query = AgentQuery { words: Some("agent 77".to_owned()), limit: 20, ..AgentQuery::default() };
        assert_eq!(index.find_agents(&query, clock.now()).await.expect("a page").agents.len(), 20);
        let _ = writeln!(
            std::io::stderr(),
            "{}: {NAMES} names listed in {listed:?}, checked at {:.0}/s and again at {:.0}/s, a search in {:?}",
            place.setting.split(':').next().unwrap_or_default(),
            rates[0],
            rates[1],
            begun.elapsed()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_until_it_is_told_to_stop() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        let names: Vec<String> = (0..300).map(|n| format!("n{n}.agt")).collect();
        set(&index, &names.iter().map(String::as_str).collect::<Vec<_>>(), &clock).await;
        let resolved = AtomicUsize::new(0);
        let worker = worker(&index, &clock, |domain: &AgtDomain| {
            resolved.fetch_add(1, Ordering::SeqCst);
            good(domain, 1_000, |_| ())
        });
        let done = async {
            let begun = Instant::now();
            while index.agent_counts(clock.now()).await.expect("counts") != (300, 300) {
                assert!(begun.elapsed().as_secs() < 60, "the list stands still");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        worker.run(done).await;
        assert_eq!(resolved.load(Ordering::SeqCst), 300);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_have_agents() {
    let mut exports = Vec::new();
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt", "b.agt", "down.agt"], &clock).await;
        let worker = worker(&index, &clock, |domain: &AgtDomain| match domain.sld() {
            "a" => good(domain, 1_000, |_| ()),
            "b" => refused("not-found", "agent.legacy"),
            _ => unreachable(),
        });
        worker.round().await.expect("a round");
        let mut bytes = Vec::new();
        toolcrib_index::export::export(&index, &mut bytes, clock.now()).await.expect("exported");
        for (_place, target) in indexes().await {
            toolcrib_index::export::import(&target, &mut bytes.as_slice(), clock.now()).await.expect("imported");
            for domain in ["a.agt", "b.agt", "down.agt"].map(name) {
                assert_eq!(target.agent(&domain).await.expect("read"), index.agent(&domain).await.expect("read"));
                let (there, here) = (target.agent_changes(&domain, 9).await, index.agent_changes(&domain, 9).await);
                assert_eq!(there.expect("changes"), here.expect("changes"));
            }
            assert!(target.last_agent_change().await.expect("a number") > 0, "kept answers are dropped");
        }
        exports.push(bytes);
    }
    assert!(exports.windows(2).all(|two| two[0] == two[1]), "the same on both engines");
}
