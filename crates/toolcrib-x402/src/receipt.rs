//! Settlements: the response of a facilitator, and the receipt that a server forwards.
//!
//! The text is the same in both versions except for the network's name; receipts wrap it in base64. The parser is strict about what decides
//! (success, transaction) and lenient about known mistakes of facilitators elsewhere: a refusal that cannot be parsed would count as an
//! unknown outcome, and be searched for on the chain although no money moved.

use alloy_primitives::B256;
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{Kind, Object};
use toolcrib_core::money::Amount;

use super::payment::word;
use super::read::{Need, Reader, Words, others, read_message};
use super::{ChainAddress, MAX_ADDRESS_CHARS, Members, ObjectWriter, Offer, Payment, Version, header, network};

/// Longest untrusted reason that is kept, in characters: the limit of the reference library.
pub const MAX_REASON_CHARS: usize = 500;

/// Longest text that names a transaction, and the limit of other texts. Other networks write theirs in up to 88 characters.
const MAX_TRANSACTION_CHARS: usize = 128;

/// The reason that is not a failure: the transaction was sent, but is not confirmed yet.
pub(super) const PENDING: &str = "settlement_pending";

/// The reported result of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleResponse {
    /// Whether the money moved.
    pub success: bool,
    /// The transaction; empty if there is none.
    pub transaction: String,
    /// The chain.
    pub network: Option<ChainId>,
    /// The payer.
    pub payer: Option<ChainAddress>,
    /// The amount that moved.
    pub amount: Option<Amount>,
    /// The reason of a failure in machine-readable form. Untrusted text of at most [`MAX_REASON_CHARS`].
    pub reason: Option<String>,
    /// The reason of a failure for people. Untrusted text of at most [`MAX_REASON_CHARS`].
    pub message: Option<String>,
    /// Extensions of version 2 by name.
    pub extensions: Members,
}

impl SettleResponse {
    /// A receipt of a payment that settled in `transaction`.
    pub fn settled(payment: &Payment, transaction: B256) -> Self {
        Self {
            success: true,
            transaction: transaction.to_string(),
            network: Some(payment.network.clone()),
            payer: Some(ChainAddress::evm(payment.authorization.from)),
            amount: None,
            reason: None,
            message: None,
            extensions: Vec::new(),
        }
    }

    /// A receipt that states why a payment did not settle.
    pub fn failed(payment: &Payment, reason: &str) -> Self {
        let receipt = Self::settled(payment, B256::ZERO);
        Self { success: false, transaction: String::new(), reason: Some(shorten(reason)), ..receipt }
    }

    /// The transaction on an EVM chain.
    pub fn transaction_hash(&self) -> Option<B256> {
        word(&self.transaction)
    }

    /// Whether a transaction was sent and is not confirmed yet.
    pub fn is_pending(&self) -> bool {
        !self.success && self.reason.as_deref() == Some(PENDING)
    }

    /// The response as JSON. Version 1 omits a network that it has no name for.
    pub fn to_json(&self, version: Version) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.key("success").push_str(if self.success { "true" } else { "false" });
        let texts = [("errorReason", &self.reason), ("errorMessage", &self.message)];
        for (key, text) in texts {
            if let Some(text) = text {
                object.text(key, text);
            }
        }
        object.text("transaction", &self.transaction);
        let network = self.network.as_ref().and_then(|network| version.network_text(network));
        object.text("network", network.unwrap_or_default());
        if let Some(payer) = &self.payer {
            object.text("payer", payer.as_str());
        }
        if let Some(amount) = &self.amount {
            object.text("amount", &amount.to_string());
        }
        if version == Version::V2 && !self.extensions.is_empty() {
            let mut members = ObjectWriter::open(object.key("extensions"));
            members.members(&self.extensions);
            members.close();
        }
        object.close();
        out
    }

    /// The value of the header [`Version::receipt_header`]. Extensions that do not fit are omitted.
    pub fn to_header(&self, version: Version) -> String {
        let value = header::encode(self.to_json(version).as_bytes());
        if value.len() <= header::MAX_BYTES {
            return value;
        }
        header::encode(Self { extensions: Vec::new(), ..self.clone() }.to_json(version).as_bytes())
    }
}

