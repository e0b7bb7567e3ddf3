//! Usage reports, which a tool sends to a directory after a call, in the two formats of the invocation guide.
//!
//! A call without a price is proven by the caller's signature over zero, forwarded unchanged; a paid one by the transaction that moved the
//! money. Ids and amounts are strings, as in the guide; the published interface has them as numbers, so the parser accepts both.

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{usage as code, x402};
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Kind, Object, Value};
use toolcrib_core::money::Amount;

use super::payment::{seconds, word};
use super::read::{Need, Reader, Words, read_message};
use super::receipt::word_of_20;
use super::{Authorization, ObjectWriter, Payment, Signature, Spelling};

/// Longest report. One with the longest signature takes about 5 KiB.
pub const MAX_BYTES: usize = 16 * 1024;

/// Timeout of a reporter, in seconds (invocation guide, Usage Reporting).
pub const TIMEOUT_SECONDS: u64 = 5;

/// `verification_type` of calls without a price.
pub const EIP3009_AUTHORIZATION: &str = "eip3009_authorization";

/// `verification_type` of paid calls.
pub const X402_SETTLEMENT: &str = "x402_settlement";

/// A report about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageReport {
    /// The tool.
    pub tool: ToolRef,
    /// The latency of the call.
    pub latency_ms: u64,
    /// The proof of the call.
    pub proof: UsageProof,
}

/// A report as a directory receives it, also from other software: the tool may be named in two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The called tool.
    pub subject: Subject,
    /// The latency of the call, if reported.
    pub latency_ms: Option<u64>,
    /// The chain of a signature, if reported.
    pub chain: Option<u64>,
    /// The proof of the call.
    pub proof: UsageProof,
}

/// How a report names a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// By its registration.
    Tool(ToolRef),
    /// By the URL that was called. Untrusted text.
    Endpoint(String),
}

impl From<UsageReport> for Submission {
    fn from(report: UsageReport) -> Self {
        Self { subject: Subject::Tool(report.tool), latency_ms: Some(report.latency_ms), chain: None, proof: report.proof }
    }
}

/// The proof of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageProof {
    /// The caller signed for zero.
    Authorization {
        /// The caller.
        caller: Address,
        /// The signed authorization.
        authorization: Authorization,
        /// Its signature.
        signature: Signature,
        /// The caller's spelling.
        spelling: Spelling,
    },
    /// The caller paid.
    Settlement {
        /// The caller.
        caller: Address,
        /// The transaction that moved the money.
        transaction: B256,
        /// The chain of the transaction.
        chain: u64,
    },
}

impl UsageProof {
    /// The `verification_type` of the proof.
    pub const fn verification_type(&self) -> &'static str {
        match self {
            Self::Authorization { .. } => EIP3009_AUTHORIZATION,
            Self::Settlement { .. } => X402_SETTLEMENT,
        }
    }

    /// The proof of a call without a price. `None` for a payment of more than zero: any reader of the report could redeem it.
    pub fn of_identity(payment: &Payment) -> Option<Self> {
        payment.authorization.value.is_zero().then(|| Self::Authorization {
            caller: payment.authorization.from,
            authorization: payment.authorization,
            signature: payment.signature.clone(),
            spelling: payment.spelling.clone(),
        })
    }

    /// The proof of a paid call.
    pub fn of_settlement(payment: &Payment, transaction: B256) -> Option<Self> {
        let chain = payment.network.evm_id()?;
        Some(Self::Settlement { caller: payment.authorization.from, transaction, chain })
    }
}

impl UsageReport {
    /// The body of the report.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.text("verification_type", self.proof.verification_type());
        object.number("tool_chain_id", self.tool.chain);
        object.text("tool_registry_address", &self.tool.registry.to_checksum(None));
        object.text("tool_onchain_id", &self.tool.id.to_string());
        object.number("latency_ms", self.latency_ms);
        match &self.proof {
            UsageProof::Authorization { caller, authorization, spelling, .. } => {
                let mut proof = ObjectWriter::open(object.key("eip3009"));
                proof.text("caller_address", &spelt(*caller, authorization, spelling));
                proof.text("signature", &spelling.signature);
                proof.text("from", &spelling.from);
                proof.text("to", &spelling.to);
                proof.text("value", &authorization.value.to_string());
                proof.text("valid_after", &authorization.valid_after.to_string());
                proof.text("valid_before", &authorization.valid_before.to_string());
                proof.text("nonce", &spelling.nonce);
                proof.close();
            }
            UsageProof::Settlement { caller, transaction, chain } => {
                let mut proof = ObjectWriter::open(object.key("x402"));
                proof.text("caller_address", &caller.to_checksum(None));
                proof.text("tx_hash", &transaction.to_string());
                proof.number("chain_id", *chain);
                proof.close();
            }
        }
        object.close();
        out
    }
}

