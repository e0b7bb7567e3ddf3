//! AWS Nitro attestation documents: a `COSE_Sign1` envelope around a CBOR map, signed by the security module.
//!
//! Fields and sizes are those of the vendor's description of the attestation process (§2.2 and §3.2.2). In two places the modules differ
//! from it, and this parser follows the modules: optional fields that were not set are present as null, and newer ones write the outer map
//! with indefinite length. Arrays and strings have definite lengths. The caller requests the expected type of each item, so nothing
//! recurses.

use minicbor::Decoder;
use minicbor::data::{Tag, Type};
use minicbor::decode::Error as CborError;
use p384::ecdsa::Signature;
use p384::ecdsa::signature::Verifier;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;

use super::x509::{self, Certificate};
use super::{Measurement, Policy, Signer, lower_hex};

/// Most certificates in `cabundle`. Genuine bundles have four or so: root, region, zone and instance.
pub(crate) const MAX_AUTHORITIES: usize = 10;

/// Most bytes of the signed payload: §3.1 of the vendor's description.
pub const MAX_PAYLOAD_BYTES: usize = 16_384;

/// Most bytes of one certificate, of `public_key`, `user_data` and `nonce`: §2.2. (§3.2.2 says 512 for the last two; the larger limit
/// cannot reject a genuine document.)
pub(crate) const MAX_FIELD_BYTES: usize = 1_024;

/// Most bytes of `module_id`. The vendor specifies no limit; genuine ones have about forty.
pub(crate) const MAX_MODULE_ID_BYTES: usize = 256;

/// Registers are numbered 0 to 31.
const REGISTERS: usize = 32;

/// The tag of a `COSE_Sign1` structure; it is optional.
const COSE_SIGN1_TAG: Tag = Tag::new(18);

/// The COSE header label of the algorithm, and ES384.
const ALGORITHM_LABEL: i64 = 1;
const ES384: i64 = -35;

/// A document whose format was checked, but not its signature.
pub(super) struct Document<'a> {
    protected: &'a [u8],
    payload: &'a [u8],
    signature: Signature,
    pub(super) fields: Fields<'a>,
}

/// The payload.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) module_id: &'a str,
    timestamp: u64,
    registers: [Option<&'a [u8]>; REGISTERS],
    certificate: &'a [u8],
    authorities: Vec<&'a [u8]>,
    pub(super) public_key: Option<&'a [u8]>,
    pub(super) user_data: Option<&'a [u8]>,
    pub(super) nonce: Option<&'a [u8]>,
}

/// Why the format of a document is invalid.
struct DocumentError {
    code: Code,
    message: String,
}

impl DocumentError {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn field(message: impl Into<String>) -> Self {
        Self::new(codes::attestation::DOCUMENT_FIELD, message)
    }

    fn cbor(at: usize, what: &str) -> Self {
        Self::new(codes::attestation::CBOR, format!("{what} (byte {at})"))
    }
}

impl From<CborError> for DocumentError {
    fn from(error: CborError) -> Self {
        Self::new(codes::attestation::CBOR, error.to_string())
    }
}

impl<'a> Document<'a> {
    /// Parses the envelope and the payload.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Box<Finding>> {
        envelope(bytes).map_err(|refusal| Finding::new(refusal.code).message(refusal.message).into())
    }

    /// Checks the chain from a pinned root to the signing certificate, and the signature. The certificates must be valid when the document
    /// was made and also at `now`, unless the policy disables the latter.
    pub(super) fn check_signature(&self, policy: &Policy, now: UnixTime) -> Result<Vec<Signer>, Vec<Finding>> {
        let fields = &self.fields;
        let parse = |(index, &der): (usize, &&'a [u8])| {
            Certificate::parse(der).map_err(|fault| {
                let finding = fault.finding();
                let message = format!("certificate {index} of the chain: {}", finding.message);
                vec![finding.message(message)]
            })
        };
        let bundle = fields.authorities.iter().chain([&fields.certificate]);
        let mut chain = bundle.enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
        let Some(leaf) = chain.pop() else { return Err(Vec::new()) };
        let made = self.time();
        // The document may be up to a minute ahead of our clock, and the certificate may be as new as the document.
        let moments = [made, now.max(made)];
        let moments = if policy.certificates_valid_now { &moments[..] } else { &moments[..1] };
        let mut findings: Vec<_> =
            x509::check_chain(&chain, &leaf, &policy.nitro_roots, moments).iter().map(x509::CertificateError::finding).collect();
        if leaf.key().verify(&self.signed_bytes(), &self.signature).is_err() {
            findings.push(Finding::new(codes::attestation::SIGNATURE));
        }
        if findings.is_empty() { Ok(chain.iter().chain([&leaf]).map(Certificate::summary).collect()) } else { Err(findings) }
    }

    /// The creation time of the document, in whole seconds.
    pub(super) fn time(&self) -> UnixTime {
        UnixTime::from_seconds(i64::try_from(self.fields.timestamp / 1_000).unwrap_or(i64::MAX))
    }

    /// The registers of the document.
    pub(super) fn measurements(&self) -> Vec<Measurement> {
        let present = |(index, register): (usize, &Option<&[u8]>)| {
            register.map(|value| Measurement { name: format!("PCR{index}"), value: lower_hex(value) })
        };
        self.fields.registers.iter().enumerate().filter_map(present).collect()
    }

    /// PCR0, the measurement of the enclave image.
    pub(super) fn image(&self) -> &'a [u8] {
        self.fields.registers[0].unwrap_or_default()
    }

    /// `Sig_structure` of RFC 9052 §4.4: context, protected headers, no external data, payload.
    fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.payload.len() + self.protected.len() + 32);
        bytes.extend_from_slice(b"\x84\x6aSignature1");
        push_byte_string(self.protected, &mut bytes);
        push_byte_string(&[], &mut bytes);
        push_byte_string(self.payload, &mut bytes);
        bytes
    }
}

