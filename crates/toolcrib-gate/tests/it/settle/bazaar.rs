//! The extension `bazaar`: in the challenge, and in what a facilitator is asked.

use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::B256;
use serde_json::{Value, json};
use toolcrib_gate::{Facilitator, Gate, PaidGate, Settle, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::{Challenge, Version};

use super::scripted::{Reply, Scripted};
use crate::till::{USDC_ON_BASE, of_the_price, priced, till};
use crate::world::{ORIGIN, Runs, authorization, base_domain, fresh, header, holder, post, serve, sign};

/// A facilitator that says yes to so many payments: verified, and settled on Base.
async fn facilitator(payments: usize, network: &str) -> Scripted {
    let payer = holder().address();
    let settled =
        json!({"success": true, "transaction": B256::repeat_byte(0xab), "network": network, "payer": payer}).to_string();
    let replies = [Reply::Answer(200, json!({"isValid": true, "payer": payer}).to_string()), Reply::Answer(200, settled)];
    Scripted::start((0..payments).flat_map(|_| replies.clone())).await
}

/// Serves a paid tool. The address, and its challenge in both versions.
async fn shop(settle: Arc<dyn Settle>, change: impl Fn(PaidGate) -> PaidGate) -> (SocketAddr, [Challenge; 2]) {
    let gate: Gate = change(PaidGate::new(settle)).into();
    let tool = priced("word-count", USDC_ON_BASE, gate, &Runs::default());
    let at = serve(Tools::new(ORIGIN).store(MemoryReplay::new(Limits::default())).tool(tool)).await;
    (at, post(at, "/word-count", &[], &json!({})).await.challenges())
}

/// The extension of a challenge.
fn declared(challenge: &Challenge) -> Option<Value> {
    let (_, value) = challenge.extensions.iter().find(|(name, _)| name == "bazaar")?;
    Some(serde_json::from_str(value.as_str()).expect("JSON"))
}

/// Pays once, and gives the payload of each request to the facilitator.
async fn pay((at, challenges): &(SocketAddr, [Challenge; 2]), version: Version, facilitator: &Scripted) -> Vec<Value> {
    let authorization = of_the_price(authorization(holder(), fresh()));
    let payment = header(challenges, version, authorization, sign(holder(), &authorization, &base_domain()));
    let answer = post(*at, "/word-count", &[(version.payment_header(), &payment)], &json!({"text": "one two"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let requests = facilitator.requests();
    let lines: Vec<_> = requests.iter().map(super::scripted::Request::line).collect();
    assert_eq!(lines, ["POST /x402/verify", "POST /x402/settle"]);
    let payload = |body: &[u8]| serde_json::from_slice::<Value>(body).expect("JSON")["paymentPayload"].clone();
    requests.iter().map(|request| payload(&request.body)).collect()
}

#[tokio::test]
async fn a_facilitator_gets_what_it_lists_a_tool_by() {
    let facilitator = facilitator(1, "eip155:8453").await;
    let settle = Facilitator::from_setting(&facilitator.url()).expect("a URL");
    let shop = shop(Arc::new(settle), |gate| gate).await;
    let [one, two] = &shop.1;
    assert_eq!((one.version, declared(one)), (Version::V1, None), "version 1 has no extensions");
    let declared = declared(two).expect("the extension");
    let input = json!({"type": "http", "method": "POST", "bodyType": "json", "body": {"text": "x"}});
    assert_eq!(declared["info"], json!({"input": input, "output": {"type": "json"}}));
    for payload in pay(&shop, Version::V2, &facilitator).await {
        assert_eq!(payload["extensions"], json!({"bazaar": declared}), "as it was declared, and nothing of the payer's");
        assert_eq!(payload["resource"]["url"], format!("{ORIGIN}/word-count"));
        assert_eq!(payload["resource"]["serviceName"], "word-count");
    }
}

#[tokio::test]
async fn a_tool_that_is_unlisted_or_paid_in_version_1_is_not_declared() {
    let facilitator_one = facilitator(1, "base").await;
    let settle = Facilitator::from_setting(&facilitator_one.url()).expect("a URL");
    let listed = shop(Arc::new(settle), |gate| gate).await;
    for payload in pay(&listed, Version::V1, &facilitator_one).await {
        assert_eq!((&payload["x402Version"], payload.get("extensions")), (&json!(1), None));
    }
    let facilitator_two = facilitator(1, "eip155:8453").await;
    let settle = Facilitator::from_setting(&facilitator_two.url()).expect("a URL");
    let unlisted = shop(Arc::new(settle), PaidGate::unlisted).await;
    assert_eq!(declared(&unlisted.1[1]), None);
    for payload in pay(&unlisted, Version::V2, &facilitator_two).await {
        assert!(payload["extensions"].get("bazaar").is_none(), "{payload}");
    }
    // Whoever settles without a catalogue is not asked either.
    assert_eq!(declared(&shop(till(), |gate| gate).await.1[1]), None);
}
