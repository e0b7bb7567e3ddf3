//! Resources that the operator blocks or hides: left out wherever resources are read, also when they come back under another number.

use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::bazaar::ResourceView;
use toolcrib_index::feed::Kinds;
use toolcrib_index::moderation::{Decision, MAX_OPEN_REPORTS, ResourceRef, Restriction, Step, Subject};
use toolcrib_index::search::{Filters, Search, SearchOptions, SearchQuery, Source};
use toolcrib_index::{Index, export};
use toolcrib_store::{Database, Location};

use super::server::{Catalogue, MovingClock, changes, follower, indexes, item, listed, url, urls, walk};
use super::walks::{DAY, HOUR};

async fn subject(index: &Index, id: i64) -> Subject {
    index.resource_subject(ResourceRef::Number(id)).await.expect("read").expect("a resource")
}

async fn decide(index: &Index, subject: Subject, step: Step, now: UnixTime) -> bool {
    let decision = Decision { subject, step, reason: "phishing", notice: "It asks for keys.", actor: "test" };
    index.moderate(&decision, now).await.expect("decided")
}

async fn found(search: &Search) -> Vec<i64> {
    search.catch_up().await.expect("fed");
    let filters = Filters { source: Some(Source::Bazaar), ..Filters::default() };
    let query = SearchQuery { filters, limit: 10, include_unverified: true, ..SearchQuery::default() };
    let hits = search.run(&query).expect("hits").hits;
    let mut ids: Vec<i64> = hits.iter().filter_map(|hit| hit.key.resource()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_blocks_or_hides_is_read_nowhere_but_by_its_number() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start((0..3).map(|number| item(&url(number))).collect()).await;
        let (clock, mut cursor) = (MovingClock::new(), 0);
        walk(&follower(&index, &catalogue, &clock)).await;
        let search = Search::open(index.clone(), SearchOptions::default()).await.expect("search");
        changes(&index, &mut cursor).await;
        let bad = listed(&index).await.into_iter().find(|view| view.url == url(1)).expect("a resource");
        assert_eq!(found(&search).await.len(), 3);
        let about = subject(&index, bad.id).await;
        assert_eq!(about, Subject::Resource(bad.identity));
        assert_eq!(index.resource_subject(ResourceRef::Number(99)).await.expect("read"), None);
        for (set, unset, restriction) in
            [(Step::Block, Step::Unblock, Restriction::Block), (Step::Hide, Step::Unhide, Restriction::Hide)]
        {
            assert!(!decide(&index, about, unset, clock.now()).await, "there is no such rule yet");
            assert!(decide(&index, about, set, clock.now()).await);
            assert_eq!(changes(&index, &mut cursor).await, [(bad.id, Kinds::MODERATION)]);
            assert_eq!(urls(&index).await, [url(0), url(2)]);
            assert!(index.resources(&[bad.key()]).await.expect("read").is_empty());
            assert!(index.resources_at(&[&bad.url]).await.expect("read").is_empty());
            assert!(!found(&search).await.contains(&bad.id));
            let fresh = Search::open(index.clone(), SearchOptions::default()).await.expect("search");
            assert!(!found(&fresh).await.contains(&bad.id), "nor when it is filled from the database");
            let view = index.resource(bad.id).await.expect("read").expect("by its number it is still there");
            let rule = view.moderation.clone().expect("a rule");
            assert_eq!(
                (rule.action, rule.notice.as_str(), view.is_blocked()),
                (restriction, "It asks for keys.", set == Step::Block)
            );
            let rules = index.moderation_rules(10).await.expect("rules");
            assert_eq!((rules.len(), rules[0].subject.clone()), (1, format!("x402_bazaar/{}", bad.id)));
            assert!(decide(&index, about, unset, clock.now()).await);
            assert_eq!(changes(&index, &mut cursor).await, [(bad.id, Kinds::MODERATION)]);
            assert_eq!((urls(&index).await.len(), found(&search).await.len()), (3, 3));
        }
        let log = index.moderation_log(None, 10).await.expect("a log");
        assert_eq!(log.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>(), ["unhide", "hide", "unblock", "block"]);
        assert!(log.iter().all(|entry| entry.subject == format!("x402_bazaar/{}", bad.id)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_resource_that_comes_back_is_still_blocked() {
    for (_place, index) in indexes().await {
        let all: Vec<_> = (0..2).map(|number| item(&url(number))).collect();
        let catalogue = Catalogue::start(all.clone()).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        walk(&follower).await;
        let bad = listed(&index).await.into_iter().find(|view| view.url == url(1)).expect("a resource");
        let about = subject(&index, bad.id).await;
        assert!(decide(&index, about, Step::Block, clock.now()).await);
        // It leaves for so long that its number is forgotten.
        catalogue.set(|behaviour| drop(behaviour.items.remove(1)));
        for pause in [HOUR, HOUR, 2 * DAY, 10 * DAY, HOUR] {
            clock.advance(pause);
            walk(&follower).await;
        }
        assert_eq!(index.resource_subject(ResourceRef::Number(bad.id)).await.expect("read"), None);
        let rules = index.moderation_rules(10).await.expect("rules");
        assert_eq!(rules[0].subject, format!("x402_bazaar/{:#x}", bad.identity));
        catalogue.set(|behaviour| behaviour.items = all);
        clock.advance(HOUR);
        assert_eq!(walk(&follower).await.added, 1);
        assert_eq!(urls(&index).await, [url(0)], "under another number, and still blocked");
        let rules = index.moderation_rules(10).await.expect("rules");
        let ResourceRef::Number(id) = ResourceRef::parse(&rules[0].subject).expect("a reference") else { panic!("{rules:?}") };
        assert!(id > bad.id && index.resource(id).await.expect("read").expect("a resource").is_blocked());
        // By its identity a rule is undone even when there is no number.
        let by_identity = ResourceRef::parse(&format!("x402_bazaar/{:#x}", bad.identity)).expect("a reference");
        let about = index.resource_subject(by_identity).await.expect("read").expect("a subject");
        assert!(decide(&index, about, Step::Unblock, clock.now()).await);
        assert_eq!(urls(&index).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_about_resources_are_kept_by_what_they_are() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start(vec![item(&url(0)), item(&url(1))]).await;
        let clock = MovingClock::new();
        walk(&follower(&index, &catalogue, &clock)).await;
        let views = listed(&index).await;
        let (bad, other) = (&views[0], &views[1]);
        for number in 1..=MAX_OPEN_REPORTS {
            let report = index.report_resource_abuse(bad, "phishing", "It asks for keys.", clock.now()).await.expect("a report");
            assert_eq!(report, Some(number));
        }
        assert_eq!(index.report_resource_abuse(bad, "spam", "", clock.now()).await.expect("read"), None, "there are enough");
        assert!(index.report_resource_abuse(other, "spam", "", clock.now()).await.expect("a report").is_some());
        let reports = index.abuse_reports(false, None, 200).await.expect("reports");
        assert_eq!(reports[0].tool, format!("x402_bazaar/{}", other.id));
        assert_eq!((reports[1].tool.clone(), reports.len() as i64), (format!("x402_bazaar/{}", bad.id), MAX_OPEN_REPORTS + 1));
        // Rules and reports are part of an export, and resources are not: where none is followed they name no other one.
        assert!(decide(&index, subject(&index, bad.id).await, Step::Hide, clock.now()).await);
        let mut text = Vec::new();
        export::export(&index, &mut text, clock.now()).await.expect("an export");
        let database = Database::open(&Location::memory()).await.expect("a database");
        let copy = Index::open(database).await.expect("an index");
        export::import(&copy, &mut text.as_slice(), clock.now()).await.expect("an import");
        let name = |view: &ResourceView| format!("x402_bazaar/{:#x}", view.identity);
        assert_eq!(copy.moderation_rules(10).await.expect("rules")[0].subject, name(bad));
        assert_eq!(copy.abuse_reports(false, None, 1).await.expect("reports")[0].tool, name(other));
    }
}
