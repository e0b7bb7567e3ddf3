//! Facilitators: services that verify and settle payments for servers. Their requests and responses.
//!
//! Requests are serialised from the parsed payment and our own offer, never from the caller's bytes. The body of the response decides, not
//! only its status; and unless a response says that nothing happened, the outcome is unknown.

use alloy_primitives::{Address, B256};
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{Kind, Object};

use super::payment::{self, Payment};
use super::read::{Need, Reader, read_message};
use super::receipt::{SettleResponse, WORDS, check_settlement, read_account, read_reasons, read_settle_response};
use super::settle_reason::{SettleReason, named_transaction};
use super::{ChainAddress, ObjectWriter, Offer, Raw, Resource, Version, network, payment_id, v1, v2};

/// Longest response of a facilitator, and longest request to one. `/supported` lists a few dozen kinds; everything else is a few KiB.
pub const MAX_FACILITATOR_BYTES: usize = 64 * 1024;

/// The usual size of a request with small extensions.
const USUAL_BYTES: usize = 2_048;

/// Most kinds of payment that are read: two versions on more networks than facilitators serve.
pub(crate) const MAX_KINDS: usize = 256;

/// Most signers that are read, over all networks: facilitators list between one and some dozens for each.
pub const MAX_SIGNERS: usize = 512;

/// The CAIP-2 pattern of signers for all EVM chains.
const EVERY_EVM_CHAIN: &str = "eip155:*";

/// A request to `/verify` or `/settle`; both have the same format.
#[derive(Clone, Copy, Debug)]
pub struct FacilitatorRequest<'r> {
    /// The payment.
    pub payment: &'r Payment,
    /// Our offer that it meets.
    pub offer: &'r Offer,
    /// Our description of the resource.
    pub resource: Option<&'r Resource>,
    /// The extensions of our challenge (version 2). Payment identifiers are not sent: with them a payer fetches its result.
    pub extensions: &'r [(String, Raw)],
}

impl FacilitatorRequest<'_> {
    /// The body, in the version of the payment. It has our offer, resource and extensions, not the caller's copies. `None` if version 1 has
    /// no name for the network.
    pub fn to_json(&self) -> Option<String> {
        let Self { payment, offer, resource, extensions } = *self;
        let extensions = extensions.iter().filter(|(name, _)| name != payment_id::EXTENSION);
        let mut out = String::with_capacity(USUAL_BYTES);
        let mut object = ObjectWriter::open(&mut out);
        object.number("x402Version", payment.version.number().into());
        payment.write(Some(offer), resource, extensions, &payment.signature.canonical(), object.key("paymentPayload"))?;
        let requirements = object.key("paymentRequirements");
        match payment.version {
            Version::V1 => {
                let name = payment.version.network_text(&offer.network)?;
                v1::write_offer(&v1::complete(offer, resource), name, requirements);
            }
            Version::V2 => v2::write_offer(offer, requirements),
        }
        object.close();
        Some(out)
    }
}

/// Parses a request to `/verify` or `/settle`. Returns both parts only if payment and requirements are valid and of the same version.
pub fn read_facilitator_request(bytes: &[u8]) -> Result<(Payment, Offer), Vec<Finding>> {
    let (request, mut findings) = read_message(bytes, MAX_FACILITATOR_BYTES, &WORDS, |reader, object| {
        let value = reader.required(object, "paymentPayload", Need::Must)?;
        let payload = reader.typed(value, Kind::Object, value.as_object())?;
        let payment = payment::read_object(reader, payload, None)?;
        // Some servers omit the outer version; the payload has it anyway.
        if let Some(version) = object.get("x402Version")
            && version.source() != payment.version.number().to_string()
        {
            let finding = Finding::new(code::REQUIREMENTS_DIFFER).expected(payment.version.number().to_string());
            reader.report(finding.got(version.source()), version);
        }
        let value = reader.required(object, "paymentRequirements", Need::Must)?;
        let entry = reader.typed(value, Kind::Object, value.as_object())?;
        let read = match payment.version {
            Version::V1 => v1::read_offer,
            Version::V2 => v2::read_offer,
        };
        let offer = reader.apart(|reader| read(reader, entry), |finding| finding.severity == Severity::Error)?;
        Some((payment, offer))
    });
    findings.retain(|finding| finding.severity == Severity::Error);
    request.ok_or(findings)
}

