//! Settlement with the operator's key: what it settles, what it refuses, and what it leaves to a look-up.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_provider::Provider;
use alloy_sol_types::SolValue;
use async_trait::async_trait;
use futures_util::future::join_all;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl, Retries};
use toolcrib_chain::sign::StrictSignature;
use toolcrib_chain::wallet::{Cleared, LocalWallet, Wallet, WalletError};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes;
use toolcrib_core::finding::Severity;
use toolcrib_core::money::Amount;
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_gate::{Found, LocalSettlement, Outcome, Record, Settle, Unrecorded, Verdict};
use toolcrib_x402::{ChainAddress, asset};

use super::scripted::{LostMessage, lossy};
use super::stage::{
    FUNDS, LOCAL, PRICE, Stage, SystemClock, authorization, connect, due, offer, other, payer, recipient, settler, signed,
};

fn bad(reason: &str) -> Verdict {
    Verdict::Bad { reason: reason.to_owned() }
}

fn refused(reason: &str) -> Outcome {
    Outcome::Refused { reason: reason.to_owned() }
}

#[track_caller]
fn transaction(outcome: &Outcome) -> B256 {
    match outcome {
        Outcome::Settled { transaction } => *transaction,
        outcome => panic!("not settled: {outcome:?}"),
    }
}

/// The record of a payment whose transaction was written down before it was broadcast.
fn recorded(since: UnixTime, transaction: B256) -> Record {
    Record { transaction: Some(transaction), ..Record::since(since) }
}

/// The transaction that an unknown outcome names.
#[track_caller]
fn named(outcome: &Outcome) -> Option<B256> {
    match outcome {
        Outcome::Unknown { transaction, .. } => *transaction,
        outcome => panic!("not unknown: {outcome:?}"),
    }
}

// attack: T15
#[tokio::test]
async fn money_moves_once_and_is_found_again() {
    for stage in Stage::each().await {
        let (settlement, offer, payment) = (stage.settlement(), stage.offer(), stage.payment());
        let due = due(&payment, &offer);
        let since = SystemClock.now();
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Open);
        assert!(matches!(settlement.verify(due).await, Verdict::Good { from_block: Some(_) }));
        assert_eq!(stage.settled().await, 0, "checking sends nothing");
        let hash = transaction(&settlement.settle(due, None, &Unrecorded).await);
        assert_eq!(stage.settled().await, 1);
        stage.assert_paid(1).await;
        // A second time the nonce is used, and not by what is settled now.
        assert_eq!(settlement.verify(due).await, Verdict::Used);
        assert_eq!(settlement.settle(due, None, &Unrecorded).await, Outcome::Replayed);
        // Only who has it on record that this transaction is its own may credit it.
        assert_eq!(settlement.look_up(due, &recorded(since, hash)).await, Found::Settled { transaction: hash });
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Elsewhere { transaction: hash });
        let after = Record { from_block: Some(stage.chain.block_number().await.expect("a number")), ..recorded(since, hash) };
        assert_eq!(settlement.look_up(due, &after).await, Found::Spent, "a transfer before the payment was taken is not its");
        assert_eq!(stage.settled().await, 1);
        stage.assert_paid(1).await;
    }
}

#[tokio::test]
async fn accounts_with_code_sign_in_their_own_way() {
    for stage in Stage::each().await {
        let owner = &dev_signers()[3];
        let account = stage.deploy("TestSmartWallet", &owner.address().abi_encode()).await;
        stage.mint(account, FUNDS).await;
        let (settlement, offer) = (stage.settlement(), stage.offer());
        let forged = signed(&offer, &stage.token, authorization(account), payer());
        assert_eq!(settlement.verify(due(&forged, &offer)).await, bad("invalid_signature"));
        assert_eq!(settlement.settle(due(&forged, &offer), None, &Unrecorded).await, refused("invalid_signature"));
        let payment = signed(&offer, &stage.token, authorization(account), owner);
        assert!(matches!(settlement.verify(due(&payment, &offer)).await, Verdict::Good { from_block: Some(_) }));
        transaction(&settlement.settle(due(&payment, &offer), None, &Unrecorded).await);
        assert_eq!((stage.balance(account).await, stage.balance(recipient()).await), (FUNDS - PRICE, PRICE));
        assert_eq!(stage.settled().await, 1);
    }
}

