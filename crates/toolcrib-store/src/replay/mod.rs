//! Payments are used once.
//!
//! An authorization is public as soon as it is settled, and a zero-value one never reaches the chain at all, so it is this store that
//! says whether one was used: keyed by chain, asset, payer and nonce, shared by all replicas and tools of an operator.
//!
//! ```text
//! reserve ──► reserved ──begin_settlement──► settling ──settle──► settled
//!               │  │                           │   │                ▲
//!               │                              │   └─mark_unknown─► unknown
//!               └─────────release──────────────┴──────────────────────┘──► gone
//! ```
//!
//! Whoever reserves gets a [`Ticket`], and only its bearer may release: a late release must not free what another has reserved
//! meanwhile. That a payment was settled is a fact, so anybody who saw it may say so. `settling` is written **before** money can move,
//! together with the result of the call, so that a crash at any point leaves either nothing to pay for, or something to look up.
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
/// Longest note in bytes: a payment header (16 KiB at most) and what was offered for it.
pub const MAX_NOTE_BYTES: usize = 32 * 1024;
/// Longest receipt in bytes. A settlement response has a few hundred; it goes into a header.
pub const MAX_RECEIPT_BYTES: usize = 8 * 1024;
/// Longest content type in bytes.
pub const MAX_CONTENT_TYPE_BYTES: usize = 256;
/// Longest time that a reservation lasts, in seconds. Gates allow 900 and some skew; a day leaves room for their settings.
pub const MAX_RESERVATION_SECONDS: i64 = 86_400;
/// How often a call that was paid for before it ran may be run again after crashes. Not at will: running costs, and was paid once.
pub const RERUNS: i64 = 2;
/// How long a call that was paid for before it ran, and failed, is not run again at least, in seconds.
pub const RETRY_PAUSE_SECONDS: i64 = 5;
/// Payments that one [`expire`](ReplayStore::expire) removes at most, so that no transaction is long.
pub const EXPIRE_BATCH: usize = 500;
/// Payments that one list or claim gives at most.
pub const MAX_LIST: usize = 1_000;
/// Delivered results that one search for room drops at a time.
const EVICT_BATCH: usize = 64;

