#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod answer;
pub mod asset;
mod catalogue;
mod check;
mod compare;
pub mod erc6492;
mod facilitator;
pub mod header;
pub mod network;
pub mod nonce;
mod payment;
pub mod payment_id;
mod paywall;
mod probe;
mod read;
mod receipt;
pub mod recipient;
mod settle_reason;
pub mod sign_in;
mod signature;
pub mod usage;
mod v1;
mod v2;

use std::fmt;

use alloy_primitives::Address;
use serde::{Serialize, Serializer};
use toolcrib_core::caip::ChainId;
use toolcrib_core::canon;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{self, Limits, Value};
use toolcrib_core::money::Amount;

pub use answer::{ChallengeReading, Method, ProbeAnswer, read_answer};
pub use catalogue::{
    BadItem, CatalogueItem, CataloguePage, ItemAccess, MAX_CATALOGUE_BYTES, MAX_CATALOGUE_ITEMS, MAX_ITEM_BYTES, read_catalogue,
};
pub use check::{ReplayKey, TimePolicy, check_payment, match_offers};
pub use compare::compare;
pub use facilitator::{
    FacilitatorAnswer, FacilitatorRequest, MAX_FACILITATOR_BYTES, MAX_KINDS, MAX_SIGNERS, SettleOutcome, Supported,
    SupportedKind, VerifyOutcome, VerifyResponse, read_facilitator_request, read_supported, read_verify_response, settle_outcome,
    verify_outcome,
};
pub use payment::{Authorization, Payment, PaymentReading, Spelling, read_payment, read_payment_headers, read_payment_json};
pub use paywall::{PAID_CACHE_CONTROL, Paywall, PaywallAnswer};
pub use probe::{AskedPrice, ProbeReport, ProbeState, Subject, judge_probe};
pub use read::{read_body, read_header, read_json};
pub use receipt::{
    MAX_REASON_CHARS, SettleResponse, SettleResponseReading, check_settlement, read_receipt, read_settle_response,
};
pub use signature::{MAX_SIGNATURE_BYTES, Signature};

/// Longest challenge in a body. An offer with a schema of its output takes a few KiB, and there are at most
/// [`MAX_OFFERS`]; this is several times what an honest server sends, and nothing to hold in memory.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// Most offers in a challenge: as many as a manifest may have prices.
pub const MAX_OFFERS: usize = toolcrib_core::tool::MAX_PRICES;

/// Longest address on a network that is not an EVM chain: that of CAIP-10.
pub const MAX_ADDRESS_CHARS: usize = toolcrib_core::caip::MAX_ADDRESS_CHARS;

/// Longest time that a signature should stay good. Public clients sign for ten minutes; an hour leaves room for slow tools.
pub const LONG_TIMEOUT_SECONDS: u64 = 3_600;

/// The scheme in which exactly the amount is paid. The only one that Toolcrib speaks.
pub const EXACT: &str = "exact";

/// The protocol name of x402 in a manifest's `pricing`.
pub const PROTOCOL: &str = "x402";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Names of networks, `maxAmountRequired`, challenge in the body.
    V1,
    /// CAIP-2 networks, `amount`, challenge in a header.
    V2,
}

impl Version {
    /// The header that a payment of this version travels in.
    pub const fn payment_header(self) -> &'static str {
        match self {
            Self::V1 => header::X_PAYMENT,
            Self::V2 => header::PAYMENT_SIGNATURE,
        }
    }

    /// The header in which the payer of this version looks for a receipt.
    pub const fn receipt_header(self) -> &'static str {
        match self {
            Self::V1 => header::X_PAYMENT_RESPONSE,
            Self::V2 => header::PAYMENT_RESPONSE,
        }
    }

    /// The network as this version writes it. `None` when version 1 has no name for it.
    pub fn network_text(self, network: &ChainId) -> Option<&str> {
        match self {
            Self::V1 => network::by_chain(network).map(|named| named.name),
            Self::V2 => Some(network.as_str()),
        }
    }

    /// The number that messages carry as `x402Version`.
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.number())
    }
}

