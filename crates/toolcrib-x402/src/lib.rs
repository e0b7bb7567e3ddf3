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
    BadItem, CatalogueItem, CataloguePage, ItemAccess, MAX_CATALOGUE_BYTES, MAX_CATALOGUE_ITEMS, read_catalogue,
};
pub use check::{ReplayKey, TimePolicy, check_payment, match_offers};
pub use compare::compare;
pub use facilitator::{
    FacilitatorAnswer, FacilitatorRequest, MAX_FACILITATOR_BYTES, MAX_SIGNERS, SettleOutcome, Supported, SupportedKind,
    VerifyOutcome, VerifyResponse, read_facilitator_request, read_supported, read_verify_response, settle_outcome,
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

/// Longest challenge in a body. An offer with an output schema takes a few KiB, and there are at most [`MAX_OFFERS`]; this is several times
/// what a legitimate server sends, and little memory.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// Most offers in a challenge: the limit of prices in a manifest.
pub const MAX_OFFERS: usize = toolcrib_core::tool::MAX_PRICES;

/// Longest address on a network that is not an EVM chain: the limit of CAIP-10.
pub const MAX_ADDRESS_CHARS: usize = toolcrib_core::caip::MAX_ADDRESS_CHARS;

/// Longest validity that a signature should have. Public clients sign for ten minutes; an hour leaves room for slow tools.
pub const LONG_TIMEOUT_SECONDS: u64 = 3_600;

/// The scheme in which exactly the amount is paid. The only supported scheme.
pub const EXACT: &str = "exact";

/// The protocol name of x402 in a manifest's `pricing`.
pub const PROTOCOL: &str = "x402";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Network names, `maxAmountRequired`, challenge in the body.
    V1,
    /// CAIP-2 networks, `amount`, challenge in a header.
    V2,
}

impl Version {
    /// The request header for a payment of this version.
    pub const fn payment_header(self) -> &'static str {
        match self {
            Self::V1 => header::X_PAYMENT,
            Self::V2 => header::PAYMENT_SIGNATURE,
        }
    }

    /// The response header for a receipt of this version.
    pub const fn receipt_header(self) -> &'static str {
        match self {
            Self::V1 => header::X_PAYMENT_RESPONSE,
            Self::V2 => header::PAYMENT_RESPONSE,
        }
    }

    /// The network as this version writes it. `None` if version 1 has no name for it.
    pub fn network_text(self, network: &ChainId) -> Option<&str> {
        match self {
            Self::V1 => network::by_chain(network).map(|named| named.name),
            Self::V2 => Some(network.as_str()),
        }
    }

    /// The `x402Version` in messages.
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

/// The offers of an endpoint; one of them must be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The version in which it was parsed, and is serialised.
    pub version: Version,
    /// Why the last attempt failed. Untrusted text.
    pub error: Option<String>,
    /// The resource that is sold. Version 1 has it in every offer instead.
    pub resource: Option<Resource>,
    /// The ways to pay, in the server's order.
    pub accepts: Vec<Offer>,
    /// Extensions of version 2 by name. A payer must send them back.
    pub extensions: Members,
}

/// One way to pay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How the amount is interpreted and paid; usually [`EXACT`].
    pub scheme: String,
    /// The chain, independent of how the version writes it.
    pub network: ChainId,
    /// The token.
    pub asset: ChainAddress,
    /// The amount in the token's smallest unit. Zero asks for a signature and no money.
    pub amount: Amount,
    /// The recipient. A signature is bound to this account.
    pub pay_to: ChainAddress,
    /// For how long a signature should be valid. Short challenges of version 1 omit it.
    pub max_timeout_seconds: Option<u64>,
    /// Additional parameters of the scheme.
    pub extra: Option<Extra>,
    /// The resource that is sold (version 1).
    pub resource: Option<Resource>,
    /// Input and output of the endpoint as the server describes them (version 1).
    pub output_schema: Option<Raw>,
    /// Unknown fields of the server. Version 2 compares an offer that is sent back with the original, so nothing is dropped.
    pub other: Members,
}

/// Parameters of a scheme beside amount and parties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// The name in the token's EIP-712 domain, as the server claims it.
    pub name: Option<String>,
    /// The version in the token's EIP-712 domain, as the server claims it.
    pub version: Option<String>,
    /// How the token moves; `eip3009` if absent.
    pub transfer_method: Option<String>,
    /// When the money moves; `authorization` if absent.
    pub payment_flow: Option<String>,
    /// All other members.
    pub other: Members,
}

/// The resource that is sold. All of it is untrusted text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// The URL.
    pub url: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The media type of the response.
    pub mime_type: Option<String>,
    /// Name, tags, icon and other members of version 2.
    pub other: Members,
}

/// Unknown members, in source order.
pub type Members = Vec<(String, Raw)>;

/// One JSON value in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(String);

impl Raw {
    /// Parses a value. `None` if the text is not strict JSON.
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

    /// A text that is already canonical.
    pub(crate) const fn canonical(text: String) -> Self {
        Self(text)
    }

    /// The value as JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An account or a token contract: the original text and the parsed address.
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

    /// An address with its original text and its EVM address.
    const fn written(text: String, evm: Option<Address>) -> Self {
        Self { text, evm }
    }

    /// An address on another network; it is not checked.
    pub const fn other(text: String) -> Self {
        Self { text, evm: None }
    }

    /// The original text. An offer that is sent back must repeat it exactly.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The address on an EVM chain. Compare these: the case of the text has no meaning.
    pub const fn evm_address(&self) -> Option<Address> {
        self.evm
    }

    /// Whether both are the same address, ignoring case.
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
    /// An offer of [`EXACT`] in a token of the pinned table, with all fields that clients of both versions require. The amount 0 asks for a
    /// signature and no money.
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

    /// The amount for display: `20000 (0.02 USDC)`, or only the number for an unknown token.
    pub fn shown_amount(&self) -> String {
        match self.token() {
            Some(token) => format!("{} ({} {})", self.amount, self.amount.format_units(token.decimals), token.symbol),
            None => self.amount.to_string(),
        }
    }

    /// Whether both ask for the same: scheme, chain, token, amount and recipient.
    pub fn is_same_demand(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.network == other.network
            && self.asset.is(&other.asset)
            && self.amount == other.amount
            && self.pay_to.is(&other.pay_to)
    }
}

impl Challenge {
    /// The challenge as JSON in the format of its version.
    ///
    /// Version 1 omits offers on networks that it has no name for: clients reject all offers if they do not understand one.
    pub fn to_json(&self) -> String {
        match self.version {
            Version::V1 => v1::write(self),
            Version::V2 => v2::write(self),
        }
    }

    /// The value of a `PAYMENT-REQUIRED` header. `None` if it would exceed [`header::MAX_BYTES`].
    pub fn to_header(&self) -> Option<String> {
        Some(header::encode(self.to_json().as_bytes())).filter(|value| value.len() <= header::MAX_BYTES)
    }

    /// The same challenge in version 1, with the offers that stock clients of that version can pay: the scheme [`EXACT`] on networks whose
    /// names they know. The list may be empty; then the body gets no challenge.
    #[must_use]
    pub fn to_v1(&self) -> Self {
        v1::from(self)
    }
}

/// The result of parsing a challenge.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The challenge as far as it could be parsed: offers that lack an essential part are left out.
    pub challenge: Option<Challenge>,
    /// The findings. Pointers and spans are those of the JSON text.
    pub findings: Vec<Finding>,
}

impl Reading {
    /// The challenge if no finding is an error. Sign only for such a challenge.
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
