//! Stock clients that lose an answer: the extension `payment-identifier` gets it back, for whoever has it and for nobody else.

use std::sync::Arc;
use std::time::Duration;

use alloy_signer_local::PrivateKeySigner;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolcrib_store::replay::Limits;
use toolcrib_x402::{Authorization, Version};

use super::chain::{FUNDS, Node, domain};
use super::payer::{authorization, authorization_of, closed, fresh, header, opened, payer, sign, stranger};
use super::shop::{OTHER_PATH, Plan, Shop, own_key, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};

const STORES: [Backend; 3] = [Backend::Memory, Backend::SqliteFile, Backend::Postgres];
const ID: &str = "pay_0f3c9a17b2d84e55a6c1";

/// A shop with each store.
async fn shops() -> Vec<(Node, Shop, TestStore)> {
    let mut shops = Vec::new();
    for backend in STORES {
        let (node, Some(place)) = (Node::ours().await, TestStore::new(backend).await) else { continue };
        node.mint(payer().address(), FUNDS).await;
        node.mint(stranger().address(), FUNDS).await;
        let shop = Plan::new(own_key(&node.chain, 5)).store(place.store(Limits::default()).await).open().await;
        shops.push((node, shop, place));
    }
    shops
}

/// A payment of version 2 as a stock client makes it: all extensions of the challenge repeated, and an identifier added.
fn named(shop: &Shop, signer: &PrivateKeySigner, signed: Authorization, id: &Value) -> String {
    let mut payment = opened(&header(&shop.challenges, Version::V2, signed, sign(signer, &signed, &domain())));
    assert_eq!(payment["extensions"]["payment-identifier"]["info"]["required"], false, "declared in the challenge");
    payment["extensions"]["payment-identifier"]["info"]["id"] = id.clone();
    closed(&payment)
}

// req: PAY-005
#[tokio::test]
async fn the_same_payment_and_identifier_get_the_answer_again() {
    for (node, shop, _place) in shops().await {
        let payment = named(&shop, payer(), authorization(), &json!(ID));
        let first = shop.call(Version::V2, &payment, &[], &two_words()).await;
        assert_eq!(first.status, 200, "{first:?}");
        assert_eq!(first.header("x-tool-retry-token"), None, "the identifier is enough");
        let again = shop.call(Version::V2, &payment, &[], &two_words()).await;
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(again.receipt(Version::V2).transaction, first.receipt(Version::V2).transaction);
        // Also when the authorization is over: nothing is paid with it any more.
        shop.later(&node, 400).await;
        let late = shop.call(Version::V2, &payment, &[], &two_words()).await;
        assert_eq!((late.status, &late.body), (200, &first.body));
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

// req: PAY-005
#[tokio::test]
async fn whoever_has_only_the_payment_gets_nothing() {
    for (node, shop, _place) in shops().await {
        let signed = authorization();
        let payment = named(&shop, payer(), signed, &json!(ID));
        assert_eq!(shop.call(Version::V2, &payment, &[], &two_words()).await.status, 200);
        let without = shop.payment(Version::V2, signed);
        let guessed = named(&shop, payer(), signed, &json!("pay_0f3c9a17b2d84e55a6c2"));
        for stolen in [&without, &guessed] {
            let answer = shop.call(Version::V2, stolen, &[], &two_words()).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false), "{answer:?}");
        }
        // The identifier is for one request: neither another body nor another tool.
        let other = shop.call(Version::V2, &payment, &[], &json!({"text": "three"})).await;
        assert_eq!((other.verdict().0, other.has_output()), (409, false));
        let other = shop.call_at(OTHER_PATH, Version::V2, &payment, &[], &two_words()).await;
        assert_eq!((other.status / 100, other.has_output()), (4, false));
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

// req: PAY-005
#[tokio::test]
async fn another_payment_under_the_identifier_is_refused_before_anything_runs() {
    for (node, shop, _place) in shops().await {
        let payment = named(&shop, payer(), authorization(), &json!(ID));
        assert_eq!(shop.call(Version::V2, &payment, &[], &two_words()).await.status, 200);
        let second = named(&shop, payer(), authorization(), &json!(ID));
        let answer = shop.call(Version::V2, &second, &[], &two_words()).await;
        assert_eq!(answer.verdict(), (409, "payment.id_in_use".to_owned()));
        assert_eq!((shop.runs(), shop.settle.verified(), shop.settle.settled()), (1, 1, 1));
        // An identifier is its payer's own: nobody can take it away from somebody else.
        let theirs = named(&shop, stranger(), authorization_of(stranger().address()), &json!(ID));
        assert_eq!(shop.call(Version::V2, &theirs, &[], &two_words()).await.status, 200);
        // And that of one tool.
        let elsewhere = named(&shop, payer(), authorization(), &json!(ID));
        assert_eq!(shop.call_at(OTHER_PATH, Version::V2, &elsewhere, &[], &two_words()).await.status, 200);
        assert_eq!(node.balance(payer().address()).await, FUNDS - 2 * super::chain::PRICE);
    }
}

#[tokio::test]
async fn identifiers_that_are_none_are_told_so() {
    let node = Node::ours().await;
    node.mint(payer().address(), FUNDS).await;
    let shop = Plan::new(own_key(&node.chain, 5)).open().await;
    for bad in
        [json!("short"), json!("sixteen or more, but not of these letters"), json!(16), json!(null), json!("x".repeat(129))]
    {
        let answer = shop.call(Version::V2, &named(&shop, payer(), authorization(), &bad), &[], &two_words()).await;
        assert_eq!(answer.verdict(), (400, "payment.id_malformed".to_owned()), "{bad}");
    }
    shop.assert_all(&node, 0, 0, 0).await;
}

// req: PAY-005
#[tokio::test]
async fn whoever_comes_again_while_the_call_runs_waits_for_its_answer() {
    let node = Node::ours().await;
    node.mint(payer().address(), FUNDS).await;
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (enter, going) = (entered.clone(), go_on.clone());
    let plan = Plan::new(own_key(&node.chain, 5)).hook(move |_| {
        let (enter, going) = (enter.clone(), going.clone());
        async move {
            enter.notify_one();
            going.notified().await;
            Ok(())
        }
    });
    let shop = plan.open().await;
    let payment = named(&shop, payer(), authorization(), &json!(format!("pay_{}", &fresh().to_string()[2..34])));
    let input = two_words();
    let first = shop.call(Version::V2, &payment, &[], &input);
    let second = async {
        entered.notified().await;
        let release = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            go_on.notify_one();
        };
        tokio::join!(shop.call(Version::V2, &payment, &[], &input), release).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, second.status), (200, 200), "{second:?}");
    assert_eq!(first.body, second.body);
    shop.assert_all(&node, 1, 1, 1).await;
}