/// The result of parsing a settlement.
#[derive(Clone, Debug)]
pub struct SettleResponseReading {
    /// The response if no finding is an error. `None` does not mean that the settlement failed: its outcome is unknown.
    pub response: Option<SettleResponse>,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Parses the value of a receipt header.
pub fn read_receipt(value: &str) -> SettleResponseReading {
    match header::decode(value) {
        Ok(bytes) => read_settle_response(&bytes, header::MAX_BYTES),
        Err(fault) => {
            SettleResponseReading { response: None, findings: vec![Finding::new(code::HEADER).message(fault.to_string())] }
        }
    }
}

/// Parses a settlement from JSON of at most `max_bytes`. Networks may be written as in either version.
pub fn read_settle_response(bytes: &[u8], max_bytes: usize) -> SettleResponseReading {
    let (response, findings) = read_message(bytes, max_bytes, &WORDS, read_object);
    SettleResponseReading { response, findings }
}

/// Compares a successful settlement with the payment to be settled under `offer`. Any finding means that the response is about something
/// else, and the outcome unknown.
pub fn check_settlement(response: &SettleResponse, payment: &Payment, offer: &Offer) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut differ = |rule, expected: &str, got: &str| findings.push(Finding::new(rule).expected(expected).got(got));
    match &response.network {
        Some(network) if *network == offer.network => {}
        network => differ(code::NETWORK_DIFFERS, offer.network.as_str(), network.as_ref().map_or("none", ChainId::as_str)),
    }
    let from = payment.authorization.from;
    if let Some(payer) = &response.payer
        && payer.evm_address() != Some(from)
    {
        differ(code::PAYER_DIFFERS, &from.to_checksum(None), payer.as_str());
    }
    if let Some(amount) = response.amount
        && amount != payment.authorization.value
    {
        differ(code::AMOUNT_DIFFERS, &payment.authorization.value.to_string(), &amount.to_string());
    }
    if response.success && response.transaction_hash().is_none_or(|hash| hash.is_zero()) {
        differ(code::TRANSACTION, "0x and 64 hexadecimal digits", &response.transaction);
    }
    findings
}

/// The codes for problems in the text of a response about a settlement.
pub(super) const WORDS: Words = Words {
    not_json: code::NOT_JSON,
    duplicate_key: code::DUPLICATE_KEY,
    too_large: code::TOO_LARGE,
    too_deep: code::TOO_DEEP,
    not_an_object: code::NOT_AN_OBJECT,
    field_missing: code::FIELD_MISSING,
    wrong_type: code::WRONG_TYPE,
    null_field: code::NULL_FIELD,
};