// attack: T20, T6, T7, T8
#[tokio::test]
async fn what_is_refused_costs_no_transaction() {
    for stage in Stage::each().await {
        let settlement = stage.settlement();
        let amount = |value: u64| Amount::new(U256::from(value));
        let ours = stage.offer();
        let stranger = Address::repeat_byte(0x66);
        let mut to_stranger = ours.clone();
        to_stranger.pay_to = ChainAddress::evm(stranger);
        let mut foreign_token = ours.clone();
        foreign_token.asset = ChainAddress::evm(stage.deploy("TestUSDC", &("USD Coin", "2").abi_encode_params()).await);
        let mut nothing = ours.clone();
        nothing.amount = amount(0);
        let mut much = ours.clone();
        much.amount = amount(FUNDS + 1);
        let base = offer(&asset::usdc(8453).expect("listed"), PRICE);
        let now = stage.time().await;
        for (offer, payment, reason) in [
            (&nothing, stage.payment_with(|signed| signed.value = amount(0)), "zero_value"),
            (&ours, stage.payment_with(|signed| signed.value = amount(0)), "zero_value"),
            (&to_stranger, stage.payment_with(|signed| signed.to = stranger), "recipient_not_allowed"),
            (&ours, stage.payment_with(|signed| signed.to = stranger), "recipient_not_allowed"),
            (&foreign_token, stage.payment(), "asset_not_allowed"),
            (&ours, stage.payment_with(|signed| signed.value = amount(PRICE - 1)), "offer_not_met"),
            (&base, stage.payment(), "offer_not_met"),
            (&much, stage.payment_with(|signed| signed.value = amount(FUNDS + 1)), "insufficient_funds"),
            (&ours, stage.payment_with(|signed| signed.valid_before = now - 10), "expired"),
            (&ours, signed(&ours, &stage.token, authorization(payer().address()), &dev_signers()[2]), "invalid_signature"),
        ] {
            assert_eq!(settlement.verify(due(&payment, offer)).await, bad(reason));
            assert_eq!(settlement.settle(due(&payment, offer), None, &Unrecorded).await, refused(reason));
        }
        assert_eq!(stage.settled().await, 0);
        stage.assert_paid(0).await;
    }
}

#[tokio::test]
async fn caps_hold_and_an_empty_account_sends_nothing() {
    for stage in Stage::each().await {
        let (offer, payment) = (stage.offer(), stage.payment());
        let due = due(&payment, &offer);
        assert_eq!(stage.settlement().max_gas(30_000).settle(due, None, &Unrecorded).await, refused("too_much_gas"));
        let dear = stage.settlement().max_fee(U256::from(1_000)).settle(due, None, &Unrecorded).await;
        assert!(matches!(dear, Outcome::NotAttempted { .. }), "{dear:?}");
        let poor = Arc::new(LocalWallet::random().expect("a key"));
        let poor = LocalSettlement::new(poor, [stage.chain.clone()]).recipients([recipient()]);
        assert!(matches!(poor.verify(due).await, Verdict::Good { from_block: Some(_) }), "the payment is good");
        let outcome = poor.settle(due, None, &Unrecorded).await;
        assert!(matches!(&outcome, Outcome::NotAttempted { detail } if detail.contains("too low")), "{outcome:?}");
        assert_eq!(stage.settled().await, 0);
        // The payment is as good as before.
        transaction(&stage.settlement().settle(due, None, &Unrecorded).await);
        stage.assert_paid(1).await;
    }
}

// attack: T15
#[tokio::test]
async fn somebody_else_sends_it_first() {
    for stage in Stage::each().await {
        let (settlement, offer, payment) = (stage.settlement(), stage.offer(), stage.payment());
        let due = due(&payment, &offer);
        let since = SystemClock.now();
        assert!(matches!(settlement.verify(due).await, Verdict::Good { from_block: Some(_) }));
        let theirs = stage.send(&other(), stage.token.address, stage.transfer(&payment)).await;
        assert_eq!(settlement.settle(due, None, &Unrecorded).await, Outcome::Replayed);
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Elsewhere { transaction: theirs });
        assert_eq!(stage.settled().await, 0);
        stage.assert_paid(1).await;
    }
}

