//! Facilitators with every kind of response, and what callers learn of it.

use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use serde_json::json;
use toolcrib_chain::rpc::Retries;
use toolcrib_core::caip::ToolRef;
use toolcrib_gate::{ConfiguredUrl, Facilitator, GIVE_UP_SECONDS, Usage};
use toolcrib_store::replay::Limits;
use toolcrib_x402::{Authorization, Version};

use super::chain::{Node, PRICE, account, connect_with, domain, recipient, token, wallet};
use super::facilitator::{Service, Spoil};
use super::payer::{BOTH, REFERENCE, authorization, fresh, payer, sign, transfer};
use super::proxy::{Fate, between};
use super::shop::{LEASE_OVER, Plan, Shop, own_key, stages, two_words};
use crate::settle::scripted::{Reply, Scripted};
use toolcrib_testkit::databases::{Backend, TestStore};

/// What is attempted; what the facilitator says to verification, settlement and the one repetition; the answer; runs; requests to
/// settle that the facilitator saw.
type Row<'r> = (&'r str, Vec<Reply>, (u16, &'r str), usize, usize);

pub(crate) fn valid() -> Reply {
    Reply::Answer(200, json!({"isValid": true, "payer": payer().address()}).to_string())
}

pub(crate) fn settled(transaction: &str) -> serde_json::Value {
    json!({"success": true, "transaction": transaction, "network": "eip155:84532", "payer": payer().address()})
}

pub(crate) fn facilitator(node: &Node, url: &str) -> Facilitator {
    let facilitator = Facilitator::from_setting(url).expect("a URL").confirm_with([node.chain.clone()]);
    let short = Duration::from_millis(400);
    facilitator.settle_time(short).confirm_time(short).pending_pause(Duration::from_millis(50))
}

/// A payment with an unknown outcome: it is neither served nor asked for again until the chain shows the outcome.
async fn left_open(shop: &Shop, node: &Node, payment: &str, token_header: &[(&str, &str)], moved: bool) {
    for headers in [token_header, &[]] {
        let answer = shop.call(Version::V2, payment, headers, &two_words()).await;
        if moved && !headers.is_empty() {
            assert_eq!(answer.status, 200, "whoever asks for it again makes the chain be asked: {answer:?}");
        } else if moved {
            assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
        } else {
            assert_eq!((answer.verdict(), answer.has_output()), ((502, "settlement.unknown".to_owned()), false));
            assert_eq!(answer.header("payment-required"), None, "nobody is asked to pay again");
        }
    }
    // Past the end of the authorization, which is good for five minutes.
    shop.later(node, LEASE_OVER.max(330)).await;
    shop.server.reconcile().await;
    if !moved {
        // The server looks by itself too, and may be at it.
        for _ in 0..100 {
            if shop.entries().await > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        assert_eq!(shop.entries().await, 0, "once it never can, it is forgotten");
        let answer = shop.call(Version::V2, payment, token_header, &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((402, "payment.expired".to_owned()), false));
    }
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_every_answer_of_a_facilitator_that_moves_nothing() {
    for node in stages().await {
        // Transactions that are on the chain and are not the payment: somebody else's transfer, and one that failed.
        node.mint(account(8), 1).await;
        let other =
            Authorization { value: toolcrib_core::money::Amount::new(U256::from(1)), to: payer().address(), ..authorization() };
        let unrelated = node.send(&wallet(8), token().address, transfer(&other, &sign(payer(), &other, &domain()))).await;
        let call = json!({"from": account(8), "to": token().address, "data": Bytes::from(vec![1, 2, 3, 4]), "gas": "0x30d40"});
        let reverted: B256 = serde_json::from_value(node.dev("eth_sendTransaction", json!([call])).await).expect("a hash");
        let (unrelated, reverted, missing) = (unrelated.to_string(), reverted.to_string(), fresh().to_string());
        let said = |json: serde_json::Value| Reply::Answer(200, json.to_string());
        let no = |reason: &str| json!({"success": false, "errorReason": reason, "transaction": "", "network": "eip155:84532"});
        let pending =
            json!({"success": false, "errorReason": "settlement_pending", "transaction": missing, "network": "eip155:84532"});
        let refused = (402, "settlement.refused");
        let unknown = (502, "settlement.unknown");
        let unavailable = (502, "settlement.unavailable");
        let rows: Vec<Row<'_>> = vec![
            ("not valid", vec![said(json!({"isValid": false, "invalidReason": "insufficient_funds"}))], refused, 0, 0),
            (
                "not valid, 400",
                vec![Reply::Answer(400, json!({"isValid": false, "invalidReason": "x"}).to_string())],
                refused,
                0,
                0,
            ),
            ("verification fails", vec![Reply::Answer(500, "{}".to_owned())], unavailable, 0, 0),
            ("verification is cut", vec![Reply::Half], unavailable, 0, 0),
            ("another payer", vec![said(json!({"isValid": true, "payer": recipient()}))], unavailable, 0, 0),
            ("refused", vec![valid(), said(no("insufficient_funds"))], refused, 1, 1),
            ("refused, 402", vec![valid(), Reply::Answer(402, no("insufficient_funds").to_string())], refused, 1, 1),
            ("turned away", vec![valid(), Reply::Answer(401, "{}".to_owned())], unknown, 1, 1),
            ("too often", vec![valid(), Reply::Answer(429, String::new())], unknown, 1, 1),
            ("failed, it says", vec![valid(), said(no("transaction_failed"))], unknown, 1, 1),
            ("in the words of an exception", vec![valid(), said(no("Timed out while waiting for transaction"))], unknown, 1, 1),
            ("used, it says", vec![valid(), said(no("nonce_already_used"))], unknown, 1, 1),
            ("unexpected", vec![valid(), said(no("unexpected_settle_error"))], unknown, 1, 1),
            ("500", vec![valid(), Reply::Answer(500, "{}".to_owned())], unknown, 1, 1),
            ("502 in HTML", vec![valid(), Reply::Answer(502, "<html>".to_owned())], unknown, 1, 1),
            ("no answer", vec![valid(), Reply::Hang], unknown, 1, 1),
            ("closed", vec![valid(), Reply::Close], unknown, 1, 1),
            ("cut", vec![valid(), Reply::Half], unknown, 1, 1),
            ("no HTTP", vec![valid(), Reply::Garbage], unknown, 1, 1),
            ("without end", vec![valid(), Reply::Huge], unknown, 1, 1),
            ("no transaction", vec![valid(), said(settled(""))], unknown, 1, 1),
            ("no such transaction", vec![valid(), said(settled(&missing))], unknown, 1, 1),
            ("another transaction", vec![valid(), said(settled(&unrelated))], unknown, 1, 1),
            ("one that failed", vec![valid(), said(settled(&reverted))], unknown, 1, 1),
            ("another network", vec![valid(), said(with(settled(&unrelated), "network", "eip155:8453"))], unknown, 1, 1),
            (
                "another payer settled",
                vec![valid(), said(with(settled(&unrelated), "payer", &recipient().to_string()))],
                unknown,
                1,
                1,
            ),
            ("pending twice", vec![valid(), said(pending.clone()), said(pending.clone())], unknown, 1, 2),
            ("pending, then refused", vec![valid(), said(pending), said(no("insufficient_funds"))], unknown, 1, 2),
        ];
        let before = node.balance(payer().address()).await;
        for (what, replies, verdict, runs, settles) in rows {
            let scripted = Scripted::start(replies).await;
            let shop = Plan::new(facilitator(&node, &scripted.url())).open().await;
            let payment = shop.payment(Version::V2, now_on(&node).await);
            let secret = fresh().to_string();
            let token = [("X-Tool-Retry-Token", secret.as_str())];
            shop.clock.later(offset(&node).await);
            let answer = shop.call(Version::V2, &payment, &token, &two_words()).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((verdict.0, verdict.1.to_owned()), false), "{what}: {answer:?}");
            let asked = scripted.requests().iter().filter(|request| request.line().ends_with("/settle")).count();
            let money = (node.balance(recipient()).await, node.balance(payer().address()).await);
            assert_eq!((shop.runs(), asked, money), (runs, settles, (0, before)), "{what}");
            assert_eq!(node.sent_by(5).await, 0);
            if verdict == unknown {
                left_open(&shop, &node, &payment, &token, false).await;
            } else {
                assert_eq!(shop.entries().await, 0, "{what}: given back");
            }
            assert_eq!(shop.runs(), runs, "{what}: nothing ran again");
        }
    }
}

/// Another server settles the payment between our check and our settlement. Whatever the facilitator says about its own attempt then,
/// the payment has bought something elsewhere.
// req: GATE-007
// attack: T1, T13
#[tokio::test]
async fn t13_a_payment_that_is_settled_elsewhere_meanwhile_buys_nothing() {
    for node in stages().await {
        let no = |reason: &str, hash: &str| {
            json!({"success": false, "errorReason": reason, "transaction": hash, "network": "eip155:84532"}).to_string()
        };
        let call = json!({"from": account(8), "to": token().address, "data": Bytes::from(vec![1, 2, 3, 4]), "gas": "0x30d40"});
        let reverted: B256 = serde_json::from_value(node.dev("eth_sendTransaction", json!([call])).await).expect("a hash");
        for (nth, (what, said)) in [
            ("a used nonce", no("invalid_exact_evm_nonce_already_used", "")),
            ("the text of an exception", no("execution reverted: FiatTokenV2: authorization is used or canceled", "")),
            ("a transaction of its own that failed", no("invalid_exact_evm_transaction_failed", &reverted.to_string())),
        ]
        .into_iter()
        .enumerate()
        {
            let scripted = Scripted::start(vec![valid(), Reply::Answer(200, said)]).await;
            let signed = authorization();
            let transfer = transfer(&signed, &sign(payer(), &signed, &domain()));
            let (settled_by, to) = (wallet(8), token().address);
            let there = std::sync::Arc::new((node.chain.clone(), settled_by, to, transfer));
            // The handler takes long enough for another server to settle.
            let plan = Plan::new(facilitator(&node, &scripted.url())).hook(move |_| {
                let there = there.clone();
                async move {
                    let (chain, wallet, to, data) = &*there;
                    let call = toolcrib_chain::transaction::Call { to: *to, data: data.clone(), value: U256::ZERO };
                    chain.send(wallet, &call, Duration::from_secs(20)).await.expect("mined");
                    Ok(())
                }
            });
            let shop = plan.open().await;
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await;
            assert_eq!(
                (answer.verdict(), answer.has_output()),
                ((409, "payment.replayed".to_owned()), false),
                "{what}: {answer:?}"
            );
            // The result is kept, in case that there is no other server after all.
            assert_eq!((shop.entries().await, node.balance(recipient()).await), (1, (nth as u64 + 1) * PRICE), "{what}");
            assert!(answer.receipt(Version::V2).success, "{what}: the payer hears what it has paid");
        }
    }
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_a_settlement_whose_answer_is_spoilt_is_found_on_the_chain() {
    for node in stages().await {
        for (at, spoil) in [None, Some(Spoil::Hide), Some(Spoil::Hang), Some(Spoil::Cut)].into_iter().enumerate() {
            let service = Service::spoilt(own_key(&node.chain, 7), move |is_settlement| spoil.filter(|_| is_settlement)).await;
            for (nth, version) in BOTH.into_iter().enumerate() {
                let shop = Plan::new(facilitator(&node, &service.url()).settle_time(Duration::from_millis(1_500))).open().await;
                let answer = shop.call(version, &shop.payment(version, authorization()), &[], &two_words()).await;
                assert_eq!((answer.status, answer.has_output()), (200, true), "{spoil:?}: {answer:?}");
                assert!(answer.receipt(version).success);
                shop.assert_all(&node, 1, 1, (2 * at + nth + 1) as u64).await;
                assert_eq!(service.settles(), nth + 1, "asked once");
            }
        }
        assert_eq!(node.sent_by(7).await, 8);
    }
}

// attack: T13
/// A machine whose clock is ahead of the chain's: what has moved since is not taken for something of before, or the payer would be asked
/// to pay again.
#[tokio::test]
async fn t13_a_clock_that_is_ahead_charges_nobody_twice() {
    for node in stages().await {
        let service = Service::spoilt(own_key(&node.chain, 7), |is_settlement| is_settlement.then_some(Spoil::Cut)).await;
        let mut charged = 0;
        for backend in [Backend::Memory, Backend::SqliteFile, Backend::Postgres] {
            // On a foreign chain one store is enough.
            if !node.is_ours() && backend != Backend::SqliteFile {
                continue;
            }
            let Some(place) = TestStore::new(backend).await else { continue };
            let plan = Plan::new(facilitator(&node, &service.url()).settle_time(Duration::from_millis(1_500)));
            let shop = plan.store(place.store(Limits::default()).await).open().await;
            // Far more than clocks drift apart: blocks are compared with blocks.
            shop.clock.later(180);
            let (payment, secret) = (shop.payment(Version::V2, authorization()), fresh().to_string());
            let proof = [("X-Tool-Retry-Token", secret.as_str())];
            let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
            assert_eq!((answer.status, answer.has_output()), (200, true), "{backend:?}: {answer:?}");
            let again = shop.call(Version::V2, &payment, &proof, &two_words()).await;
            assert_eq!((again.status, &again.body), (200, &answer.body), "{backend:?}: {again:?}");
            charged += 1;
            shop.assert_all(&node, 1, 1, charged).await;
        }
    }
}

// attack: T13
#[tokio::test]
async fn t13_a_settlement_that_comes_late_is_found_later() {
    for node in stages().await {
        let service = Service::start(own_key(&node.chain, 7)).await;
        let shop = Plan::new(facilitator(&node, &service.url())).open().await;
        let payment = shop.payment(Version::V2, authorization());
        let secret = fresh().to_string();
        let token = [("X-Tool-Retry-Token", secret.as_str())];
        node.automine(false).await;
        let answer = shop.call(Version::V2, &payment, &token, &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((502, "settlement.unknown".to_owned()), false), "{answer:?}");
        shop.assert_all(&node, 1, 1, 0).await;
        node.mine().await;
        node.automine(true).await;
        left_open(&shop, &node, &payment, &token, true).await;
        shop.assert_all(&node, 1, 1, 1).await;
        assert_eq!(service.settles(), 1);
    }
}

// attack: T13
#[tokio::test]
async fn t13_a_facilitator_that_refuses_and_has_sent_it_in_is_not_believed_by_a_sole_recipient() {
    for node in stages().await {
        let signed = authorization();
        let data = transfer(&signed, &sign(payer(), &signed, &domain()));
        let refusal =
            json!({"success": false, "errorReason": "insufficient_funds", "transaction": "", "network": "eip155:84532"});
        let scripted = Scripted::start([valid(), Reply::Answer(200, refusal.to_string())]).await;
        let chain = node.chain.clone();
        let plan = Plan::new(facilitator(&node, &scripted.url()).sole_recipient()).hook(move |_| {
            let (chain, data) = (chain.clone(), data.clone());
            async move {
                let call = toolcrib_chain::transaction::Call { to: token().address, data, value: U256::ZERO };
                chain.send(&wallet(8), &call, Duration::from_secs(20)).await?;
                Ok(())
            }
        });
        let shop = plan.open().await;
        let answer = shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await;
        assert_eq!((answer.status, answer.has_output()), (200, true), "whoever has paid is served: {answer:?}");
        assert!(answer.receipt(Version::V2).success);
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

/// A facilitator without an RPC node of the gate can leave payments whose outcome never becomes known.
#[tokio::test]
async fn what_nobody_can_tell_is_given_up_and_does_not_fill_the_store() {
    let node = Node::ours().await;
    let scripted = Scripted::start([valid(), Reply::Close]).await;
    let shop = Plan::new(Facilitator::from_setting(&scripted.url()).expect("a URL")).open().await;
    let payment = shop.payment(Version::V2, authorization());
    let answer = shop.call(Version::V2, &payment, &[], &two_words()).await;
    assert_eq!(answer.verdict(), (502, "settlement.unknown".to_owned()));
    for (seconds, left) in [(3_600, 1), (GIVE_UP_SECONDS - 7_200, 1), (7_200, 0)] {
        shop.clock.later(seconds);
        shop.server.reconcile().await;
        assert_eq!(shop.entries().await, left, "after {seconds} more");
    }
    assert!(shop.faults.lock().expect("no panic").iter().any(|fault| fault.contains("given up")), "the operator is told");
    let answer = shop.call(Version::V2, &payment, &[], &two_words()).await;
    assert_eq!((answer.verdict(), answer.has_output()), ((402, "payment.expired".to_owned()), false));
    assert_eq!((shop.runs(), node.balance(recipient()).await), (1, 0));
}

// attack: T23
#[tokio::test]
async fn t23_callers_read_nothing_of_what_operators_use() {
    const SECRETS: [&str; 5] =
        ["s3cret", "rpc.internal", "Bearer", "127.0.0.1", "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"];
    for node in stages().await {
        let dirty = "https://rpc.internal/v2/s3cret failed: Bearer s3cret for 0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
        let no =
            |reason: &str| json!({"success": false, "errorReason": reason, "errorMessage": dirty, "transaction": ""}).to_string();
        let invalid = json!({"isValid": false, "invalidReason": dirty, "invalidMessage": dirty}).to_string();
        let rows = [
            vec![Reply::Answer(200, invalid)],
            vec![Reply::Answer(500, dirty.to_owned())],
            vec![valid(), Reply::Answer(200, no(dirty))],
            vec![valid(), Reply::Answer(200, no("insufficient_funds"))],
            vec![valid(), Reply::Answer(200, no(&"x".repeat(100_000)))],
            vec![valid(), Reply::Answer(500, dirty.to_owned())],
            vec![valid(), Reply::Hang],
        ];
        for (at, replies) in rows.into_iter().enumerate() {
            let scripted = Scripted::start(replies).await;
            let shop = Plan::new(facilitator(&node, &format!("{}/s3cret?key=s3cret", scripted.url()))).open().await;
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, authorization()), &[], &two_words()).await;
            assert!([402, 502].contains(&answer.status), "row {at}: {answer:?}");
            assert!(answer.text().len() < 20_000, "row {at}: {}", answer.text().len());
            let receipt =
                answer.header("payment-response").map(|value| super::payer::opened(value).to_string()).unwrap_or_default();
            for secret in SECRETS {
                assert!(
                    !answer.text().contains(secret) && !receipt.contains(secret),
                    "row {at}: {secret} in {answer:?} {receipt}"
                );
            }
        }
        // A node that is gone, under a URL with a key.
        let down = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_down = down.clone();
        let judge = move |_: &str| if is_down.load(std::sync::atomic::Ordering::SeqCst) { Fate::Fail } else { Fate::Pass };
        let url = format!("{}/v2/s3cret", between(&node.url, judge).await);
        let chain = connect_with(&url, Retries { attempts: 1, ..Retries::default() }).await;
        let shop = Plan::new(own_key(&chain, 5)).open().await;
        down.store(true, std::sync::atomic::Ordering::SeqCst);
        let answer = shop.call(Version::V1, &shop.payment(Version::V1, authorization()), &[], &two_words()).await;
        assert_eq!(answer.verdict(), (502, "settlement.unavailable".to_owned()));
        for secret in SECRETS {
            assert!(!answer.text().contains(secret), "{secret} in {answer:?}");
        }
        let faults = shop.faults.lock().expect("no panic").join("\n");
        assert!(!faults.is_empty() && !faults.contains("s3cret"), "nor do logs have keys: {faults}");
        shop.assert_all(&node, 0, 0, 0).await;
        assert_eq!(node.balance(recipient()).await % PRICE, 0);
    }
}

pub(crate) fn with(mut json: serde_json::Value, key: &str, value: &str) -> serde_json::Value {
    json[key] = json!(value);
    json
}

/// How far the chain's time is ahead of the machine's, after others have moved it.
async fn offset(node: &Node) -> i64 {
    use alloy_provider::Provider as _;
    use toolcrib_core::clock::Clock as _;
    node.mine().await;
    let block = node.chain.provider().get_block_by_number(Default::default()).await.expect("an answer").expect("a block");
    block.header.timestamp as i64 - super::chain::SystemClock.now().seconds()
}

/// An authorization that is good for five minutes of the chain's time.
async fn now_on(node: &Node) -> Authorization {
    let signed = authorization();
    Authorization { valid_before: (signed.valid_before as i64 + offset(node).await) as u64, ..signed }
}

// req: USAGE-005, USAGE-007
// attack: T24
#[tokio::test]
async fn t24_a_directory_hears_of_a_call_once_it_is_paid_and_never_changes_the_answer() {
    for node in stages().await {
        // One that answers, one that fails, one that closes, one that never answers.
        let replies = [Reply::Answer(200, "{}".to_owned()), Reply::Answer(500, "{}".to_owned()), Reply::Close, Reply::Hang];
        let count = replies.len();
        let directory = Scripted::start(replies).await;
        let usage = Usage::new(ConfiguredUrl::from_setting(&directory.url()).expect("a URL"), "k3y").expect("a key");
        let reference = ToolRef::parse(REFERENCE).expect("a reference");
        let plan = Plan::new(own_key(&node.chain, 5)).usage(usage).gate(move |gate| gate.tool(reference));
        let shop = plan.open().await;
        // What is not paid for is not reported.
        let poor = Authorization { valid_before: 1, ..authorization() };
        assert_eq!(shop.call(Version::V2, &shop.payment(Version::V2, poor), &[], &two_words()).await.status, 402);
        assert!(directory.requests().is_empty());
        for at in 0..count {
            let version = BOTH[at % 2];
            let signed = authorization();
            let answer = shop.call(version, &shop.payment(version, signed), &[], &two_words()).await;
            assert_eq!((answer.status, answer.has_output()), (200, true), "{answer:?}");
            let transaction = answer.receipt(version).transaction;
            let requests = directory.requests();
            assert_eq!(requests.len(), at + 1, "one report for each call");
            let report = String::from_utf8(requests[at].body.clone()).expect("text");
            assert!(report.contains(&transaction), "{report}");
            assert!(!report.contains(&signed.nonce.to_string()[4..]), "the transaction is enough: {report}");
            // A second time it is fetched and not used.
            assert_eq!(shop.call(version, &shop.payment(version, signed), &[], &two_words()).await.status, 409);
            assert_eq!(directory.requests().len(), at + 1);
            shop.assert_all(&node, at + 1, at + 1, at as u64 + 1).await;
        }
    }
}

/// Facilitators say in several ways that a payment would not settle because it has settled. Its payer is not asked to pay again.
// req: GATE-007
// attack: T2, T13
#[tokio::test]
async fn t13_a_payment_that_is_used_is_a_replay_whatever_the_verification_says() {
    for node in stages().await {
        let signed = authorization();
        let data = transfer(&signed, &sign(payer(), &signed, &domain()));
        node.send(&wallet(8), token().address, data).await;
        for reason in ["invalid_exact_evm_transaction_simulation_failed", "insufficient_funds", "nonce_already_used"] {
            let invalid = json!({"isValid": false, "invalidReason": reason}).to_string();
            let scripted = Scripted::start([Reply::Answer(200, invalid)]).await;
            let shop = Plan::new(facilitator(&node, &scripted.url())).open().await;
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await;
            let verdict = (answer.verdict(), answer.has_output());
            assert_eq!(verdict, ((409, "payment.replayed".to_owned()), false), "{reason}: {answer:?}");
            assert_eq!((shop.runs(), shop.entries().await), (0, 0), "{reason}");
        }
    }
}
