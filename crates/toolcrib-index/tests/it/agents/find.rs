//! Words, filters and pages.

use std::collections::BTreeSet;

use toolcrib_core::agent::{AgtDomain, PricingModel};
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::agents::{AgentCursor, AgentFacts, AgentPricing, AgentProtocol, AgentQuery, AgentResolution, MaxPrice};
use toolcrib_index::{Error, Index};

use super::scripted::{MovingClock, good, indexes, name, refused, set, unreachable, worker};

fn paid(model: &str, amount: &str, currency: &str) -> Option<AgentPricing> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Some(AgentPricing {
        model: model.to_owned(),
        amount: text(amount),
        currency: text(currency),
        unit: Some("per_request".to_owned()),
        chain: None,
    })
}

fn script(domain: &AgtDomain) -> AgentResolution {
    let protocol = |id: &str| vec![AgentProtocol { id: id.to_owned(), endpoint: "https://x.example".to_owned() }];
    match domain.sld() {
        "translator" => good(domain, 5_000, |facts: &mut AgentFacts| {
            facts.description = Some("Translates français, 100% human_like".to_owned());
            facts.pricing = paid("paid", "0.01", "USDC");
        }),
        "painter" => good(domain, 6_000, |facts| {
            facts.capabilities = vec!["image-generation".to_owned(), "3d-modeling".to_owned()];
            facts.protocols = protocol("a2a");
            facts.pricing = paid("freemium", "0.5", "usdc");
        }),
        "free" => good(domain, 7_000, |facts| {
            facts.name = Some("Café Translator".to_owned());
            facts.pricing = paid("free", "", "");
        }),
        "euro" => good(domain, 8_000, |facts| {
            facts.capabilities = vec!["image".to_owned()];
            facts.pricing = paid("paid", "0.0000001", "EUR");
        }),
        "down" => unreachable(),
        "hidden" => match good(domain, 9_000, |_| ()) {
            AgentResolution::Judged { mut verdict, report } => {
                verdict.conformant = false;
                AgentResolution::Judged { verdict, report }
            }
            other => other,
        },
        _ => refused("not-an-agent", "agent.legacy"),
    }
}

async fn found(index: &Index, query: AgentQuery, now: UnixTime) -> Vec<String> {
    let page = index.find_agents(&AgentQuery { limit: 50, ..query }, now).await.expect("a page");
    page.agents.iter().map(|agent| agent.domain.sld().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_look_at_verified_content_alone() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        let names = ["translator.agt", "painter.agt", "free.agt", "euro.agt", "down.agt", "hidden.agt", "nothing.agt"];
        set(&index, &names, &clock).await;
        worker(&index, &clock, script).round().await.expect("a round");
        let now = clock.now();
        let any = AgentQuery::default;
        let text = |text: &str| Some(text.to_owned());
        let price = |micro, currency: &str| Some(MaxPrice { micro, currency: currency.to_owned() });
        assert_eq!(found(&index, any(), now).await, ["euro", "free", "painter", "translator"], "newest first, verified alone");
        let all = found(&index, AgentQuery { include_unverified: true, ..any() }, now).await;
        assert_eq!(
            (all.len(), &all[..4]),
            (7, &["euro", "free", "painter", "translator"].map(str::to_owned)[..]),
            "verified first"
        );
        for (query, expected) in [
            (AgentQuery { capability: text("translation"), ..any() }, vec!["free", "translator"]),
            (AgentQuery { capability: text("image"), ..any() }, vec!["euro"]),
            (AgentQuery { capability: text("3d-modeling"), ..any() }, vec!["painter"]),
            (AgentQuery { capability: text("%"), ..any() }, vec![]),
            (AgentQuery { protocol: text("a2a"), ..any() }, vec!["painter"]),
            (AgentQuery { protocol: text("mcp"), capability: text("translation"), ..any() }, vec!["free", "translator"]),
            (AgentQuery { pricing: Some(PricingModel::Paid), ..any() }, vec!["euro", "translator"]),
            (AgentQuery { max_price: price(10_000, "USDC"), ..any() }, vec!["free", "translator"]),
            (AgentQuery { max_price: price(9_999, "USDC"), ..any() }, vec!["free"]),
            (AgentQuery { max_price: price(1_000_000, "usdc"), ..any() }, vec!["free", "painter", "translator"]),
            (AgentQuery { max_price: price(0, "EUR"), ..any() }, vec!["free"]),
            (AgentQuery { max_price: price(1, "EUR"), ..any() }, vec!["euro", "free"]),
            (AgentQuery { words: text("FRANCAIS"), ..any() }, vec!["translator"]),
            (AgentQuery { words: text("human_like 100%"), ..any() }, vec!["translator"]),
            (AgentQuery { words: text("human%like"), ..any() }, vec![]),
            // A name or domain that fits comes before a newer one.
            (AgentQuery { words: text("translat"), ..any() }, vec!["free", "translator"]),
            (AgentQuery { words: text("painter"), ..any() }, vec!["painter"]),
            (AgentQuery { words: text("painter.agt agent"), ..any() }, vec!["painter"]),
            // What an unverified one claims is not searched; its domain is.
            (AgentQuery { words: text("hidden"), ..any() }, vec![]),
            (AgentQuery { words: text("hidden"), include_unverified: true, ..any() }, vec!["hidden"]),
            (AgentQuery { words: text("useful hidden"), include_unverified: true, ..any() }, vec![]),
        ] {
            assert_eq!(found(&index, query.clone(), now).await, expected, "{query:?}");
        }
        let states: BTreeSet<String> = index
            .find_agents(&AgentQuery { include_unverified: true, limit: 50, ..any() }, now)
            .await
            .expect("a page")
            .agents
            .into_iter()
            .map(|agent| agent.verdict.map_or_else(|| "none".to_owned(), |verdict| verdict.state))
            .collect();
        assert_eq!(states, ["manifest", "none", "not-an-agent"].map(str::to_owned).into());
    }
}

