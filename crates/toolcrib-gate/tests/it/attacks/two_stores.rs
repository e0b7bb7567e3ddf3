//! One payment at two gates that are paid to the same account and share no store: which of them may count its transfer as paid.
//!
//! The first gate takes and settles the payment while the handler of the second runs. The second gate's facilitator then answers in
//! every way. What it may say without a second result is what `docs/deploy.md` promises; what it cannot tell apart is shown at the end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use serde_json::json;
use toolcrib_chain::transaction::{Call, Prepared};
use toolcrib_gate::{PaidGate, Tools};
use toolcrib_store::replay::{Limits, MAX_RESULT_SECONDS};
use toolcrib_x402::Version;

use super::chain::{Node, PRICE, account, domain, recipient, token, wallet};
use super::facilitator::Service;
use super::http::{HttpResponse, post};
use super::payer::{authorization, fresh, payer, sign, transfer};
use super::settlements::{facilitator, settled, valid};
use super::shop::{Hook, LEASE_OVER, ORIGIN, PATH, Plan, Shop, own_key, stages, tool, two_words};
use crate::settle::scripted::{Reply, Scripted};
use toolcrib_testkit::databases::{Backend, TestStore};

/// The account that the first gate's facilitator sends from, and that of another facilitator.
const FIRST: u32 = 7;
const OTHER: u32 = 8;

/// Tries to see that something does not change or has come.
const TRIES: usize = 200;

fn said(success: bool, reason: &str, transaction: &str) -> Reply {
    let (reason, network) = (json!(reason), "eip155:84532");
    let failed = json!({"success": false, "errorReason": reason, "transaction": transaction, "network": network});
    Reply::Answer(200, if success { settled(transaction) } else { failed }.to_string())
}

/// A payment that the first gate has settled while the second one's handler ran.
struct Both {
    first: Shop,
    second: Shop,
    payment: String,
    secret: String,
    /// What each gate answered.
    answers: [HttpResponse; 2],
    before: u64,
    _places: [TestStore; 2],
}

impl Both {
    /// `None` where the store is not installed.
    async fn given(node: &Node, backend: Backend, signers: &[u32], reply: Reply) -> Option<Self> {
        let before = node.balance(recipient()).await;
        let places = [TestStore::new(backend).await?, TestStore::new(backend).await?];
        let service = Service::start(own_key(&node.chain, FIRST)).await;
        let patient = facilitator(node, &service.url()).settle_time(Duration::from_secs(20));
        let first = Plan::new(patient).store(places[0].store(Limits::default()).await).open().await;
        let (payment, secret) = (first.payment(Version::V2, authorization()), fresh().to_string());
        let scripted = Scripted::start([valid(), reply]).await;
        scripted.announce(&signers.iter().map(|number| account(*number)).collect::<Vec<_>>());
        let (at, sent, heard) =
            (first.at, Arc::new((payment.clone(), secret.clone())), Arc::<Mutex<Option<HttpResponse>>>::default());
        let hearing = heard.clone();
        let plan = Plan::new(facilitator(node, &scripted.url())).hook(move |_| {
            let (sent, hearing) = (sent.clone(), hearing.clone());
            async move {
                let headers = [(Version::V2.payment_header(), sent.0.as_str()), ("X-Tool-Retry-Token", sent.1.as_str())];
                let answer = post(at, PATH, &headers, &two_words()).await;
                *hearing.lock().expect("no panic") = Some(answer);
                Ok(())
            }
        });
        let second = plan.store(places[1].store(Limits::default()).await).open().await;
        let answer = second.call(Version::V2, &payment, &[("X-Tool-Retry-Token", &secret)], &two_words()).await;
        let heard = heard.lock().expect("no panic").take().expect("the first gate was called");
        Some(Self { first, second, payment, secret, answers: [heard, answer], before, _places: places })
    }

    async fn again(&self, shop: &Shop) -> HttpResponse {
        shop.call(Version::V2, &self.payment, &[("X-Tool-Retry-Token", &self.secret)], &two_words()).await
    }

