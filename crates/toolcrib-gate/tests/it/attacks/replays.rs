//! One payment, used more than once: at the same time, later, elsewhere, in another shape, after the caller has gone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Notify;
use toolcrib_store::replay::{Limits, MAX_RESULT_SECONDS, State};
use toolcrib_x402::{Authorization, ReplayKey, Version};

use super::chain::{FUNDS, Node, PRICE, recipient};
use super::http::{Connection, HttpResponse, post};
use super::payer::{BOTH, Bound, authorization, fresh, paid, payer};
use super::process::{Ground, Process};
use super::shop::{OTHER_PATH, PATH, Plan, Shop, own_key, stages, two_words};
use toolcrib_testkit::databases::{Backend, DURABLE, TestStore};

const STORES: [Backend; 3] = [Backend::Memory, Backend::SqliteFile, Backend::Postgres];

/// A shop on each chain with each store, and who settles with a key of its own.
async fn shops() -> Vec<(Node, Shop, TestStore)> {
    let mut shops = Vec::new();
    for backend in STORES {
        for node in stages().await {
            // On a foreign chain one store is enough.
            if !node.is_ours() && backend != Backend::SqliteFile {
                continue;
            }
            let Some(place) = TestStore::new(backend).await else { continue };
            let store = place.store(Limits::default()).await;
            let shop = Plan::new(own_key(&node.chain, 5)).store(store).open().await;
            shops.push((node, shop, place));
        }
    }
    shops
}

/// How many of the answers have a status; only the first kind has an output.
#[track_caller]
fn count(answers: &[HttpResponse], served: usize, refused: usize) {
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(
        (count(200), count(409)),
        (served, refused),
        "{:?}",
        answers.iter().map(HttpResponse::verdict).collect::<Vec<_>>()
    );
    assert!(answers.iter().all(|answer| answer.has_output() == (answer.status == 200)));
}

// req: PAY-005
// attack: T1
#[tokio::test]
async fn t01_parallel_copies_run_once() {
    for (node, shop, _place) in shops().await {
        let signed = authorization();
        let copies = BOTH.map(|version| (version, shop.payment(version, signed)));
        let input = two_words();
        let calls = (0..20).map(|at| {
            let ((version, payment), shop, input) = (&copies[at % 2], &shop, &input);
            async move { shop.call(*version, payment, &[], input).await }
        });
        count(&join_all(calls).await, 1, 19);
        shop.assert_all(&node, 1, 1, 1).await;
        assert_eq!(node.sent_by(5).await, 1);
    }
}

// req: PAY-005
// attack: T1
#[tokio::test]
async fn t01_parallel_copies_to_two_processes_run_once() {
    for backend in DURABLE {
        for node in stages().await {
            let Some(place) = TestStore::new(backend).await else { continue };
            let ground = Ground::new();
            let (one, two) = (ground.plan(&place.setting, &node.url, 5), ground.plan(&place.setting, &node.url, 6));
            // One makes the tables.
            let servers = [Process::start(&one).await, Process::start(&two).await];
            let challenges = post(servers[0].at, PATH, &[], &json!({})).await.challenges();
            for round in 1..=3 {
                let signed = authorization();
                let copies = BOTH.map(|version| (version, paid(&challenges, version, signed)));
                let (input, copies) = (two_words(), &copies);
                let calls = (0..24).map(|at| {
                    let ((version, payment), to, input) = (&copies[at / 2 % 2], servers[at % 2].at, &input);
                    async move { post(to, PATH, &[(version.payment_header(), payment)], input).await }
                });
                count(&join_all(calls).await, 1, 23);
                let money = (node.balance(recipient()).await, node.balance(payer().address()).await);
                let sent = node.sent_by(5).await + node.sent_by(6).await;
                assert_eq!((ground.runs() as u64, sent, money), (round, round, (round * PRICE, FUNDS - round * PRICE)));
            }
            for server in servers {
                server.kill().await;
            }
        }
    }
}