/// The response of `/verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyResponse {
    /// Whether the payment would settle.
    pub is_valid: bool,
    /// The reason in machine-readable form. Untrusted text.
    pub reason: Option<String>,
    /// The reason for people. Untrusted text.
    pub message: Option<String>,
    /// The payer.
    pub payer: Option<ChainAddress>,
}

impl VerifyResponse {
    /// The response as JSON; the same in both versions.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.key("isValid").push_str(if self.is_valid { "true" } else { "false" });
        for (key, text) in [("invalidReason", &self.reason), ("invalidMessage", &self.message)] {
            if let Some(text) = text {
                object.text(key, text);
            }
        }
        if let Some(payer) = &self.payer {
            object.text("payer", payer.as_str());
        }
        object.close();
        out
    }
}

/// Parses the response of `/verify`. It is returned if no finding is an error.
pub fn read_verify_response(bytes: &[u8]) -> (Option<VerifyResponse>, Vec<Finding>) {
    read_message(bytes, MAX_FACILITATOR_BYTES, &WORDS, |reader, object| {
        let value = reader.required(object, "isValid", Need::Must)?;
        let is_valid = reader.typed(value, Kind::Bool, value.as_bool())?;
        let [reason, message] = read_reasons(reader, object, ["invalidReason", "invalidMessage"], "invalid_reason");
        Some(VerifyResponse { is_valid, reason, message, payer: read_account(reader, object, "payer", None) })
    })
}

/// One kind of payment that a facilitator settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportedKind {
    /// The version.
    pub version: Version,
    /// The scheme.
    pub scheme: String,
    /// The network as written.
    pub network: String,
    /// Additional parameters of the scheme.
    pub extra: Option<Raw>,
}

impl SupportedKind {
    /// The chain, if the network is written as its version requires and is known.
    pub fn chain(&self) -> Option<ChainId> {
        match self.version {
            Version::V1 => network::by_name(&self.network)?.chain(),
            Version::V2 => ChainId::parse(&self.network).ok(),
        }
    }
}

/// The response of `/supported`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supported {
    /// The kinds, in order. Kinds of unknown versions are left out.
    pub kinds: Vec<SupportedKind>,
    /// Names of extensions.
    pub extensions: Vec<String>,
    /// The accounts that send transactions on EVM chains: each with its CAIP-2 pattern, such as `eip155:*` or `eip155:8453`.
    pub signers: Vec<(String, Address)>,
}

impl Supported {
    /// Whether payments of this version for this offer can be settled.
    pub fn settles(&self, version: Version, offer: &Offer) -> bool {
        let is = |kind: &SupportedKind| {
            kind.version == version && kind.scheme == offer.scheme && kind.chain().as_ref() == Some(&offer.network)
        };
        self.kinds.iter().any(is)
    }

    /// Returns the accounts that send transactions on this network, as far as the facilitator announces them.
    pub fn signers_on(&self, network: &ChainId) -> impl Iterator<Item = Address> {
        let is_on = |pattern: &str| pattern == network.as_str() || (pattern == EVERY_EVM_CHAIN && network.evm_id().is_some());
        self.signers.iter().filter(move |(pattern, _)| is_on(pattern)).map(|(_, signer)| *signer)
    }

    /// The response as JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        let list = object.key("kinds");
        list.push('[');
        for (at, kind) in self.kinds.iter().enumerate() {
            if at > 0 {
                list.push(',');
            }
            let mut entry = ObjectWriter::open(list);
            entry.number("x402Version", kind.version.number().into());
            entry.text("scheme", &kind.scheme);
            entry.text("network", &kind.network);
            if let Some(extra) = &kind.extra {
                entry.key("extra").push_str(extra.as_str());
            }
            entry.close();
        }
        list.push(']');
        let list = object.key("extensions");
        list.push('[');
        for (at, name) in self.extensions.iter().enumerate() {
            if at > 0 {
                list.push(',');
            }
            toolcrib_core::canon::write_string(name, list);
        }
        list.push(']');
        let mut signers = ObjectWriter::open(object.key("signers"));
        for patterns in self.signers.chunk_by(|(one, _), (next, _)| one == next) {
            let list = signers.key(&patterns[0].0);
            for (at, (_, signer)) in patterns.iter().enumerate() {
                list.push(if at == 0 { '[' } else { ',' });
                toolcrib_core::canon::write_string(&signer.to_checksum(None), list);
            }
            list.push(']');
        }
        signers.close();
        object.close();
        out
    }
}

