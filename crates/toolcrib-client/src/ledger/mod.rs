//! The spend ledger: every payment from the moment its money is set aside, in a database that several processes share.
//!
//! ```text
//! reserved -> signed -> settled
//!     |          |  \-> unknown -> settled
//!     \-> released <-------/
//! ```
//!
//! A reservation is one transaction that checks all budgets and counts at once, so that calls made at the same moment never exceed
//! them together. What is `signed` counts as spent from the moment *before* the wallet is asked: a process that dies afterwards leaves
//! it so. It is released only when it was never signed, or when the chain shows that it can never settle.
//!
//! Amounts are millionths of a dollar (see [`Usdc`]). Payments, signatures included, stand in the database, which is made for its owner
//! alone; they are kept as long as a server may give out the result for them, settled or not.

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

/// How long a reservation holds before it is signed, in seconds. What comes in between is one verification and a wallet that may ask
/// a person to press a button.
pub const LEASE_SECONDS: i64 = 300;

/// How long payments are kept, in days. Longer than any budget looks back, and than anybody disputes a cent.
pub const KEEP_DAYS: i64 = 90;

/// How long an open payment can be presented again, in seconds; afterwards the signature and the input are forgotten. A settlement may
/// become known late, and the time for which a server keeps the result begins only then.
pub const RESUMABLE_SECONDS: i64 = DAY;

/// How long the result of a settled payment can be fetched again where the server does not say, in seconds after the settlement became
/// known: as long as gates keep results.
pub const REDEEMABLE_SECONDS: i64 = HOUR;

/// How long a result is believed to be kept at most, in seconds, whatever a server says: inputs and signatures are not kept for ever.
pub const MAX_REDEEMABLE_SECONDS: i64 = DAY;

/// Most payments in the ledger. At the default budgets a day has some dozens.
pub const MAX_ENTRIES: i64 = 100_000;

/// Most rows that one reservation removes on its way.
pub const PRUNE_BATCH: i64 = 200;

/// Most bytes of a request that are kept, so that it can be sent again: what tools take.
pub const MAX_KEPT_BODY: usize = 1 << 20;

/// Most payments in one list.
pub const MAX_LIST: usize = 1_000;

/// An hour and a day, as budgets count them.
pub(crate) const HOUR: i64 = 3_600;
pub(crate) const DAY: i64 = 86_400;

/// The name of a payment in the ledger: 16 random bytes.
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

/// What is to be paid, as far as policy and ledger care.
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
    /// Who is paid.
    pub recipient: Address,
    /// Who pays.
    pub payer: Address,
    /// How much.
    pub amount: Usdc,
}

impl Spend {
    /// What budgets for a tool go by.
    fn tool_text(&self) -> String {
        self.tool.map_or_else(|| self.origin.to_string(), |tool| tool.to_string())
    }
}

/// Where a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// Money is set aside; nothing was signed. Lapses by itself.
    Reserved = 0,
    /// Signed, or about to be. Counts as spent.
    Signed = 1,
    /// It settled, as the server or the chain says: see [`Evidence`].
    Settled = 2,
    /// It was never signed, or can never settle. Does not count.
    Released = 3,
    /// It was sent, and nobody has said what came of it. Counts as spent.
    Unknown = 4,
}

impl State {
    fn from_column(value: i64) -> Option<Self> {
        [Self::Reserved, Self::Signed, Self::Settled, Self::Released, Self::Unknown]
            .into_iter()
            .find(|state| *state as i64 == value)
    }

    /// Whether it may still turn out either way.
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
    /// The server that was paid. Nobody has checked it.
    Server,
    /// The chain: the transaction made the transfer that was signed.
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

/// What is about to be signed, and the request that it is for.
#[derive(Clone, Copy)]
pub struct Signing<'s> {
    /// The nonce of the authorization.
    pub nonce: B256,
    /// When it stops being valid, in seconds since 1970.
    pub valid_before: u64,
    /// A block before which it cannot have settled; 0 when no node was asked.
    pub from_block: u64,
    /// The method of the request.
    pub method: &'s str,
    /// Its URL.
    pub url: &'s str,
    /// Its body.
    pub body: &'s [u8],
    /// The version of x402 that the payment is written in.
    pub version: Version,
}

