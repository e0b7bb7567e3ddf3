//! Agents in the change feed, and the counts of their checks.

use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::agents::{AgentCensus, feed_key};

use super::scripted::{MovingClock, good, indexes, name, refused, set, unreachable, worker};

/// The changes after a cursor, as names and words.
async fn after(index: &Index, cursor: i64) -> Vec<(i64, String, String)> {
    let mut found = Vec::new();
    for change in index.changes(cursor, 100).await.expect("changes") {
        let agent = index.agent_of(change.key).await.expect("a name").expect("an agent");
        found.push((change.seq, agent.to_string(), change.kinds.names().collect::<Vec<_>>().join(" ")));
    }
    found
}

fn said(changes: &[(i64, String, String)]) -> Vec<String> {
    changes.iter().map(|(seq, name, kinds)| format!("{seq} {name} {kinds}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_agents_is_in_the_feed() {
    for (place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt", "b.agt"], &clock).await;
        assert_eq!(said(&after(&index, 0).await), ["1 a.agt listed", "2 b.agt listed"]);
        let verified = worker(&index, &clock, |domain: &AgtDomain| good(domain, 1_000, |_| ()));
        verified.round().await.expect("a round");
        assert_eq!(said(&after(&index, 2).await), ["3 a.agt verification", "4 b.agt verification"]);
        // The same verdict, and a check that could not be completed, are no changes.
        clock.advance(10_000);
        verified.round().await.expect("a round");
        clock.advance(10_000);
        worker(&index, &clock, |_: &AgtDomain| unreachable()).round().await.expect("a round");
        assert_eq!(after(&index, 4).await, []);
        clock.advance(10_000);
        let mixed = worker(&index, &clock, |domain: &AgtDomain| match domain.as_str() {
            "a.agt" => good(domain, 1_000, |_| ()),
            _ => refused("invalid-owner", "agent.holder_not_owner"),
        });
        mixed.round().await.expect("a round");
        assert_eq!(said(&after(&index, 4).await), ["5 b.agt verification"]);
        set(&index, &["b.agt", "c.agt"], &clock).await;
        // Another process, which has not read the names before.
        let other = Index::open(place.database().await).await.expect("an index");
        assert_eq!(said(&after(&other, 5).await), ["6 c.agt listed", "7 a.agt delisted"]);
        assert_eq!(other.last_change().await.expect("a number"), 7);
        set(&index, &["b.agt", "c.agt"], &clock).await;
        assert_eq!(index.last_change().await.expect("a number"), 7, "the same list is no change");
        // Nothing of it asks for the verification of a tool.
        let queue = index.queue_state(clock.now()).await.expect("a queue");
        assert_eq!((queue.due, queue.leased), (0, 0));
        assert!(index.agent_of(feed_key(&name("never-listed.agt"))).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_are_counted_by_state_and_by_error() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        assert_eq!(index.agent_census(clock.now()).await.expect("counts"), AgentCensus::default());
        set(&index, &["a.agt", "b.agt", "c.agt", "d.agt"], &clock).await;
        clock.advance(90);
        let census = index.agent_census(clock.now()).await.expect("counts");
        assert_eq!(census.states, [("pending".to_owned(), 4)]);
        let waits = census.oldest_due.map(|since| clock.now().seconds() - since.seconds());
        assert_eq!((census.due, census.leased, waits), (4, 0, Some(90)));
        let script = |domain: &AgtDomain| match domain.as_str() {
            "a.agt" | "b.agt" => good(domain, 1_000, |_| ()),
            "c.agt" => refused("invalid-owner", "agent.holder_not_owner"),
            _ => unreachable(),
        };
        worker(&index, &clock, script).round().await.expect("a round");
        let counted = |pairs: &[(&str, u64)]| pairs.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect::<Vec<_>>();
        let census = index.agent_census(clock.now()).await.expect("counts");
        assert_eq!(census.states, counted(&[("invalid-owner", 1), ("manifest", 2), ("pending", 1)]));
        assert_eq!(census.unreachable, counted(&[("fetch.dns_failed", 1)]));
        assert_eq!((census.good, census.due, census.oldest_due), (2, 0, None));
        // A good verdict that is too old does not count, and is due.
        clock.advance(100_000);
        let census = index.agent_census(clock.now()).await.expect("counts");
        assert_eq!((census.good, census.due), (0, 4));
        assert!(census.oldest_due.is_some_and(|since| since > UnixTime::from_seconds(0)));
    }
}
