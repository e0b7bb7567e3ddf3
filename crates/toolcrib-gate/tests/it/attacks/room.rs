//! A store that is full of results: what was delivered makes room, and what was not is never given up for a sale.

use serde_json::{Value, json};
use toolcrib_store::replay::Limits;
use toolcrib_x402::Version;

use super::chain::{FUNDS, Node, PRICE, recipient};
use super::http::{Connection, post};
use super::payer::{authorization, fresh, payer};
use super::shop::{PATH, Plan, Shop, own_key};
use toolcrib_testkit::databases::{Backend, TestStore};

const STORES: [Backend; 3] = [Backend::Memory, Backend::SqliteFile, Backend::Postgres];

/// Bytes of a result, about.
const SIZE: usize = 10_000;

/// Results that the store takes before room is scarce.
const PLACES: u64 = 6;

const LIMITS: Limits = Limits { entries: 1_000, result_bytes: PLACES * 11_000, one_result_bytes: 11_000, result_seconds: 3_600 };

fn large() -> Value {
    json!({"text": "x".repeat(SIZE)})
}

async fn shops() -> Vec<(Node, Shop, TestStore)> {
    let mut shops = Vec::new();
    for backend in STORES {
        let (node, Some(place)) = (Node::ours().await, TestStore::new(backend).await) else { continue };
        node.mint(payer().address(), FUNDS).await;
        let shop = Plan::new(own_key(&node.chain, 5)).store(place.store(LIMITS).await).open().await;
        shops.push((node, shop, place));
    }
    shops
}

#[tokio::test]
async fn sales_go_on_while_callers_read_their_answers() {
    for (node, shop, _place) in shops().await {
        // Each call has a connection of its own, which ends in order.
        for sale in 0..4 * PLACES {
            let payment = shop.payment(Version::V2, authorization());
            let answer = post(shop.at, PATH, &[(Version::V2.payment_header(), &payment)], &large()).await;
            assert_eq!(answer.status, 200, "sale {sale}: {answer:?}");
        }
        shop.assert_all(&node, 4 * PLACES as usize, 4 * PLACES as usize, 4 * PLACES).await;
        let kept = shop.store.counts().await.expect("the store answers").result_bytes;
        assert!(kept <= LIMITS.result_bytes, "{kept}");
        let page = shop.server.metrics().await;
        assert!(page.contains(&format!("toolcrib_replay_result_bytes_limit {}\n", LIMITS.result_bytes)), "{page}");
        assert!(page.contains(&format!("toolcrib_replay_one_result_bytes_limit {}\n", LIMITS.largest_result())), "{page}");
    }
}

#[tokio::test]
async fn results_that_nobody_has_read_are_kept_and_no_call_runs_without_room() {
    for (node, shop, _place) in shops().await {
        let mut lost = Vec::new();
        let full = loop {
            let (payment, token) = (shop.payment(Version::V2, authorization()), fresh().to_string());
            let headers = [(Version::V2.payment_header(), payment.as_bytes()), ("X-Tool-Retry-Token", token.as_bytes())];
            let mut connection = Connection::open(shop.at).await;
            connection.write("POST", PATH, &headers, large().to_string().as_bytes()).await;
            let runs = shop.runs();
            // The answer is sent, and the caller breaks the connection instead of reading it.
            let status = connection.status_then_reset().await;
            if status != 200 {
                break (status, shop.runs() - runs);
            }
            lost.push((payment, token));
            assert!(lost.len() <= 2 * PLACES as usize, "there is an end to it");
        };
        assert_eq!(full.0, 503);
        assert!(lost.len() as u64 >= PLACES / 2, "{} were sold", lost.len());
        assert_eq!(shop.runs(), lost.len(), "no call runs for a result that could not be kept");
        assert_eq!(node.balance(recipient()).await, lost.len() as u64 * PRICE, "and none is charged");
        // All of them are there.
        for (payment, token) in &lost {
            let answer = shop.call(Version::V2, payment, &[("X-Tool-Retry-Token", token)], &large()).await;
            assert_eq!((answer.status, answer.has_output()), (200, true), "{answer:?}");
        }
        // They have been read now, so there is room again.
        let payment = shop.payment(Version::V2, authorization());
        let answer = shop.call(Version::V2, &payment, &[], &large()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}
