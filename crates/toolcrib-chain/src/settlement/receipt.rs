//! Payments in a transaction's receipt.

use alloy_primitives::{Address, B256, U256};
use alloy_rpc_types_eth::{Log, TransactionReceipt};
use alloy_sol_types::SolEvent;
use toolcrib_x402::Authorization;

use crate::abi::IEIP3009::{AuthorizationUsed, Transfer};

/// Maximum number of payments by one payer that are read from one transaction. A block has room for some hundreds by all payers together.
pub const MAX_PAYMENTS: usize = 64;

/// An authorization that a transaction used, with its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaidAuthorization {
    /// The authorization's nonce.
    pub nonce: B256,
    /// The recipient.
    pub to: Address,
    /// The amount.
    pub value: U256,
}

/// Returns the payments of `payer` in a transaction, at most the first [`MAX_PAYMENTS`].
///
/// The transfer must be the token's next log after the use of the authorization. Anywhere in the transaction is not enough: a
/// payer could use ten nonces for empty transfers and present one payment for all of them.
pub fn payments(receipt: &TransactionReceipt, token: Address, payer: Address) -> Vec<PaidAuthorization> {
    if !receipt.status() {
        return Vec::new();
    }
    let mut logs = receipt.inner.logs().iter().filter(|log| log.address() == token && !log.removed).peekable();
    let mut found = Vec::new();
    while let Some(log) = logs.next() {
        let Some(used) = decoded::<AuthorizationUsed>(log).filter(|used| used.authorizer == payer) else { continue };
        let Some(transfer) = logs.peek().and_then(|log| decoded::<Transfer>(log)) else { continue };
        if transfer.from == payer && found.len() < MAX_PAYMENTS {
            found.push(PaidAuthorization { nonce: used.nonce, to: transfer.to, value: transfer.value });
        }
    }
    found
}

/// Returns whether a transaction used the authorization for exactly the signed transfer.
pub fn pays(receipt: &TransactionReceipt, token: Address, authorization: &Authorization) -> bool {
    let Authorization { from, to, value, nonce, .. } = *authorization;
    payments(receipt, token, from).contains(&PaidAuthorization { nonce, to, value: value.get() })
}

/// Returns whether a transaction used the authorization, for any transfer.
pub(super) fn uses(receipt: &TransactionReceipt, token: Address, authorization: &Authorization) -> bool {
    let expected = AuthorizationUsed { authorizer: authorization.from, nonce: authorization.nonce };
    let is_use =
        |log: &Log| log.address() == token && !log.removed && decoded::<AuthorizationUsed>(log).as_ref() == Some(&expected);
    receipt.status() && receipt.inner.logs().iter().any(is_use)
}

