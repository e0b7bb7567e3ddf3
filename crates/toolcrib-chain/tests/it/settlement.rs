//! The outcome of an authorization, according to honest and lying nodes.

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::settlement::{AuthorizationOutcome, SearchFrom, Trail, TransactionProof};
use toolcrib_core::money::Amount;
use toolcrib_x402::Authorization;

use toolcrib_testkit::nodes::fake::chain;
use toolcrib_testkit::nodes::lying::{END, FINAL, FROM, Fate, STRANGER, Says, Signed, TRANSACTION, node};

fn signed() -> Signed {
    let authorization = Authorization {
        from: Address::repeat_byte(0x01),
        to: Address::repeat_byte(0x02),
        value: Amount::new(U256::from(10_000)),
        valid_after: 0,
        valid_before: 2 * END,
        nonce: B256::repeat_byte(0x0a),
    };
    Signed { token: Address::repeat_byte(0x70), authorization }
}

async fn find(says: Says, from: SearchFrom) -> AuthorizationOutcome {
    let (node, Signed { token, authorization }) = (node(8453, says).await, signed());
    let chain = chain(&node);
    Trail { chain: &chain, token, authorization: &authorization }.find(from).await.expect("an answer")
}

fn fate(outcome: &AuthorizationOutcome) -> Fate {
    match outcome {
        AuthorizationOutcome::Settled { transaction, .. } => {
            assert_eq!(*transaction, TRANSACTION);
            Fate::Settled
        }
        AuthorizationOutcome::UsedElsewhere => Fate::Elsewhere,
        AuthorizationOutcome::Cancelled => Fate::Cancelled,
        AuthorizationOutcome::Expired => Fate::Expired,
        AuthorizationOutcome::Open => Fate::Open,
        AuthorizationOutcome::Unclear { .. } => Fate::Unclear,
    }
}

// attack: T13, T15
#[tokio::test]
async fn a_node_is_believed_as_far_as_its_answers_fit_each_other() {
    for case in signed().cases() {
        let outcome = find(case.says, SearchFrom::After(FROM)).await;
        assert_eq!(fate(&outcome), case.fate, "{}: {outcome:?}", case.name);
    }
    let settled = |is_final| AuthorizationOutcome::Settled { transaction: TRANSACTION, sender: STRANGER, is_final };
    assert_eq!(find(signed().settled(FINAL), SearchFrom::After(FROM)).await, settled(true));
    assert_eq!(find(signed().settled(FINAL + 1), SearchFrom::After(FROM)).await, settled(false));
    assert_eq!(find(signed().settled(50), SearchFrom::Time(2 * 50)).await, settled(true));
}

// attack: T13
#[tokio::test]
async fn an_unused_authorization_ends_in_a_final_block() {
    let after = SearchFrom::After(FROM);
    for (what, says, expected) in [
        ("64 blocks, where no block is called final", signed().unused(END + 64, None), Fate::Expired),
        ("63 blocks", signed().unused(END - 1 + 64, None), Fate::Open),
        ("a young chain", signed().unused(63, None), Fate::Open),
    ] {
        assert_eq!(fate(&find(says, after).await), expected, "{what}");
    }
    // Used before the payment was accepted.
    let before = |at: u64| signed().settled(at).but(|says| says.logs.clear());
    assert_eq!(find(before(5), after).await, AuthorizationOutcome::UsedElsewhere);
    assert_eq!(find(before(FINAL + 1), SearchFrom::After(FINAL + 5)).await, AuthorizationOutcome::Open, "not final");
    assert_eq!(fate(&find(before(50), after).await), Fate::Unclear, "used, and no log of it");
}

// attack: T13
#[tokio::test]
async fn a_transaction_that_somebody_names_is_held_against_the_authorization() {
    let Signed { token, authorization } = signed();
    for case in signed().cases() {
        let is_mined = !case.says.receipt.is_null();
        let block =
            case.says.receipt["blockNumber"].as_str().and_then(|text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok());
        let pays = || TransactionProof::Pays { block: block.expect("mined"), sender: STRANGER };
        let node = node(8453, case.says).await;
        let chain = chain(&node);
        let proof = Trail { chain: &chain, token, authorization: &authorization }.proof_in(TRANSACTION).await.expect("an answer");
        let expected = match case.name {
            "the receipt of another transaction" => TransactionProof::Missing,
            "a failed transaction" => TransactionProof::Failed,
            // The block of a receipt is checked if a log names the block too.
            "a receipt of another block" => pays(),
            _ if !is_mined => TransactionProof::Missing,
            _ if case.fate == Fate::Settled || case.counted.is_ok() => pays(),
            _ => TransactionProof::Other,
        };
        assert_eq!(proof, expected, "{}", case.name);
        assert!(node.seen().len() == 1, "{}: one request", case.name);
    }
}
