//! What can happen between check and settlement: a predicate that says no, a payer who takes the money away, somebody who is faster.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, keccak256};
use alloy_sol_types::SolValue;
use serde_json::json;
use toolcrib_chain::predicate::Erc721Predicate;
use toolcrib_chain::registry::Registry;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::money::Amount;
use toolcrib_gate::{Facilitator, Gate, ToolError};
use toolcrib_x402::{Authorization, Version};

use super::chain::{FUNDS, Node, PRICE, account, connect, domain, recipient, token, wallet};
use super::facilitator::Service;
use super::payer::{BOTH, Bound, authorization, cancellation, payer, sign, transfer};
use super::proxy::{Fate, between};
use super::shop::{HANDLER_SECONDS, LEASE_OVER, ORIGIN, PATH, Plan, own_key, stages, two_words};
use crate::settle::scripted::{Reply, Scripted};

/// A registry with one tool for holders of an NFT that no account has.
pub(crate) struct Club {
    pub(crate) registry: Registry,
    predicate: Address,
    token: Address,
    pub(crate) id: U256,
}

impl Club {
    pub(crate) async fn found(node: &Node) -> Self {
        let address = node.deploy("ToolRegistry", &[]).await;
        let registry = Registry::new(node.chain.clone(), address);
        let predicate = node.deploy("ERC721OwnerPredicate", &address.abi_encode()).await;
        let token = node.deploy("TestERC721", &("Test", "T").abi_encode_params()).await;
        let uri = format!("{ORIGIN}/.well-known/ai-tool/word-count.json");
        let call = registry.register(&uri, keccak256("any"), Some(predicate));
        node.send(&wallet(0), address, call.data).await;
        let id = registry.tool_count().await.expect("an answer");
        let collections = Erc721Predicate::new(node.chain.clone(), predicate).set_collections(id, vec![token]);
        node.send(&wallet(0), predicate, collections.data).await;
        Self { registry, predicate, token, id }
    }

    async fn admit(&self, node: &Node, account: Address) {
        let data = [&keccak256("mint(address,uint256)")[..4], &(account, U256::from(1)).abi_encode()].concat();
        node.send(&wallet(0), self.token, data.into()).await;
    }

    fn reference(&self) -> ToolRef {
        self.registry.reference(self.id)
    }
}

// req: GATE-007, GATE-008
// attack: T12
#[tokio::test]
async fn t12_whoever_is_denied_pays_nothing() {
    for node in stages().await {
        let club = Club::found(&node).await;
        for settle_first in [false, true] {
            let facilitator = Service::start(own_key(&node.chain, 7)).await;
            let settle = Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([node.chain.clone()]);
            let gate = Gate::predicate(club.registry.clone(), club.id);
            let plan = Plan::new(settle).gate(move |paid| {
                let paid = paid.predicate(gate.clone());
                if settle_first { paid.settle_first() } else { paid }
            });
            let shop = plan.open().await;
            let before = node.balance(recipient()).await / PRICE;
            let payments = BOTH.map(|version| (version, shop.payment(version, authorization())));
            if !settle_first {
                for (version, payment) in &payments {
                    let answer = shop.call(*version, payment, &[], &two_words()).await;
                    assert_eq!((answer.verdict(), answer.has_output()), ((403, "access.denied".to_owned()), false));
                    assert_eq!(answer.json()["tool"], json!(club.reference().to_string()));
                }
                shop.assert_all(&node, 0, 0, before).await;
                assert_eq!((facilitator.settles(), shop.settle.verified(), shop.entries().await), (0, 0, 0), "given back");
                club.admit(&node, payer().address()).await;
            }
            // Somebody who is let in pays with the very payment that was denied before.
            for (at, (version, payment)) in payments.iter().enumerate() {
                let answer = shop.call(*version, payment, &[], &two_words()).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                shop.assert_all(&node, at + 1, at + 1, before + at as u64 + 1).await;
            }
            assert_eq!(facilitator.settles(), 2);
        }
    }
}

