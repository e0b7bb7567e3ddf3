//! The spend ledger: every payment from its reservation on, in a database that several processes share.
//!
//! ```text
//! reserved -> signed -> settled
//!     |          |  \-> unknown -> settled
//!     \-> released <-------/
//! ```
//!
//! A reservation is one transaction that checks and counts all budgets, so that concurrent calls never exceed them together. A payment is
//! `signed`, and counts as spent, from the moment *before* the wallet is asked, so that it stays counted if the process dies afterwards. It
//! is released only if it was never signed, or if the chain shows that it can never settle.
//!
//! Amounts are millionths of a dollar (see [`Usdc`]). Payments are stored with their signatures, in a database with permissions for its
//! owner only. They are kept for as long as a server may return their result, settled or not.

use std::fmt;

use alloy_primitives::{Address, B256};
use serde::{Serialize, Serializer};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, spend as code};
use toolcrib_core::hex;
use toolcrib_core::url::Origin;
use toolcrib_x402::Version;

mod sql;
mod statements;

pub use sql::Ledger;

use crate::Usdc;

/// Lease of an unsigned reservation, in seconds. It covers one verification and a wallet that may ask a person to press a button.
pub const LEASE_SECONDS: i64 = 300;

/// For how many days payments are kept: longer than any budget's window, and than small payments are disputed.
pub const KEEP_DAYS: i64 = 90;

/// For how many seconds an open payment can be sent again; afterwards the signature and the input are deleted. A settlement may become
/// known late, and the time for which a server keeps the result starts only then.
pub const RESUMABLE_SECONDS: i64 = DAY;

/// For how many seconds after its settlement became known a payment can redeem its result, if the server does not say: as long as gates
/// keep results.
pub const REDEEMABLE_SECONDS: i64 = HOUR;

/// Upper limit in seconds for the time that a server announces, so that inputs and signatures are not kept forever.
pub const MAX_REDEEMABLE_SECONDS: i64 = DAY;

/// Most payments in the ledger. The default budgets allow some dozens a day.
pub const MAX_ENTRIES: i64 = 100_000;

/// Most old rows that one reservation removes.
pub const PRUNE_BATCH: i64 = 200;

/// Most bytes of a request that are kept for a retry: what tools accept.
pub const MAX_KEPT_BODY: usize = 1 << 20;

/// Most payments in one list.
pub const MAX_LIST: usize = 1_000;

/// An hour and a day, as budgets count them.
pub(crate) const HOUR: i64 = 3_600;
pub(crate) const DAY: i64 = 86_400;

/// The ID of a payment in the ledger: 16 random bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaymentId([u8; 16]);

impl PaymentId {
    pub(crate) fn random() -> Result<Self, SpendError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| SpendError::Random)?;
        Ok(Self(bytes))
    }

    /// Reads 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = hex::decode(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))?;
        <[u8; 16]>::try_from(bytes).ok().map(Self)
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PaymentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A payment as policy and ledger count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// The tool; `None` for a URL without a manifest.
    pub tool: Option<ToolRef>,
    /// The server.
    pub origin: Origin,
    /// The chain that is paid on.
    pub chain: u64,
    /// The token.
    pub asset: Address,
    /// The recipient.
    pub recipient: Address,
    /// The payer.
    pub payer: Address,
    /// The amount.
    pub amount: Usdc,
}

impl Spend {
    /// Returns the key of budgets for a tool.
    fn tool_text(&self) -> String {
        self.tool.map_or_else(|| self.origin.to_string(), |tool| tool.to_string())
    }
}

/// The state of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// Money is reserved; nothing was signed. Expires by itself.
    Reserved = 0,
    /// Signed, or about to be. Counts as spent.
    Signed = 1,
    /// It settled, according to the server or the chain: see [`Evidence`].
    Settled = 2,
    /// It was never signed, or can never settle. Does not count.
    Released = 3,
    /// It was sent, and its outcome is unknown. Counts as spent.
    Unknown = 4,
}