/// Where payments are kept, so that each is used once. Every method is one atomic step, across processes too.
#[async_trait]
pub trait ReplayStore: fmt::Debug + Send + Sync {
    /// Takes a payment for one request. Exactly one of any number of callers gets [`Reserve::Reserved`].
    ///
    /// A payment that is `reserved` but whose lease has run out is given to the next caller: its holder crashed before any money
    /// could move. Where running twice would matter more than waiting, let the lease end with the reservation: a payment of nothing, which
    /// is never settled, is then used up by being reserved.
    async fn reserve(&self, key: &ReplayKey, reservation: &Reservation<'_>, now: UnixTime) -> Result<Reserve, Error>;

    /// Writes down that settlement begins, before anything is sent: `reserved` to `settling`.
    async fn begin_settlement(&self, key: &ReplayKey, ticket: Ticket, settlement: &Settlement<'_>) -> Result<Kept, Error>;

    /// Writes down the transaction that settles the payment, before it is broadcast: after a crash, only this transaction is known
    /// to be the settlement's own.
    async fn record_sent(&self, key: &ReplayKey, ticket: Ticket, transaction: B256) -> Result<(), Error>;

    /// Writes down that the payment was settled: `settling` or `unknown` to `settled`. Saying it twice changes nothing.
    ///
    /// Every user of the store sees it when this returns. It need not be on the disk yet: after a power failure the intention to settle
    /// and the result are still there, and the transfer is found on the chain.
    async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error>;

    /// Like [`settle`](Self::settle), for a gate whose caller has its answer already: a database writes it together with the next steps of
    /// other calls, or by itself after a few milliseconds. Meanwhile the payment is `settling`.
    async fn settle_in_background(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        self.settle(key, receipt, now).await
    }

    /// Writes down that nobody knows whether the payment was settled: `settling` to `unknown`. It can be claimed from now on.
    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error>;

    /// Gives the payment back: `reserved`, `settling` or `unknown` to nothing.
    ///
    /// From `settling` only when the settlement was refused for certain, from `unknown` only when the chain shows that it can never
    /// happen: the nonce is unused in a final block that is past the authorization's end.
    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error>;

    /// Keeps the result of a call that was settled before it ran. Once only.
    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<Kept, Error>;

    /// Writes down that a call that was settled before it ran has failed, so that the payer can have it run again before its lease is
    /// over. Such a run does not count as one of the [`RERUNS`], which are for crashes. The pause until the next one is as long as all
    /// the time since the reservation, and [`RETRY_PAUSE_SECONDS`] at least: a few runs for one payment, however long a tool fails.
    async fn run_failed(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error>;

    /// What a caller gets who comes again with a payment: the result only against proof of possession, for the same request.
    async fn redeem(&self, key: &ReplayKey, again: &Again<'_>, now: UnixTime) -> Result<Redeem, Error>;

    /// Takes payments over whose end is not known: `unknown`, and `settling` whose lease ran out. No two claimants get the same one
    /// before `lease_until`. The oldest leases are taken first.
    async fn claim_unknowns(&self, now: UnixTime, lease_until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error>;

    /// How much this store holds.
    fn limits(&self) -> Limits;

    /// Makes room for results before the call that will give one runs: drops delivered results, those delivered first before
    /// others, until `bytes` are free, or none is left. Gives what is free then.
    async fn make_room(&self, bytes: u64) -> Result<Room, Error>;

    /// Writes down that the answers to these payments were sent in full. Their results are the first to go when room is needed.
    /// Payments that are not there, or have no result, are passed over.
    async fn mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error>;

    /// Shows payments that are `settling` or `unknown`, the oldest leases first, and takes nothing.
    async fn unknowns(&self, limit: usize) -> Result<Vec<Entry>, Error>;

    /// Shows one payment.
    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error>;

    /// Removes payments whose time is over, at most [`EXPIRE_BATCH`]. Gives how many; as many as that means that there may be more.
    /// What is `settling` or `unknown` stays until it is settled or released.
    async fn expire(&self, now: UnixTime) -> Result<usize, Error>;

    /// How many payments there are. Reads all rows of a database: for a page of metrics, not for every request.
    async fn counts(&self) -> Result<Counts, Error>;
}

/// What is written down with a reservation.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    /// The end of the authorization and the skew. Until then the payment stays used.
    pub expires_at: UnixTime,
    /// Until when the holder is believed to be alive.
    pub lease_until: UnixTime,
    /// Which tool and path the request is for.
    pub route: &'a str,
    /// The hash of the request's body.
    pub body_hash: B256,
    /// What proves possession later: of the salt of a bound nonce, or of a token given with the first answer.
    pub proof: Option<Proof>,
    /// The identifier that the caller gave the operation, hashed with all that it is unique for.
    pub payment_id: Option<B256>,
}

/// The answer to [`ReplayStore::reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// The payment is this request's. Finish with the ticket.
    Reserved(Ticket),
    /// It was used, or is being used, by another request.
    AlreadyUsed {
        /// How far that is.
        state: State,
        /// The receipt, once there is one.
        receipt: Option<Receipt>,
    },
    /// Another payment has the same `payment_id`.
    IdInUse,
    /// No room: the payment must not be accepted (`store.full`).
    Full,
}

/// The right to go on with a reserved payment. Not a secret of the caller's, but never shown to one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket([u8; Self::BYTES]);

impl Ticket {
    /// Random bytes: enough that no two are ever the same.
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

/// The hash of a secret that the first caller has and a reader of the chain has not. The store keeps nothing that opens anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof(B256);

impl Proof {
    /// The proof that `secret` will give. The secret should have 16 random bytes at least.
    pub fn of(secret: &[u8]) -> Self {
        let mut hash = Keccak256::new();
        hash.update(b"toolcrib retry v1\0");
        hash.update(secret);
        Self(hash.finalize())
    }

    /// Whether the two are the same, in a time that tells nothing.
    fn matches(&self, kept: &[u8]) -> bool {
        self.0.as_slice().ct_eq(kept).into()
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(…)")
    }
}

/// What is written down before settlement begins.
#[derive(Clone, Copy)]
pub struct Settlement<'a> {
    /// Until when the settlement, and a call that runs after it, is believed to be under way. Afterwards others may claim it.
    pub lease_until: UnixTime,
    /// What another process needs to find out how it ended, such as the payment and what was offered for it.
    pub note: &'a [u8],
    /// The result of the call, if it ran already. Without it, the call runs after the settlement.
    pub result: Option<&'a StoredResult>,
    /// A block in which the payment's nonce was unused: the settlement is in a later one.
    pub from_block: Option<u64>,
}

impl fmt::Debug for Settlement<'_> {
    /// A note holds a signature, which does not go to a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settlement(until {}, note of {} bytes, {:?})", self.lease_until, self.note.len(), self.result)
    }
}

/// Whether a result was kept. The payment's state has changed in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is there for a retry.
    Yes,
    /// There was none.
    Nothing,
    /// It is larger than [`Limits::largest_result`].
    TooLarge,
    /// All results together would be more than twice the limit, and no delivered one is left to drop.
    NoRoom,
}

/// What a paid call gave.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The status of the answer.
    pub status: u16,
    /// Its content type.
    pub content_type: String,
    /// Its body.
    pub body: Vec<u8>,
}

impl StoredResult {
    /// What it counts for in the limit; never nought.
    const fn cost(&self) -> usize {
        self.body.len() + self.content_type.len() + 128
    }

    fn fits(&self, limits: &Limits) -> bool {
        self.body.len() as u64 <= limits.largest_result() && self.content_type.len() <= MAX_CONTENT_TYPE_BYTES
    }
}

