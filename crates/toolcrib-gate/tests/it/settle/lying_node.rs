//! What gates make of nodes that lie about a payment.

use std::sync::Arc;

use toolcrib_core::clock::Clock as _;
use toolcrib_core::x402::asset;
use toolcrib_gate::{Facilitator, Found, LocalSettlement, Record, Settle};

use super::stage::{Now, PRICE, authorization, due, offer, payer, recipient, settler, signed};
use crate::fake::chain;
use crate::lying::{FROM, Fate, Signed, TRANSACTION, node};

const BASE: u64 = 8453;

// attack: T13, T15
#[tokio::test]
async fn results_are_released_and_payments_given_back_as_the_rules_say() {
    let token = asset::usdc(BASE).expect("listed");
    let offer = offer(&token, PRICE);
    let payment = signed(&offer, &token, authorization(payer().address()), payer());
    let about = Signed { token: token.address, authorization: payment.authorization };
    let due = due(&payment, &offer);
    let record = Record { transaction: Some(TRANSACTION), from_block: Some(FROM), ..Record::since(Now.now()) };
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