/// Parses the response of `/supported`. It is returned if no finding is an error.
pub fn read_supported(bytes: &[u8]) -> (Option<Supported>, Vec<Finding>) {
    read_message(bytes, MAX_FACILITATOR_BYTES, &WORDS, |reader, object| {
        let value = reader.required(object, "kinds", Need::Must)?;
        let list = reader.typed(value, Kind::Array, value.as_array())?;
        if list.len() > MAX_KINDS {
            let finding = Finding::new(code::TOO_MANY_KINDS).expected(format!("at most {MAX_KINDS}"));
            reader.report(finding.got(list.len().to_string()), value);
        }
        let entries = list.iter().take(MAX_KINDS);
        let entries = entries.filter_map(|value| reader.typed(value, Kind::Object, value.as_object())).collect::<Vec<_>>();
        let kinds = entries.into_iter().filter_map(|entry| read_kind(reader, entry)).collect();
        let extensions = object.get("extensions").and_then(|value| value.as_array());
        let extensions = extensions.into_iter().flat_map(|list| list.iter().take(MAX_KINDS));
        let extensions = extensions.filter_map(|value| value.as_str().map(str::to_owned)).collect();
        Some(Supported { kinds, extensions, signers: read_signers(object) })
    })
}

/// Skips invalid accounts and those of other chain families: their transactions are never inspected.
fn read_signers(object: Object<'_>) -> Vec<(String, Address)> {
    let patterns = object.get("signers").and_then(|value| value.as_object());
    let evm = patterns.into_iter().flat_map(|patterns| patterns.iter().filter(|(pattern, _)| pattern.starts_with("eip155:")));
    let listed = evm.filter_map(|(pattern, value)| Some((pattern, value.as_array()?)));
    let signers = listed.flat_map(|(pattern, list)| {
        let accounts = list.iter().filter_map(|value| value.as_str()?.parse::<Address>().ok());
        accounts.map(|account| (pattern.to_owned(), account)).collect::<Vec<_>>()
    });
    signers.take(MAX_SIGNERS).collect()
}

fn read_kind(reader: &mut Reader, entry: Object<'_>) -> Option<SupportedKind> {
    let version = match reader.required(entry, "x402Version", Need::Must)?.as_u64() {
        Some(1) => Version::V1,
        Some(2) => Version::V2,
        // Later versions are not supported.
        _ => return None,
    };
    Some(SupportedKind {
        version,
        scheme: reader.required_string(entry, "scheme")?.1.to_owned(),
        network: reader.required_string(entry, "network")?.1.to_owned(),
        extra: entry.get("extra").filter(|value| !value.is_null()).map(Raw::of),
    })
}

/// The result of a request to a facilitator.
#[derive(Clone, Copy, Debug)]
pub enum FacilitatorAnswer<'a> {
    /// A response was received.
    Answered {
        /// Its status.
        status: u16,
        /// Its body; the fetcher limits its size.
        body: &'a [u8],
    },
    /// The request was never sent: no connection.
    NotSent,
    /// The request was sent, but no complete response was received.
    Lost,
}

/// The state of a payment after `/verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyOutcome {
    /// It would settle.
    Valid,
    /// Its nonce is used, so it was settled or cancelled before.
    NonceUsed(VerifyResponse),
    /// It would not settle.
    Invalid(VerifyResponse),
    /// The facilitator could not decide. No money has moved.
    Unavailable(Vec<Finding>),
}

