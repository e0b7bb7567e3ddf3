//! Budgets on chains that a user's settings add. A process of its own, because the table of tokens is extended once for a process.

use alloy_primitives::Address;
use toolcrib_client::ledger::Spend;
use toolcrib_client::{Ledger, SpendPolicy, Usdc};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::Origin;
use toolcrib_store::{Database, Location};
use toolcrib_x402::asset::{self, Extension};

const TEST_CHAIN: u64 = 900_001;
const OTHER_CHAIN: u64 = 900_002;

fn spend(chain: u64) -> Spend {
    Spend {
        tool: None,
        origin: Origin::parse("https://tools.example.com").expect("an origin"),
        chain,
        asset: Address::repeat_byte(1),
        recipient: Address::repeat_byte(2),
        payer: Address::repeat_byte(3),
        amount: Usdc::micro(100_000),
    }
}

#[tokio::test]
async fn test_money_of_an_added_chain_has_the_budget_of_test_money() {
    asset::extend(Extension { tokens: Vec::new(), test_chains: vec![TEST_CHAIN] }).expect("once");
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(&Location::file(folder.path().join("spend.db"))).await.expect("a database");
    let ledger = Ledger::open(database).await.expect("a ledger");
    let now = UnixTime::from_seconds(1_800_000_000);
    let limit = Usdc::micro(200_000);
    let mut policy = SpendPolicy::default();
    policy.per_call = Usdc::micro(100_000);
    (policy.per_hour, policy.per_day, policy.per_recipient_day) = (limit, limit, limit);
    (policy.per_tool_day, policy.per_asset_day) = (limit, limit);
    let fill = async |chain| {
        let mut count = 0;
        while ledger.reserve(&spend(chain), &policy, now).await.is_ok() {
            count += 1;
            assert!(count < 10, "chain {chain} has no budget");
        }
        count
    };
    assert_eq!(fill(TEST_CHAIN).await, 2);
    assert_eq!(fill(84_532).await, 0, "one budget for all test money");
    assert_eq!(fill(OTHER_CHAIN).await, 2, "real money has its own, also on a chain that no table has");
    assert_eq!(fill(8453).await, 0, "one budget for all real money");
}