impl State {
    fn from_column(value: i64) -> Option<Self> {
        [Self::Reserved, Self::Signed, Self::Settled, Self::Released, Self::Unknown]
            .into_iter()
            .find(|state| *state as i64 == value)
    }

    /// Whether the outcome is still open.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Signed | Self::Unknown)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "reserved",
            Self::Signed => "signed",
            Self::Settled => "settled",
            Self::Released => "released",
            Self::Unknown => "unknown",
        })
    }
}

/// Who says that a payment settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The server that was paid; not verified.
    Server,
    /// The chain: the transaction made the signed transfer.
    Chain,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "stated by the server, not checked",
            Self::Chain => "confirmed on the chain",
        })
    }
}

/// The authorization that is about to be signed, and its request.
#[derive(Clone, Copy)]
pub struct Signing<'s> {
    /// The nonce of the authorization.
    pub nonce: B256,
    /// When it stops being valid, in seconds since 1970.
    pub valid_before: u64,
    /// A block before which it cannot have settled; 0 if no node was asked.
    pub from_block: u64,
    /// The method of the request.
    pub method: &'s str,
    /// Its URL.
    pub url: &'s str,
    /// Its body.
    pub body: &'s [u8],
    /// The x402 version of the payment.
    pub version: Version,
}

/// Shows neither URL nor body: inputs are private.
impl fmt::Debug for Signing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing").field("nonce", &self.nonce).field("valid_before", &self.valid_before).finish_non_exhaustive()
    }
}

/// A payment of the ledger.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its ID.
    pub id: PaymentId,
    /// Its state.
    pub state: State,
    /// What is paid.
    pub spend: Spend,
    /// When its money was reserved.
    pub created_at: UnixTime,
    /// When it last changed.
    pub updated_at: UnixTime,
    /// When an unsigned reservation expires.
    pub lease_until: UnixTime,
    /// The nonce, once it is signed.
    pub nonce: Option<B256>,
    /// When the authorization stops being valid; 0 before it is signed.
    pub valid_before: u64,
    /// A block before which it cannot have settled; 0 if unknown.
    pub from_block: u64,
    /// The transaction that settled it, as its [`evidence`](Self::evidence) says.
    pub transaction: Option<B256>,
    /// Whether the settlement was found on the chain.
    pub is_confirmed: bool,
    /// Until when the server keeps the result; `None` if it has not said and the payment is not settled.
    pub redeemable_until: Option<UnixTime>,
    /// The last note about it.
    pub note: String,
    pub(crate) request: Option<KeptRequest>,
}

impl Entry {
    /// Returns who says that it settled, or names a transaction; `None` before that.
    pub fn evidence(&self) -> Option<Evidence> {
        match (self.is_confirmed, self.state == State::Settled || self.transaction.is_some()) {
            (true, _) => Some(Evidence::Chain),
            (false, true) => Some(Evidence::Server),
            (false, false) => None,
        }
    }

    /// Whether request and payment are still stored, so that the result can be redeemed.
    pub const fn is_resumable(&self) -> bool {
        self.request.is_some()
    }
}

/// A request that can be sent again with its payment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeptRequest {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) body: Vec<u8>,
    pub(crate) version: Version,
    pub(crate) payment: String,
    pub(crate) salt: Option<B256>,
    pub(crate) retry_token: Option<String>,
}

/// Shows no request: it contains the input and a signature.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("spend", &self.spend)
            .field("transaction", &self.transaction)
            .field("note", &self.note)
            .finish_non_exhaustive()
    }
}

/// What currently counts as spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// In the last hour.
    pub hour: Usdc,
    /// In the last 24 hours.
    pub day: Usdc,
    /// In the last 24 hours, signed and not known to have settled.
    pub open: Usdc,
}

