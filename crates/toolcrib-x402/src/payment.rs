//! Payments: the header with which a caller responds to a challenge.
//!
//! Both versions carry an EIP-3009 authorization and its signature. Version 1 adds scheme and network, version 2 the offer that is met;
//! neither of these is signed. The parser accepts one form only: one header, one base64 encoding, no JSON number where digits are required.
//! Unknown fields are dropped, and serialisation uses only parsed fields.

use std::fmt;

use alloy_primitives::{Address, B256};
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes::{payment as code, x402};
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::hex::{self, Hex};
use toolcrib_core::json::{Kind, Object, Value};
use toolcrib_core::money::Amount;

use super::read::{EIP3009, Need, Reader, Words, read_message};
use super::{EXACT, Members, ObjectWriter, Offer, Raw, Resource, Signature, Version, header, v2};

/// A transfer that the payer has signed (EIP-3009). With the value 0 it moves nothing and proves the caller's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Authorization {
    /// The payer or caller.
    pub from: Address,
    /// The recipient.
    pub to: Address,
    /// The amount in the token's smallest unit.
    pub value: Amount,
    /// The last second before it becomes valid.
    pub valid_after: u64,
    /// The first second in which it has expired.
    pub valid_before: u64,
    /// Unique for each payer and token.
    pub nonce: B256,
}

/// A payment in either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The version in which it was parsed, and is serialised.
    pub version: Version,
    /// The chain, independent of how the version writes it. Always an EVM chain.
    pub network: ChainId,
    /// The signed authorization.
    pub authorization: Authorization,
    /// The payer's signature.
    pub signature: Signature,
    /// The caller's copy of the offer that is met (version 2). It is not signed: use your own offer.
    pub accepted: Option<Offer>,
    /// The caller's copy of the resource (version 2). Untrusted text.
    pub resource: Option<Resource>,
    /// Extensions of version 2 by name.
    pub extensions: Members,
    /// The caller's spelling of values with more than one spelling.
    pub spelling: Spelling,
}

/// The caller's spelling of hexadecimal fields, for reports that forward them unchanged.
#[derive(Clone, PartialEq, Eq)]
pub struct Spelling {
    /// The payer.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// The nonce.
    pub nonce: String,
    /// The signature.
    pub signature: String,
}

impl Spelling {
    /// The usual spelling: checksummed addresses, lowercase digits.
    pub fn usual(authorization: &Authorization, signature: &Signature) -> Self {
        Self {
            from: authorization.from.to_checksum(None),
            to: authorization.to.to_checksum(None),
            nonce: authorization.nonce.to_string(),
            signature: signature.to_string(),
        }
    }
}

/// Hides the signature, as [`Signature`] does.
impl fmt::Debug for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, nonce, .. } = self;
        f.debug_struct("Spelling").field("from", from).field("to", to).field("nonce", nonce).finish_non_exhaustive()
    }
}

impl Payment {
    /// A payment that meets `offer`. In version 2 `resource` and `extensions` are those of the challenge.
    pub fn new(
        version: Version,
        offer: &Offer,
        authorization: Authorization,
        signature: Signature,
        resource: Option<Resource>,
        extensions: Members,
    ) -> Self {
        let is_v2 = version == Version::V2;
        Self {
            version,
            network: offer.network.clone(),
            accepted: is_v2.then(|| Offer { resource: None, output_schema: None, ..offer.clone() }),
            resource: resource.filter(|_| is_v2),
            extensions: if is_v2 { extensions } else { Vec::new() },
            spelling: Spelling::usual(&authorization, &signature),
            authorization,
            signature,
        }
    }

    /// The payment as JSON in the format of its version. `None` if version 1 has no name for the network, or version 2 has no offer to
    /// repeat.
    pub fn to_json(&self) -> Option<String> {
        let mut out = String::new();
        self.write(self.accepted.as_ref(), self.resource.as_ref(), self.extensions.iter(), &self.signature, &mut out)?;
        Some(out)
    }

    /// The value of the header [`Version::payment_header`]. `None` as in [`to_json`](Self::to_json), or if it would exceed
    /// [`header::MAX_BYTES`].
    pub fn to_header(&self) -> Option<String> {
        Some(header::encode(self.to_json()?.as_bytes())).filter(|value| value.len() <= header::MAX_BYTES)
    }