    /// The first gate serves, as often as it is asked, and the second one answers with this code each time.
    async fn assert_once(&self, node: &Node, (status, code): (u16, &str), what: &str) {
        let expected = ((status, code.to_owned()), false);
        let [first, second] = &self.answers;
        assert_eq!((first.status, first.has_output()), (200, true), "{what}: {first:?}");
        assert_eq!((second.verdict(), second.has_output()), expected, "{what}: {second:?}");
        assert_eq!(second.header("payment-required"), None, "{what}: nobody is asked to pay again");
        assert_eq!(second.header("retry-after").is_some(), status == 502, "{what}");
        let first = self.again(&self.first).await;
        assert_eq!((first.status, first.has_output()), (200, true), "{what}: {first:?}");
        self.second.server.reconcile().await;
        assert_eq!(node.balance(recipient()).await - self.before, PRICE, "{what}: charged once");
    }
}

/// A transaction that was mined and failed, and a transfer that has nothing to do with any payment here.
async fn others(node: &Node) -> (String, String) {
    let call = json!({"from": account(9), "to": token().address, "data": Bytes::from(vec![1, 2, 3, 4]), "gas": "0x30d40"});
    let failed: B256 = serde_json::from_value(node.dev("eth_sendTransaction", json!([call])).await).expect("a hash");
    let unrelated = toolcrib_x402::Authorization {
        value: toolcrib_core::money::Amount::new(U256::from(1)),
        to: payer().address(),
        ..authorization()
    };
    let data = transfer(&unrelated, &sign(payer(), &unrelated, &domain()));
    (failed.to_string(), node.send(&wallet(9), token().address, data).await.to_string())
}

fn backends(node: &Node) -> &'static [Backend] {
    if node.is_ours() { &[Backend::Memory, Backend::SqliteFile, Backend::Postgres] } else { &[Backend::Memory] }
}

// req: GATE-007
// attack: T1, T13
#[tokio::test]
async fn t01_a_transfer_of_another_facilitator_is_not_credited() {
    for node in stages().await {
        let (_, unrelated) = others(&node).await;
        let rows = || {
            vec![
                ("500", Reply::Answer(500, "{}".to_owned())),
                ("HTML", Reply::Answer(200, "<html>".to_owned())),
                ("silence", Reply::Hang),
                ("a reset", Reply::Reset),
                ("a failure", said(false, "transaction_failed", "")),
                ("a transaction that does not exist", said(true, "", &fresh().to_string())),
                ("another transaction", said(true, "", &unrelated)),
            ]
        };
        for &backend in backends(&node) {
            // A facilitator that announces another account, and one that announces none.
            for signers in [&[OTHER][..], &[]] {
                for (what, reply) in rows() {
                    let what = format!("{backend:?}, {signers:?}: {what}");
                    let Some(both) = Both::given(&node, backend, signers, reply).await else { break };
                    both.assert_once(&node, (502, "settlement.unknown"), &what).await;
                    let answer = both.again(&both.second).await;
                    assert_eq!((answer.verdict().0, answer.has_output()), (502, false), "{what}: {answer:?}");
                    let faults = both.second.faults.lock().expect("no panic").join("\n");
                    let why = if signers.is_empty() { "announces no signers" } else { "is no signer" };
                    assert!(faults.contains(why), "{what}: the operator reads why: {faults}");
                }
            }
        }
    }
}