/// Neither URL nor body: inputs are private.
impl fmt::Debug for Signing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing").field("nonce", &self.nonce).field("valid_before", &self.valid_before).finish_non_exhaustive()
    }
}

/// A payment of the ledger.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub id: PaymentId,
    /// Where it stands.
    pub state: State,
    /// What is paid.
    pub spend: Spend,
    /// When its money was set aside.
    pub created_at: UnixTime,
    /// When it last changed.
    pub updated_at: UnixTime,
    /// Until when an unsigned reservation holds.
    pub lease_until: UnixTime,
    /// The nonce, once it is signed.
    pub nonce: Option<B256>,
    /// When the authorization stops being valid; 0 before it is signed.
    pub valid_before: u64,
    /// A block before which it cannot have settled; 0 when not known.
    pub from_block: u64,
    /// The transaction that settled it, as its [`evidence`](Self::evidence) says.
    pub transaction: Option<B256>,
    /// Whether the chain shows the settlement.
    pub is_confirmed: bool,
    /// Until when the server keeps the result; `None` when it has not said and the payment is not settled.
    pub redeemable_until: Option<UnixTime>,
    /// What was last learnt about it.
    pub note: String,
    pub(crate) request: Option<KeptRequest>,
}

impl Entry {
    /// Who says that it settled, or names a transaction; `None` while nobody does.
    pub fn evidence(&self) -> Option<Evidence> {
        match (self.is_confirmed, self.state == State::Settled || self.transaction.is_some()) {
            (true, _) => Some(Evidence::Chain),
            (false, true) => Some(Evidence::Server),
            (false, false) => None,
        }
    }

    /// Whether request and payment are still there, so that the result can be fetched again.
    pub const fn is_resumable(&self) -> bool {
        self.request.is_some()
    }
}

/// A request that can be sent again with the payment that was made for it.
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

/// Without the request: it holds the input, and a signature.
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

/// What counts as spent now.
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

/// Why money is not committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// One call may not cost as much.
    #[error("the call costs {amount} USDC, and one call may cost {limit}")]
    PerCall {
        /// What it costs.
        amount: Usdc,
        /// What it may cost.
        limit: Usdc,
    },
    /// A budget would be exceeded.
    #[error("{amount} USDC more would exceed {}: {spent} of {limit} USDC of {} are spent", .budget.words(), money(*.is_test))]
    Budget {
        /// Which one.
        budget: Budget,
        /// What is wanted.
        amount: Usdc,
        /// What counts as spent.
        spent: Usdc,
        /// What may be.
        limit: Usdc,
        /// Whether it is the budget for test money.
        is_test: bool,
    },
    /// The lists of recipients forbid it.
    #[error("the policy does not let {recipient} be paid")]
    Recipient {
        /// Who.
        recipient: Address,
    },
    /// The lists of tools forbid it.
    #[error("the policy does not let {} be paid for", .tool.map_or_else(|| "a URL without a manifest".to_owned(), |tool| tool.to_string()))]
    Tool {
        /// Which one; `None` for a URL.
        tool: Option<ToolRef>,
    },
    /// The lists of origins forbid it.
    #[error("the policy does not let {origin} be paid")]
    Origin {
        /// Which one.
        origin: String,
    },
    /// The list of chains forbids it.
    #[error("the policy does not let payments be signed on chain {chain}")]
    Chain {
        /// Which one.
        chain: u64,
    },
    /// The ledger cannot count it.
    #[error("the amount cannot be counted")]
    Amount,
    /// The reservation is over.
    #[error("the reservation of payment {id} has lapsed")]
    Lapsed {
        /// Which one.
        id: PaymentId,
    },
    /// There is no such payment.
    #[error("there is no payment {id}")]
    NotFound {
        /// What was asked for.
        id: PaymentId,
    },
    /// Its state does not allow it.
    #[error("payment {id} is {state}")]
    State {
        /// Which one.
        id: PaymentId,
        /// Where it stands.
        state: State,
    },
    /// No room.
    #[error("the ledger has {MAX_ENTRIES} payments")]
    Full,
    /// No random bytes.
    #[error("the operating system gave no random bytes")]
    Random,
    /// The database.
    #[error(transparent)]
    Store(#[from] toolcrib_store::Error),
}

/// Each of the two has its own budgets.
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