// req: GATE-005
// attack: T12
#[tokio::test]
async fn t12_a_predicate_that_cannot_be_asked_denies_nobody_and_charges_nobody() {
    for node in stages().await {
        let club = Club::found(&node).await;
        club.admit(&node, payer().address()).await;
        let gate = Gate::predicate(club.registry.clone(), club.id);
        let shop = Plan::new(own_key(&node.chain, 5)).gate(move |paid| paid.predicate(gate.clone())).open().await;
        let code = node.chain.code(club.predicate).await.expect("an answer");
        // One that runs into an invalid instruction, and one that says nothing.
        for broken in ["0xfe", "0x00"] {
            node.dev("anvil_setCode", json!([club.predicate, broken])).await;
            let answer = shop.call(Version::V2, &shop.payment(Version::V2, authorization()), &[], &two_words()).await;
            assert_eq!(answer.verdict(), (502, "access.predicate_malfunction".to_owned()), "{broken}");
        }
        node.dev("anvil_setCode", json!([club.predicate, code])).await;
        shop.assert_all(&node, 0, 0, 0).await;
        // No node: one that loses every request once the gate has started.
        let down = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_down = down.clone();
        let judge = move |_: &str| if is_down.load(std::sync::atomic::Ordering::SeqCst) { Fate::Lose } else { Fate::Pass };
        let url = between(&node.url, judge).await;
        let registry = Registry::new(connect(&url).await, club.registry.address());
        let gate = Gate::predicate(registry, club.id);
        let dark = Plan::new(own_key(&node.chain, 5)).gate(move |paid| paid.predicate(gate.clone())).open().await;
        down.store(true, std::sync::atomic::Ordering::SeqCst);
        let answer = dark.call(Version::V1, &dark.payment(Version::V1, authorization()), &[], &two_words()).await;
        assert_eq!(answer.verdict(), (502, "access.unavailable".to_owned()));
        assert!(!answer.text().contains(&url), "where the node is, is nobody's business");
        dark.assert_all(&node, 0, 0, 0).await;
        assert_eq!((shop.entries().await, dark.entries().await, node.sent_by(5).await), (0, 0, 0));
    }
}

// attack: T15
#[tokio::test]
async fn t15_a_payment_that_is_on_the_chain_already_buys_nothing_whatever_a_facilitator_says() {
    for node in stages().await {
        let valid = json!({"isValid": true, "payer": payer().address()}).to_string();
        let used = json!({"success": false, "errorReason": "nonce_already_used", "transaction": ""}).to_string();
        let scripted = Scripted::start([Reply::Answer(200, valid), Reply::Answer(200, used)]).await;
        let settle = Facilitator::from_setting(&scripted.url()).expect("a URL").confirm_with([node.chain.clone()]);
        let shop = Plan::new(settle).open().await;
        let signed = authorization();
        node.send(&wallet(8), token().address, transfer(&signed, &sign(payer(), &signed, &domain()))).await;
        let answer = shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false), "{answer:?}");
        shop.assert_all(&node, 0, 0, 1).await;
        assert_eq!((scripted.requests().len(), shop.entries().await), (1, 0));
    }
}

/// What a payer does behind the tool's back.
#[derive(Clone, Copy, Debug)]
enum Trick {
    /// Takes the authorization back.
    Cancel,
    /// Uses the nonce for a transfer to the payer's own account.
    Reuse,
    /// Sends the money elsewhere.
    Empty,
}

// attack: T14
#[tokio::test]
async fn t14_money_that_is_taken_away_while_the_handler_runs_buys_nothing() {
    for node in stages().await {
        for trick in [Trick::Cancel, Trick::Reuse, Trick::Empty] {
            let signed = authorization();
            let rest = Authorization {
                to: account(8),
                value: Amount::new(U256::from(node.balance(payer().address()).await)),
                ..authorization()
            };
            let own = Authorization { to: payer().address(), ..signed };
            let data: Bytes = match trick {
                Trick::Cancel => cancellation(&signed),
                Trick::Reuse => transfer(&own, &sign(payer(), &own, &domain())),
                Trick::Empty => transfer(&rest, &sign(payer(), &rest, &domain())),
            };
            let chain = node.chain.clone();
            let plan = Plan::new(own_key(&node.chain, 5)).hook(move |_| {
                let (chain, data) = (chain.clone(), data.clone());
                async move {
                    let call = toolcrib_chain::transaction::Call { to: token().address, data, value: U256::ZERO };
                    // The second run finds it done.
                    let _ = chain.send(&wallet(8), &call, Duration::from_secs(20)).await;
                    Ok(())
                }
            });
            let shop = plan.open().await;
            let sent = node.sent_by(5).await;
            let payment = shop.payment(Version::V2, signed);
            let answer = shop.call(Version::V2, &payment, &[], &two_words()).await;
            if let Trick::Empty = trick {
                assert_eq!((answer.verdict(), answer.has_output()), ((402, "settlement.refused".to_owned()), false));
                let receipt = answer.receipt(Version::V2);
                assert!(!receipt.success && receipt.transaction.is_empty());
                assert_eq!(receipt.reason.as_deref(), Some("insufficient_funds"));
                answer.challenges();
            } else {
                // The nonce is used, and not by this call.
                assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false), "{trick:?}");
            }
            assert_eq!((shop.runs(), shop.settle.settled(), node.balance(recipient()).await), (1, 1, 0), "{trick:?}");
            assert_eq!((shop.entries().await, node.sent_by(5).await - sent), (0, 0));
            // And what ran once for nothing does not run again: the check comes first.
            let answer = shop.call(Version::V2, &payment, &[], &two_words()).await;
            let status = if let Trick::Empty = trick { 402 } else { 409 };
            assert_eq!((answer.verdict().0, answer.has_output(), shop.runs()), (status, false, 1), "{trick:?}");
        }
        assert_eq!(node.balance(payer().address()).await, 0);
    }
}