/// A date in the future does not keep an agent at the top: its content counts from when it was first seen.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_newer_than_now() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["cheat.agt"], &clock).await;
        let worker = worker(&index, &clock, |domain: &AgtDomain| {
            good(domain, if domain.sld() == "cheat" { i64::from(u32::MAX) } else { super::scripted::NOW + 50 }, |_| ())
        });
        worker.round().await.expect("a round");
        clock.advance(100);
        set(&index, &["cheat.agt", "honest.agt"], &clock).await;
        worker.round().await.expect("a round");
        clock.advance(9_000);
        worker.round().await.expect("a round");
        assert_eq!(found(&index, AgentQuery::default(), clock.now()).await, ["honest", "cheat"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_every_agent_once() {
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        let names: Vec<String> = (0..53).map(|n| format!("n{n}.agt")).collect();
        set(&index, &names.iter().map(String::as_str).collect::<Vec<_>>(), &clock).await;
        // Many of one time, so that the name decides.
        let script = |domain: &AgtDomain| match domain.sld().len() {
            2 => refused("not-found", "agent.legacy"),
            _ => good(domain, 1_000 + domain.sld().bytes().map(i64::from).sum::<i64>() % 3, |_| ()),
        };
        worker(&index, &clock, script).round().await.expect("a round");
        let mut query = AgentQuery { include_unverified: true, limit: 7, words: Some("n".to_owned()), ..AgentQuery::default() };
        let mut seen = Vec::new();
        loop {
            let page = index.find_agents(&query, clock.now()).await.expect("a page");
            assert!(page.agents.len() <= 7);
            seen.extend(page.agents.iter().map(|agent| (agent.is_good(clock.now()), agent.domain.to_string())));
            let Some(next) = page.next else { break };
            query.after = Some(AgentCursor::parse(&next.to_string()).expect("a cursor"));
        }
        assert_eq!(seen.len(), 53);
        assert!(seen.windows(2).all(|two| two[0].0 >= two[1].0), "verified ones first");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 53);
        let other = AgentQuery { words: Some("other".to_owned()), ..query };
        assert!(matches!(index.find_agents(&other, clock.now()).await, Err(Error::Cursor)), "of another query");
        assert!(index.agent(&name("absent.agt")).await.expect("read").is_none());
    }
}

/// PostgreSQL takes no zero byte in a text, and neither engine may fail for what an agent writes.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_are_kept() {
    const HOSTILE: &str = "a\0b\u{202e}' OR 1=1; -- % _ \\ \u{10ffff}\u{1f468}\u{200d}\u{1f469}";
    for (_place, index) in indexes().await {
        let clock = MovingClock::new();
        set(&index, &["a.agt", "b.agt"], &clock).await;
        let script = |domain: &AgtDomain| match domain.sld() {
            "a" => match good(domain, 1_000, |facts| {
                facts.name = Some(HOSTILE.to_owned());
                facts.description = Some(HOSTILE.repeat(50));
                facts.website = Some(HOSTILE.to_owned());
                facts.pricing = paid("paid", "1", HOSTILE);
            }) {
                AgentResolution::Judged { mut verdict, .. } => {
                    verdict.cid = Some(HOSTILE.to_owned());
                    AgentResolution::Judged { verdict, report: HOSTILE.to_owned() }
                }
                other => other,
            },
            _ => AgentResolution::Unreachable { step: HOSTILE.to_owned(), code: HOSTILE.to_owned() },
        };
        let round = worker(&index, &clock, script).round().await.expect("a round");
        assert_eq!((round.judged, round.unreachable), (1, 1));
        let view = index.agent(&name("a.agt")).await.expect("read").expect("an agent");
        assert_eq!(view.facts(clock.now()).and_then(|facts| facts.name.clone()).as_deref(), Some(HOSTILE));
        assert_eq!(index.agent_report(&name("a.agt")).await.expect("read"), None);
        let query = AgentQuery { words: Some("' OR 1=1; --".to_owned()), limit: 5, ..AgentQuery::default() };
        assert_eq!(index.find_agents(&query, clock.now()).await.expect("a page").agents.len(), 1);
    }
}