fn push_byte_string(string: &[u8], out: &mut Vec<u8>) {
    // No string here is longer than a payload, so three forms suffice.
    match string.len() {
        length @ 0..24 => out.push(0x40 | length as u8),
        length @ 24..256 => out.extend_from_slice(&[0x58, length as u8]),
        length => {
            out.push(0x59);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(string);
}

fn envelope(bytes: &[u8]) -> Result<Document<'_>, DocumentError> {
    let refusal = |what: &str| DocumentError::new(codes::attestation::COSE, what);
    let mut reader = Decoder::new(bytes);
    if reader.probe().tag().is_ok_and(|tag| tag == COSE_SIGN1_TAG) {
        reader.tag()?;
    }
    if array(&mut reader)? != 4 {
        return Err(refusal("the COSE_Sign1 envelope is not an array of four items"));
    }
    let protected = reader.bytes()?;
    if reader.map()? != Some(0) {
        return Err(refusal("there are unprotected headers"));
    }
    let payload = reader.bytes()?;
    if !(1..=MAX_PAYLOAD_BYTES).contains(&payload.len()) {
        return Err(refusal("the payload is empty or longer than 16384 bytes"));
    }
    let signature = reader.bytes()?;
    end(&reader)?;
    check_algorithm(protected)?;
    let signature = Signature::from_slice(signature)
        .map_err(|_| refusal("the signature is not two numbers of 48 bytes in the range of P-384"))?;
    Ok(Document { protected, payload, signature, fields: payload_fields(payload)? })
}

fn check_algorithm(protected: &[u8]) -> Result<(), DocumentError> {
    let mut reader = Decoder::new(protected);
    if reader.map()? != Some(1) || reader.i64()? != ALGORITHM_LABEL {
        return Err(DocumentError::new(codes::attestation::COSE, "the protected headers do not contain exactly one algorithm"));
    }
    let algorithm = reader.i64()?;
    end(&reader)?;
    if algorithm == ES384 {
        Ok(())
    } else {
        Err(DocumentError::new(
            codes::attestation::ALGORITHM,
            format!("the document is signed with algorithm {algorithm}, expected ES384 (-35)"),
        ))
    }
}

/// The names of the fields; those before `public_key` are required.
const NAMES: [&str; 9] =
    ["module_id", "digest", "timestamp", "pcrs", "certificate", "cabundle", "public_key", "user_data", "nonce"];
const REQUIRED: usize = 6;

fn payload_fields(payload: &[u8]) -> Result<Fields<'_>, DocumentError> {
    let mut reader = Decoder::new(payload);
    let mut entries = reader.map()?;
    let mut fields = Fields::default();
    let mut seen = [false; NAMES.len()];
    while next_entry(&mut reader, &mut entries)? {
        let at = reader.position();
        let key = reader.str()?;
        let Some(index) = NAMES.iter().position(|&name| name == key) else {
            return Err(DocumentError::field(format!("the document has an unknown field (byte {at} of the payload)")));
        };
        if std::mem::replace(&mut seen[index], true) {
            return Err(DocumentError::cbor(at, "a key occurs twice"));
        }
        match key {
            "module_id" => fields.module_id = sized(reader.str()?, str::len, 1, MAX_MODULE_ID_BYTES, key)?,
            "digest" => {
                if reader.str()? != "SHA384" {
                    return Err(DocumentError::field("digest is not SHA384"));
                }
            }
            "timestamp" => {
                fields.timestamp = reader.u64()?;
                if fields.timestamp == 0 {
                    return Err(DocumentError::field("timestamp is zero"));
                }
            }
            "pcrs" => fields.registers = registers(&mut reader)?,
            "certificate" => fields.certificate = sized(reader.bytes()?, <[u8]>::len, 1, MAX_FIELD_BYTES, key)?,
            "cabundle" => fields.authorities = authorities(&mut reader)?,
            "public_key" => fields.public_key = optional(&mut reader, 1, key)?,
            "user_data" => fields.user_data = optional(&mut reader, 0, key)?,
            _ => fields.nonce = optional(&mut reader, 0, key)?,
        }
    }
    end(&reader)?;
    match NAMES.iter().zip(seen).take(REQUIRED).find(|(_, seen)| !seen) {
        Some((name, _)) => Err(DocumentError::field(format!("{name} is missing"))),
        None => Ok(fields),
    }
}

