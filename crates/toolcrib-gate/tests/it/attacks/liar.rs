//! A facilitator that moves the money and says something else, or says it too early.
//!
//! Whatever it says, the chain decides: the payer is charged once and has what it paid for, at once if the transfer is mined already,
//! otherwise as soon as it is. A transfer that another account sent may be another gate's: it counts where there is no other gate.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use serde_json::{Value, json};
use toolcrib_store::replay::Limits;
use toolcrib_x402::{Authorization, Version};

use super::chain::{Node, PRICE, account, domain, recipient, token, wallet};
use super::payer::{authorization, fresh, payer, sign, transfer};
use super::settlements::{facilitator, settled, valid, with};
use super::shop::{Plan, Shop, stages, two_words};
use crate::settle::scripted::{Reply, Scripted};
use toolcrib_testkit::databases::{Backend, TestStore};

/// Every store on our node; another node answers like ours whatever the store.
fn stores(node: &Node) -> &'static [Backend] {
    if node.is_ours() { &[Backend::Memory, Backend::SqliteFile, Backend::Postgres] } else { &[Backend::Memory] }
}

/// The account that the facilitator sends from.
const SENDER: u32 = 8;

/// Who moves the money, and what the gate knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    /// The facilitator, with an account that it announces.
    Facilitator,
    /// An account that the facilitator does not announce.
    Stranger,
    /// The same, where no other gate is paid to the recipient.
    SoleRecipient,
}

fn said(json: &Value) -> Reply {
    Reply::Answer(200, json.to_string())
}

fn failed(reason: &str, transaction: &str) -> Value {
    json!({"success": false, "errorReason": reason, "transaction": transaction, "network": "eip155:84532"})
}