/// What an endpoint asks for: one of the offers has to be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The shape it was read in, and is written in.
    pub version: Version,
    /// Why the last attempt was not good enough. Foreign text.
    pub error: Option<String>,
    /// What is sold. Version 1 says this in every offer instead.
    pub resource: Option<Resource>,
    /// The ways to pay, in the server's order.
    pub accepts: Vec<Offer>,
    /// Extensions of version 2 by name. A payer has to send them back.
    pub extensions: Members,
}

/// One way to pay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How the amount is to be understood and paid; [`EXACT`] is the usual one.
    pub scheme: String,
    /// The chain, whatever the version calls it.
    pub network: ChainId,
    /// The token.
    pub asset: ChainAddress,
    /// How much, in the token's smallest unit. Zero asks for a signature and no money.
    pub amount: Amount,
    /// Who receives it. A signature is bound to this account.
    pub pay_to: ChainAddress,
    /// For how long a signature should be good. Short challenges of version 1 leave it out.
    pub max_timeout_seconds: Option<u64>,
    /// What the scheme needs beside.
    pub extra: Option<Extra>,
    /// What is sold (version 1).
    pub resource: Option<Resource>,
    /// Input and output of the endpoint as the server describes them (version 1).
    pub output_schema: Option<Raw>,
    /// Fields of the server's own. Version 2 compares an offer that is sent back with the one that was made, so nothing is
    /// dropped.
    pub other: Members,
}

/// What a scheme needs beside amount and parties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// The name in the token's EIP-712 domain, as the server claims.
    pub name: Option<String>,
    /// The version in the token's EIP-712 domain, as the server claims.
    pub version: Option<String>,
    /// How the token moves: `eip3009` when absent.
    pub transfer_method: Option<String>,
    /// When the money moves: `authorization` when absent.
    pub payment_flow: Option<String>,
    /// Everything else.
    pub other: Members,
}

/// What is sold. All of it is foreign text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Where.
    pub url: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The media type of its answer.
    pub mime_type: Option<String>,
    /// Name, tags, icon and whatever else version 2 says about it.
    pub other: Members,
}

/// Fields that are kept without being understood, in the order of their source.
pub type Members = Vec<(String, Raw)>;

/// One JSON value in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(String);

impl Raw {
    /// Reads a value. `None` when the text is not strict JSON.
    pub fn parse(text: &str) -> Option<Self> {
        let limits = Limits { max_bytes: MAX_BODY_BYTES, max_depth: json::MAX_DEPTH };
        let document = json::read(text.as_bytes(), limits).document.filter(json::Document::is_canonicalisable)?;
        Some(Self::of(document.root()))
    }

    fn of(value: Value<'_>) -> Self {
        let mut text = String::with_capacity(value.source().len());
        canon::write_value(value, &mut text);
        Self(text)
    }

    /// A text that is canonical already.
    pub(crate) const fn canonical(text: String) -> Self {
        Self(text)
    }

    /// The value as JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An account or a token contract, as written and as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainAddress {
    text: String,
    evm: Option<Address>,
}

impl ChainAddress {
    /// An address on an EVM chain, written with its ERC-55 checksum.
    pub fn evm(address: Address) -> Self {
        Self { text: address.to_checksum(None), evm: Some(address) }
    }

    /// An address as it was written, and what it means on an EVM chain.
    const fn written(text: String, evm: Option<Address>) -> Self {
        Self { text, evm }
    }

    /// An address on another network; not checked.
    pub const fn other(text: String) -> Self {
        Self { text, evm: None }
    }

    /// The text as written. An offer that is sent back has to repeat it to the letter.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The address on an EVM chain. Compare these: the case of the text says nothing.
    pub const fn evm_address(&self) -> Option<Address> {
        self.evm
    }