// req: GATE-007
// attack: T1, T13
#[tokio::test]
async fn t01_a_facilitator_that_says_that_it_moved_nothing_gets_nobody_a_second_result() {
    for node in stages().await {
        let (failed, _) = others(&node).await;
        let refused = "invalid_exact_evm_insufficient_balance";
        let rows = || {
            vec![
                // As when the payer had enough for one transfer.
                ("a refusal", said(false, refused, "")),
                ("a simulation that fails", said(false, "invalid_exact_evm_transaction_simulation_failed", "")),
                ("a used nonce", said(false, "invalid_exact_evm_nonce_already_used", "")),
                ("a transaction that was not taken", said(false, "Details: replacement transaction underpriced", "")),
                ("a transaction that failed", said(false, "transaction_failed", &failed)),
                ("success in a transaction that failed", said(true, "", &failed)),
            ]
        };
        for &backend in backends(&node) {
            // The same facilitator as the first gate's, and another one.
            for signer in [FIRST, OTHER] {
                for (what, reply) in rows() {
                    let what = format!("{backend:?}, {signer}: {what}");
                    let Some(both) = Both::given(&node, backend, &[signer], reply).await else { break };
                    both.assert_once(&node, (409, "payment.replayed"), &what).await;
                    // The payer has paid. Should there be no other gate after all, its result is still there.
                    assert_eq!(both.second.entries().await, 1, "{what}: the result is kept");
                    let receipts = both.answers.each_ref().map(|answer| answer.receipt(Version::V2).transaction);
                    assert_eq!(receipts[0], receipts[1], "{what}: the payer hears which transfer it was");
                    let answer = both.again(&both.second).await;
                    let verdict = (answer.verdict(), answer.has_output());
                    assert_eq!(verdict, ((409, "payment.replayed".to_owned()), false), "{what}: {answer:?}");
                }
            }
        }
    }
}

/// A transaction that the facilitator named and that still waits for a block can be mined, and fail then.
// req: GATE-007
// attack: T1, T13
#[tokio::test]
async fn t01_nothing_else_is_credited_while_the_named_transaction_waits() {
    for node in stages().await {
        let harmless = Call { to: account(OTHER), data: Bytes::new(), value: U256::ZERO };
        let prepared = node.chain.prepare(account(OTHER), &harmless).await.expect("prepared");
        // Its number comes after one that is missing.
        let fails = Call { to: token().address, data: Bytes::from(vec![1, 2, 3, 4]), value: U256::ZERO };
        let waits = Prepared { call: fails, nonce: prepared.nonce + 1, gas_limit: 150_000, ..prepared.clone() };
        let waits = node.chain.sign(&wallet(OTHER), &waits).await.expect("signed");
        node.chain.broadcast(&waits).await.expect("sent");
        let reply = said(true, "", &waits.hash.to_string());
        let both = Both::given(&node, Backend::SqliteFile, &[FIRST], reply).await.expect("SQLite is built in");
        both.assert_once(&node, (502, "settlement.unknown"), "it waits").await;
        let answer = both.again(&both.second).await;
        assert_eq!((answer.verdict().0, answer.has_output()), (502, false), "{answer:?}");
        let first = node.chain.sign(&wallet(OTHER), &prepared).await.expect("signed");
        node.chain.broadcast(&first).await.expect("sent");
        for _ in 0..TRIES {
            if node.chain.receipt(waits.hash).await.expect("an answer").is_some() {
                break;
            }
            node.mine().await;
        }
        both.second.later(&node, LEASE_OVER).await;
        released(&both.second).await;
        assert_eq!(both.second.runs(), 1);
    }
}

/// A facilitator that says "used" before our node sees it: the request moved nothing, so what is mined later is another request's.
// req: GATE-007
// attack: T1, T13
#[tokio::test]
async fn t01_a_nonce_that_is_used_a_little_later_buys_nothing() {
    for node in stages().await {
        for &backend in backends(&node) {
            for reason in ["nonce_already_used", "Details: already known"] {
                let Some(place) = TestStore::new(backend).await else { break };
                let replies = vec![valid()].into_iter().chain((0..4).map(|_| said(false, reason, "")));
                let scripted = Scripted::start(replies).await;
                scripted.announce(&[account(FIRST)]);
                let short = Duration::from_millis(400);
                let plan = Plan::new(facilitator(&node, &scripted.url()).settle_time(short));
                let shop = plan.store(place.store(Limits::default()).await).open().await;
                let signed = authorization();
                let data = transfer(&signed, &sign(payer(), &signed, &domain()));
                let (payment, secret) = (shop.payment(Version::V2, signed), fresh().to_string());
                let proof = [("X-Tool-Retry-Token", secret.as_str())];
                node.automine(false).await;
                let call = json!({"from": account(FIRST), "to": token().address, "data": data, "gas": "0x30d40"});
                node.dev("eth_sendTransaction", json!([call])).await;
                let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                let verdict = (answer.verdict(), answer.has_output());
                assert_eq!(verdict, ((502, "settlement.unknown".to_owned()), false), "{backend:?}, {reason}: {answer:?}");
                node.mine().await;
                node.automine(true).await;
                let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                let verdict = (answer.verdict(), answer.has_output());
                assert_eq!(verdict, ((409, "payment.replayed".to_owned()), false), "{backend:?}, {reason}: {answer:?}");
                // The chain's time stays: a payment that has expired there could not be mined in the next round.
                shop.clock.later(LEASE_OVER);
                released(&shop).await;
                assert_eq!(shop.runs(), 1);
            }
        }
    }
}