/// Interprets a response of `/verify`. A response that names another payer is invalid.
pub fn verify_outcome(answer: FacilitatorAnswer<'_>, payment: &Payment) -> VerifyOutcome {
    let FacilitatorAnswer::Answered { status, body } = answer else { return VerifyOutcome::Unavailable(Vec::new()) };
    let (response, findings) = read_verify_response(body);
    match response {
        Some(response) if !response.is_valid => {
            let reason = response.reason.as_deref().map(|reason| SettleReason::of(reason, response.message.as_deref()));
            match reason {
                Some(SettleReason::NonceUsed) => VerifyOutcome::NonceUsed(response),
                _ => VerifyOutcome::Invalid(response),
            }
        }
        Some(_) if !(200..300).contains(&status) => VerifyOutcome::Unavailable(findings),
        Some(VerifyResponse { payer: Some(payer), .. }) if payer.evm_address() != Some(payment.authorization.from) => {
            let finding = Finding::new(code::PAYER_DIFFERS).expected(payment.authorization.from.to_checksum(None));
            VerifyOutcome::Unavailable(vec![finding.got(payer.as_str())])
        }
        Some(_) => VerifyOutcome::Valid,
        None => VerifyOutcome::Unavailable(findings),
    }
}

/// The state of a payment after `/settle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The facilitator reports that the money moved, in a transaction that can be checked on chain.
    Settled(SettleResponse),
    /// A transaction was sent. Retry with the same payment.
    Pending(SettleResponse),
    /// The facilitator refused for a reason that it only gives before a broadcast: no money moved.
    Refused(SettleResponse),
    /// The facilitator reports that the nonce is used; this request moved no money.
    NonceUsed(SettleResponse),
    /// Another transaction of the facilitator came first, for this payment or for another one, and this request moved no money. Check the
    /// chain; if the nonce is unused, retry.
    NotTaken(SettleResponse),
    /// Nothing was attempted: the facilitator could not be reached.
    NotAttempted,
    /// Only the chain can tell. Do not serve again and do not ask for another payment.
    Unknown {
        /// The transaction that the facilitator reported, to be checked first.
        transaction: Option<B256>,
        /// Why the response is not accepted.
        findings: Vec<Finding>,
    },
}

/// Interprets a response of `/settle`.
///
/// A body that says `success: false`, names no transaction and gives a reason that is only given before a broadcast is a refusal. Otherwise
/// the outcome is unknown, for any status: a proxy can respond with 429 or 502 for a facilitator that has already paid.
pub fn settle_outcome(answer: FacilitatorAnswer<'_>, payment: &Payment, offer: &Offer) -> SettleOutcome {
    let body = match answer {
        FacilitatorAnswer::NotSent => return SettleOutcome::NotAttempted,
        FacilitatorAnswer::Lost => return unknown(None, Vec::new()),
        FacilitatorAnswer::Answered { body, .. } => body,
    };
    let reading = read_settle_response(body, MAX_FACILITATOR_BYTES);
    let Some(response) = reading.response else { return unknown(None, reading.findings) };
    if response.is_pending() {
        return SettleOutcome::Pending(response);
    }
    let transaction = response.transaction_hash();
    if !response.success {
        let reason = response.reason.as_deref().filter(|_| response.transaction.is_empty());
        let reason = reason.map(|reason| SettleReason::of(reason, response.message.as_deref()));
        return match reason {
            Some(SettleReason::BeforeBroadcast) => SettleOutcome::Refused(response),
            Some(SettleReason::NonceUsed) => SettleOutcome::NonceUsed(response),
            Some(SettleReason::NotTaken) => SettleOutcome::NotTaken(response),
            Some(SettleReason::Undecided) | None => {
                let named = || response.reason.as_deref().and_then(named_transaction);
                unknown(transaction.or_else(named), reading.findings)
            }
        };
    }
    let findings = check_settlement(&response, payment, offer);
    if findings.is_empty() { SettleOutcome::Settled(response) } else { unknown(transaction, findings) }
}

const fn unknown(transaction: Option<B256>, findings: Vec<Finding>) -> SettleOutcome {
    SettleOutcome::Unknown { transaction, findings }
}

#[cfg(test)]
mod tests;