fn decoded<E: SolEvent>(log: &Log) -> Option<E> {
    E::decode_log_validate(&log.inner).ok().map(|log| log.data)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::LogData;
    use serde_json::json;
    use toolcrib_core::money::Amount;

    use super::*;

    const TOKEN: Address = Address::repeat_byte(0x70);
    const PAYER: Address = Address::repeat_byte(0x01);
    const PAYEE: Address = Address::repeat_byte(0x02);
    const NONCE: B256 = B256::repeat_byte(0x0a);
    const PRICE: u64 = 10_000;

    fn receipt(status: bool, logs: &[(Address, LogData)], removed: bool) -> TransactionReceipt {
        let hash = B256::repeat_byte(9);
        let logs: Vec<_> = logs
            .iter()
            .enumerate()
            .map(|(at, (address, data))| {
                json!({
                    "address": address, "topics": data.topics(), "data": data.data, "blockHash": hash, "blockNumber": "0x1",
                    "transactionHash": hash, "transactionIndex": "0x0", "logIndex": format!("{at:#x}"), "removed": removed,
                })
            })
            .collect();
        serde_json::from_value(json!({
            "type": "0x2", "status": if status { "0x1" } else { "0x0" }, "cumulativeGasUsed": "0x1", "gasUsed": "0x1",
            "effectiveGasPrice": "0x1", "logsBloom": format!("0x{}", "0".repeat(512)), "logs": logs, "transactionHash": hash,
            "transactionIndex": "0x0", "blockHash": hash, "blockNumber": "0x1", "from": PAYEE, "to": TOKEN,
        }))
        .expect("a receipt")
    }

    fn used(nonce: B256) -> (Address, LogData) {
        (TOKEN, AuthorizationUsed { authorizer: PAYER, nonce }.encode_log_data())
    }

    fn moved(from: Address, to: Address, value: u64) -> (Address, LogData) {
        (TOKEN, Transfer { from, to, value: U256::from(value) }.encode_log_data())
    }

    // attack: T13
    #[test]
    fn the_transfer_follows_the_use() {
        let value = Amount::new(U256::from(PRICE));
        let authorization = Authorization { from: PAYER, to: PAYEE, value, valid_after: 0, valid_before: 1, nonce: NONCE };
        let next = B256::repeat_byte(0x0b);
        let paid = moved(PAYER, PAYEE, PRICE);
        let foreign = |(_, data): (Address, LogData)| (PAYEE, data);
        let by_other = (TOKEN, AuthorizationUsed { authorizer: PAYEE, nonce: NONCE }.encode_log_data());
        for (name, logs, is_paid) in [
            ("as signed", vec![used(NONCE), paid.clone()], true),
            ("beside others", vec![used(next), moved(PAYER, PAYEE, 1), used(NONCE), paid.clone(), moved(PAYEE, PAYER, 1)], true),
            ("with a log of another contract between", vec![used(NONCE), foreign(used(next)), paid.clone()], true),
            ("nothing", vec![], false),
            ("a transfer alone", vec![paid.clone()], false),
            ("a use alone", vec![used(NONCE)], false),
            ("the transfer first", vec![paid.clone(), used(NONCE)], false),
            ("another nonce", vec![used(next), paid.clone()], false),
            ("another nonce between", vec![used(NONCE), used(next), paid.clone()], false),
            ("too little", vec![used(NONCE), moved(PAYER, PAYEE, PRICE - 1)], false),
            ("too much", vec![used(NONCE), moved(PAYER, PAYEE, PRICE + 1)], false),
            ("of another payer", vec![used(NONCE), moved(PAYEE, PAYEE, PRICE)], false),
            ("the nonce of another payer", vec![by_other.clone(), paid.clone()], false),
            ("to another recipient", vec![used(NONCE), moved(PAYER, PAYER, PRICE)], false),
            ("another transfer between", vec![used(NONCE), moved(PAYER, PAYEE, 0), paid.clone()], false),
            ("another token's transfer", vec![used(NONCE), foreign(paid.clone())], false),
            ("another token's use", vec![foreign(used(NONCE)), paid], false),
        ] {
            assert_eq!(pays(&receipt(true, &logs, false), TOKEN, &authorization), is_paid, "{name}");
            assert!(!pays(&receipt(false, &logs, false), TOKEN, &authorization), "{name}: the transaction failed");
            assert!(!pays(&receipt(true, &logs, true), TOKEN, &authorization), "{name}: the logs were removed");
        }
        let uses = |logs: &[_]| uses(&receipt(true, logs, false), TOKEN, &authorization);
        assert!(uses(&[used(NONCE)]) && !uses(&[used(next)]) && !uses(&[by_other]) && !uses(&[foreign(used(NONCE))]));
    }

    #[test]
    fn one_transaction_is_read_up_to_a_limit() {
        let many: Vec<_> = (0..=MAX_PAYMENTS as u64)
            .flat_map(|at| [used(B256::left_padding_from(&at.to_be_bytes())), moved(PAYER, PAYEE, PRICE)])
            .collect();
        assert_eq!(payments(&receipt(true, &many, false), TOKEN, PAYER).len(), MAX_PAYMENTS);
    }
}
