//! Settlement of payments: through a facilitator, or with the operator's key.
//!
//! A settlement has four outcomes, not two. Besides *settled* and *refused* there is *not attempted*, after which the payment is still
//! valid and unused, and *unknown*, after which the payment must neither be served again nor asked for again before the chain was checked.
//! An implementation answers *refused* only if it is certain that nothing moved.
//!
//! One payment buys one result. A server credits a transfer only if its own settlement made it: the transaction is the one that it recorded
//! before the broadcast, or that the facilitator named for this request; or the facilitator's answer was lost, and one of the facilitator's
//! announced signers sent the transaction. Servers that share a facilitator but not a store can therefore still both serve one payment:
//! after a lost answer, and behind a facilitator that names the same transaction to both.

use std::fmt;

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::finding::Finding;
use toolcrib_x402::{Offer, Payment, Raw, Resource};

mod facilitator;
mod heads;
mod local;
mod lookup;
mod skew;

pub use facilitator::{CONFIRM_TIME, Facilitator, FacilitatorCall, PENDING_PAUSE, SETTLE_TIME, SUPPORTED_TIME, VERIFY_TIME};
pub use local::{LocalSettlement, MAX_DEPLOYMENT_GAS, MAX_SETTLEMENT_FEE_WEI, MAX_SETTLEMENT_GAS, RECEIPT_TIME};
pub use lookup::SKEW_SECONDS;
pub use skew::MAX_SKEW_SECONDS;

/// A payment whose signature was verified, and the offer that it pays.
#[derive(Clone, Copy, Debug)]
pub struct Due<'p> {
    /// The payment.
    pub payment: &'p Payment,
    /// The offer.
    pub offer: &'p Offer,
    /// The resource that is sold.
    pub resource: Option<&'p Resource>,
    /// The extensions of the challenge.
    pub extensions: &'p [(String, Raw)],
    /// The request body for a facilitator, if it is already written.
    pub request: Option<&'p str>,
}

/// Settles payments.
#[async_trait]
pub trait Settle: fmt::Debug + Send + Sync {
    /// Checks whether payments for these offers can be settled, and returns the obstacles: a network that the facilitator does not support,
    /// a token with another signing domain, an account without gas. Called at startup. A service that does not answer then does not prevent
    /// the start and becomes a warning.
    async fn check(&self, offers: &[Offer]) -> Vec<Finding>;

    /// Returns chains, and by how many seconds the system clock was ahead of their newest block when they were last asked.
    fn clock_skews(&self) -> Vec<(u64, i64)> {
        Vec::new()
    }

    /// Whether the facilitator lists the tools that are paid through it, from the extension `bazaar` of their challenges.
    fn lists_tools(&self) -> bool {
        false
    }

    /// Checks whether a payment would settle now. Moves nothing.
    async fn verify(&self, due: Due<'_>) -> Verdict;

    /// Settles the payment. The caller has already recorded that money may move. The journal gets a transaction's hash before this process
    /// broadcasts it; and, before a success is returned, the hash of a transaction that nothing else would show to be this settlement's.
    /// `from_block` is a block in which the nonce was unused: a transfer that is not in a later block belongs to another settlement.
    async fn settle(&self, due: Due<'_>, from_block: Option<u64>, journal: &dyn Journal) -> Outcome;

    /// Whether [`look_up`](Self::look_up) can find a settlement of such an offer whose receipt was lost. If not, the receipt is stored
    /// before the caller gets its response.
    fn finds_settlements(&self, _: &Offer) -> bool {
        true
    }

    /// Finds the outcome of a payment, from what was recorded about it. A transfer that the record shows to be another server's is not
    /// credited.
    async fn look_up(&self, due: Due<'_>, record: &Record) -> Found;
}

/// Records the hashes of transactions before they are broadcast.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Records that `transaction` is about to be broadcast. If that fails, it must not be broadcast.
    async fn record_sent(&self, transaction: B256) -> Result<(), String>;
}

/// A journal that records nothing: for tests, and for services that never look up a payment after a restart.
#[derive(Clone, Copy, Debug)]
pub struct Unrecorded;

#[async_trait]
impl Journal for Unrecorded {
    async fn record_sent(&self, _: B256) -> Result<(), String> {
        Ok(())
    }
}

/// Recorded instead of a transaction when the facilitator said that its request sent none, because another transaction settles the payment.
/// No transaction has this hash.
pub const NONE_SENT: B256 = B256::ZERO;

/// Recorded instead of a transaction when the facilitator refused, and the payment is kept in case that turns out to be wrong. No
/// transaction has this hash.
pub const REFUSED: B256 = B256::repeat_byte(0xff);

/// What was recorded about a payment when it was reserved and while it was settled.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When it was reserved, by the system clock. Block timestamps may differ from it, so it is used only if there is no block.
    pub reserved_at: UnixTime,
    /// A block in which its nonce was unused.
    pub from_block: Option<u64>,
    /// The transaction that this server, or the facilitator that it asked, named as the settlement; or [`NONE_SENT`], or [`REFUSED`].
    pub transaction: Option<B256>,
}

impl Record {
    /// Returns a record that contains only the time of the reservation.
    pub const fn since(reserved_at: UnixTime) -> Self {
        Self { reserved_at, from_block: None, transaction: None }
    }
}

/// What is known about a payment before it is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would settle.
    Good {
        /// The newest block, in which its nonce was unused; `None` without a node, or if the node did not answer.
        from_block: Option<u64>,
    },
    /// Its nonce is used: the payment has bought something elsewhere, or was copied from the chain.
    Used,
    /// It would not settle.
    Bad {
        /// Why, in one word for the caller. Untrusted text, sanitised and short.
        reason: String,
    },
    /// Undecidable at present.
    Unclear {
        /// Why, for the operator.
        detail: String,
    },
}

/// How a settlement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The money moved.
    Settled {
        /// In this transaction.
        transaction: B256,
    },
    /// Nothing moved, and this payment will never settle.
    Refused {
        /// Why, in one word for the caller. Untrusted text, sanitised and short.
        reason: String,
    },
    /// As [`Refused`](Self::Refused) according to the facilitator, and the nonce is unused at present. If the facilitator is wrong, the
    /// transfer counts as this payment's, so the payment is kept until it cannot settle any more.
    RefusedForNow {
        /// Why, in one word for the caller. Untrusted text, sanitised and short.
        reason: String,
    },
    /// Another settlement used the nonce. The payment has bought something elsewhere.
    Replayed,
    /// Nothing was attempted. The same payment may be tried again.
    NotAttempted {
        /// Why, for the operator.
        detail: String,
    },
    /// The outcome is unknown here; the chain has it.
    Unknown {
        /// The transaction to look up first, or [`NONE_SENT`].
        transaction: Option<B256>,
        /// Why, for the operator.
        detail: String,
    },
}

/// What the chain says about a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The money moved after the payment was reserved, as it was signed.
    Settled {
        /// In this transaction.
        transaction: B256,
    },
    /// The signed transfer was made by another settlement. The payment has bought something elsewhere.
    Elsewhere {
        /// In this transaction.
        transaction: B256,
    },
    /// The nonce is unused but can still be used, or the block that used it can still be replaced.
    Open,
    /// It never will settle: in a final block, the nonce is unused and the payment's validity is over.
    Never,
    /// In a final block, the nonce was used before the payment was reserved, or cancelled by the payer, or used for another transfer.
    Spent,
    /// The chain does not answer, or there is no node for it.
    Unclear {
        /// Why, for the operator.
        detail: String,
    },
}
