//! How the ledger handles nodes that lie about a payment.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use toolcrib_client::ledger::{Evidence, Signing, Spend, State};
use toolcrib_client::{Client, Ledger, Resolution, SpendPolicy, Usdc};
use toolcrib_core::clock::FixedClock;
use toolcrib_core::url::Origin;
use toolcrib_verify::Verifier;
use toolcrib_x402::{Authorization, Version, asset};

use toolcrib_testkit::databases::{DURABLE, TestStore};
use toolcrib_testkit::nodes::fake::chain;
use toolcrib_testkit::nodes::lying::{FROM, Fate, Signed, TRANSACTION, node};
use toolcrib_testkit::servers::{NOW, World};

const BASE: u64 = 8453;

// attack: T13
#[tokio::test]
async fn budget_is_freed_and_settlements_are_believed_as_the_rules_say() {
    let (net, token) = (World::new(), asset::usdc(BASE).unwrap());
    let amount = Usdc::micro(10_000);
    let authorization = Authorization {
        from: Address::repeat_byte(1),
        to: Address::repeat_byte(2),
        value: amount.amount(),
        valid_after: 0,
        valid_before: u64::try_from(NOW.seconds()).unwrap() + 300,
        nonce: B256::repeat_byte(0x0a),
    };
    let signed = Signed { token: token.address, authorization };
    let spend = Spend {
        tool: None,
        origin: Origin::parse("https://tools.example.com").unwrap(),
        chain: BASE,
        asset: token.address,
        recipient: authorization.to,
        payer: authorization.from,
        amount,
    };
    for backend in DURABLE {
        let Some(place) = TestStore::new(backend).await else { continue };
        let ledger = Ledger::open(place.database().await).await.unwrap();
        for case in signed.cases() {
            let name = case.name;
            let id = ledger.reserve(&spend, &toolcrib_testkit::tools::roomy(), NOW).await.unwrap();
            let signing = Signing {
                nonce: authorization.nonce,
                valid_before: authorization.valid_before,
                from_block: FROM + 1,
                method: "POST",
                url: "https://tools.example.com/call",
                body: b"{}",
                version: Version::V2,
            };
            ledger.sign(id, &signing, NOW).await.unwrap();
            ledger.unknown(id, None, "no answer", NOW).await.unwrap();
            let before = ledger.totals(NOW).await.unwrap().day.get();
            let node = node(BASE, case.says).await;
            let (door, clock) = (net.fetch(), Arc::new(FixedClock(NOW)));
            let verifier = Verifier::new(door.clone(), clock.clone(), "tests");
            let client = Client::builder(verifier, door, ledger.clone(), clock).policy(SpendPolicy::default());
            let resolution = client.chain(chain(&node)).build().resolve(id).await.unwrap();
            let entry = ledger.entry(id).await.unwrap();
            let freed = before - ledger.totals(NOW).await.unwrap().day.get();
            let (expected, state, evidence) = match case.fate {
                Fate::Settled => (Resolution::Settled(Some(TRANSACTION)), State::Settled, Some(Evidence::Chain)),
                Fate::Elsewhere => (Resolution::Settled(None), State::Settled, Some(Evidence::Chain)),
                Fate::Cancelled | Fate::Expired => (Resolution::Released, State::Released, None),
                Fate::Open | Fate::Unclear => (Resolution::Open, State::Unknown, None),
            };
            assert_eq!((resolution, entry.state, entry.evidence()), (expected, state, evidence), "{name}");
            assert_eq!(freed, if state == State::Released { amount.get() } else { 0 }, "{name}");
        }
    }
}
