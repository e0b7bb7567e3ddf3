//! What the chain is found to say, long after and under bad conditions.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Bytes, U256, keccak256};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_sol_types::{SolCall, SolValue};
use serde_json::json;
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::deploy::deploy_test_assets;
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_devchain::Devchain;
use toolcrib_gate::{Due, Found, LocalSettlement, Outcome, Record, SKEW_SECONDS, Settle, Unrecorded};
use toolcrib_x402::asset;

use super::stage::{
    LOCAL, PRICE, Stage, SystemClock, authorization, code, connect, due, offer, other, payer, recipient, settler, signed,
};

fn seconds(time: u64) -> UnixTime {
    UnixTime::from_seconds(time as i64)
}

#[tokio::test]
async fn what_is_not_used_is_open_until_its_time_is_over() {
    for stage in Stage::each().await {
        let (settlement, offer) = (stage.settlement(), stage.offer());
        let end = stage.time().await + 100;
        let payment = stage.payment_with(|signed| signed.valid_before = end);
        let due = due(&payment, &offer);
        let since = SystemClock.now();
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Open);
        stage.dev("evm_setNextBlockTimestamp", json!([end - 1])).await;
        stage.mine().await;
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Open, "the last second in which it can be used");
        stage.dev("evm_setNextBlockTimestamp", json!([end])).await;
        stage.mine().await;
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Never);
        assert_eq!(settlement.settle(due, None, &Unrecorded).await, Outcome::Refused { reason: "expired".to_owned() });
        assert_eq!(stage.settled().await, 0);
    }
}

