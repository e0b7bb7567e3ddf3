//! The replay store: payments are used once.
//!
//! An authorization is public as soon as it is settled, and one of value 0 never reaches the chain at all, so this store decides whether
//! one was used. Its keys are chain, asset, payer and nonce, and all replicas and tools of an operator share it.
//!
//! ```text
//! reserve ──► reserved ──begin_settlement──► settling ──settle──► settled
//!               │  │                           │   │                ▲
//!               │                              │   └─mark_unknown─► unknown
//!               └─────────release──────────────┴──────────────────────┘──► gone
//! ```
//!
//! The caller of `reserve` gets a [`Ticket`], and only its holder may release: a late release must not free what another call has reserved
//! meanwhile. That a payment was settled is a fact, so any process that saw it may record it. `settling` is recorded **before** money can
//! move, together with the result of the call, so that after a crash at any point there is either nothing to pay for, or something to look
//! up.
//!
//! Time is an argument. Replicas are expected to agree on it within the skew that they add to `expires_at`.

use std::fmt;

use alloy_primitives::{B256, Keccak256};
use async_trait::async_trait;
use subtle::ConstantTimeEq as _;
use toolcrib_core::clock::UnixTime;
pub use toolcrib_x402::ReplayKey;

use crate::Error;
use crate::database::{Cell, FromCell};

mod batch;
mod group;
mod limits;
mod memory;
mod sql;
mod statements;

pub use group::SqlReplay;
pub use limits::{Limits, MAX_RESULT_BYTES, MAX_RESULT_SECONDS, Room};
pub use memory::MemoryReplay;

/// Longest route in bytes. Routes are written by operators; a slug has at most 64.
pub const MAX_ROUTE_BYTES: usize = 512;
/// Longest note in bytes: a payment header (16 KiB at most) and its offer.
pub const MAX_NOTE_BYTES: usize = 32 * 1024;
/// Longest receipt in bytes. A settlement response has a few hundred; it is sent in a header.
pub const MAX_RECEIPT_BYTES: usize = 8 * 1024;
/// Longest content type in bytes.
pub const MAX_CONTENT_TYPE_BYTES: usize = 256;
/// Longest validity of a reservation in seconds. Gates allow 900 and some skew; a day leaves room for their settings.
pub const MAX_RESERVATION_SECONDS: i64 = 86_400;
/// How often a call that was paid for before it ran may be run again after crashes. Limited, since running costs, and was paid once.
pub const RERUNS: i64 = 2;
/// Shortest pause in seconds before a failed call that was paid for before it ran is run again.
pub const RETRY_PAUSE_SECONDS: i64 = 5;
/// Most payments that one [`expire`](ReplayStore::expire) removes, so that no transaction is long.
pub const EXPIRE_BATCH: usize = 500;
/// Most payments of one list or claim.
pub const MAX_LIST: usize = 1_000;
/// Delivered results that are dropped at a time to make room.
const EVICT_BATCH: usize = 64;