    /// Serialises the payment with another offer, resource and signature.
    pub(super) fn write<'e>(
        &self,
        accepted: Option<&Offer>,
        resource: Option<&Resource>,
        extensions: impl Iterator<Item = &'e (String, Raw)>,
        signature: &Signature,
        out: &mut String,
    ) -> Option<()> {
        let mut object = ObjectWriter::open(out);
        object.number("x402Version", self.version.number().into());
        match self.version {
            Version::V1 => {
                object.text("scheme", EXACT);
                object.text("network", self.version.network_text(&self.network)?);
            }
            Version::V2 => {
                if let Some(resource) = resource {
                    v2::write_resource(resource, object.key("resource"));
                }
                v2::write_offer(accepted?, object.key("accepted"));
            }
        }
        self.write_payload(signature, object.key("payload"));
        let mut extensions = extensions.peekable();
        if self.version == Version::V2 && extensions.peek().is_some() {
            let mut members = ObjectWriter::open(object.key("extensions"));
            members.members(extensions);
            members.close();
        }
        object.close();
        Some(())
    }

    fn write_payload(&self, signature: &Signature, out: &mut String) {
        let authorization = &self.authorization;
        let mut payload = ObjectWriter::open(out);
        payload.text("signature", &signature.to_string());
        let mut object = ObjectWriter::open(payload.key("authorization"));
        object.text("from", &authorization.from.to_checksum(None));
        object.text("to", &authorization.to.to_checksum(None));
        object.text("value", &authorization.value.to_string());
        object.text("validAfter", &authorization.valid_after.to_string());
        object.text("validBefore", &authorization.valid_before.to_string());
        object.text("nonce", &authorization.nonce.to_string());
        object.close();
        payload.close();
    }
}

/// The result of parsing a payment.
#[derive(Clone, Debug)]
pub struct PaymentReading {
    /// The version of the header, which decides where the payer expects a receipt. `None` if both headers are present.
    pub version: Option<Version>,
    /// The payment, if it is valid.
    pub payment: Option<Payment>,
    /// Why it is invalid. Pointers and spans are those of the JSON text.
    pub findings: Vec<Finding>,
}

impl PaymentReading {
    /// The payment, or the findings.
    pub fn into_result(self) -> Result<Payment, Vec<Finding>> {
        self.payment.ok_or(self.findings)
    }

    const fn refused(version: Option<Version>, findings: Vec<Finding>) -> Self {
        Self { version, payment: None, findings }
    }
}

/// Finds and parses the payment in the headers of a request. `None` if there is none.
pub fn read_payment_headers<'h>(headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Option<PaymentReading> {
    let (mut first, mut count) = ([None; 2], [0_usize; 2]);
    for (name, value) in headers {
        let is = |version: Version| name.eq_ignore_ascii_case(version.payment_header());
        let Some(at) = [Version::V1, Version::V2].into_iter().position(is) else { continue };
        first[at].get_or_insert(value);
        count[at] += 1;
    }
    let (version, value, count) = match (first, count) {
        ([None, None], _) => return None,
        ([Some(_), Some(_)], _) => return Some(PaymentReading::refused(None, vec![Finding::new(code::BOTH_HEADERS)])),
        ([Some(value), None], [count, _]) => (Version::V1, value, count),
        ([None, Some(value)], [_, count]) => (Version::V2, value, count),
    };
    if count > 1 {
        let finding = Finding::new(code::HEADER_TWICE).expected("once").got(format!("{count} times"));
        return Some(PaymentReading::refused(Some(version), vec![finding]));
    }
    // Whitespace around a value belongs to HTTP (RFC 9110 §5.5), not to the value.
    let value = value.trim_ascii();
    Some(match std::str::from_utf8(value) {
        Ok(text) => read_payment(version, text),
        Err(_) if value.len() > header::MAX_BYTES => PaymentReading::refused(Some(version), vec![too_long(value.len())]),
        Err(_) => {
            let finding = Finding::new(code::BASE64).message("the header contains bytes that are not text");
            PaymentReading::refused(Some(version), vec![finding])
        }
    })
}

/// Parses the value of the header [`Version::payment_header`].
pub fn read_payment(version: Version, value: &str) -> PaymentReading {
    let finding = match header::decode(value) {
        Ok(bytes) => return read(&bytes, Some(version)),
        Err(header::HeaderError::TooLong) => too_long(value.len()),
        // A header is a credential, so it is not quoted.
        Err(fault) => Finding::new(code::BASE64).message(fault.to_string()),
    };
    PaymentReading::refused(Some(version), vec![finding])
}