fn spelt(caller: Address, authorization: &Authorization, spelling: &Spelling) -> String {
    if caller == authorization.from { spelling.from.clone() } else { caller.to_checksum(None) }
}

/// Parses a report. It is returned if no finding is an error.
pub fn read_report(bytes: &[u8]) -> (Option<UsageReport>, Vec<Finding>) {
    read_message(bytes, MAX_BYTES, &WORDS, |reader, object| {
        let kind = reader.required_string(object, "verification_type");
        let tool = read_tool(reader, object);
        let latency = reader.required(object, "latency_ms", Need::Must);
        let latency_ms = latency.and_then(|value| read_latency(reader, value));
        let (proof, _) = read_proof(reader, object, kind)?;
        Some(UsageReport { tool: tool?, latency_ms: latency_ms?, proof })
    })
}

/// Parses a report as a directory accepts it: the tool may be named by its endpoint only, and the latency may be missing.
pub fn read_submission(bytes: &[u8]) -> (Option<Submission>, Vec<Finding>) {
    read_message(bytes, MAX_BYTES, &WORDS, |reader, object| {
        let said = |key: &str| object.get(key).filter(|value| !value.is_null());
        let kind = reader.required_string(object, "verification_type");
        let keys = ["tool_chain_id", "tool_registry_address", "tool_onchain_id"];
        let subject = if said("tool_endpoint").is_some() && !keys.iter().any(|key| said(key).is_some()) {
            reader.required_string(object, "tool_endpoint").map(|(_, text)| Subject::Endpoint(text.to_owned()))
        } else {
            read_tool(reader, object).map(Subject::Tool)
        };
        let latency = said("latency_ms");
        let latency_ms = latency.and_then(|value| read_latency(reader, value));
        let (proof, chain) = read_proof(reader, object, kind)?;
        if latency.is_some() && latency_ms.is_none() {
            return None;
        }
        Some(Submission { subject: subject?, latency_ms, chain, proof })
    })
}

fn read_tool(reader: &mut Reader, object: Object<'_>) -> Option<ToolRef> {
    let chain = read_chain(reader, object, "tool_chain_id");
    let registry = read_address(reader, object, "tool_registry_address");
    let id = reader.required(object, "tool_onchain_id", Need::Must);
    let id = id.and_then(|value| read_number(reader, value, 1)).map(Amount::get);
    Some(ToolRef { chain: chain?, registry: registry?.1, id: id? })
}

fn read_latency(reader: &mut Reader, value: Value<'_>) -> Option<u64> {
    if value.as_u64().is_none() {
        reader.report(Finding::new(code::NUMBER).got(value.source()), value);
    }
    value.as_u64()
}

/// Parses the proof, and the chain of its signature.
fn read_proof(reader: &mut Reader, object: Object<'_>, kind: Option<(Value<'_>, &str)>) -> Option<(UsageProof, Option<u64>)> {
    let (kind, other) = match kind? {
        (_, EIP3009_AUTHORIZATION) => ("eip3009", "x402"),
        (_, X402_SETTLEMENT) => ("x402", "eip3009"),
        (value, unknown) => {
            let expected = format!("{EIP3009_AUTHORIZATION} or {X402_SETTLEMENT}");
            reader.report(Finding::new(code::TYPE_UNKNOWN).expected(expected).got(unknown), value);
            return None;
        }
    };
    if let Some(value) = object.get(other).filter(|value| !value.is_null()) {
        reader.report(Finding::new(code::TWO_PROOFS), value);
    }
    let value = reader.required(object, kind, Need::Must)?;
    let proof = reader.typed(value, Kind::Object, value.as_object())?;
    if kind == "x402" {
        return Some((read_settlement(reader, proof)?, None));
    }
    let chain = proof.get("chain_id").filter(|value| !value.is_null());
    let chain = if chain.is_some() { Some(read_chain(reader, proof, "chain_id")?) } else { None };
    Some((read_authorization(reader, proof)?, chain))
}

const WORDS: Words = Words {
    not_json: code::NOT_JSON,
    duplicate_key: code::DUPLICATE_KEY,
    too_large: code::TOO_LARGE,
    too_deep: code::TOO_DEEP,
    not_an_object: code::NOT_AN_OBJECT,
    field_missing: code::FIELD_MISSING,
    wrong_type: code::WRONG_TYPE,
    null_field: code::NULL_FIELD,
};

