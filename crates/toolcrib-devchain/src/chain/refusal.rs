//! Errors of the chain.
//!
//! The messages are geth's, because alloy, viem and ethers recognise them; the error codes are those of JSON-RPC and EIP-1474.

use alloy_primitives::{Address, B256, Bytes, U256, hex};

/// Why the chain rejected a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The nonce was already used.
    #[error("nonce too low: address {sender}, tx: {given} state: {expected}")]
    NonceTooLow {
        /// The sender.
        sender: Address,
        /// The transaction's nonce.
        given: u64,
        /// The account's next nonce.
        expected: u64,
    },
    /// The nonce is too far ahead for the pool.
    #[error("nonce too high: address {sender}, tx: {given} state: {expected}")]
    NonceTooHigh {
        /// The sender.
        sender: Address,
        /// The transaction's nonce.
        given: u64,
        /// The account's next nonce.
        expected: u64,
    },
    /// The balance is too low for value and gas.
    #[error("insufficient funds for gas * price + value: address {sender} have {have} want {want}")]
    InsufficientFunds {
        /// The sender.
        sender: Address,
        /// The account's balance in wei.
        have: U256,
        /// The transaction's maximum cost in wei.
        want: U256,
    },
    /// The pool has a transaction with this nonce, and the new one does not pay a tenth more.
    #[error("replacement transaction underpriced")]
    Underpriced,
    /// The same transaction is already in the pool or mined.
    #[error("already known")]
    AlreadyKnown,
    /// The fee cap is below the base fee of the next block.
    #[error("max fee per gas less than block base fee: address {sender}, maxFeePerGas: {cap}, baseFee: {base_fee}")]
    FeeCapTooLow {
        /// The sender.
        sender: Address,
        /// The transaction's maximum fee per gas.
        cap: u128,
        /// The base fee of the next block.
        base_fee: u64,
    },
    /// The priority fee is above the fee cap.
    #[error("max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}")]
    TipAboveFeeCap {
        /// The priority fee.
        tip: u128,
        /// The fee cap.
        cap: u128,
    },
    /// The gas limit is below the transaction's intrinsic gas.
    #[error("intrinsic gas too low: gas {have}, minimum needed {want}")]
    IntrinsicGas {
        /// The gas limit.
        have: u64,
        /// The intrinsic gas.
        want: u64,
    },
    /// The gas limit is above that of a block or, since EIP-7825, of a transaction.
    #[error("exceeds block gas limit: gas {have}, limit {limit}")]
    GasLimit {
        /// The gas limit.
        have: u64,
        /// The maximum.
        limit: u64,
    },
    /// The transaction is for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// The chain in the transaction.
        have: u64,
        /// This chain.
        want: u64,
    },
    /// The signature does not recover to an account.
    #[error("invalid sender: {0}")]
    Signature(String),
    /// The bytes are not a transaction.
    #[error("rlp: {0}")]
    Encoding(String),
    /// The chain does not support this transaction type.
    #[error("transaction type not supported: {0}")]
    Type(&'static str),
    /// The transaction violates another rule of the EVM.
    #[error("{0}")]
    Invalid(String),
    /// The pool is full.
    #[error("txpool is full")]
    PoolFull,
    /// The call reverted with this data.
    #[error("execution reverted{}", reason(.0))]
    Reverted(Bytes),
    /// Execution halted without return data.
    #[error("{0}")]
    Halted(String),
    /// The gas that the sender can pay for is not enough.
    #[error("gas required exceeds allowance ({0})")]
    Allowance(u64),
    /// The block does not exist.
    #[error("header not found")]
    NoBlock,
    /// The filter does not exist, or was dropped.
    #[error("filter not found")]
    NoFilter,
    /// The block range of a log query ends before it starts.
    #[error("invalid block range params")]
    Range,
    /// The result of a query exceeds a limit.
    #[error("{0}")]
    TooMuch(String),
    /// The account is not one of the ten development accounts.
    #[error("unknown account {0}: this node signs for its ten development accounts only")]
    UnknownAccount(Address),
    /// A parameter is out of range, such as a reorg deeper than the chain.
    #[error("{0}")]
    Parameter(String),
    /// The timestamp is before that of the newest block.
    #[error("timestamp {given} is before the newest block's {newest}")]
    Timestamp {
        /// The requested timestamp.
        given: u64,
        /// That of the newest block.
        newest: u64,
    },
    /// A transaction was mined, but failed.
    #[error("transaction {0} failed")]
    Failed(B256),
}

impl Rejection {
    /// The JSON-RPC error code.
    pub const fn rpc_code(&self) -> i64 {
        match self {
            Self::Reverted(_) => 3,
            Self::Range | Self::Parameter(_) | Self::Timestamp { .. } => -32602,
            Self::TooMuch(_) => -32005,
            Self::UnknownAccount(_) => -32000,
            Self::Type(_) | Self::Encoding(_) => -32000,
            _ => -32000,
        }
    }

    /// The revert data, if any.
    pub fn data(&self) -> Option<&Bytes> {
        match self {
            Self::Reverted(data) => Some(data),
            _ => None,
        }
    }
}

/// The message of `Error(string)` or the meaning of `Panic(uint256)`, as nodes append it to the error message.
fn reason(data: &Bytes) -> String {
    const ERROR: [u8; 4] = hex!("08c379a0");
    const PANIC: [u8; 4] = hex!("4e487b71");
    let Some((selector, rest)) = data.split_first_chunk::<4>() else { return String::new() };
    if *selector == ERROR {
        let word = |at: usize| rest.get(at..at + 32).map(U256::from_be_slice).and_then(|word| usize::try_from(word).ok());
        let text =
            word(0).filter(|at| *at == 32).and_then(|_| word(32)).and_then(|length| rest.get(64..64usize.checked_add(length)?));
        return text.map(|text| format!(": {}", String::from_utf8_lossy(text))).unwrap_or_default();
    }
    if *selector == PANIC && rest.len() == 32 {
        let code = U256::from_be_slice(rest);
        let meaning = match u8::try_from(code).unwrap_or(u8::MAX) {
            0x01 => "assert(false)",
            0x11 => "arithmetic underflow or overflow",
            0x12 => "division or modulo by zero",
            0x21 => "enum overflow",
            0x22 => "invalid encoded storage byte array accessed",
            0x31 => "out-of-bounds array access; popping on an empty array",
            0x32 => "out-of-bounds access of an array or bytesN",
            0x41 => "out of memory",
            0x51 => "uninitialized function",
            _ => return format!(": unknown panic code: {code:#x}"),
        };
        return format!(": {meaning}");
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(data: &str, message: &str) {
        let data = Bytes::from(hex::decode(data).unwrap());
        assert_eq!(Rejection::Reverted(data).to_string(), message);
    }

    #[test]
    fn reverts_say_why() {
        let word = |n: u64| format!("{n:064x}");
        check("", "execution reverted");
        check("deadbeef", "execution reverted");
        check(&format!("4e487b71{}", word(0x11)), "execution reverted: arithmetic underflow or overflow");
        check(&format!("4e487b71{}", word(0x99)), "execution reverted: unknown panic code: 0x99");
        check(&format!("08c379a0{}{}6e6f000000000000", word(32), word(2)), "execution reverted: no");
        // Lengths and offsets beyond the end.
        check(&format!("08c379a0{}{}6e6f", word(32), word(3)), "execution reverted");
        check(&format!("08c379a0{}{}6e6f", word(32), "f".repeat(64)), "execution reverted");
        check(&format!("08c379a0{}{}6e6f", word(64), word(2)), "execution reverted");
        check("08c379a0", "execution reverted");
    }
}
