//! Usage counts with nodes that lie about a payment.

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::money::Amount;
use toolcrib_fetch::SystemClock;
use toolcrib_index::{Chains, Index, usage};
use toolcrib_x402::usage::{Subject, Submission, UsageProof};
use toolcrib_x402::{Authorization, asset};

use crate::stage::{LOCAL, PRICE, REGISTRY, Sold, put};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::nodes::fake::config;
use toolcrib_testkit::nodes::lying::{Signed, TRANSACTION, node};

const BASE: u64 = 8453;
const CREATOR: Address = Address::repeat_byte(0xc0);
const PAYER: Address = Address::repeat_byte(0x01);

// attack: T13
#[tokio::test]
async fn payments_count_as_the_rules_say() {
    let token = asset::usdc(BASE).expect("listed").address;
    let now = SystemClock.now();
    let authorization = Authorization {
        from: PAYER,
        to: CREATOR,
        value: Amount::new(U256::from(PRICE)),
        valid_after: 0,
        valid_before: u64::try_from(now.seconds()).expect("after 1970"),
        nonce: B256::repeat_byte(0x0a),
    };
    let tool = ToolRef { chain: LOCAL, registry: REGISTRY, id: U256::from(1) };
    let report = Submission {
        subject: Subject::Tool(tool),
        latency_ms: None,
        chain: None,
        proof: UsageProof::Settlement { caller: PAYER, transaction: TRANSACTION, chain: BASE },
    };
    for case in (Signed { token, authorization }).cases() {
        let place = TestStore::new(Backend::SqliteMemory).await.expect("memory");
        let index = Index::open(place.database().await).await.expect("an index");
        let price = toolcrib_index::listing::Price {
            asset: format!("eip155:{BASE}/erc20:{token:#x}"),
            recipient: format!("eip155:{BASE}:{CREATOR:#x}"),
            chain: Some(BASE),
            ..crate::stage::price(token, CREATOR, PRICE)
        };
        put(&index, &Sold { prices: vec![price], ..Sold::new(1, CREATOR, token) }).await;
        let node = node(BASE, case.says).await;
        let chain = toolcrib_chain::rpc::Chain::lazy(config(&[&node])).expect("a client");
        let chains = Chains::from_iter([chain]);
        let receipt = usage::submit(&index, &chains, &report, UnixTime::from_seconds(now.seconds())).await.expect("judged");
        assert_eq!((receipt.verified, receipt.code), (case.counted.is_ok(), case.counted.err()), "{}", case.name);
        let counted = index.tool(&tool).await.expect("readable").expect("a tool").usage.paid_calls;
        assert_eq!(counted, u64::from(case.counted.is_ok()), "{}", case.name);
    }
}