/// Parses a payment from JSON of a transport other than HTTP, such as the metadata of an MCP call, in the version of its `x402Version`.
pub fn read_payment_json(bytes: &[u8]) -> PaymentReading {
    read(bytes, None)
}

fn too_long(length: usize) -> Finding {
    Finding::new(code::HEADER_TOO_LONG).expected(format!("at most {} bytes", header::MAX_BYTES)).got(format!("{length} bytes"))
}

fn read(bytes: &[u8], version: Option<Version>) -> PaymentReading {
    let (payment, mut findings) =
        read_message(bytes, header::MAX_BYTES, &WORDS, |reader, object| read_object(reader, object, version));
    findings.retain(|finding| finding.severity == Severity::Error);
    PaymentReading { version: version.or_else(|| payment.as_ref().map(|payment| payment.version)), payment, findings }
}

/// The codes for problems in the text of a payment.
const WORDS: Words = Words {
    not_json: code::NOT_JSON,
    duplicate_key: code::DUPLICATE_KEY,
    too_large: code::TOO_LARGE,
    too_deep: code::TOO_DEEP,
    not_an_object: code::NOT_AN_OBJECT,
    field_missing: code::FIELD_MISSING,
    wrong_type: code::WRONG_TYPE,
    null_field: code::WRONG_TYPE,
};

/// Parses the object of a payment. `wanted` is the version that its header implies, if any.
pub(super) fn read_object(reader: &mut Reader, object: Object<'_>, wanted: Option<Version>) -> Option<Payment> {
    let version = read_version(reader, object, wanted)?;
    let (network, accepted) = match version {
        Version::V1 => {
            let scheme = reader.required_string(object, "scheme").filter(|&(value, scheme)| is_exact(reader, value, scheme));
            let network = reader.required_string(object, "network");
            let network = network.and_then(|(value, text)| Some((value, reader.network(value, text, version)?)));
            (network.filter(|_| scheme.is_some()), None)
        }
        Version::V2 => {
            let accepted = reader.required(object, "accepted", Need::Must);
            let accepted = accepted.and_then(|value| read_accepted(reader, value));
            let network = accepted.as_ref().map(|(value, offer)| (*value, offer.network.clone()));
            (network, accepted.map(|(_, offer)| offer))
        }
    };
    let payload = reader.required(object, "payload", Need::Must)?;
    let payload = reader.typed(payload, Kind::Object, payload.as_object())?;
    let (value, network) = network?;
    if network.evm_id().is_none() {
        reader.report(Finding::new(code::NETWORK).expected("eip155").got(network.as_str()), value);
        return None;
    }
    let (authorization, signature, spelling) = read_payload(reader, payload, &network)?;
    let is_v2 = version == Version::V2;
    // Nothing here is signed or decides anything, so only problems that prevent parsing count.
    let resource = object
        .get("resource")
        .filter(|value| is_v2 && !value.is_null())
        .and_then(|_| reader.apart(|reader| v2::read_resource(reader, object), |finding| finding.code == code::WRONG_TYPE));
    let extensions = if is_v2 { v2::read_extensions(reader, object) } else { Vec::new() };
    Some(Payment { version, network, authorization, signature, accepted, resource, extensions, spelling })
}

fn read_version(reader: &mut Reader, object: Object<'_>, wanted: Option<Version>) -> Option<Version> {
    let value = reader.required(object, "x402Version", Need::Must)?;
    // The literal and not the number: 1.0 and 1e0 are other spellings.
    let version = match value.source() {
        "1" => Some(Version::V1),
        "2" => Some(Version::V2),
        _ => None,
    };
    if version.is_none() || wanted.is_some_and(|wanted| version != Some(wanted)) {
        let expected = wanted.map_or_else(|| "the number 1 or 2".to_owned(), |wanted| format!("the number {}", wanted.number()));
        reader.report(Finding::new(code::VERSION).expected(expected).got(value.source()), value);
        return None;
    }
    version
}

fn is_exact(reader: &mut Reader, value: Value<'_>, scheme: &str) -> bool {
    if scheme != EXACT {
        reader.report(Finding::new(code::SCHEME).expected(EXACT).got(scheme), value);
    }
    scheme == EXACT
}