/// What cannot be told apart: one facilitator has moved the money for one gate and lost its answer to the other. Gates that share a
/// recipient and a facilitator have to share a store.
// attack: T1, T13
#[tokio::test]
async fn t01_after_a_lost_answer_gates_behind_one_facilitator_may_both_serve() {
    for node in stages().await {
        for &backend in backends(&node) {
            let lost = Reply::Answer(500, "{}".to_owned());
            let Some(both) = Both::given(&node, backend, &[FIRST], lost).await else { break };
            let [first, second] = &both.answers;
            assert_eq!((first.status, first.has_output()), (200, true), "{backend:?}: {first:?}");
            assert_eq!((second.status, second.has_output()), (200, true), "{backend:?}: {second:?}");
            let transactions = [first, second].map(|answer| answer.receipt(Version::V2).transaction);
            assert_eq!(transactions[0], transactions[1], "both say which transfer paid");
            assert_eq!(node.balance(recipient()).await - both.before, PRICE, "{backend:?}: charged once");
        }
    }
}

/// Reconciliation gives a payment up that another server's transfer has used, once the time is over in which an operator could still
/// say that there is no other server. The server may be at it already.
async fn released(shop: &Shop) {
    shop.server.reconcile().await;
    assert_eq!(shop.entries().await, 1, "the result is kept for as long as others");
    shop.clock.later(MAX_RESULT_SECONDS + 300);
    for _ in 0..TRIES {
        shop.server.reconcile().await;
        if shop.entries().await == 0 {
            return;
        }
        shop.clock.later(31);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is never released");
}

/// Servers that share a store look each other's payments up. One that settles with a key does not know a facilitator's transfer, and
/// leaves the payment to the server of its tool.
// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_a_server_of_other_tools_does_not_give_a_payment_up() {
    for node in stages().await {
        for &backend in backends(&node) {
            let Some(place) = TestStore::new(backend).await else { break };
            let scripted = Scripted::start([valid(), Reply::Answer(500, "{}".to_owned())]).await;
            scripted.announce(&[account(FIRST)]);
            let store = place.store(Limits::default()).await;
            let shop = Plan::new(facilitator(&node, &scripted.url())).store(store.clone()).open().await;
            let hook: Hook = Arc::new(|_| Box::pin(async { Ok(()) }));
            let gate = PaidGate::new(Arc::new(own_key(&node.chain, 5)));
            let other = Tools::new(ORIGIN).shared_store(store).clock(shop.clock.clone()).tool(tool("/third", PRICE, gate, hook));
            let other = other.build().expect("sound settings");
            let signed = authorization();
            let data = transfer(&signed, &sign(payer(), &signed, &domain()));
            let (payment, secret) = (shop.payment(Version::V2, signed), fresh().to_string());
            let proof = [("X-Tool-Retry-Token", secret.as_str())];
            node.automine(false).await;
            let call = json!({"from": account(FIRST), "to": token().address, "data": data, "gas": "0x30d40"});
            node.dev("eth_sendTransaction", json!([call])).await;
            let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
            assert_eq!(answer.verdict(), (502, "settlement.unknown".to_owned()), "{backend:?}: {answer:?}");
            node.mine().await;
            node.automine(true).await;
            // Each look claims the payment for half a minute.
            for _ in 0..3 {
                shop.clock.later(31);
                other.reconcile().await;
                assert_eq!(shop.entries().await, 1, "{backend:?}: it is kept");
            }
            let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
            assert_eq!((answer.status, answer.has_output()), (200, true), "{backend:?}: {answer:?}");
        }
    }
}