fn registers<'a>(reader: &mut Decoder<'a>) -> Result<[Option<&'a [u8]>; REGISTERS], DocumentError> {
    let mut registers = [None; REGISTERS];
    let mut entries = reader.map()?;
    while next_entry(reader, &mut entries)? {
        let at = reader.position();
        let index = reader.u64()?;
        let Some(register) = usize::try_from(index).ok().and_then(|index| registers.get_mut(index)) else {
            return Err(DocumentError::field(format!("PCR {index} does not exist")));
        };
        let value = reader.bytes()?;
        if !matches!(value.len(), 32 | 48 | 64) {
            return Err(DocumentError::field(format!("PCR {index} has {} bytes", value.len())));
        }
        if register.replace(value).is_some() {
            return Err(DocumentError::cbor(at, "a key occurs twice"));
        }
    }
    if registers[0].is_none() {
        return Err(DocumentError::field("pcrs lacks PCR0, the measurement of the image"));
    }
    Ok(registers)
}

fn authorities<'a>(reader: &mut Decoder<'a>) -> Result<Vec<&'a [u8]>, DocumentError> {
    let count = array(reader)?;
    if count == 0 {
        return Err(DocumentError::field("cabundle is empty"));
    }
    if count > MAX_AUTHORITIES as u64 {
        return Err(DocumentError::new(
            codes::attestation::CHAIN_TOO_LONG,
            format!("cabundle has {count} certificates, the limit is {MAX_AUTHORITIES}"),
        ));
    }
    (0..count).map(|_| sized(reader.bytes()?, <[u8]>::len, 1, MAX_FIELD_BYTES, "a certificate of cabundle")).collect()
}

fn optional<'a>(reader: &mut Decoder<'a>, least: usize, name: &str) -> Result<Option<&'a [u8]>, DocumentError> {
    bytes_or_null(reader)?.map(|bytes| sized(bytes, <[u8]>::len, least, MAX_FIELD_BYTES, name)).transpose()
}

fn sized<'a, T: ?Sized>(
    value: &'a T,
    length: fn(&T) -> usize,
    least: usize,
    most: usize,
    name: &str,
) -> Result<&'a T, DocumentError> {
    let length = length(value);
    if (least..=most).contains(&length) {
        Ok(value)
    } else {
        Err(DocumentError::field(format!("{name} has {length} bytes, expected {least} to {most}")))
    }
}

/// Parses the head of an array of definite length and returns the number of items.
pub(super) fn array(reader: &mut Decoder<'_>) -> Result<u64, CborError> {
    let at = reader.position();
    reader.array()?.ok_or_else(|| CborError::message("an array of definite length belongs here").at(at))
}

/// Whether a map has another entry. Counts it, or consumes the break that ends a map of indefinite length.
pub(super) fn next_entry(reader: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, CborError> {
    match left {
        Some(0) => Ok(false),
        Some(left) => {
            *left -= 1;
            Ok(true)
        }
        None => {
            let is_over = reader.datatype()? == Type::Break;
            reader.set_position(reader.position() + usize::from(is_over));
            Ok(!is_over)
        }
    }
}

/// Parses a byte string, or returns `None` for null.
pub(super) fn bytes_or_null<'a>(reader: &mut Decoder<'a>) -> Result<Option<&'a [u8]>, CborError> {
    if reader.datatype()? == Type::Null { reader.null().map(|()| None) } else { reader.bytes().map(Some) }
}

/// Checks that nothing follows.
fn end(reader: &Decoder<'_>) -> Result<(), DocumentError> {
    let at = reader.position();
    if at == reader.input().len() { Ok(()) } else { Err(DocumentError::cbor(at, "bytes follow after the end")) }
}