    /// Whether both mean the same, whatever their case.
    pub fn is(&self, other: &Self) -> bool {
        match (self.evm, other.evm) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.text == other.text,
            _ => false,
        }
    }
}

impl fmt::Display for ChainAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Offer {
    /// An offer of [`EXACT`] in a token of the pinned table, with all that clients of both versions ask for. The amount 0
    /// asks for a signature and no money.
    pub fn exact(token: &asset::Token, amount: Amount, pay_to: Address, max_timeout_seconds: u64) -> Option<Self> {
        Some(Self {
            scheme: EXACT.to_owned(),
            network: ChainId::parse(&format!("eip155:{}", token.chain)).ok()?,
            asset: ChainAddress::evm(token.address),
            amount,
            pay_to: ChainAddress::evm(pay_to),
            max_timeout_seconds: Some(max_timeout_seconds),
            extra: Some(Extra { name: Some(token.name.to_owned()), version: Some(token.version.to_owned()), ..Extra::default() }),
            resource: None,
            output_schema: None,
            other: Vec::new(),
        })
    }

    /// The pinned entry for this offer's token.
    pub fn token(&self) -> Option<&'static asset::Token> {
        asset::find(self.network.evm_id()?, self.asset.evm_address()?)
    }

    /// The amount for people: `20000 (0.02 USDC)`, or the bare number of an unknown token.
    pub fn shown_amount(&self) -> String {
        match self.token() {
            Some(token) => format!("{} ({} {})", self.amount, self.amount.format_units(token.decimals), token.symbol),
            None => self.amount.to_string(),
        }
    }

    /// Whether both ask for the same: scheme, chain, token, amount and payee.
    pub fn is_same_demand(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.network == other.network
            && self.asset.is(&other.asset)
            && self.amount == other.amount
            && self.pay_to.is(&other.pay_to)
    }
}

impl Challenge {
    /// The challenge as JSON in the shape of its version.
    ///
    /// Version 1 leaves out offers on networks that it has no name for: one that clients do not understand keeps them from
    /// reading all the others.
    pub fn to_json(&self) -> String {
        match self.version {
            Version::V1 => v1::write(self),
            Version::V2 => v2::write(self),
        }
    }

    /// The value of a `PAYMENT-REQUIRED` header. `None` when it would exceed [`header::MAX_BYTES`].
    pub fn to_header(&self) -> Option<String> {
        Some(header::encode(self.to_json().as_bytes())).filter(|value| value.len() <= header::MAX_BYTES)
    }

    /// The same challenge in version 1, with what stock clients of that version can pay: the scheme [`EXACT`] on networks
    /// whose names they know. The list may be empty; then there is nothing to put into the body.
    #[must_use]
    pub fn to_v1(&self) -> Self {
        v1::from(self)
    }
}

/// What reading a challenge gave.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The challenge as far as it could be read: offers that lack an essential part are left out.
    pub challenge: Option<Challenge>,
    /// Everything that is wrong with it. Pointers and spans are those of the JSON text.
    pub findings: Vec<Finding>,
}

impl Reading {
    /// The challenge, when no finding is an error: the only kind to sign for.
    pub fn sound(&self) -> Option<&Challenge> {
        let is_sound = self.findings.iter().all(|finding| finding.severity != Severity::Error);
        self.challenge.as_ref().filter(|_| is_sound)
    }
}

/// Writes a JSON object member by member.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(crate) fn open(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    pub(crate) fn key(&mut self, key: &str) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        canon::write_string(key, self.out);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        canon::write_string(text, self.key(key));
    }

    fn number(&mut self, key: &str, number: u64) {
        self.key(key).push_str(&number.to_string());
    }

    fn members<'m>(&mut self, members: impl IntoIterator<Item = &'m (String, Raw)>) {
        for (key, value) in members {
            self.key(key).push_str(&value.0);
        }
    }

    pub(crate) fn close(self) {
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests;
