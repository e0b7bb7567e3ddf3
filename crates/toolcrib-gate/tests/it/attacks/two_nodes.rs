//! Two nodes of one chain that are not equally far.
//!
//! A payment is taken when one of them shows its nonce unused, and its settlement is believed by the other. A transfer that was made
//! before belongs to another server, whatever the facilitator says of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use toolcrib_chain::rpc::{Chain, Retries};
use toolcrib_store::replay::Limits;
use toolcrib_x402::Version;

use super::chain::{Node, PRICE, account, connect_all, domain, recipient, token, wallet};
use super::payer::{authorization, fresh, payer, sign, transfer};
use super::proxy::{Fate, between};
use super::settlements::{facilitator, settled, valid};
use super::shop::{Plan, stages, two_words};
use crate::settle::scripted::{Reply, Scripted};
use toolcrib_testkit::databases::{Backend, TestStore};

/// The account that another server's settlement was sent from.
const SENDER: u32 = 7;

/// The first bytes of a call of `authorizationState`.
const STATE: &str = "e94a0102";

/// What the node that is behind says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// It answers about a block that it does not have as about its newest.
    State,
    /// It names an older block as the newest, and answers about that.
    Head,
}

/// Two nodes: while `lags` holds, the first one does not answer what the second one, which is behind, is asked.
async fn nodes(node: &Node, behind: Behind, older: Value, lags: Arc<AtomicBool>) -> Chain {
    let is_old = move |body: &str| {
        let is_head = behind == Behind::Head && body.contains("eth_getBlockByNumber") && body.contains("latest");
        lags.load(Ordering::SeqCst) && (is_head || body.contains(STATE))
    };
    let first = between(&node.url, {
        let is_old = is_old.clone();
        move |body| if is_old(body) { Fate::Fail } else { Fate::Pass }
    });
    let second = between(&node.url, move |body| {
        if !is_old(body) {
            return Fate::Pass;
        }
        let asked: Value = serde_json::from_str(body).expect("JSON");
        let result = if body.contains(STATE) { json!(format!("0x{}", "0".repeat(64))) } else { older.clone() };
        Fate::Answer(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string())
    });
    let (first, second) = (first.await, second.await);
    connect_all(&[&first, &second], Retries::default(), behind == Behind::State).await
}

// req: GATE-007
// attack: T1, T2, T13
#[tokio::test]
async fn t13_a_transfer_from_before_the_reservation_is_not_credited_whatever_the_facilitator_says() {
    for node in stages().await {
        let backends: &[_] =
            if node.is_ours() { &[Backend::Memory, Backend::SqliteFile, Backend::Postgres] } else { &[Backend::SqliteFile] };
        for &backend in backends {
            for behind in [Behind::State, Behind::Head] {
                let Some(place) = TestStore::new(backend).await else { break };
                let what = format!("{backend:?}, {behind:?}");
                let before = node.balance(recipient()).await;
                let older = node.dev("eth_getBlockByNumber", json!(["latest", false])).await;
                // Another server has sold something for it.
                let signed = authorization();
                let data = transfer(&signed, &sign(payer(), &signed, &domain()));
                let transaction = node.send(&wallet(SENDER), token().address, data).await.to_string();
                node.mine().await;
                let lags = Arc::new(AtomicBool::new(false));
                let chain = nodes(&node, behind, older, lags.clone()).await;
                let refused = json!({"success": false, "errorReason": "insufficient_funds", "transaction": ""}).to_string();
                let replies =
                    [valid(), Reply::Answer(200, refused), valid(), Reply::Answer(200, settled(&transaction).to_string())];
                let scripted = Scripted::start(replies).await;
                scripted.announce(&[account(SENDER)]);
                let current = lags.clone();
                // The node that is not behind answers again when the facilitator has settled.
                let plan = Plan::new(facilitator(&node, &scripted.url()).confirm_with([chain])).hook(move |_| {
                    let current = current.clone();
                    async move {
                        current.store(false, Ordering::SeqCst);
                        Ok(())
                    }
                });
                let shop = plan.store(place.store(Limits::default()).await).open().await;
                // A call that is refused shows how far the chain is.
                let other = shop.payment(Version::V2, authorization());
                let answer = shop.call(Version::V2, &other, &[], &two_words()).await;
                assert_eq!(answer.verdict(), (402, "settlement.refused".to_owned()), "{what}: {answer:?}");
                lags.store(true, Ordering::SeqCst);
                let (payment, secret) = (shop.payment(Version::V2, signed), fresh().to_string());
                let proof = [("X-Tool-Retry-Token", secret.as_str())];
                let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                assert!(matches!(answer.status, 409 | 502) && !answer.has_output(), "{what}: {answer:?}");
                assert_eq!(answer.header("payment-required"), None, "{what}: nobody is asked to pay again");
                assert_eq!(shop.runs(), 2, "{what}: the node that is behind has shown the nonce unused");
                for _ in 0..2 {
                    let answer = shop.call(Version::V2, &payment, &proof, &two_words()).await;
                    assert!(matches!(answer.status, 409 | 502) && !answer.has_output(), "{what}: {answer:?}");
                    shop.server.reconcile().await;
                }
                assert_eq!(node.balance(recipient()).await - before, PRICE, "{what}: charged once");
            }
        }
    }
}