/// A store of used payments. Every method is one atomic step, across processes too.
#[async_trait]
pub trait ReplayStore: fmt::Debug + Send + Sync {
    /// Reserves a payment for one request. Of any number of concurrent callers, exactly one gets [`Reserve::Reserved`].
    ///
    /// A `reserved` payment whose lease has ended is given to the next caller: its holder crashed before any money could move. If running
    /// twice is worse than waiting, let the lease end with the reservation: an identity signature, which is never settled, is then used up
    /// by its reservation.
    async fn reserve(&self, key: &ReplayKey, reservation: &Reservation<'_>, now: UnixTime) -> Result<Reserve, Error>;

    /// Records that settlement begins, before anything is sent: `reserved` to `settling`.
    async fn begin_settlement(
        &self,
        key: &ReplayKey,
        ticket: Ticket,
        settlement: &Settlement<'_>,
    ) -> Result<ResultRetention, Error>;

    /// Records the transaction that settles the payment, before it is broadcast: after a crash, only this transaction is known to be the
    /// settlement's own.
    async fn record_sent(&self, key: &ReplayKey, ticket: Ticket, transaction: B256) -> Result<(), Error>;

    /// Records that the payment was settled: `settling` or `unknown` to `settled`. Idempotent.
    ///
    /// Every user of the store sees it when this returns. It need not be on disk yet: after a power failure the intention to settle and the
    /// result are still there, and the transfer is found on the chain.
    async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error>;

    /// Like [`settle`](Self::settle), for a gate whose caller already has its response: a database writes it together with the next steps
    /// of other calls, or by itself after a few milliseconds. Meanwhile the payment is `settling`.
    async fn settle_in_background(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        self.settle(key, receipt, now).await
    }

    /// Records that it is unknown whether the payment was settled: `settling` to `unknown`. From now on it can be claimed.
    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error>;

    /// Releases the payment: removes a `reserved`, `settling` or `unknown` one.
    ///
    /// From `settling` only if the settlement was certainly refused, from `unknown` only if the chain shows that it can never happen: the
    /// nonce is unused in a final block that is past the authorization's end.
    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error>;

    /// Stores the result of a call that was settled before it ran. Once only.
    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error>;

    /// Records that a call that was settled before it ran has failed, so that the payer can have it run again before its lease ends. Such a
    /// run does not count as one of the [`RERUNS`], which are for crashes. The pause until the next one is as long as the time since the
    /// reservation, and at least [`RETRY_PAUSE_SECONDS`]: a few runs for one payment, however long a tool fails.
    async fn run_failed(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error>;

    /// Answers a replayed payment: the result only with proof of possession, for the same request.
    async fn redeem(&self, key: &ReplayKey, again: &Again<'_>, now: UnixTime) -> Result<Redeem, Error>;

    /// Takes over payments with an unknown outcome: `unknown`, and `settling` whose lease ended. No two claimants get the same one before
    /// `lease_until`. The oldest leases are taken first.
    async fn claim_unknowns(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error>;

    /// Returns the limits of this store.
    fn limits(&self) -> Limits;

    /// Makes room for results before a call runs that will have one: drops delivered results, the first delivered first, until `bytes` are
    /// free, or none is left. Returns what is free then.
    async fn make_room(&self, bytes: u64) -> Result<Room, Error>;

    /// Records that the responses to these payments were delivered. Their results are dropped first when room is needed. Payments that do
    /// not exist, or have no result, are skipped.
    async fn mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error>;

    /// Returns payments that are `settling` or `unknown`, the oldest leases first, without taking them over.
    async fn unknowns(&self, limit: usize) -> Result<Vec<Entry>, Error>;

    /// Returns one payment.
    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error>;

    /// Removes expired payments, at most [`EXPIRE_BATCH`]. Returns their number; if it equals the limit, there may be more. `settling` and
    /// `unknown` ones are kept until they are settled or released.
    async fn expire(&self, now: UnixTime) -> Result<usize, Error>;

    /// Counts the payments. Reads all rows of a database: for a metrics page, not for every request.
    async fn counts(&self) -> Result<Counts, Error>;
}

/// The data of a reservation.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    /// The end of the authorization plus the skew. Until then the payment counts as used.
    pub expires_at: UnixTime,
    /// The end of the lease: until then the holder counts as alive.
    pub lease_until: UnixTime,
    /// The tool and path of the request.
    pub route: &'a str,
    /// The hash of the request's body.
    pub body_hash: B256,
    /// The later proof of possession: of the salt of a bound nonce, or of a token sent with the first response.
    pub proof: Option<Proof>,
    /// The payment identifier that the caller chose, hashed with everything for which it is unique.
    pub payment_id: Option<B256>,
}

/// The result of [`ReplayStore::reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// The payment is reserved for this request. Continue with the ticket.
    Reserved(Ticket),
    /// Another request has used it, or is using it.
    AlreadyUsed {
        /// Its state.
        state: State,
        /// The receipt, once there is one.
        receipt: Option<Receipt>,
    },
    /// Another payment has the same `payment_id`.
    IdInUse,
    /// There is no room: the payment must not be accepted (`store.full`).
    Full,
}

/// The right to continue with a reserved payment. Not a secret from the caller, but never sent to one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket([u8; Self::BYTES]);

impl Ticket {
    /// Number of random bytes: enough to be unique.
    const BYTES: usize = 16;

    fn random() -> Result<Self, Error> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).map_err(|_| Error::Random)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

/// The hash of a secret that the first caller has and a reader of the chain does not have. The store contains no secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof(B256);

impl Proof {
    /// Returns the proof for `secret`, which should have at least 16 random bytes.
    pub fn of(secret: &[u8]) -> Self {
        let mut hash = Keccak256::new();
        hash.update(b"toolcrib retry v1\0");
        hash.update(secret);
        Self(hash.finalize())
    }

    /// Compares the two in constant time.
    fn matches(&self, kept: &[u8]) -> bool {
        self.0.as_slice().ct_eq(kept).into()
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(…)")
    }
}

/// The data that is recorded before settlement begins.
#[derive(Clone, Copy)]
pub struct Settlement<'a> {
    /// Until when the settlement, and a call that runs after it, counts as under way. Afterwards other processes may claim it.
    pub lease_until: UnixTime,
    /// The data from which another process can find the outcome, such as the payment and its offer.
    pub note: &'a [u8],
    /// The result of the call, if it ran already. Without it, the call runs after the settlement.
    pub result: Option<&'a StoredResult>,
    /// A block in which the payment's nonce was unused: the settlement is in a later one.
    pub from_block: Option<u64>,
}

impl fmt::Debug for Settlement<'_> {
    /// A note contains a signature, which must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settlement(until {}, note of {} bytes, {:?})", self.lease_until, self.note.len(), self.result)
    }
}

