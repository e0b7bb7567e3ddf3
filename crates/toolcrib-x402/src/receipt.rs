//! Settlements: what a facilitator answers, and what a server sends on as a receipt.
//!
//! The text is the same in both versions but for the network's name; receipts wrap it in base64. Readers are strict about
//! what decides (success, transaction) and lenient about what facilitators are known to get wrong beside it: a refusal that
//! cannot be read would be taken for an unknown outcome, and money would be looked for that never moved.

use alloy_primitives::B256;
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{Kind, Object};
use toolcrib_core::money::Amount;

use super::payment::word;
use super::read::{Need, Reader, Words, others, read_message};
use super::{ChainAddress, MAX_ADDRESS_CHARS, Members, ObjectWriter, Offer, Payment, Version, header, network};

/// Longest reason that is kept of a foreign answer, in characters: what the reference library cuts at.
pub const MAX_REASON_CHARS: usize = 500;

/// Longest text that names a transaction, and the most that is kept of any other. Other networks write theirs in up to 88
/// characters.
const MAX_TRANSACTION_CHARS: usize = 128;

/// The reason that is no failure: the transaction was sent, and nobody has waited for it yet.
pub(super) const PENDING: &str = "settlement_pending";

/// What came of a payment, as somebody says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleResponse {
    /// Whether the money moved.
    pub success: bool,
    /// The transaction; empty when there is none.
    pub transaction: String,
    /// The chain.
    pub network: Option<ChainId>,
    /// Who paid.
    pub payer: Option<ChainAddress>,
    /// How much moved.
    pub amount: Option<Amount>,
    /// Why it did not, as a word. Foreign text of at most [`MAX_REASON_CHARS`].
    pub reason: Option<String>,
    /// Why it did not, for people. Foreign text of at most [`MAX_REASON_CHARS`].
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

    /// A receipt that says why a payment did not settle.
    pub fn failed(payment: &Payment, reason: &str) -> Self {
        let receipt = Self::settled(payment, B256::ZERO);
        Self { success: false, transaction: String::new(), reason: Some(shorten(reason)), ..receipt }
    }

    /// The transaction on an EVM chain.
    pub fn transaction_hash(&self) -> Option<B256> {
        word(&self.transaction)
    }

    /// Whether a transaction is on its way.
    pub fn is_pending(&self) -> bool {
        !self.success && self.reason.as_deref() == Some(PENDING)
    }

    /// The response as JSON. Version 1 leaves out a network that it has no name for.
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

    /// The value of the header [`Version::receipt_header`]. Extensions that do not fit are left out.
    pub fn to_header(&self, version: Version) -> String {
        let value = header::encode(self.to_json(version).as_bytes());
        if value.len() <= header::MAX_BYTES {
            return value;
        }
        header::encode(Self { extensions: Vec::new(), ..self.clone() }.to_json(version).as_bytes())
    }
}

/// What reading a settlement gave.
#[derive(Clone, Debug)]
pub struct SettleResponseReading {
    /// The response, when no finding is an error. None is not a failure of the settlement: its outcome is unknown.
    pub response: Option<SettleResponse>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// Reads the value of a receipt header.
pub fn read_receipt(value: &str) -> SettleResponseReading {
    match header::decode(value) {
        Ok(bytes) => read_settle_response(&bytes, header::MAX_BYTES),
        Err(fault) => {
            SettleResponseReading { response: None, findings: vec![Finding::new(code::HEADER).message(fault.to_string())] }
        }
    }
}

/// Reads a settlement from JSON of at most `max_bytes`. Networks may be written as in either version.
pub fn read_settle_response(bytes: &[u8], max_bytes: usize) -> SettleResponseReading {
    let (response, findings) = read_message(bytes, max_bytes, &WORDS, read_object);
    SettleResponseReading { response, findings }
}

/// Compares a settlement that is said to have succeeded with the payment that was to be settled under `offer`. Any finding
/// means that the answer is about something else, and the outcome unknown.
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

/// The words for what can be wrong with the text of an answer about a settlement.
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
    // Some facilitators leave transaction and network out, or empty, when they refuse.
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
            // Beside a refusal it only means that there is something to look for.
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

/// A network in either version's words. An empty one counts as none where none is needed.
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

/// An account on a network, or one that looks like an EVM account when the network is not told. A wrong checksum or case in
/// somebody's answer is no reason not to read it.
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

/// A reason and a message, cut to what is kept. `or` is another name under which the reason is seen in the wild.
pub(super) fn read_reasons(reader: &mut Reader, object: Object<'_>, keys: [&str; 2], or: &str) -> [Option<String>; 2] {
    let mut texts = keys.map(|key| reader.string(object, key, Need::May).map(shorten));
    if texts[0].is_none() {
        texts[0] = object.get(or).and_then(|value| value.as_str()).map(shorten);
    }
    texts
}

/// Beginning and end of a long text. Exceptions of viem hold whole transactions, and say after them what the node answered.
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