/// Two servers that do not share a store, as after an operator's mistake: the token moves the money once, and only the server whose
/// transaction did it serves.
// req: PAY-005
// attack: T1
#[expect(clippy::print_stdout, reason = "the counts are worth knowing")]
#[tokio::test]
async fn t01_servers_with_separate_stores_serve_a_payment_once() {
    let tries: u64 = std::env::var("TOOLCRIB_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(48);
    for node in stages().await {
        // Each store has its share of the tries.
        for backend in STORES {
            let (Some(one), Some(two)) = (TestStore::new(backend).await, TestStore::new(backend).await) else { continue };
            let tries = tries.div_ceil(STORES.len() as u64);
            node.mint(payer().address(), tries * PRICE).await;
            let before = node.balance(recipient()).await;
            let shops = [
                Plan::new(own_key(&node.chain, 5)).store(one.store(Limits::default()).await).open().await,
                Plan::new(own_key(&node.chain, 6)).store(two.store(Limits::default()).await).open().await,
            ];
            for round in 1..=tries {
                let what = format!("{backend:?}, round {round}");
                let signed = authorization();
                let payment = shops[0].payment(Version::V2, signed);
                let input = two_words();
                let answers = join_all(shops.iter().map(|shop| shop.call(Version::V2, &payment, &[], &input))).await;
                let verdicts: Vec<_> = answers.iter().map(HttpResponse::verdict).collect();
                assert_eq!(answers.iter().filter(|answer| answer.has_output()).count(), 1, "{what}: {verdicts:?}");
                assert_eq!(node.balance(recipient()).await - before, round * PRICE, "{what}: {verdicts:?}");
                // The other one says so for good, whichever way it is asked.
                let loser = usize::from(answers[0].has_output());
                let again = shops[loser].call(Version::V2, &payment, &[], &input).await;
                assert!(!again.has_output() && matches!(again.status, 402 | 409), "{what}: {again:?}");
            }
            println!(
                "{backend:?}, {}: {tries} payments at two servers, one result each",
                if node.is_ours() { "our node" } else { "anvil" }
            );
        }
    }
}

// req: PAY-005
// attack: T2
#[tokio::test]
async fn t02_a_copy_is_refused_later_elsewhere_and_after_a_restart() {
    for backend in DURABLE {
        for node in stages().await {
            let Some(place) = TestStore::new(backend).await else { continue };
            let ground = Ground::new();
            let first = Process::start(&ground.plan(&place.setting, &node.url, 5)).await;
            let challenges = post(first.at, PATH, &[], &json!({})).await.challenges();
            let signed = authorization();
            let payment = paid(&challenges, Version::V1, signed);
            let call = async |to, payment: &str| post(to, PATH, &[("X-PAYMENT", payment)], &two_words()).await;
            assert_eq!(call(first.at, &payment).await.status, 200);
            let other = Process::start(&ground.plan(&place.setting, &node.url, 6)).await;
            assert_eq!(call(other.at, &payment).await.verdict(), (409, "payment.replayed".to_owned()));
            first.kill().await;
            let mut again = Process::start(&ground.plan(&place.setting, &node.url, 5)).await;
            let answer = call(again.at, &payment).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
            assert!(answer.receipt(Version::V1).success, "the receipt is for everybody");
            // Once it can be used by nobody any more, it is forgotten.
            let key = ReplayKey::of(&signed, &challenges[1].accepts[0]).expect("a key");
            let store = place.store(Limits::default()).await;
            assert_eq!(store.entry(&key).await.expect("an answer").expect("there").state, State::Settled);
            ground.set_offset(MAX_RESULT_SECONDS + 60);
            again.reconcile().await;
            while store.entry(&key).await.expect("an answer").is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(call(again.at, &payment).await.verdict(), (402, "payment.expired".to_owned()));
            assert_eq!((ground.runs(), node.sent_by(5).await, node.sent_by(6).await), (1, 1, 0));
            assert_eq!(node.balance(recipient()).await, PRICE);
        }
    }
}

// req: PAY-005
// attack: T3
#[tokio::test]
async fn t03_a_payment_for_one_tool_does_not_buy_another() {
    for (node, shop, _place) in shops().await {
        let payment = shop.payment(Version::V1, authorization());
        assert_eq!(shop.call(Version::V1, &payment, &[], &two_words()).await.status, 200);
        let answer = shop.call_at(OTHER_PATH, Version::V1, &payment, &[], &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
        // Nor with the token of the first.
        let payment = shop.payment(Version::V2, authorization());
        let token = fresh().to_string();
        let token = [("X-Tool-Retry-Token", token.as_str())];
        assert_eq!(shop.call(Version::V2, &payment, &token, &two_words()).await.status, 200);
        let answer = shop.call_at(OTHER_PATH, Version::V2, &payment, &token, &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
        shop.assert_all(&node, 2, 2, 2).await;
        // One that is bound is for one tool, one query, one input, before it was used and after.
        let bound = Bound::to(PATH, &two_words());
        let payment = shop.payment(Version::V2, Authorization { nonce: bound.nonce, ..authorization() });
        for used in [false, true] {
            for (path, input) in [
                (OTHER_PATH, two_words()),
                ("/word-count?more=1", two_words()),
                (PATH, json!({"text": "two one"})),
                (PATH, json!({"text": "one  two"})),
            ] {
                let answer = shop.call_at(path, Version::V2, &payment, &bound.headers(), &input).await;
                assert_eq!(answer.verdict(), (402, "payment.nonce_other_call".to_owned()), "{path} {input}");
            }
            if !used {
                assert_eq!(shop.call(Version::V2, &payment, &bound.headers(), &two_words()).await.status, 200);
            }
        }
        shop.assert_all(&node, 3, 3, 3).await;
    }
}

// req: PAY-005
// attack: T4
#[tokio::test]
async fn t04_the_same_payment_in_the_other_version_is_the_same_payment() {
    for (node, shop, _place) in shops().await {
        for (at, [first, second]) in [BOTH, [Version::V2, Version::V1]].into_iter().enumerate() {
            let signed = authorization();
            assert_eq!(shop.call(first, &shop.payment(first, signed), &[], &two_words()).await.status, 200);
            let answer = shop.call(second, &shop.payment(second, signed), &[], &two_words()).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
            assert!(answer.receipt(second).success, "in the version that was asked in");
            shop.assert_all(&node, at + 1, at + 1, at as u64 + 1).await;
        }
    }
}

// attack: T16
#[tokio::test]
async fn t16_a_caller_who_goes_away_is_charged_once_and_gets_the_result() {
    for backend in STORES {
        for node in stages().await {
            let Some(place) = TestStore::new(backend).await else { continue };
            let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let hooks = (begun.clone(), go.clone());
            let plan = Plan::new(own_key(&node.chain, 5)).store(place.store(Limits::default()).await);
            let shop = plan
                .hook(move |_| {
                    let (begun, go) = hooks.clone();
                    async move {
                        begun.notify_one();
                        go.notified().await;
                        Ok(())
                    }
                })
                .open()
                .await;
            let mut charged = 0;
            // Gone while the handler runs, and while it settles.
            for during_settlement in [false, true] {
                for version in BOTH {
                    let bound = Bound::to(PATH, &two_words());
                    let payment = shop.payment(version, Authorization { nonce: bound.nonce, ..authorization() });
                    if during_settlement {
                        node.automine(false).await;
                    }
                    let mut headers: Vec<(&str, &[u8])> = vec![(version.payment_header(), payment.as_bytes())];
                    let more = bound.headers();
                    headers.extend(more.iter().map(|(name, value)| (*name, value.as_bytes())));
                    let mut connection = Connection::open(shop.at).await;
                    connection.write("POST", PATH, &headers, two_words().to_string().as_bytes()).await;
                    begun.notified().await;
                    if during_settlement {
                        go.notify_one();
                        while node.waiting(5).await == 0 {
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                        drop(connection);
                        node.mine().await;
                        node.automine(true).await;
                    } else {
                        drop(connection);
                        go.notify_one();
                    }
                    charged += 1;
                    let answer = loop {
                        let answer = shop.call(version, &payment, &more, &two_words()).await;
                        // Not done yet.
                        if answer.status != 409 {
                            break answer;
                        }
                        assert_eq!(answer.verdict().1, "payment.pending");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    };
                    assert_eq!((answer.status, answer.json()["words"].as_u64()), (200, Some(2)), "{answer:?}");
                    assert!(answer.receipt(version).success);
                    // Whoever read it on the chain has no salt.
                    let stranger = shop.call(version, &payment, &[], &two_words()).await;
                    assert_eq!((stranger.verdict(), stranger.has_output()), ((402, "payment.salt_missing".to_owned()), false));
                    shop.assert_all(&node, charged as usize, charged as usize, charged).await;
                }
            }
        }
    }
}