// attack: T15
#[tokio::test]
async fn somebody_else_is_faster_in_the_same_block() {
    for stage in Stage::each().await {
        let (settlement, offer, payment) = (Arc::new(stage.settlement()), stage.offer(), stage.payment());
        let since = SystemClock.now();
        let mut theirs = stage.unchecked(&other(), stage.transfer(&payment)).await;
        theirs.max_priority_fee_per_gas *= 10;
        theirs.max_fee_per_gas *= 20;
        let theirs = stage.chain.sign(&other(), &theirs).await.expect("signed");
        stage.automine(false).await;
        let task = {
            let (settlement, offer, payment) = (settlement.clone(), offer.clone(), payment.clone());
            tokio::spawn(async move { settlement.settle(due(&payment, &offer), None, &Unrecorded).await })
        };
        while stage.waiting(settler().address()).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stage.chain.broadcast(&theirs).await.expect("sent");
        stage.mine().await;
        let outcome = task.await.expect("no panic");
        assert_eq!(outcome, Outcome::Replayed);
        let found = settlement.look_up(due(&payment, &offer), &Record::since(since)).await;
        assert_eq!(found, Found::Elsewhere { transaction: theirs.hash });
        assert_eq!(stage.settled().await, 1, "ours was mined and failed");
        stage.assert_paid(1).await;
        stage.automine(true).await;
        let payment = stage.payment();
        transaction(&settlement.settle(due(&payment, &offer), None, &Unrecorded).await);
        stage.assert_paid(2).await;
    }
}

// attack: T14
#[tokio::test]
async fn taken_back_or_spent_between_check_and_settlement() {
    for stage in Stage::each().await {
        let (settlement, offer) = (stage.settlement(), stage.offer());
        let since = SystemClock.now();
        let cancelled = stage.payment();
        assert!(matches!(settlement.verify(due(&cancelled, &offer)).await, Verdict::Good { from_block: Some(_) }));
        stage.cancel(&cancelled).await;
        assert_eq!(settlement.settle(due(&cancelled, &offer), None, &Unrecorded).await, Outcome::Replayed);
        assert_eq!(settlement.look_up(due(&cancelled, &offer), &Record::since(since)).await, Found::Spent);
        // The same nonce, used for a transfer of the payer to himself.
        let payment = stage.payment();
        let elsewhere = stage.payment_with(|signed| (signed.nonce, signed.to) = (payment.authorization.nonce, payer().address()));
        stage.send(&other(), stage.token.address, stage.transfer(&elsewhere)).await;
        assert_eq!(settlement.settle(due(&payment, &offer), None, &Unrecorded).await, Outcome::Replayed);
        assert_eq!(settlement.look_up(due(&payment, &offer), &Record::since(since)).await, Found::Spent);
        // The money is gone.
        let late = stage.payment();
        assert!(matches!(settlement.verify(due(&late, &offer)).await, Verdict::Good { from_block: Some(_) }));
        let mut rest = stage.payment_with(|signed| signed.value = Amount::new(U256::from(FUNDS)));
        rest = stage.payment_with(|signed| {
            *signed = rest.authorization;
            signed.to = other().address();
        });
        stage.send(&other(), stage.token.address, stage.transfer(&rest)).await;
        assert_eq!(settlement.settle(due(&late, &offer), None, &Unrecorded).await, refused("insufficient_funds"));
        assert_eq!(settlement.look_up(due(&late, &offer), &Record::since(since)).await, Found::Open);
        assert_eq!((stage.settled().await, stage.balance(recipient()).await), (0, 0));
    }
}

/// Settles forty payments at once and checks that each landed in its own transaction, numbered without a gap from `first`.
async fn forty_at_once(stage: &Stage, settlement: &LocalSettlement, first: u64) {
    let offer = stage.offer();
    let payments: Vec<_> = (0..40).map(|_| stage.payment()).collect();
    let outcomes = join_all(payments.iter().map(|payment| settlement.settle(due(payment, &offer), None, &Unrecorded))).await;
    let mut numbers = Vec::new();
    for (payment, outcome) in payments.iter().zip(&outcomes) {
        let hash = transaction(outcome);
        let found = stage.chain.provider().get_transaction_by_hash(hash).await.expect("an answer").expect("mined");
        numbers.push(number(&found));
        let found = settlement.look_up(due(payment, &offer), &recorded(SystemClock.now(), hash)).await;
        assert_eq!(found, Found::Settled { transaction: hash });
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (first..first + 40).collect::<Vec<_>>());
}

/// The number of a transaction, as its JSON has it.
fn number(transaction: &impl serde::Serialize) -> u64 {
    let json = serde_json::to_value(transaction).expect("JSON");
    u64::from_str_radix(json["nonce"].as_str().expect("digits").trim_start_matches("0x"), 16).expect("a number")
}