/// Whether a result was stored. The payment's state has changed in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultRetention {
    /// It is stored for a retry.
    Yes,
    /// There was none.
    Nothing,
    /// It is larger than [`Limits::largest_result`].
    TooLarge,
    /// All results together would be more than twice the limit, and no delivered one is left to drop.
    NoRoom,
}

/// The result of a paid call.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The HTTP status.
    pub status: u16,
    /// Its content type.
    pub content_type: String,
    /// Its body.
    pub body: Vec<u8>,
}

impl StoredResult {
    /// Returns its size for the limit; never 0.
    const fn cost(&self) -> usize {
        self.body.len() + self.content_type.len() + 128
    }

    fn fits(&self, limits: &Limits) -> bool {
        self.body.len() as u64 <= limits.largest_result() && self.content_type.len() <= MAX_CONTENT_TYPE_BYTES
    }
}

impl fmt::Debug for StoredResult {
    /// The body was paid for, so it is not logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredResult({}, {:?}, {} bytes)", self.status, self.content_type, self.body.len())
    }
}

/// The proof that money moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction.
    pub transaction: B256,
    /// The settlement response for the caller.
    pub response: Vec<u8>,
}

/// A request with a payment that was used before.
#[derive(Clone, Copy, Debug)]
pub struct Again<'a> {
    /// The route of this request.
    pub route: &'a str,
    /// The hash of this request's body.
    pub body_hash: B256,
    /// The caller's proof of possession.
    pub proof: Option<Proof>,
    /// The lease of a call that must run again.
    pub lease_until: UnixTime,
}

/// The result of [`ReplayStore::redeem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redeem {
    /// The payment was never seen, or is not stored any more.
    NotUsed,
    /// It is being used.
    Pending(State),
    /// The caller may have the result.
    Result(StoredResult, Receipt),
    /// The caller may have only the receipt. A free call has none.
    ReceiptOnly(Option<Receipt>),
    /// The payment was settled, but the call that should have followed never had a result: run it now, without charging again.
    Rerun(Ticket, Receipt),
}

/// The state of a payment.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: ReplayKey,
    /// Its state.
    pub state: State,
    /// When it was reserved, by the clock of the process that reserved it.
    pub reserved_at: UnixTime,
    /// The end of the authorization plus the skew.
    pub expires_at: UnixTime,
    /// The end of the lease: until then its holder counts as alive.
    pub lease_until: UnixTime,
    /// The route of its request.
    pub route: String,
    /// The hash of the request's body.
    pub body_hash: B256,
    /// The note that was stored when settlement began; empty once it ended.
    pub note: Vec<u8>,
    /// The receipt, once there is one.
    pub receipt: Option<Receipt>,
    /// A block in which the payment's nonce was unused.
    pub from_block: Option<u64>,
    /// The transaction that was recorded before it was broadcast.
    pub sent: Option<B256>,
}

impl fmt::Debug for Entry {
    /// A note contains a signature, which must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("state", &self.state)
            .field("reserved_at", &self.reserved_at)
            .field("expires_at", &self.expires_at)
            .field("lease_until", &self.lease_until)
            .field("route", &self.route)
            .field("receipt", &self.receipt.as_ref().map(|receipt| receipt.transaction))
            .finish_non_exhaustive()
    }
}

/// The state of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// A request has reserved it; no money can have moved.
    Reserved = 0,
    /// Settlement has begun.
    Settling = 1,
    /// It was settled.
    Settled = 2,
    /// Settlement began, and its outcome is unknown.
    Unknown = 3,
}

impl State {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Settling, Self::Settled, Self::Unknown];
}

impl FromCell<'_> for State {
    fn from_cell(cell: Cell<'_>) -> Result<Self, Error> {
        let number = i64::from_cell(cell)?;
        Self::ALL.into_iter().find(|state| *state as i64 == number).ok_or(cell.unexpected("the state of a payment"))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "reserved",
            Self::Settling => "settling",
            Self::Settled => "settled",
            Self::Unknown => "unknown",
        })
    }
}

/// An action on a stored payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// [`ReplayStore::begin_settlement`].
    BeginSettlement,
    /// [`ReplayStore::record_sent`].
    RecordSent,
    /// [`ReplayStore::settle`].
    Settle,
    /// [`ReplayStore::mark_unknown`].
    MarkUnknown,
    /// [`ReplayStore::release`].
    Release,
    /// [`ReplayStore::store_result`].
    StoreResult,
}

