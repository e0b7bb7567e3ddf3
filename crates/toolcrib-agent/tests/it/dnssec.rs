//! Signed zones: right and wrong anchors, expired signatures, and names without an anchor.

use std::time::Duration;

use toolcrib_agent::evidence::{Dnssec, TxtAnswer, TxtLookup};
use toolcrib_agent::source::TxtSource as _;
use toolcrib_agent::txt::dns::{DnsSettings, DnssecPolicy};

use crate::authority::{Authority, Zone};
use crate::support::{POINTER, code, domain, settings, source};

const DAY: Duration = Duration::from_secs(86_400);

fn signed(origin: &str) -> Zone {
    Zone::new(origin)
        .txt("plain.agt.", &[POINTER.as_bytes()])
        .alias("alias.agt.", "plain.agt.")
        .alias("outside.agt.", "host.example.")
}

async fn ask(authority: &Authority, anchor: &str, policy: DnssecPolicy, name: &str) -> TxtAnswer {
    let mut settings: DnsSettings = settings(&format!("udp://{}", authority.plain));
    settings.dnssec = policy;
    settings.anchors = anchor.parse().expect("anchors");
    source(settings).lookup(&domain(name)).await
}

#[tokio::test]
async fn the_right_anchor_makes_answers_secure() {
    let mut zone = signed("agt.");
    let anchor = zone.sign(DAY);
    let authority = Authority::start(vec![zone]).await;
    for policy in [DnssecPolicy::Prefer, DnssecPolicy::Require] {
        for name in ["plain.agt", "alias.agt"] {
            let answer = ask(&authority, &anchor, policy, name).await;
            assert!(matches!(answer.outcome, TxtLookup::Records(_)), "{policy:?} {name}: {answer:?}");
            assert_eq!(answer.dnssec, Dnssec::Secure, "{policy:?} {name}");
        }
        // The absence of records is proven too.
        let none = ask(&authority, &anchor, policy, "none.agt").await;
        assert_eq!((none.outcome, none.dnssec), (TxtLookup::NotFound, Dnssec::Secure), "{policy:?}");
    }
    let off = ask(&authority, &anchor, DnssecPolicy::Off, "plain.agt").await;
    assert_eq!(off.dnssec, Dnssec::Unchecked);
    assert!(matches!(off.outcome, TxtLookup::Records(_)));
}

#[tokio::test]
async fn the_wrong_anchor_makes_answers_bogus() {
    let mut zone = signed("agt.");
    zone.sign(DAY);
    let other = Zone::new("agt.").sign(DAY);
    let authority = Authority::start(vec![zone]).await;
    for policy in [DnssecPolicy::Prefer, DnssecPolicy::Require] {
        for name in ["plain.agt", "none.agt"] {
            let answer = ask(&authority, &other, policy, name).await;
            assert_eq!(code(&answer.outcome), "agent.dnssec_bogus", "{policy:?} {name}");
            assert_eq!(answer.dnssec, Dnssec::Bogus, "{policy:?} {name}");
        }
    }
}

#[tokio::test]
async fn expired_signatures_are_bogus() {
    let mut zone = signed("agt.");
    let anchor = zone.sign(Duration::from_secs(1));
    let authority = Authority::start(vec![zone]).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let answer = ask(&authority, &anchor, DnssecPolicy::Prefer, "plain.agt").await;
    assert_eq!((code(&answer.outcome), answer.dnssec), ("agent.dnssec_bogus", Dnssec::Bogus));
}

#[tokio::test]
async fn an_unsigned_zone_below_an_anchor_is_bogus() {
    let authority = Authority::start(vec![signed("agt.")]).await;
    let anchor = Zone::new("agt.").sign(DAY);
    for name in ["plain.agt", "none.agt"] {
        let answer = ask(&authority, &anchor, DnssecPolicy::Prefer, name).await;
        assert_eq!((code(&answer.outcome), answer.dnssec), ("agent.dnssec_bogus", Dnssec::Bogus), "{name}");
    }
}

#[tokio::test]
async fn names_outside_of_all_anchors_are_unchecked_or_refused() {
    let authority = Authority::start(vec![signed("agt.")]).await;
    let anchor = Zone::new("other.agt.").sign(DAY);
    for anchor in ["", anchor.as_str()] {
        let prefer = ask(&authority, anchor, DnssecPolicy::Prefer, "plain.agt").await;
        assert!(matches!(prefer.outcome, TxtLookup::Records(_)), "{prefer:?}");
        assert_eq!(prefer.dnssec, Dnssec::Unchecked);
        let require = ask(&authority, anchor, DnssecPolicy::Require, "plain.agt").await;
        assert_eq!(code(&require.outcome), "agent.dnssec_required");
    }
}

#[tokio::test]
async fn an_alias_out_of_the_signed_zone_is_not_secure() {
    let mut zone = signed("agt.");
    let anchor = zone.sign(DAY);
    let outside = Zone::new("example.").txt("host.example.", &[b"agt-version=1"]);
    let authority = Authority::start(vec![zone, outside]).await;
    let require = ask(&authority, &anchor, DnssecPolicy::Require, "outside.agt").await;
    assert!(matches!(require.outcome, TxtLookup::Failed { .. }), "{require:?}");
    assert_ne!(require.dnssec, Dnssec::Secure);
}