// attack: T20
#[tokio::test]
async fn forty_at_once_have_numbers_in_a_row() {
    for stage in Stage::each().await {
        let settlement = stage.settlement();
        forty_at_once(&stage, &settlement, 0).await;
        stage.assert_paid(40).await;
        // The same while all of them wait for one block.
        stage.automine(false).await;
        let mining = async {
            while stage.waiting(settler().address()).await < 40 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            stage.mine().await;
        };
        tokio::join!(forty_at_once(&stage, &settlement, 40), mining);
        stage.assert_paid(80).await;
        stage.automine(true).await;
        assert_eq!(stage.settled().await, 80);
    }
}

#[tokio::test]
async fn the_key_may_be_used_elsewhere_in_between() {
    for stage in Stage::each().await {
        let (settlement, offer) = (stage.settlement(), stage.offer());
        for round in 0..3_u64 {
            let payment = stage.payment();
            transaction(&settlement.settle(due(&payment, &offer), None, &Unrecorded).await);
            stage.send(&settler(), other().address(), Bytes::new()).await;
            assert_eq!(stage.settled().await, 2 * (round + 1));
        }
        stage.assert_paid(3).await;
    }
}

/// A wallet that refuses its first signature.
#[derive(Debug)]
struct Moody {
    inner: LocalWallet,
    refusals: std::sync::atomic::AtomicU32,
}

#[async_trait]
impl Wallet for Moody {
    fn address(&self) -> Address {
        self.inner.address()
    }

    fn description(&self) -> String {
        "moody".to_owned()
    }

    async fn sign_digest(&self, digest: B256, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        if self.refusals.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
            return Err(WalletError::Refused { reason: "not now".to_owned() });
        }
        self.inner.sign_digest(digest, cleared).await
    }
}

#[tokio::test]
async fn a_number_that_was_not_sent_is_used_again() {
    for stage in Stage::each().await {
        let wallet = Moody { inner: settler(), refusals: Default::default() };
        let settlement = LocalSettlement::new(Arc::new(wallet), [stage.chain.clone()]).recipients([recipient()]);
        let offer = stage.offer();
        let (first, second) = (stage.payment(), stage.payment());
        transaction(&settlement.settle(due(&first, &offer), None, &Unrecorded).await);
        let outcome = settlement.settle(due(&second, &offer), None, &Unrecorded).await;
        assert!(matches!(outcome, Outcome::NotAttempted { .. }), "{outcome:?}");
        transaction(&settlement.settle(due(&second, &offer), None, &Unrecorded).await);
        assert_eq!(stage.settled().await, 2);
        stage.assert_paid(2).await;
    }
}

/// The chain behind a node that loses the first transaction.
async fn behind(stage: &Stage, loss: LostMessage) -> Chain {
    let url = NodeUrl::parse(&lossy(&stage.url, loss).await).expect("a URL");
    let mut config = ChainConfig::new(Network::by_id(LOCAL).expect("listed"), vec![url]).expect("a node");
    config.retries = Retries { attempts: 1, ..Retries::default() };
    Chain::connect(config).await.expect("the node answers")
}

// attack: T13
#[tokio::test]
async fn a_transaction_that_is_lost_on_the_way_leaves_no_gap() {
    for stage in Stage::each().await {
        let settlement =
            LocalSettlement::new(Arc::new(settler()), [behind(&stage, LostMessage::Request).await]).recipients([recipient()]);
        let settlement = settlement.receipt_time(Duration::from_millis(300));
        let offer = stage.offer();
        let (first, second) = (stage.payment(), stage.payment());
        let since = SystemClock.now();
        assert!(
            named(&settlement.settle(due(&first, &offer), None, &Unrecorded).await).is_some(),
            "it is not known whether it arrived"
        );
        assert_eq!(settlement.look_up(due(&first, &offer), &Record::since(since)).await, Found::Open);
        transaction(&settlement.settle(due(&second, &offer), None, &Unrecorded).await);
        transaction(&settlement.settle(due(&first, &offer), None, &Unrecorded).await);
        assert_eq!(stage.settled().await, 2);
        stage.assert_paid(2).await;
    }
}