// req: GATE-007
// attack: T14
#[tokio::test]
async fn t14_a_handler_that_fails_costs_nothing_unless_it_was_paid_first() {
    for node in stages().await {
        for settle_first in [false, true] {
            let failing = Arc::new(std::sync::atomic::AtomicBool::new(true));
            let fails = failing.clone();
            let plan = Plan::new(own_key(&node.chain, 5)).hook(move |text| {
                let fails = fails.load(std::sync::atomic::Ordering::SeqCst);
                async move {
                    match text.as_str() {
                        "slow" if fails => tokio::time::sleep(Duration::from_secs(HANDLER_SECONDS as u64 + 5)).await,
                        "panic" if fails => panic!("as it is asked to"),
                        _ if fails => return Err(ToolError::unavailable("not today")),
                        _ => {}
                    }
                    Ok(())
                }
            });
            let plan = plan.gate(move |gate| if settle_first { gate.settle_first() } else { gate });
            let shop = plan.open().await;
            let before = node.balance(recipient()).await / PRICE;
            for (at, (text, status)) in [("fail", 503), ("panic", 500), ("slow", 504)].into_iter().enumerate() {
                failing.store(true, std::sync::atomic::Ordering::SeqCst);
                let input = json!({"text": text});
                let bound = Bound::to(PATH, &input);
                let payment = shop.payment(
                    Version::V1,
                    Authorization { nonce: bound.nonce, valid_before: authorization().valid_before + 500, ..authorization() },
                );
                let answer = shop.call(Version::V1, &payment, &bound.headers(), &input).await;
                assert_eq!((answer.status, answer.has_output()), (status, false), "{text}: {answer:?}");
                let charged = if settle_first { at + 1 } else { at };
                shop.assert_all(&node, 2 * at + 1, charged, before + charged as u64).await;
                if settle_first && text != "panic" {
                    assert!(answer.receipt(Version::V1).success, "whoever paid is told where");
                }
                // The same payment is good again, at once or when nobody can be at it any more, and charged once.
                failing.store(false, std::sync::atomic::Ordering::SeqCst);
                if settle_first || text == "panic" {
                    shop.later(&node, LEASE_OVER).await;
                }
                let answer = shop.call(Version::V1, &payment, &bound.headers(), &input).await;
                assert_eq!((answer.status, answer.has_output()), (200, true), "{text}: {answer:?}");
                shop.assert_all(&node, 2 * at + 2, at + 1, before + at as u64 + 1).await;
            }
        }
    }
}

// attack: T15
#[tokio::test]
async fn t15_a_payment_that_another_transaction_settles_buys_nothing_here() {
    for node in stages().await {
        let signed = authorization();
        let data = transfer(&signed, &sign(payer(), &signed, &domain()));
        let chain = node.chain.clone();
        let plan = Plan::new(own_key(&node.chain, 5)).hook(move |_| {
            let (chain, data) = (chain.clone(), data.clone());
            async move {
                let call = toolcrib_chain::transaction::Call { to: token().address, data, value: U256::ZERO };
                let _ = chain.send(&wallet(8), &call, Duration::from_secs(20)).await;
                Ok(())
            }
        });
        let shop = plan.open().await;
        let theirs = node.sent_by(8).await;
        let payment = shop.payment(Version::V2, signed);
        // Another transaction used the authorization after this request had taken it. It may be another server's, which then has
        // served it; what is paid once is served once.
        let answer = shop.call(Version::V2, &payment, &[], &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false), "{answer:?}");
        shop.assert_all(&node, 1, 1, 1).await;
        assert_eq!(
            (node.sent_by(5).await, node.sent_by(8).await),
            (0, theirs + 1),
            "the money moved in a transaction of somebody else"
        );
        for version in BOTH {
            let answer = shop.call(version, &shop.payment(version, signed), &[], &two_words()).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
        }
        assert_eq!(shop.runs(), 1, "nothing ran again");
        // Sent in before it came here, just now or a while ago: a settled payment is public and buys nothing, here or with a store
        // that has never seen it.
        let elsewhere = Plan::new(own_key(&node.chain, 5)).open().await;
        for seconds in [0, 60] {
            let signed = Authorization { valid_before: authorization().valid_before + 300, ..authorization() };
            node.send(&wallet(8), token().address, transfer(&signed, &sign(payer(), &signed, &domain()))).await;
            elsewhere.later(&node, seconds).await;
            for version in BOTH {
                let answer = elsewhere.call(version, &elsewhere.payment(version, signed), &[], &two_words()).await;
                assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false), "{answer:?}");
            }
        }
        assert_eq!((elsewhere.runs(), elsewhere.settle.settled(), elsewhere.entries().await), (0, 0, 0));
        let money = (node.balance(recipient()).await, node.balance(payer().address()).await);
        assert_eq!((money, node.sent_by(5).await), ((3 * PRICE, FUNDS - 3 * PRICE), 0));
    }
}