fn read_settlement(reader: &mut Reader, object: Object<'_>) -> Option<UsageProof> {
    let caller = read_address(reader, object, "caller_address");
    let transaction = reader.required_string(object, "tx_hash").and_then(|(value, text)| {
        let hash = word(text).filter(|hash| !hash.is_zero());
        if hash.is_none() {
            let finding = Finding::new(code::TRANSACTION).expected("0x and 64 hexadecimal digits");
            reader.report(finding.got(text), value);
        }
        hash
    });
    let chain = read_chain(reader, object, "chain_id");
    Some(UsageProof::Settlement { caller: caller?.1, transaction: transaction?, chain: chain? })
}

fn read_authorization(reader: &mut Reader, object: Object<'_>) -> Option<UsageProof> {
    let caller = read_address(reader, object, "caller_address");
    let from = read_address(reader, object, "from");
    let to = read_address(reader, object, "to");
    if let (Some(caller), Some(from), Some(value)) = (&caller, &from, object.get("caller_address"))
        && caller.1 != from.1
    {
        reader.report(Finding::new(code::CALLER_DIFFERS).expected(from.0).got(caller.0), value);
    }
    let value = reader.required(object, "value", Need::Must).and_then(|value| {
        let amount = read_number(reader, value, 0)?;
        if !amount.is_zero() {
            reader.report(Finding::new(code::VALUE_NOT_ZERO).expected("0").got(amount.to_string()), value);
        }
        Some(amount)
    });
    let valid_after = read_time(reader, object, "valid_after");
    let valid_before = read_time(reader, object, "valid_before");
    let mut digits = |key, expected: &str, is_right: &dyn Fn(&str) -> bool| {
        let (value, text) = reader.required_string(object, key)?;
        if !is_right(text) {
            reader.report(Finding::new(code::HEX).expected(expected).got(format!("{} characters", text.len())), value);
            return None;
        }
        Some(text)
    };
    let nonce = digits("nonce", "0x and 64 hexadecimal digits", &|text| word(text).is_some());
    let signature = digits("signature", "0x and at least 130 hexadecimal digits", &|text| Signature::parse(text).is_some());
    let (from, to, nonce, signature) = (from?, to?, nonce?, signature?);
    let authorization = Authorization {
        from: from.1,
        to: to.1,
        value: value?,
        valid_after: valid_after?,
        valid_before: valid_before?,
        nonce: word(nonce)?,
    };
    let spelling =
        Spelling { from: from.0.to_owned(), to: to.0.to_owned(), nonce: nonce.to_owned(), signature: signature.to_owned() };
    Some(UsageProof::Authorization { caller: caller?.1, authorization, signature: Signature::parse(signature)?, spelling })
}

fn read_address<'d>(reader: &mut Reader, object: Object<'d>, key: &str) -> Option<(&'d str, Address)> {
    let (value, text) = reader.required_string(object, key)?;
    let address = word_of_20(text).filter(|address| !address.is_zero());
    if address.is_none() {
        reader.report(Finding::new(x402::ADDRESS).expected("0x and 40 hexadecimal digits").got(text), value);
    }
    Some((text, address?))
}

fn read_chain(reader: &mut Reader, object: Object<'_>, key: &str) -> Option<u64> {
    let value = reader.required(object, key, Need::Must)?;
    let chain = value.as_u64().filter(|&chain| chain > 0);
    if chain.is_none() {
        reader.report(Finding::new(code::NUMBER).expected("a whole number above 0").got(value.source()), value);
    }
    chain
}

/// Parses a number from decimal digits or a JSON number.
fn read_number(reader: &mut Reader, value: Value<'_>, least: u64) -> Option<Amount> {
    let number = match value.as_str() {
        Some(text) => Amount::parse(text).ok(),
        None => value.as_u64().map(|number| Amount::new(U256::from(number))),
    };
    let number = number.filter(|number| number.get() >= U256::from(least));
    if number.is_none() {
        reader.report(Finding::new(code::NUMBER).expected("decimal digits").got(value.source()), value);
    }
    number
}

fn read_time(reader: &mut Reader, object: Object<'_>, key: &str) -> Option<u64> {
    let value = reader.required(object, key, Need::Must)?;
    let time = value.as_str().map_or_else(|| value.as_u64(), seconds);
    if time.is_none() {
        reader.report(Finding::new(code::NUMBER).expected("a Unix time in seconds").got(value.source()), value);
    }
    time
}

#[cfg(test)]
mod tests;
