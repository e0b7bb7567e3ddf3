//! How gates handle nodes that lie about a payment.

use std::sync::Arc;

use alloy_primitives::B256;
use toolcrib_core::clock::Clock as _;
use toolcrib_gate::{Facilitator, Found, LocalSettlement, NONE_SENT, Record, Settle};
use toolcrib_x402::asset;

use super::scripted::Scripted;
use super::stage::{PRICE, SystemClock, authorization, due, offer, payer, recipient, settler, signed};
use toolcrib_testkit::nodes::fake::chain;
use toolcrib_testkit::nodes::lying::{FINAL, FROM, Fate, STRANGER, Signed, TRANSACTION, node};

const BASE: u64 = 8453;

// attack: T13, T15
#[tokio::test]
async fn results_are_released_and_payments_given_back_as_the_rules_say() {
    let token = asset::usdc(BASE).expect("listed");
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let about = Signed { token: token.address, authorization: payment.authorization };
    let due = due(&payment, &offer);
    let record = Record { transaction: Some(TRANSACTION), from_block: Some(FROM), ..Record::since(SystemClock.now()) };
    for case in about.cases() {
        let node = node(BASE, case.says).await;
        let local = LocalSettlement::new(Arc::new(settler()), [chain(&node)]).recipients([recipient()]);
        let facilitator = Facilitator::from_setting("http://127.0.0.1:1/").expect("a URL").confirm_with([chain(&node)]);
        let users: [&dyn Settle; 2] = [&local, &facilitator];
        for user in users {
            let found = user.look_up(due, &record).await;
            let is_expected = match case.fate {
                Fate::Settled => found == Found::Settled { transaction: TRANSACTION },
                Fate::Elsewhere | Fate::Cancelled => found == Found::Spent,
                Fate::Expired => found == Found::Never,
                Fate::Open => found == Found::Open,
                Fate::Unclear => matches!(found, Found::Unclear { .. }),
            };
            assert!(is_expected, "{}: {found:?}", case.name);
        }
        if case.fate == Fate::Settled {
            let unsent = Record { transaction: None, ..record };
            let found = local.look_up(due, &unsent).await;
            assert_eq!(found, Found::Elsewhere { transaction: TRANSACTION }, "{}: a transfer that we did not send", case.name);
        }
    }
}

/// Whether it is what is expected.
type Is<'i> = &'i dyn Fn(&Found) -> bool;

// attack: T1, T13
#[tokio::test]
async fn a_transfer_counts_by_what_the_facilitator_has_said() {
    let token = asset::usdc(BASE).expect("listed");
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let about = Signed { token: token.address, authorization: payment.authorization };
    let named = B256::repeat_byte(0x42);
    let settled = |found: &Found| *found == Found::Settled { transaction: TRANSACTION };
    let elsewhere = |found: &Found| *found == Found::Elsewhere { transaction: TRANSACTION };
    let open = |found: &Found| *found == Found::Open;
    let unclear = |found: &Found| matches!(found, Found::Unclear { .. });
    // What was named, the block of the transfer, whether the named one waits for a block, whether the sender is announced.
    let rows: [(Option<B256>, u64, bool, bool, Is<'_>); 12] = [
        (Some(TRANSACTION), FINAL, false, false, &settled),
        (Some(TRANSACTION), FINAL + 1, false, false, &settled),
        (None, FINAL, false, true, &settled),
        (None, FINAL + 1, false, true, &settled),
        (None, FINAL, false, false, &unclear),
        (Some(NONE_SENT), FINAL, false, true, &elsewhere),
        // It can still be mined.
        (Some(named), FINAL + 1, false, true, &open),
        (Some(named), FINAL + 1, true, true, &open),
        (Some(named), FINAL, true, true, &open),
        // It never was.
        (Some(named), FINAL, false, true, &settled),
        (Some(named), FINAL, false, false, &unclear),
        (Some(named), FINAL + 1, false, false, &open),
    ];
    for (transaction, at, waits, is_announced, expected) in rows {
        let what = format!("{transaction:?} named, waiting {waits}, mined in {at}, announced {is_announced}");
        let node = node(BASE, about.settled(at).but(|says| says.waiting = waits.then_some(named))).await;
        let server = Scripted::start([]).await;
        server.announce(&[if is_announced { STRANGER } else { recipient() }]);
        let facilitator = Facilitator::from_setting(&server.url()).expect("a URL").confirm_with([chain(&node)]);
        let record = Record { transaction, from_block: Some(FROM), ..Record::since(SystemClock.now()) };
        let found = facilitator.look_up(due(&payment, &offer), &record).await;
        assert!(expected(&found), "{what}: {found:?}");
        let sole = facilitator.sole_recipient().look_up(due(&payment, &offer), &record).await;
        assert!(settled(&sole), "{what}, sole recipient: {sole:?}");
    }
}

// attack: T13
#[tokio::test]
async fn signers_are_asked_for_again_when_one_is_not_known() {
    let token = asset::usdc(BASE).expect("listed");
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let about = Signed { token: token.address, authorization: payment.authorization };
    let node = node(BASE, about.settled(FINAL)).await;
    let record = Record { from_block: Some(FROM), ..Record::since(SystemClock.now()) };
    let look = async |facilitator: &Facilitator| facilitator.look_up(due(&payment, &offer), &record).await;
    let at = |url: &str| Facilitator::from_setting(url).expect("a URL").confirm_with([chain(&node)]);
    // One that is down, one that says nothing, and one that announces nobody: nothing is credited, and nothing is given up.
    let silent = Scripted::start([]).await;
    let none = Scripted::start([]).await;
    none.announce(&[]);
    for (url, why) in [
        ("http://127.0.0.1:1/".to_owned(), "signers are not known"),
        (silent.url(), "signers are not known"),
        (none.url(), "announces no signers"),
    ] {
        let found = look(&at(&url)).await;
        assert!(matches!(&found, Found::Unclear { detail } if detail.contains(why)), "{url}: {found:?}");
    }
    // What was announced at the start counts without another question, also when it is not announced any more.
    let server = Scripted::start([]).await;
    server.announce(&[STRANGER]);
    let facilitator = at(&server.url());
    facilitator.check(&[]).await;
    server.announce(&[recipient()]);
    assert_eq!(look(&facilitator).await, Found::Settled { transaction: TRANSACTION });
    // It is not asked all the time. Clones know what one of them has learnt.
    let facilitator = at(&server.url());
    assert!(matches!(look(&facilitator).await, Found::Unclear { .. }));
    server.announce(&[STRANGER]);
    assert!(matches!(look(&facilitator).await, Found::Unclear { .. }), "asked a moment ago");
    let clone = facilitator.clone();
    clone.check(&[]).await;
    assert_eq!(look(&facilitator).await, Found::Settled { transaction: TRANSACTION });
}