fn read_object(reader: &mut Reader, object: Object<'_>) -> Option<SettleResponse> {
    let success = reader.required(object, "success", Need::Must)?;
    let success = reader.typed(success, Kind::Bool, success.as_bool())?;
    // Some facilitators omit transaction and network, or leave them empty, if they refuse.
    let need = if success { Need::Must } else { Need::May };
    let named = reader.string(object, "transaction", need);
    let transaction = named.unwrap_or_default();
    let chain = read_network(reader, object, need);
    let is_evm = chain.as_ref().is_none_or(|chain| chain.evm_id().is_some());
    if let Some(value) = object.get("transaction").filter(|_| named.is_some()) {
        let is_hash = word(transaction).is_some();
        let is_plain = transaction.len() <= MAX_TRANSACTION_CHARS && transaction.bytes().all(|byte| byte.is_ascii_graphic());
        if success && transaction.is_empty() {
            reader.report(Finding::new(code::NO_TRANSACTION), value);
        } else if !(transaction.is_empty() || if is_evm { is_hash } else { is_plain }) {
            // With a refusal it only means that there is a transaction to check.
            let severity = if success { Severity::Error } else { Severity::Warning };
            let finding = Finding::new(code::TRANSACTION).severity(severity).expected("0x and 64 hexadecimal digits");
            reader.report(finding.got(transaction), value);
        }
    }
    let payer = read_account(reader, object, "payer", chain.as_ref());
    let amount = |reader: &mut Reader| {
        let text = reader.string(object, "amount", Need::May)?;
        reader.decimal(object.get("amount")?, text)
    };
    let amount = reader.apart(amount, |_| success);
    let [reason, message] = read_reasons(reader, object, ["errorReason", "errorMessage"], "error_reason");
    let extensions = object.get("extensions").and_then(|value| value.as_object()).map(|object| others(object, &[]));
    Some(SettleResponse {
        success,
        transaction: transaction.chars().take(MAX_TRANSACTION_CHARS).collect(),
        network: chain,
        payer,
        amount,
        reason,
        message,
        extensions: extensions.unwrap_or_default(),
    })
}

/// A network as either version writes it. An empty one counts as missing if it is optional.
fn read_network(reader: &mut Reader, object: Object<'_>, need: Need) -> Option<ChainId> {
    let text = reader.string(object, "network", need)?;
    let value = object.get("network")?;
    if text.is_empty() && need == Need::May {
        return None;
    }
    if let Some(named) = network::by_name(text) {
        return named.chain();
    }
    reader.apart(|reader| reader.network(value, text, Version::V2), |_| need == Need::Must)
}

/// An account on a network, or one in EVM format if the network is unknown. A wrong checksum or case in a response does not prevent
/// parsing.
pub(super) fn read_account(reader: &mut Reader, object: Object<'_>, key: &str, chain: Option<&ChainId>) -> Option<ChainAddress> {
    let text = reader.string(object, key, Need::May).filter(|text| !text.is_empty())?;
    let value = object.get(key)?;
    let is_evm = chain.is_some_and(|chain| chain.evm_id().is_some());
    let address = word_of_20(text);
    let is_plain = text.len() <= MAX_ADDRESS_CHARS && text.bytes().all(|byte| byte.is_ascii_graphic());
    if (is_evm && address.is_none()) || !is_plain {
        let finding = Finding::new(toolcrib_core::codes::x402::ADDRESS).severity(Severity::Warning);
        reader.report(finding.expected("0x and 40 hexadecimal digits").got(text), value);
        return None;
    }
    Some(address.filter(|_| is_evm || chain.is_none()).map_or_else(|| ChainAddress::other(text.to_owned()), ChainAddress::evm))
}

/// 20 bytes as `0x` and digits of either case.
pub(super) fn word_of_20(text: &str) -> Option<alloy_primitives::Address> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    alloy_primitives::Address::try_from(toolcrib_core::hex::decode(digits)?.as_slice()).ok()
}

/// A reason and a message, truncated. `or` is another name that is used for the reason.
pub(super) fn read_reasons(reader: &mut Reader, object: Object<'_>, keys: [&str; 2], or: &str) -> [Option<String>; 2] {
    let mut texts = keys.map(|key| reader.string(object, key, Need::May).map(shorten));
    if texts[0].is_none() {
        texts[0] = object.get(or).and_then(|value| value.as_str()).map(shorten);
    }
    texts
}

/// The start and the end of a long text. Exceptions of viem contain whole transactions, followed by the node's response.
fn shorten(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_REASON_CHARS {
        return text.to_owned();
    }
    let half = MAX_REASON_CHARS / 2;
    text.chars().take(half).chain(['\u{2026}']).chain(text.chars().skip(count - half + 1)).collect()
}

#[cfg(test)]
mod tests;
