//! Why the chain said no.
//!
//! The words are geth's, because alloy, viem and ethers recognise them; the numbers are JSON-RPC's and EIP-1474's.

use alloy_primitives::{Address, B256, Bytes, U256, hex};

/// A request that the chain refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The nonce was used already.
    #[error("nonce too low: address {sender}, tx: {given} state: {expected}")]
    NonceTooLow {
        /// Who signed.
        sender: Address,
        /// The nonce of the transaction.
        given: u64,
        /// The nonce that would be mined next.
        expected: u64,
    },
    /// The nonce is further ahead than the pool keeps.
    #[error("nonce too high: address {sender}, tx: {given} state: {expected}")]
    NonceTooHigh {
        /// Who signed.
        sender: Address,
        /// The nonce of the transaction.
        given: u64,
        /// The nonce that would be mined next.
        expected: u64,
    },
    /// The sender cannot pay for value and gas.
    #[error("insufficient funds for gas * price + value: address {sender} have {have} want {want}")]
    InsufficientFunds {
        /// Who signed.
        sender: Address,
        /// Wei the account has.
        have: U256,
        /// Wei the transaction may cost.
        want: U256,
    },
    /// A waiting transaction has this nonce, and the new one does not pay a tenth more.
    #[error("replacement transaction underpriced")]
    Underpriced,
    /// The very same transaction is waiting or mined.
    #[error("already known")]
    AlreadyKnown,
    /// The fee cap lies below the base fee of the next block.
    #[error("max fee per gas less than block base fee: address {sender}, maxFeePerGas: {cap}, baseFee: {base_fee}")]
    FeeCapTooLow {
        /// Who signed.
        sender: Address,
        /// What the transaction pays at most for a unit of gas.
        cap: u128,
        /// What the next block asks.
        base_fee: u64,
    },
    /// The tip is larger than the fee cap.
    #[error("max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}")]
    TipAboveFeeCap {
        /// The tip.
        tip: u128,
        /// The cap.
        cap: u128,
    },
    /// The gas limit does not pay for the transaction itself.
    #[error("intrinsic gas too low: gas {have}, minimum needed {want}")]
    IntrinsicGas {
        /// The gas limit.
        have: u64,
        /// What the transaction costs before any code runs.
        want: u64,
    },
    /// The gas limit is more than a block, or since EIP-7825 a transaction, may use.
    #[error("exceeds block gas limit: gas {have}, limit {limit}")]
    GasLimit {
        /// The gas limit.
        have: u64,
        /// The most it may be.
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
    /// The signature does not recover.
    #[error("invalid sender: {0}")]
    Signature(String),
    /// The bytes are not a transaction.
    #[error("rlp: {0}")]
    Encoding(String),
    /// A transaction type that this chain does not take.
    #[error("transaction type not supported: {0}")]
    Type(&'static str),
    /// Another rule of the EVM.
    #[error("{0}")]
    Invalid(String),
    /// The pool is full.
    #[error("txpool is full")]
    PoolFull,
    /// The call reverted; the data says why.
    #[error("execution reverted{}", reason(.0))]
    Reverted(Bytes),
    /// The call stopped in a way that returns no data.
    #[error("{0}")]
    Halted(String),
    /// No gas limit that the caller can pay for is enough.
    #[error("gas required exceeds allowance ({0})")]
    Allowance(u64),
    /// There is no such block.
    #[error("header not found")]
    NoBlock,
    /// There is no such filter, or it was dropped.
    #[error("filter not found")]
    NoFilter,
    /// The range of a log query is upside down.
    #[error("invalid block range params")]
    Range,
    /// A query that would answer more than it may.
    #[error("{0}")]
    TooMuch(String),
    /// The account is none of the ten development accounts.
    #[error("unknown account {0}: this node signs for its ten development accounts only")]
    UnknownAccount(Address),
    /// The chain is too short to undo that many blocks, or the number is out of range.
    #[error("{0}")]
    Parameter(String),
    /// The timestamp lies before that of the newest block.
    #[error("timestamp {given} is before the newest block's {newest}")]
    Timestamp {
        /// What was asked for.
        given: u64,
        /// The newest block's.
        newest: u64,
    },
    /// A transaction was mined, and failed.
    #[error("transaction {0} failed")]
    Failed(B256),
}

impl Refusal {
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

    /// The revert data, when there is some to give.
    pub fn data(&self) -> Option<&Bytes> {
        match self {
            Self::Reverted(data) => Some(data),
            _ => None,
        }
    }
}

/// The text of `Error(string)` and the meaning of `Panic(uint256)`, as nodes append them to the message.
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
        assert_eq!(Refusal::Reverted(data).to_string(), message);
    }

    #[test]
    fn reverts_say_why() {
        let word = |n: u64| format!("{n:064x}");
        check("", "execution reverted");
        check("deadbeef", "execution reverted");
        check(&format!("4e487b71{}", word(0x11)), "execution reverted: arithmetic underflow or overflow");
        check(&format!("4e487b71{}", word(0x99)), "execution reverted: unknown panic code: 0x99");
        check(&format!("08c379a0{}{}6e6f000000000000", word(32), word(2)), "execution reverted: no");
        // Lengths and offsets that point nowhere.
        check(&format!("08c379a0{}{}6e6f", word(32), word(3)), "execution reverted");
        check(&format!("08c379a0{}{}6e6f", word(32), "f".repeat(64)), "execution reverted");
        check(&format!("08c379a0{}{}6e6f", word(64), word(2)), "execution reverted");
        check("08c379a0", "execution reverted");
    }
}
