//! A settlement key is worth its gas to attackers: what it can be made to send, and how much at once.

use std::time::{Duration, Instant};

use alloy_primitives::U256;
use futures_util::future::join_all;
use serde_json::json;
use toolcrib_chain::rpc::Retries;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::money::Amount;
use toolcrib_gate::{Facilitator, LocalSettlement, Settle as _};
use toolcrib_store::replay::{Limits, MAX_RESULT_SECONDS};
use toolcrib_x402::{Authorization, ChainAddress, FacilitatorRequest, Offer, Payment, Version};

use super::chain::{FUNDS, PRICE, SystemClock, connect_as, domain, recipient, token, wallet};
use super::facilitator::Service;
use super::http::post;
use super::payer::{BOTH, authorization, authorization_of, header, payer, sign, stranger};
use super::shop::{Plan, own_key, stages, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};

// attack: T20
#[tokio::test]
async fn t20_a_gate_settles_for_its_own_recipient_under_its_own_caps() {
    for node in stages().await {
        let stingy = || LocalSettlement::new(std::sync::Arc::new(wallet(5)), [node.chain.clone()]);
        for (what, settlement, verdict, runs) in [
            ("for nobody", stingy(), (402, "settlement.refused"), 0),
            ("for somebody else", stingy().recipients([stranger().address()]), (402, "settlement.refused"), 0),
            ("with little gas", own_key(&node.chain, 5).max_gas(30_000), (402, "settlement.refused"), 0),
            ("for little money", own_key(&node.chain, 5).max_fee(U256::from(1_000)), (502, "settlement.unavailable"), 1),
        ] {
            let shop = Plan::new(settlement).open().await;
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, authorization()), &[], &two_words()).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((verdict.0, verdict.1.to_owned()), false), "{what}");
            shop.assert_all(&node, runs, runs, 0).await;
            assert_eq!((node.sent_by(5).await, shop.entries().await), (0, 0), "{what}");
        }
    }
}

// attack: T20
#[tokio::test]
async fn t20_a_settle_service_sends_nothing_but_what_it_is_for() {
    for node in stages().await {
        let service = Service::start(own_key(&node.chain, 7)).await;
        let good = Offer::exact(&token(), Amount::new(U256::from(PRICE)), recipient(), 300).expect("an offer");
        let ask = async |offer: &Offer, signed: Authorization, version: Version| {
            let payment = Payment::new(version, offer, signed, sign(payer(), &signed, &domain()), None, Vec::new());
            let body = FacilitatorRequest { payment: &payment, offer, resource: None, extensions: &[] }
                .to_json()
                .expect("a network with a name");
            let body = serde_json::from_str(&body).expect("JSON");
            post(service.address, "/x402/settle", &[], &body).await.json()
        };
        let offer = |change: &dyn Fn(&mut Offer)| {
            let mut offer = good.clone();
            change(&mut offer);
            offer
        };
        let to_me = stranger().address();
        for version in BOTH {
            for (what, offer, signed, reason) in [
                (
                    "nothing at all",
                    offer(&|offer| offer.amount = Amount::new(U256::ZERO)),
                    Authorization { value: Amount::new(U256::ZERO), ..authorization() },
                    "zero_value",
                ),
                (
                    "to somebody else",
                    offer(&|offer| offer.pay_to = ChainAddress::evm(to_me)),
                    Authorization { to: to_me, ..authorization() },
                    "recipient_not_allowed",
                ),
                (
                    "less than asked",
                    good.clone(),
                    Authorization { value: Amount::new(U256::from(1)), ..authorization() },
                    "offer_not_met",
                ),
                (
                    "a token of one's own",
                    offer(&|offer| offer.asset = ChainAddress::evm(to_me)),
                    authorization(),
                    "asset_not_allowed",
                ),
            ] {
                let answer = ask(&offer, signed, version).await;
                assert_eq!((&answer["success"], &answer["errorReason"]), (&json!(false), &json!(reason)), "{what}: {answer}");
            }
        }
        assert_eq!((node.sent_by(7).await, node.balance(recipient()).await, node.balance(to_me).await), (0, 0, 0));
        for version in BOTH {
            assert_eq!(ask(&good, authorization(), version).await["success"], json!(true));
        }
        assert_eq!((node.sent_by(7).await, node.balance(recipient()).await), (2, 2 * PRICE));
    }
}