// attack: T13
#[tokio::test]
async fn a_transaction_whose_acknowledgement_is_lost_has_settled() {
    for stage in Stage::each().await {
        let settlement =
            LocalSettlement::new(Arc::new(settler()), [behind(&stage, LostMessage::Answer).await]).recipients([recipient()]);
        let offer = stage.offer();
        for _ in 0..2 {
            let payment = stage.payment();
            transaction(&settlement.settle(due(&payment, &offer), None, &Unrecorded).await);
        }
        assert_eq!(stage.settled().await, 2);
        stage.assert_paid(2).await;
    }
}

// attack: T13
#[tokio::test]
async fn a_transaction_that_is_not_mined_in_time_is_unknown_and_found_later() {
    for stage in Stage::each().await {
        let settlement = stage.settlement().receipt_time(Duration::from_millis(200));
        let (offer, payment) = (stage.offer(), stage.payment());
        let due = due(&payment, &offer);
        let since = SystemClock.now();
        stage.automine(false).await;
        let hash = named(&settlement.settle(due, None, &Unrecorded).await).expect("a transaction to look for");
        assert_eq!(settlement.look_up(due, &Record::since(since)).await, Found::Open);
        // Whoever asks again while it is under way gets the same answer about the same transaction, even when the money is gone.
        assert_eq!(named(&settlement.settle(due, None, &Unrecorded).await), Some(hash));
        assert_eq!(stage.waiting(settler().address()).await, 1, "nothing more was sent");
        stage.assert_paid(0).await;
        stage.mine().await;
        assert_eq!(settlement.look_up(due, &recorded(since, hash)).await, Found::Settled { transaction: hash });
        stage.assert_paid(1).await;
    }
}

#[tokio::test]
async fn what_stands_in_the_way_is_told_at_the_start() {
    for stage in Stage::each().await {
        let settlement = stage.settlement();
        assert_eq!(settlement.check(&[stage.offer()]).await, []);
        let mut foreign = stage.offer();
        foreign.asset = ChainAddress::evm(recipient());
        let mut stranger = stage.offer();
        stranger.pay_to = ChainAddress::evm(other().address());
        let elsewhere = offer(&asset::usdc(8453).expect("listed"), PRICE);
        let codes = |findings: Vec<toolcrib_core::finding::Finding>| {
            findings.into_iter().map(|finding| (finding.code, finding.severity)).collect::<Vec<_>>()
        };
        assert_eq!(
            codes(settlement.check(&[foreign, stranger, elsewhere]).await),
            [
                (codes::settlement::ASSET_NOT_PINNED, Severity::Error),
                (codes::settlement::RECIPIENT_NOT_ALLOWED, Severity::Error),
                (codes::settlement::NO_NODE, Severity::Error),
            ]
        );
        let poor = LocalSettlement::new(Arc::new(LocalWallet::random().expect("a key")), [stage.chain.clone()]);
        let poor = poor.recipients([recipient()]);
        assert_eq!(codes(poor.check(&[stage.offer()]).await), [(codes::settlement::NO_GAS, Severity::Error)]);
    }
    // A chain on which something else, or nothing, is at the token's address; and one that is gone.
    let bare = Devchain::builder(SystemClock).spawn().await.expect("a chain");
    let chain = connect(&bare.http_url(), LOCAL).await;
    let settlement = LocalSettlement::new(Arc::new(settler()), [chain]).recipients([recipient()]);
    let offers = [offer(&asset::usdc(LOCAL).expect("listed"), PRICE)];
    let findings = settlement.check(&offers).await;
    assert_eq!((findings[0].code, findings[0].severity), (codes::chain::DOMAIN_MISMATCH, Severity::Error));
    drop(bare);
    let findings = settlement.check(&offers).await;
    assert_eq!(findings[0].severity, Severity::Warning, "{findings:?}");
}

#[tokio::test]
async fn without_a_node_nothing_is_attempted() {
    let settlement = LocalSettlement::new(Arc::new(settler()), []).recipients([recipient()]);
    let token = asset::usdc(LOCAL).expect("listed");
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let due = due(&payment, &offer);
    assert!(matches!(settlement.verify(due).await, Verdict::Unclear { .. }));
    assert!(matches!(settlement.settle(due, None, &Unrecorded).await, Outcome::NotAttempted { .. }));
    assert!(matches!(settlement.look_up(due, &Record::since(SystemClock.now())).await, Found::Unclear { .. }));
    assert!(!format!("{settlement:?}").contains("Secret"), "{settlement:?}");
}