impl Action {
    /// Whether the state of a payment allows it. The one table of legal transitions.
    pub const fn allowed_in(self, state: State) -> bool {
        match self {
            Self::BeginSettlement => matches!(state, State::Reserved),
            Self::Settle => matches!(state, State::Settling | State::Unknown),
            Self::MarkUnknown | Self::RecordSent => matches!(state, State::Settling),
            Self::Release => matches!(state, State::Reserved | State::Settling | State::Unknown),
            Self::StoreResult => matches!(state, State::Settled),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeginSettlement => "sent for settlement",
            Self::RecordSent => "given a transaction",
            Self::Settle => "settled",
            Self::MarkUnknown => "marked unknown",
            Self::Release => "released",
            Self::StoreResult => "given a result",
        })
    }
}

/// The number of payments in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `reserved` ones.
    pub reserved: u64,
    /// `settling` ones.
    pub settling: u64,
    /// `settled` ones.
    pub settled: u64,
    /// `unknown` ones.
    pub unknown: u64,
    /// The size of the stored results in bytes, as the limit counts it.
    pub result_bytes: u64,
}

impl Counts {
    /// Returns the number of all payments.
    pub const fn entries(&self) -> u64 {
        self.reserved + self.settling + self.settled + self.unknown
    }
}

/// `keep_until` of a payment that must not be removed: `settling` and `unknown`.
const FOR_GOOD: i64 = i64::MAX;

impl Reservation<'_> {
    /// Whether the next caller may have the payment before it expires, if the holder crashes.
    ///
    /// Such a reservation need not survive a power failure: its holder is gone then, no money can have moved, and the payment may be used
    /// again. It is visible at once, and on disk with the step that comes before money moves:
    /// [`begin_settlement`](ReplayStore::begin_settlement) finds it or refuses. A reservation that lasts as long as the authorization is
    /// what uses up a free call, and is on disk before its caller gets a response.
    fn is_leased(&self) -> bool {
        self.lease_until < self.expires_at
    }

    fn check(&self, now: UnixTime) -> Result<(), Error> {
        at_most("a route", self.route.len(), MAX_ROUTE_BYTES)?;
        let seconds = self.expires_at.since(now);
        if seconds <= 0 || seconds > MAX_RESERVATION_SECONDS {
            return Err(Error::Expiry { seconds, most: MAX_RESERVATION_SECONDS });
        }
        Ok(())
    }
}

impl Settlement<'_> {
    fn check(&self) -> Result<(), Error> {
        at_most("a note", self.note.len(), MAX_NOTE_BYTES)
    }
}

impl Receipt {
    fn check(&self) -> Result<(), Error> {
        at_most("a receipt", self.response.len(), MAX_RECEIPT_BYTES)
    }
}

const fn at_most(what: &'static str, length: usize, most: usize) -> Result<(), Error> {
    if length > most { Err(Error::TooLarge { what, length, most }) } else { Ok(()) }
}

/// What [`ReplayStore::reserve`] does with a payment that is already stored.
enum Standing {
    /// It has expired, or its holder crashed before money could move.
    Free,
    /// It is used.
    Used,
}

const fn standing(state: State, keep_until: i64, lease_until: i64, now: UnixTime) -> Standing {
    let crashed = matches!(state, State::Reserved) && lease_until <= now.seconds();
    if keep_until <= now.seconds() || crashed { Standing::Free } else { Standing::Used }
}

/// Returns when a failed call may run again.
const fn retry_at(reserved_at: i64, now: UnixTime) -> i64 {
    let passed = now.seconds().saturating_sub(reserved_at);
    now.seconds().saturating_add(if passed > RETRY_PAUSE_SECONDS { passed } else { RETRY_PAUSE_SECONDS })
}

/// What [`ReplayStore::redeem`] does with a settled payment.
enum Claim {
    /// Not the first caller, not the same request, or too late.
    Stranger,
    /// Return the result.
    Result,
    /// There is no result yet.
    Wait,
    /// There is no result, and the call that should have made it has crashed.
    Rerun,
}

/// The fields of a settled payment that decide about a [`Claim`].
struct Settled<'a> {
    paid: bool,
    proof: Option<&'a [u8]>,
    route: &'a str,
    body_hash: &'a [u8],
    has_result: bool,
    result_until: i64,
    lease_until: i64,
    /// How often the call may be run, including the current run. 0 once it had a result, stored or not.
    runs: i64,
}

impl Settled<'_> {
    fn claim(&self, again: &Again<'_>, now: UnixTime) -> Claim {
        let proven = matches!((again.proof, self.proof), (Some(given), Some(kept)) if given.matches(kept));
        let same = self.route == again.route && self.body_hash == again.body_hash.as_slice();
        if !self.paid || !proven || !same || self.result_until <= now.seconds() {
            Claim::Stranger
        } else if self.has_result {
            Claim::Result
        } else if self.runs > 0 && self.lease_until > now.seconds() {
            Claim::Wait
        } else if self.runs > 1 {
            Claim::Rerun
        } else {
            Claim::Stranger
        }
    }
}