fn read_accepted<'d>(reader: &mut Reader, value: Value<'d>) -> Option<(Value<'d>, Offer)> {
    let entry = reader.typed(value, Kind::Object, value.as_object())?;
    if let Some(scheme) = entry.get("scheme")
        && let Some(text) = scheme.as_str()
        && !is_exact(reader, scheme, text)
    {
        return None;
    }
    // Whether such an offer is wise to pay is the payer's decision; whether it is ours is checked later.
    let matters = |finding: &Finding| {
        finding.severity == Severity::Error && ![x402::DOMAIN_DIFFERS, x402::PAY_TO_UNSPENDABLE].contains(&finding.code)
    };
    let offer = reader.apart(|reader| v2::read_offer(reader, entry), matters)?;
    let method = offer.extra.as_ref().and_then(|extra| extra.transfer_method.as_deref());
    if let Some(method) = method.filter(|&method| method != EIP3009) {
        reader.report(Finding::new(code::METHOD).expected(EIP3009).got(method), value);
        return None;
    }
    Some((value, offer))
}

fn read_payload(reader: &mut Reader, payload: Object<'_>, network: &ChainId) -> Option<(Authorization, Signature, Spelling)> {
    let is_other = payload.get("authorization").is_none() && METHODS.iter().any(|key| payload.get(key).is_some());
    if is_other {
        reader.report(Finding::new(code::METHOD).expected("authorization"), payload.value());
        return None;
    }
    let signed = reader.required_string(payload, "signature");
    let signature = signed.and_then(|(value, text)| {
        let signature = Signature::parse(text);
        if signature.is_none() {
            // Not quoted: it may be a valid signature except for the last digit.
            reader.report(Finding::new(code::SIGNATURE).got(format!("{} characters", text.len())), value);
        }
        signature
    });
    let value = reader.required(payload, "authorization", Need::Must)?;
    let object = reader.typed(value, Kind::Object, value.as_object())?;
    let mut account = |key| {
        let (value, text) = reader.required_string(object, key)?;
        Some((value, text, reader.address(value, text, network)?.evm_address()?))
    };
    let (from, to) = (account("from"), account("to"));
    if let Some((value, text, address)) = from
        && address.is_zero()
    {
        reader.report(Finding::new(code::FROM_ZERO_ADDRESS).got(text), value);
    }
    let amount = reader.required_string(object, "value").and_then(|(value, text)| reader.decimal(value, text));
    let valid_after = read_time(reader, object, "validAfter");
    let valid_before = read_time(reader, object, "validBefore");
    let nonce = reader.required_string(object, "nonce").and_then(|(value, text)| {
        let nonce = word(text);
        if nonce.is_none() {
            reader.report(Finding::new(code::NONCE).expected("0x and 64 hexadecimal digits").got(text), value);
        }
        Some((text, nonce?))
    });
    let ((_, from_text, from), (_, to_text, to), (nonce_text, nonce)) = (from?, to?, nonce?);
    let spelling = Spelling {
        from: from_text.to_owned(),
        to: to_text.to_owned(),
        nonce: nonce_text.to_owned(),
        signature: signed?.1.to_owned(),
    };
    let authorization = Authorization { from, to, value: amount?, valid_after: valid_after?, valid_before: valid_before?, nonce };
    Some((authorization, signature?, spelling))
}

fn read_time(reader: &mut Reader, object: Object<'_>, key: &str) -> Option<u64> {
    let (value, text) = reader.required_string(object, key)?;
    let seconds = seconds(text);
    if seconds.is_none() {
        reader.report(Finding::new(code::TIME).expected("decimal digits").got(text), value);
    }
    seconds
}

/// Seconds in the grammar of amounts, if they fit.
pub(super) fn seconds(text: &str) -> Option<u64> {
    u64::try_from(Amount::parse(text).ok()?.get()).ok()
}

/// 32 bytes as `0x` and digits of either case.
pub(super) fn word(text: &str) -> Option<B256> {
    match Hex::of(text) {
        Hex::Lower(digits) | Hex::Upper(digits) if digits.len() == 64 && text.starts_with("0x") => {
            B256::try_from(hex::decode(digits)?.as_slice()).ok()
        }
        _ => None,
    }
}

/// Members of payloads that move money in another way.
const METHODS: [&str; 6] =
    ["permit2Authorization", "permissionContext", "transaction", "signedTransaction", "signedDelegateAction", "settlementBoc"];

#[cfg(test)]
pub(super) mod tests;