// attack: T15
#[tokio::test]
async fn only_transfers_since_the_payment_was_taken_count() {
    for stage in Stage::each().await {
        let (settlement, offer) = (stage.settlement(), stage.offer());
        let mut time = stage.time().await + 5_000;
        let pass = async |time: u64| {
            stage.dev("evm_setNextBlockTimestamp", json!([time])).await;
            stage.mine().await;
        };
        for _ in 0..20 {
            pass(time).await;
            time += 7;
        }
        let payment = stage.payment_with(|signed| signed.valid_before = time + 100_000);
        let due = due(&payment, &offer);
        stage.dev("evm_setNextBlockTimestamp", json!([time])).await;
        let hash = stage.send(&other(), stage.token.address, stage.transfer(&payment)).await;
        assert_eq!(stage.time().await, time);
        let settled = Found::Settled { transaction: hash };
        let mut end = time;
        for round in 0..40 {
            end += 7;
            pass(end).await;
            if round % 20 == 0 {
                for (since, expected) in [
                    (0, &settled),
                    (time - 1_000, &settled),
                    (time, &settled),
                    (time + SKEW_SECONDS, &settled),
                    (time + SKEW_SECONDS + 1, &Found::Spent),
                    (end + 1_000_000, &Found::Spent),
                ] {
                    let found =
                        settlement.look_up(due, &Record { transaction: Some(hash), ..Record::since(seconds(since)) }).await;
                    assert_eq!(&found, expected, "since {since}, used at {time}, newest {end}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_node_that_shows_few_blocks_at_a_time_is_asked_more_often() {
    let devchain = Devchain::builder(SystemClock).log_range(5).spawn().await.expect("a chain");
    let stage = Stage::ours(devchain).await;
    let (settlement, offer, payment) = (stage.settlement(), stage.offer(), stage.payment());
    let due = due(&payment, &offer);
    let since = SystemClock.now();
    for _ in 0..60 {
        stage.mine().await;
    }
    let outcome = settlement.settle(due, None, &Unrecorded).await;
    let Outcome::Settled { transaction } = outcome else { panic!("{outcome:?}") };
    for _ in 0..10 {
        stage.mine().await;
    }
    let record = Record { transaction: Some(transaction), ..Record::since(since) };
    assert_eq!(settlement.look_up(due, &record).await, Found::Settled { transaction });
}

/// The rule about final blocks, on a chain that has them: one with a public number, on which only the development accounts sign.
#[tokio::test]
async fn on_public_chains_only_a_final_block_ends_it() {
    let devchain = Devchain::builder(SystemClock).chain_id(8453).deploy(code("TestUSDC", &("USD Coin", "2").abi_encode_params()));
    let devchain = devchain.spawn().await.expect("a chain");
    let token = asset::usdc(8453).expect("listed");
    devchain.set_code(token.address, devchain.code(devchain.deployed()[0]));
    let chain = connect(&devchain.http_url(), 8453).await;
    let settlement = LocalSettlement::new(Arc::new(settler()), [chain]).recipients([recipient()]);
    let offer = offer(&token, PRICE);
    assert_eq!(settlement.check(std::slice::from_ref(&offer)).await, [], "the token's domain is that of the table");
    let mut authorization = authorization(payer().address());
    let now = SystemClock.now();
    authorization.valid_before = now.seconds() as u64 + 100;
    let payment = signed(&offer, &token, authorization, payer());
    let due = due(&payment, &offer);
    devchain.mine(70);
    devchain.increase_time(Duration::from_secs(200));
    devchain.mine(1);
    assert_eq!(settlement.look_up(due, &Record::since(now)).await, Found::Open, "its time is over, but not in a final block");
    devchain.mine(63);
    assert_eq!(settlement.look_up(due, &Record::since(now)).await, Found::Open);
    devchain.mine(1);
    assert_eq!(settlement.look_up(due, &Record::since(now)).await, Found::Never);
}

#[tokio::test]
async fn a_node_that_does_not_answer_leaves_it_unclear() {
    let devchain = Devchain::builder(SystemClock).spawn().await.expect("a chain");
    let chain = connect(&devchain.http_url(), LOCAL).await;
    let settlement = LocalSettlement::new(Arc::new(settler()), [chain]).recipients([recipient()]);
    let token = asset::usdc(LOCAL).expect("listed");
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let found = settlement.look_up(due(&payment, &offer), &Record::since(SystemClock.now())).await;
    assert!(matches!(found, Found::Unclear { .. }), "there is no token: {found:?}");
    drop(devchain);
    let found = settlement.look_up(due(&payment, &offer), &Record::since(SystemClock.now())).await;
    assert!(matches!(found, Found::Unclear { .. }), "{found:?}");
}

/// A block that is replaced takes its transfer with it.
#[tokio::test]
async fn a_reorganisation_opens_it_again() {
    let devchain = Devchain::builder(SystemClock).spawn().await.expect("a chain");
    let chain = connect(&devchain.http_url(), LOCAL).await;
    let deployer = LocalWallet::development(0).expect("a development account");
    deploy_test_assets(&chain, &deployer).await.expect("deployed");
    let token = asset::usdc(LOCAL).expect("listed");
    let arguments = (payer().address(), U256::from(PRICE)).abi_encode();
    let mint = Bytes::from([&keccak256("mint(address,uint256)")[..4], &arguments].concat());
    let call = Call { to: token.address, data: mint, value: Default::default() };
    chain.send(&deployer, &call, Duration::from_secs(20)).await.expect("mined");
    let settlement = LocalSettlement::new(Arc::new(settler()), [chain]).recipients([recipient()]);
    let settlement = settlement.receipt_time(Duration::from_millis(500));
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let due = due(&payment, &offer);
    let since = SystemClock.now();
    let outcome = settlement.settle(due, None, &Unrecorded).await;
    let Outcome::Settled { transaction } = outcome else { panic!("{outcome:?}") };
    let record = Record { transaction: Some(transaction), ..Record::since(since) };
    assert_eq!(settlement.look_up(due, &record).await, Found::Settled { transaction });
    devchain.reorg(1).expect("a block to replace");
    assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Open);
    // The number of the lost transaction is free again, which shows when the next one is not mined; sent again, the lost one closes
    // the gap.
    let late = signed(&offer, &token, authorization(payer().address()), payer());
    let late = Due { payment: &late, ..due };
    let outcome = settlement.settle(late, None, &Unrecorded).await;
    assert!(matches!(outcome, Outcome::Unknown { transaction: Some(_), .. }), "{outcome:?}");
    assert_eq!(settlement.look_up(late, &Record::since(since)).await, Found::Open);
    let outcome = settlement.settle(due, None, &Unrecorded).await;
    let Outcome::Settled { transaction } = outcome else { panic!("{outcome:?}") };
    let record = Record { transaction: Some(transaction), ..Record::since(since) };
    assert_eq!(settlement.look_up(due, &record).await, Found::Settled { transaction });
    // The payer had enough for one of them.
    let outcome = settlement.settle(late, None, &Unrecorded).await;
    assert_eq!(outcome, Outcome::Refused { reason: "insufficient_funds".to_owned() });
    let paid = IEIP3009::balanceOfCall { account: recipient() }.abi_encode();
    let request = TransactionRequest::default().to(token.address).input(Bytes::from(paid).into());
    assert_eq!(U256::from_be_slice(&devchain.call(&request).expect("an answer")), U256::from(PRICE), "paid once");
}