impl fmt::Debug for StoredResult {
    /// Somebody paid for the body; it does not go to a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredResult({}, {:?}, {} bytes)", self.status, self.content_type, self.body.len())
    }
}

/// What shows that money moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction.
    pub transaction: B256,
    /// The settlement response as the caller gets it.
    pub response: Vec<u8>,
}

/// A request that comes with a payment which was used.
#[derive(Clone, Copy, Debug)]
pub struct Again<'a> {
    /// The route of this request.
    pub route: &'a str,
    /// The hash of this request's body.
    pub body_hash: B256,
    /// What the caller proves possession with.
    pub proof: Option<Proof>,
    /// Until when a call that must run again is believed to be under way.
    pub lease_until: UnixTime,
}

/// The answer to [`ReplayStore::redeem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redeem {
    /// The payment was never seen, or it is forgotten.
    NotUsed,
    /// It is being used.
    Pending(State),
    /// The caller may have the result.
    Result(StoredResult, Receipt),
    /// The caller may have the receipt and no more. A call that cost nothing has none.
    ReceiptOnly(Option<Receipt>),
    /// The payment was settled, but the call that should have followed never gave a result: run it now, without charging again.
    Rerun(Ticket, Receipt),
}

/// A payment as it stands.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which payment.
    pub key: ReplayKey,
    /// How far it is.
    pub state: State,
    /// When it was reserved, by the clock of the process that did it.
    pub reserved_at: UnixTime,
    /// The end of the authorization and the skew.
    pub expires_at: UnixTime,
    /// Until when its holder is believed to be alive.
    pub lease_until: UnixTime,
    /// What it was for.
    pub route: String,
    /// The hash of the request's body.
    pub body_hash: B256,
    /// What was written down when settlement began; empty once it ended.
    pub note: Vec<u8>,
    /// The receipt, once there is one.
    pub receipt: Option<Receipt>,
    /// A block in which the payment's nonce was unused.
    pub from_block: Option<u64>,
    /// The transaction that was written down before it was broadcast.
    pub sent: Option<B256>,
}

impl fmt::Debug for Entry {
    /// A note holds a signature, which does not go to a log.
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

/// How far a payment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// A request has it; no money can have moved.
    Reserved = 0,
    /// Settlement has begun.
    Settling = 1,
    /// It was settled.
    Settled = 2,
    /// Settlement began, and nobody knows how it ended.
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

/// What can be done with a payment that is in the store.
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
    /// Whether a payment in this state allows it. The one table of legal steps.
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

/// How many payments there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those `reserved`.
    pub reserved: u64,
    /// Those `settling`.
    pub settling: u64,
    /// Those `settled`.
    pub settled: u64,
    /// Those `unknown`.
    pub unknown: u64,
    /// What the kept results count for, in bytes.
    pub result_bytes: u64,
}

impl Counts {
    /// All payments.
    pub const fn entries(&self) -> u64 {
        self.reserved + self.settling + self.settled + self.unknown
    }
}

/// A payment that nobody may let go of: `settling` and `unknown`.
const FOR_GOOD: i64 = i64::MAX;

impl Reservation<'_> {
    /// Whether the next caller may have the payment before its time is over, should the holder crash.
    ///
    /// Such a reservation says nothing that must survive a power failure: its holder is gone then, no money can have moved, and the
    /// payment may be used again. It is visible to everybody at once, and on the disk with the step that comes before money moves:
    /// [`begin_settlement`](ReplayStore::begin_settlement) finds it or refuses. One that lasts as long as the authorization is how a free
    /// call is used up, and is on the disk before its caller hears of it.
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

/// What [`ReplayStore::reserve`] does about a payment that is there already.
enum Standing {
    /// Its time is over, or its holder crashed before money could move.
    Free,
    /// It is used.
    Used,
}

const fn standing(state: State, keep_until: i64, lease_until: i64, now: UnixTime) -> Standing {
    let crashed = matches!(state, State::Reserved) && lease_until <= now.seconds();
    if keep_until <= now.seconds() || crashed { Standing::Free } else { Standing::Used }
}

/// When a call that failed may run again.
const fn retry_at(reserved_at: i64, now: UnixTime) -> i64 {
    let passed = now.seconds().saturating_sub(reserved_at);
    now.seconds().saturating_add(if passed > RETRY_PAUSE_SECONDS { passed } else { RETRY_PAUSE_SECONDS })
}

/// What [`ReplayStore::redeem`] makes of a settled payment.
enum Claim {
    /// Not the first caller, not the same request, or too late.
    Stranger,
    /// Give the result.
    Result,
    /// There is none, and there may yet be one.
    Wait,
    /// There is none, and whoever should have made it is gone.
    Rerun,
}

/// The part of a settled payment that [`Claim`] looks at.
struct Settled<'a> {
    paid: bool,
    proof: Option<&'a [u8]>,
    route: &'a str,
    body_hash: &'a [u8],
    has_result: bool,
    result_until: i64,
    lease_until: i64,
    /// How often the call may be run, the run under way included. Nought once it gave a result, kept or not.
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