/// Why a payment is refused by the policy or the ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// The price is above the limit for one call.
    #[error("the call costs {amount} USDC, and one call may cost {limit}")]
    PerCall {
        /// The price.
        amount: Usdc,
        /// The limit.
        limit: Usdc,
    },
    /// A budget would be exceeded.
    #[error("{amount} USDC more would exceed {}: {spent} of {limit} USDC of {} are spent", .budget.words(), money(*.is_test))]
    Budget {
        /// The budget.
        budget: Budget,
        /// The amount of the payment.
        amount: Usdc,
        /// What counts as spent.
        spent: Usdc,
        /// The limit.
        limit: Usdc,
        /// Whether it is the budget for test money.
        is_test: bool,
    },
    /// The lists of recipients forbid it.
    #[error("the policy does not let {recipient} be paid")]
    Recipient {
        /// The recipient.
        recipient: Address,
    },
    /// The lists of tools forbid it.
    #[error("the policy does not let {} be paid for", .tool.map_or_else(|| "a URL without a manifest".to_owned(), |tool| tool.to_string()))]
    Tool {
        /// The tool; `None` for a URL.
        tool: Option<ToolRef>,
    },
    /// The lists of origins forbid it.
    #[error("the policy does not let {origin} be paid")]
    Origin {
        /// The origin.
        origin: String,
    },
    /// The list of chains forbids it.
    #[error("the policy does not let payments be signed on chain {chain}")]
    Chain {
        /// The chain.
        chain: u64,
    },
    /// The amount is out of range.
    #[error("the amount cannot be counted")]
    Amount,
    /// The reservation has expired.
    #[error("the reservation of payment {id} has lapsed")]
    Lapsed {
        /// The payment.
        id: PaymentId,
    },
    /// The ledger has no such payment.
    #[error("there is no payment {id}")]
    NotFound {
        /// The ID.
        id: PaymentId,
    },
    /// Its state does not allow it.
    #[error("payment {id} is {state}")]
    State {
        /// The payment.
        id: PaymentId,
        /// Its state.
        state: State,
    },
    /// The ledger is full.
    #[error("the ledger has {MAX_ENTRIES} payments")]
    Full,
    /// No random bytes.
    #[error("the operating system gave no random bytes")]
    Random,
    /// A database error.
    #[error(transparent)]
    Store(#[from] toolcrib_store::Error),
}

/// Names a kind of money. Test money and real money have separate budgets.
const fn money(is_test: bool) -> &'static str {
    if is_test { "test money" } else { "real money" }
}

/// A budget of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Budget {
    /// The last hour.
    Hour,
    /// The last 24 hours.
    Day,
    /// One recipient.
    Recipient,
    /// One tool.
    Tool,
    /// One token.
    Asset,
}

impl Budget {
    const fn words(self) -> &'static str {
        match self {
            Self::Hour => "the budget of an hour",
            Self::Day => "the budget of a day",
            Self::Recipient => "the budget of a day for this recipient",
            Self::Tool => "the budget of a day for this tool",
            Self::Asset => "the budget of a day for this token",
        }
    }
}

impl SpendError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::PerCall { .. } => code::PER_CALL,
            Self::Budget { budget, .. } => match budget {
                Budget::Hour => code::PER_HOUR,
                Budget::Day => code::PER_DAY,
                Budget::Recipient => code::PER_RECIPIENT,
                Budget::Tool => code::PER_TOOL,
                Budget::Asset => code::PER_ASSET,
            },
            Self::Recipient { .. } => code::RECIPIENT,
            Self::Tool { .. } => code::TOOL,
            Self::Origin { .. } => code::ORIGIN,
            Self::Chain { .. } => code::CHAIN,
            Self::Amount => code::AMOUNT,
            Self::Lapsed { .. } => code::RESERVATION_EXPIRED,
            Self::NotFound { .. } => code::NOT_FOUND,
            Self::State { .. } => code::STATE,
            Self::Full => code::FULL,
            Self::Random => toolcrib_core::codes::store::RANDOM,
            Self::Store(error) => error.code(),
        }
    }
}