/// A transfer of one unit that has nothing to do with any payment here, and a transaction that failed.
async fn others(node: &Node) -> (String, String) {
    let other =
        Authorization { value: toolcrib_core::money::Amount::new(U256::from(1)), to: payer().address(), ..authorization() };
    let unrelated = node.send(&wallet(SENDER), token().address, transfer(&other, &sign(payer(), &other, &domain()))).await;
    let call = json!({"from": account(SENDER), "to": token().address, "data": Bytes::from(vec![1, 2, 3, 4]), "gas": "0x30d40"});
    let reverted: B256 = serde_json::from_value(node.dev("eth_sendTransaction", json!([call])).await).expect("a hash");
    (unrelated.to_string(), reverted.to_string())
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_whatever_is_said_about_its_own_transfer_that_is_mined_its_payer_is_served() {
    mined(Mover::Facilitator).await;
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_a_transfer_of_a_stranger_is_credited_once_the_gate_is_the_sole_recipient() {
    mined(Mover::Stranger).await;
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_a_sole_recipient_credits_a_transfer_whoever_sent_it() {
    mined(Mover::SoleRecipient).await;
}

async fn mined(mover: Mover) {
    for node in stages().await {
        let (unrelated, _) = others(&node).await;
        let rows = || {
            vec![
                ("HTML", Reply::Answer(200, "<html>Just a moment…</html>".to_owned())),
                ("HTML of a proxy", Reply::Answer(502, "<html>Bad Gateway</html>".to_owned())),
                ("500", Reply::Answer(500, "{\"error\":\"Internal Server Error\"}".to_owned())),
                ("429", Reply::Answer(429, "{\"error\":\"Too Many Requests\"}".to_owned())),
                ("401", Reply::Answer(401, String::new())),
                ("a reset", Reply::Reset),
                ("silence", Reply::Hang),
                ("an end", Reply::Close),
                ("half", Reply::Half),
                ("another payer", said(&with(settled(&unrelated), "payer", &recipient().to_string()))),
                ("another network", said(&with(settled(&unrelated), "network", "eip155:8453"))),
                ("a foreign transaction", said(&settled(&unrelated))),
                ("a transaction that does not exist", said(&settled(&fresh().to_string()))),
                ("no transaction", said(&settled(""))),
                ("a refusal", said(&failed("insufficient_funds", ""))),
                ("a failure", said(&failed("transaction_failed", ""))),
                ("an exception", said(&failed("HTTP request failed.\n\nURL: https://rpc.example/v2/key", ""))),
            ]
        };
        for &backend in stores(&node) {
            for (row, reply) in rows() {
                let Some(place) = TestStore::new(backend).await else { break };
                let what = format!("{backend:?}, {mover:?}: {row}");
                let before = node.balance(recipient()).await;
                let scripted = Scripted::start([valid(), reply]).await;
                scripted.announce(&[account(if mover == Mover::Facilitator { SENDER } else { 9 })]);
                let settle = facilitator(&node, &scripted.url());
                let settle = if mover == Mover::SoleRecipient { settle.sole_recipient() } else { settle };
                let signed = authorization();
                let sent = Arc::new((node.chain.clone(), transfer(&signed, &sign(payer(), &signed, &domain()))));
                // The facilitator settles between our check and its answer.
                let plan = Plan::new(settle).hook(move |_| {
                    let sent = sent.clone();
                    async move {
                        let call =
                            toolcrib_chain::transaction::Call { to: token().address, data: sent.1.clone(), value: U256::ZERO };
                        sent.0.send(&wallet(SENDER), &call, Duration::from_secs(20)).await?;
                        Ok(())
                    }
                });
                let shop = plan.store(place.store(Limits::default()).await).open().await;
                let (payment, secret) = (shop.payment(Version::V2, signed), fresh().to_string());
                let proof = [("X-Tool-Retry-Token", secret.as_str())];
                let mut answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                let mut runs = shop.runs();
                if row == "a refusal" && mover != Mover::SoleRecipient {
                    // The facilitator says that it moved nothing, so the transfer may be for another gate.
                    let verdict = (answer.verdict(), answer.has_output());
                    assert_eq!(verdict, ((409, "payment.replayed".to_owned()), false), "{what}: {answer:?}");
                    continue;
                }
                let shop = if mover == Mover::Stranger {
                    let verdict = (answer.verdict(), answer.has_output());
                    assert_eq!(verdict, ((502, "settlement.unknown".to_owned()), false), "{what}: {answer:?}");
                    assert!(answer.header("retry-after").is_some() && answer.header("payment-required").is_none(), "{what}");
                    // The result is kept. Its payer gets it as soon as the operator says that no other gate is paid there.
                    let settle = facilitator(&node, &scripted.url()).sole_recipient();
                    let shop = Plan::new(settle).store(shop.store.clone()).open().await;
                    answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                    runs += shop.runs();
                    shop
                } else {
                    shop
                };
                assert_eq!((answer.status, answer.has_output()), (200, true), "{what}: {answer:?}");
                assert!(answer.receipt(Version::V2).success, "{what}");
                let again = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                assert_eq!((again.status, &again.body), (200, &answer.body), "{what}: {again:?}");
                let stranger = shop.call(Version::V2, &payment, &[], &two_words()).await;
                assert_eq!((stranger.verdict(), stranger.has_output()), ((409, "payment.replayed".to_owned()), false), "{what}");
                assert_eq!((node.balance(recipient()).await - before, runs), (PRICE, 1), "{what}: once");
            }
        }
    }
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_whatever_is_said_before_a_transfer_is_mined_its_payer_is_served_then() {
    for node in stages().await {
        let (unrelated, reverted) = others(&node).await;
        // What is said, given the transaction that waits for a block.
        let rows = |hash: &str| {
            let pending = failed("settlement_pending", hash);
            let timed_out = format!("Timed out while waiting for transaction with hash \"{hash}\" to be confirmed.");
            vec![
                ("success", vec![said(&settled(hash))]),
                ("success in another", vec![said(&settled(&unrelated))]),
                ("a failure", vec![said(&failed("transaction_failed", ""))]),
                ("a timeout", vec![said(&failed(&timed_out, ""))]),
                ("pending twice", vec![said(&pending), said(&pending)]),
                ("pending, then refused", vec![said(&pending), said(&failed("insufficient_funds", ""))]),
                ("pending, then used", vec![said(&pending), said(&failed("nonce_already_used", ""))]),
                // Without a memory of the first transaction it sends a second one.
                ("pending, then another one failed", vec![said(&pending), said(&failed("transaction_failed", &reverted))]),
                ("pending, then gone", vec![said(&pending), Reply::Close]),
                ("HTML", vec![Reply::Answer(200, "<html>".to_owned())]),
                ("429", vec![Reply::Answer(429, String::new())]),
                ("500", vec![Reply::Answer(500, String::new())]),
                ("a reset", vec![Reply::Reset]),
                ("silence", vec![Reply::Hang]),
            ]
        };
        for &backend in stores(&node) {
            for row in 0..rows("").len() {
                let Some(place) = TestStore::new(backend).await else { break };
                let before = node.balance(recipient()).await;
                let signed = authorization();
                let data = transfer(&signed, &sign(payer(), &signed, &domain()));
                node.automine(false).await;
                let call = json!({"from": account(SENDER), "to": token().address, "data": data, "gas": "0x30d40"});
                let hash: B256 = serde_json::from_value(node.dev("eth_sendTransaction", json!([call])).await).expect("a hash");
                let (what, replies) = rows(&hash.to_string()).swap_remove(row);
                let what = format!("{backend:?}: {what}");
                let scripted = Scripted::start([vec![valid()], replies].concat()).await;
                scripted.announce(&[account(SENDER)]);
                let plan = Plan::new(facilitator(&node, &scripted.url()));
                let shop = plan.store(place.store(Limits::default()).await).open().await;
                let (payment, secret) = (shop.payment(Version::V2, signed), fresh().to_string());
                let proof = [("X-Tool-Retry-Token", secret.as_str())];
                for _ in 0..2 {
                    let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                    let verdict = (answer.verdict(), answer.has_output());
                    assert_eq!(verdict, ((502, "settlement.unknown".to_owned()), false), "{what}: {answer:?}");
                    assert_eq!(answer.header("payment-required"), None, "{what}: nobody is asked to pay again");
                }
                assert_eq!(node.balance(recipient()).await, before, "{what}");
                node.mine().await;
                node.automine(true).await;
                let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                assert_eq!((answer.status, answer.has_output()), (200, true), "{what}: {answer:?}");
                assert_eq!(answer.receipt(Version::V2).transaction, hash.to_string(), "{what}");
                let stranger = shop.call(Version::V2, &payment, &[], &two_words()).await;
                assert_eq!((stranger.verdict(), stranger.has_output()), ((409, "payment.replayed".to_owned()), false), "{what}");
                assert_eq!((node.balance(recipient()).await - before, shop.runs()), (PRICE, 1), "{what}: once");
            }
        }
    }
}

/// The result of a transfer that is mined after the facilitator has refused, or said that its node did not take its transaction.
///
/// No gate can tell such a transfer from another gate's: both have the signer of their facilitator. So it is served where there is no
/// other gate, and otherwise no payment is served twice: the payer hears which transfer it was, and the result waits for the operator.
// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_a_transfer_that_is_mined_after_a_refusal_is_served_by_a_sole_recipient() {
    for node in stages().await {
        for &backend in stores(&node) {
            for (reason, said_once, first) in [
                ("insufficient_funds", true, (402, "settlement.refused")),
                ("Details: already known", false, (502, "settlement.unknown")),
                ("Details: replacement transaction underpriced", false, (502, "settlement.unknown")),
            ] {
                for mover in [Mover::Facilitator, Mover::SoleRecipient] {
                    let Some(place) = TestStore::new(backend).await else { break };
                    let what = format!("{backend:?}, {mover:?}, {reason}");
                    let before = node.balance(recipient()).await;
                    let replies = vec![said(&failed(reason, "")); if said_once { 1 } else { 4 }];
                    let scripted = Scripted::start([vec![valid()], replies, vec![valid()]].concat()).await;
                    scripted.announce(&[account(SENDER)]);
                    let settle = || facilitator(&node, &scripted.url());
                    let sole = mover == Mover::SoleRecipient;
                    let plan = Plan::new(if sole { settle().sole_recipient() } else { settle() });
                    let shop = plan.store(place.store(Limits::default()).await).open().await;
                    let signed = authorization();
                    let data = transfer(&signed, &sign(payer(), &signed, &domain()));
                    node.automine(false).await;
                    let call = json!({"from": account(SENDER), "to": token().address, "data": data, "gas": "0x30d40"});
                    let hash: B256 =
                        serde_json::from_value(node.dev("eth_sendTransaction", json!([call])).await).expect("a hash");
                    let (payment, secret) = (shop.payment(Version::V2, signed), fresh().to_string());
                    let proof = [("X-Tool-Retry-Token", secret.as_str())];
                    let asked =
                        async |shop: &Shop, proof: &[(&str, &str)]| shop.call(Version::V2, &payment, proof, &two_words()).await;
                    let answer = asked(&shop, &proof).await;
                    let verdict = (answer.verdict(), answer.has_output());
                    assert_eq!(verdict, ((first.0, first.1.to_owned()), false), "{what}: {answer:?}");
                    if sole || !said_once {
                        // It is kept, and not settled a second time.
                        let answer = asked(&shop, &proof).await;
                        let verdict = (answer.verdict(), answer.has_output());
                        assert_eq!(verdict, ((first.0, first.1.to_owned()), false), "{what}: again: {answer:?}");
                        assert_eq!((shop.runs(), shop.entries().await), (1, 1), "{what}: it is kept");
                    }
                    node.mine().await;
                    node.automine(true).await;
                    let answer = asked(&shop, &proof).await;
                    if sole {
                        assert_eq!((answer.status, answer.has_output()), (200, true), "{what}: {answer:?}");
                        assert_eq!(answer.receipt(Version::V2).transaction, hash.to_string(), "{what}");
                        let stranger = asked(&shop, &[]).await;
                        let verdict = (stranger.verdict(), stranger.has_output());
                        assert_eq!(verdict, ((409, "payment.replayed".to_owned()), false), "{what}: {stranger:?}");
                    } else {
                        let verdict = (answer.verdict(), answer.has_output());
                        assert_eq!(verdict, ((409, "payment.replayed".to_owned()), false), "{what}: {answer:?}");
                        assert_eq!(answer.header("payment-required"), None, "{what}: nobody is asked to pay again");
                    }
                    if !sole && !said_once {
                        assert_eq!(
                            answer.receipt(Version::V2).transaction,
                            hash.to_string(),
                            "{what}: it hears what it has paid"
                        );
                        let stranger = asked(&shop, &[]).await;
                        assert_eq!(stranger.verdict(), (409, "payment.replayed".to_owned()), "{what}: {stranger:?}");
                        shop.server.reconcile().await;
                        assert_eq!(shop.entries().await, 1, "{what}: the result is kept");
                        // The operator says that no other gate is paid there.
                        let sole = Plan::new(settle().sole_recipient()).store(shop.store.clone()).open().await;
                        let answer = asked(&sole, &proof).await;
                        assert_eq!((answer.status, answer.has_output()), (200, true), "{what}: {answer:?}");
                        assert_eq!(sole.runs(), 0, "{what}");
                    }
                    assert_eq!((node.balance(recipient()).await - before, shop.runs()), (PRICE, 1), "{what}: once");
                }
            }
        }
    }
}

/// A refusal that follows an answer which leaves open whether a transaction is on its way is none.
// req: GATE-007
// attack: T13
#[tokio::test]
async fn t13_a_refusal_after_a_transaction_that_was_not_taken_is_not_believed() {
    for node in stages().await {
        let replies = [valid(), said(&failed("Details: already known", "")), said(&failed("insufficient_funds", ""))];
        let scripted = Scripted::start(replies).await;
        scripted.announce(&[account(SENDER)]);
        let shop = Plan::new(facilitator(&node, &scripted.url())).open().await;
        let answer = shop.call(Version::V2, &shop.payment(Version::V2, authorization()), &[], &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((502, "settlement.unknown".to_owned()), false), "{answer:?}");
        assert_eq!((scripted.requests().len(), shop.entries().await), (3, 1), "it is kept until its time is over");
    }
}