// attack: T20
#[tokio::test]
async fn t20_many_at_once_leave_no_gap() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        let payments: Vec<_> = (0..40).map(|at| (BOTH[at % 2], shop.payment(BOTH[at % 2], authorization()))).collect();
        let (input, shop) = (two_words(), &shop);
        let calls = payments.iter().map(|(version, payment)| shop.call(*version, payment, &[], &input));
        let answers = join_all(calls).await;
        let transactions: std::collections::HashSet<_> =
            answers.iter().zip(&payments).map(|(answer, (version, _))| answer.receipt(*version).transaction).collect();
        assert_eq!(transactions.len(), 40, "each in its own");
        shop.assert_all(&node, 40, 40, 40).await;
        assert_eq!((node.sent_by(5).await, node.balance(payer().address()).await), (40, FUNDS - 40 * PRICE));
    }
}

/// A store without room accepts no payment, so no caller pays for a call that could not be recorded.
#[tokio::test]
async fn a_full_store_takes_no_money() {
    for node in stages().await {
        for backend in [Backend::Memory, Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let limits = Limits { entries: 2, ..Limits::default() };
            let shop = Plan::new(own_key(&node.chain, 5)).store(place.store(limits).await).open().await;
            let before = node.balance(recipient()).await / PRICE;
            for (at, status) in [200, 200, 503, 503].into_iter().enumerate() {
                let answer = shop.call(BOTH[at % 2], &shop.payment(BOTH[at % 2], authorization()), &[], &two_words()).await;
                assert_eq!((answer.status, answer.has_output()), (status, status == 200), "{answer:?}");
                assert!(status == 200 || answer.verdict().1 == "store.full");
            }
            shop.assert_all(&node, 2, 2, before + 2).await;
            // Room comes back when what is kept is over.
            shop.clock.later(MAX_RESULT_SECONDS + 60);
            let signed = authorization();
            let signed = Authorization { valid_before: signed.valid_before + MAX_RESULT_SECONDS as u64 + 60, ..signed };
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            shop.assert_all(&node, 3, 3, before + 3).await;
        }
    }
}

/// A payment that begins in this very second is waited for, but not one that could never be paid: waiting takes a place among the calls
/// that run, and signatures of empty accounts cost nothing.
#[tokio::test]
async fn nobody_waits_for_an_empty_account() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            let signed =
                Authorization { valid_after: SystemClock.now().seconds() as u64, ..authorization_of(stranger().address()) };
            let payment = header(&shop.challenges, Version::V2, signed, sign(stranger(), &signed, &domain()));
            let begun = Instant::now();
            let answer = shop.call(Version::V2, &payment, &[], &two_words()).await;
            fastest = fastest.min(begun.elapsed());
            assert_eq!(answer.verdict(), (402, "settlement.refused".to_owned()));
            assert_eq!(answer.receipt(Version::V2).reason.as_deref(), Some("insufficient_funds"));
        }
        assert!(fastest < Duration::from_secs(2), "{fastest:?}");
        let signed = Authorization { valid_after: SystemClock.now().seconds() as u64, ..authorization() };
        let mining = async {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            node.mine().await;
        };
        let payment = shop.payment(Version::V2, signed);
        let input = two_words();
        let (answer, ()) = tokio::join!(shop.call(Version::V2, &payment, &[], &input), mining);
        assert_eq!(answer.status, 200, "whoever has the money is: {answer:?}");
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

#[tokio::test]
async fn a_clock_that_is_apart_from_the_chain_is_told_at_the_start_and_counted() {
    for by in ["a key", "a facilitator"] {
        for node in stages().await {
            let public = connect_as(&node.url, Retries::default(), false).await;
            let service = Service::start(own_key(&node.chain, 7)).await;
            let plan = match by {
                "a key" => Plan::new(own_key(&public, 5)),
                _ => Plan::new(Facilitator::from_setting(&service.url()).expect("a URL").confirm_with([public.clone()])),
            };
            let shop = plan.open().await;
            let check = async || -> Vec<String> {
                let findings = shop.settle.check(&shop.challenges[1].accepts).await;
                findings
                    .iter()
                    .filter(|finding| finding.code == codes::settlement::CLOCK_SKEW)
                    .map(|finding| finding.message.clone())
                    .collect()
            };
            let skew = async || -> i64 {
                let page = shop.server.metrics().await;
                let line = page.lines().find(|line| line.starts_with("toolcrib_clock_skew_seconds{chain=\"eip155:84532\"}"));
                line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the clock is on the page")
            };
            assert_eq!(check().await, Vec::<String>::new(), "{by}");
            node.later(180).await;
            let told = check().await;
            assert!(matches!(&told[..], [message] if message.contains("behind the newest block")), "{by}: {told:?}");
            assert!((-180..=-150).contains(&skew().await), "{by}: {}", skew().await);
            // Each payment that is taken shows it anew.
            node.later(100).await;
            let signed = authorization();
            let signed = Authorization { valid_before: signed.valid_before + 200, ..signed };
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await;
            assert_eq!(answer.status, 200, "{by}: {answer:?}");
            assert!((-285..=-240).contains(&skew().await), "{by}: {}", skew().await);
        }
    }
}
