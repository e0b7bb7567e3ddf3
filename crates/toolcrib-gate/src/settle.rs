//! Moving the money: through a facilitator, or with a key of one's own.
//!
//! A settlement has four ends, not two. Beside *settled* and *refused* there is *not attempted*, after which the payment is as good as
//! before, and *unknown*, after which nobody may serve it again or ask to pay again before the chain was looked at. Whoever settles says
//! *refused* only when it is certain that nothing moved.
//!
//! One payment buys one result. A server credits a transfer only if its own settlement made it: the transaction is the one that it
//! recorded before it was broadcast, or that the facilitator named for this request; or the facilitator's answer was lost, and one of
//! the facilitator's announced signers sent the transaction. Servers that share a facilitator and not a store can therefore still both
//! serve a payment: after a lost answer, and behind a facilitator that names one transaction to both.

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

/// A payment whose signature was checked, and the offer of ours that it meets.
#[derive(Clone, Copy, Debug)]
pub struct Due<'p> {
    /// The payment.
    pub payment: &'p Payment,
    /// The offer.
    pub offer: &'p Offer,
    /// What is sold.
    pub resource: Option<&'p Resource>,
    /// The extensions of the challenge.
    pub extensions: &'p [(String, Raw)],
    /// All of this as a facilitator is asked about it, if it is written already.
    pub request: Option<&'p str>,
}

/// Whoever moves the money of payments.
#[async_trait]
pub trait Settle: fmt::Debug + Send + Sync {
    /// Looks whether payments for these offers could be settled at all, and gives what stands in the way: a network that the
    /// facilitator does not serve, a token with another signing domain, an account without gas. Asked at the start; a service that
    /// does not answer then is no reason not to start, and is told as a warning.
    async fn check(&self, offers: &[Offer]) -> Vec<Finding>;

    /// Chains, and the seconds that the machine's clock was ahead of their newest block when they were last asked.
    fn clock_skews(&self) -> Vec<(u64, i64)> {
        Vec::new()
    }

    /// Whether it lists tools that are paid through it, from the extension `bazaar` of their challenges.
    fn lists_tools(&self) -> bool {
        false
    }

    /// Whether a payment would settle now. Moves nothing.
    async fn verify(&self, due: Due<'_>) -> Verdict;

    /// Moves the money. The caller has written down before that it may move. Before a transaction is broadcast by this process, its
    /// hash goes to the journal; and before a success is returned, that of a transaction which nothing else would show to be this
    /// settlement's. `from_block` is a block in which the nonce was unused: a transfer that is not in a later one is another's.
    async fn settle(&self, due: Due<'_>, from_block: Option<u64>, journal: &dyn Journal) -> Outcome;

    /// Whether [`look_up`](Self::look_up) can find a settlement of such an offer whose receipt was lost. If not, the receipt is stored
    /// before the caller has its answer.
    fn finds_settlements(&self, _: &Offer) -> bool {
        true
    }

    /// Finds out what has become of a payment, from what was recorded about it. A transfer that the record shows to be another
    /// server's is not credited.
    async fn look_up(&self, due: Due<'_>, record: &Record) -> Found;
}

/// Takes the hashes of transactions before they are broadcast.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Writes down that `transaction` is about to be broadcast. If that fails, it must not be.
    async fn record_sent(&self, transaction: B256) -> Result<(), String>;
}

/// A journal that keeps nothing: for tests, and for services that never look a payment up after a restart.
#[derive(Clone, Copy, Debug)]
pub struct Unrecorded;

#[async_trait]
impl Journal for Unrecorded {
    async fn record_sent(&self, _: B256) -> Result<(), String> {
        Ok(())
    }
}

/// Recorded in place of a transaction when the facilitator said that its request sent none, because another transaction settles the
/// payment. No transaction has this hash.
pub const NONE_SENT: B256 = B256::ZERO;

/// Recorded in place of a transaction when the facilitator refused, and the payment is kept in case that turns out to be wrong. No
/// transaction has this hash.
pub const REFUSED: B256 = B256::repeat_byte(0xff);

/// What was recorded about a payment when it was taken and while it was settled.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When it was taken, by our clock. Blocks have clocks of their own, so this counts only where there is no block.
    pub reserved_at: UnixTime,
    /// A block in which its nonce was unused.
    pub from_block: Option<u64>,
    /// The transaction that we, or the facilitator that we asked, said would settle it; or [`NONE_SENT`], or [`REFUSED`].
    pub transaction: Option<B256>,
}

impl Record {
    /// The record of a payment of which only the time is known.
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
    /// Its nonce is used: it has bought something elsewhere, or was copied from the chain.
    Used,
    /// It would not.
    Bad {
        /// Why, in one word that the caller may read. Foreign, cleaned and short.
        reason: String,
    },
    /// Nobody can tell at present.
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
    /// Nothing moved, and with this payment nothing will.
    Refused {
        /// Why, in one word that the caller may read. Foreign, cleaned and short.
        reason: String,
    },
    /// As [`Refused`](Self::Refused), says the facilitator, and the nonce is unused at present. Should it be wrong, the transfer would
    /// count as this payment's, so the payment is kept until it never can be.
    RefusedForNow {
        /// Why, in one word that the caller may read. Foreign, cleaned and short.
        reason: String,
    },
    /// The nonce was used by a settlement that is not this one. The payment has bought something elsewhere.
    Replayed,
    /// Nothing was tried. The same payment may be tried again.
    NotAttempted {
        /// Why, for the operator.
        detail: String,
    },
    /// Only the chain knows.
    Unknown {
        /// Where to look first, or [`NONE_SENT`].
        transaction: Option<B256>,
        /// Why, for the operator.
        detail: String,
    },
}

/// What the chain says about a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The money moved since the payment was taken, as it was signed.
    Settled {
        /// In this transaction.
        transaction: B256,
    },
    /// The signed transfer was made, by a settlement that is not this one. The payment has bought something elsewhere.
    Elsewhere {
        /// In this transaction.
        transaction: B256,
    },
    /// The nonce is not used but still can be, or its use can still be replaced.
    Open,
    /// It never will be settled: the nonce is not used, and the time in which it could be is over, in a final block.
    Never,
    /// The nonce was used before the payment was taken, or cancelled by the payer, or used for another transfer, in a final block.
    Spent,
    /// The chain does not answer, or there is no node for it.
    Unclear {
        /// Why, for the operator.
        detail: String,
    },
}
