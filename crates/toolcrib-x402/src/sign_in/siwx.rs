//! The x402 extension `sign-in-with-x`: the proposal in a 402, and the header that answers it.
//!
//! A server proposes a message without its account. The caller adds its account, signs, and sends everything back; the server rebuilds the
//! message from the received fields, so that only what was signed counts.

use alloy_primitives::Address;
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes::sign_in as code;
use toolcrib_core::json::{self, Limits, Value};

use super::{Fields, Message, MessageFault, Refused, Timestamp};
use crate::{Members, ObjectWriter, Raw, Signature, header};

/// The name of the extension.
pub const EXTENSION: &str = "sign-in-with-x";

/// The header that answers it.
pub const HEADER: &str = "SIGN-IN-WITH-X";

/// The signature method of accounts of EVM chains: `personal_sign`.
const EIP191: &str = "eip191";

/// Most chains that are read.
const MAX_CHAINS: usize = 64;

/// A server's proposal: a message for any account on one of some chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The site: host and port.
    pub domain: String,
    /// A sentence for the signer. Untrusted text.
    pub statement: Option<String>,
    /// The resource.
    pub uri: String,
    /// The server's nonce.
    pub nonce: String,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it expires.
    pub expiration_time: Option<Timestamp>,
    /// When it becomes valid.
    pub not_before: Option<Timestamp>,
    /// The site's identifier of the sign-in.
    pub request_id: Option<String>,
    /// URIs that the sign-in is about.
    pub resources: Option<Vec<String>>,
    /// The EVM chains of accepted accounts, in the server's order. Other chains are left out.
    pub chains: Vec<u64>,
}

impl Proposal {
    /// Returns the proposal of a challenge. `None` if it does not have the extension.
    pub fn announced(extensions: &Members) -> Option<Result<Self, Refused>> {
        let (_, value) = extensions.iter().find(|(name, _)| name == EXTENSION)?;
        Some(read_proposal(value.as_str()))
    }

    /// Returns the message for an account on a chain.
    pub fn message(&self, address: Address, chain_id: u64) -> Result<Message, MessageFault> {
        Message::new(Fields {
            scheme: None,
            domain: self.domain.clone(),
            address,
            statement: self.statement.clone(),
            uri: self.uri.clone(),
            chain_id,
            nonce: self.nonce.clone(),
            issued_at: self.issued_at.clone(),
            expiration_time: self.expiration_time.clone(),
            not_before: self.not_before.clone(),
            request_id: self.request_id.clone(),
            resources: self.resources.clone(),
        })
    }

    /// The extension for a challenge: its name and value.
    pub fn extension(&self) -> (String, Raw) {
        let mut out = String::with_capacity(SCHEMA.len() + 1_024);
        // Members are in canonical order, so that the text needs no second pass; it is created for every response.
        let mut object = ObjectWriter::open(&mut out);
        let mut info = ObjectWriter::open(object.key("info"));
        let time = |time: &'_ Option<Timestamp>| time.as_ref().map(|time| time.as_str().to_owned());
        let (expiration_time, not_before) = (time(&self.expiration_time), time(&self.not_before));
        info.text("domain", &self.domain);
        write_texts(
            &mut info,
            [
                ("expirationTime", expiration_time.as_deref()),
                ("issuedAt", Some(self.issued_at.as_str())),
                ("nonce", Some(&self.nonce)),
                ("notBefore", not_before.as_deref()),
                ("requestId", self.request_id.as_deref()),
            ],
        );
        write_resources(&mut info, self.resources.as_deref());
        write_texts(&mut info, [("statement", self.statement.as_deref()), ("uri", Some(&self.uri)), ("version", Some("1"))]);
        info.close();
        object.key("schema").push_str(SCHEMA);
        let chains = object.key("supportedChains");
        chains.push('[');
        for (at, chain) in self.chains.iter().enumerate() {
            if at > 0 {
                chains.push(',');
            }
            let mut entry = ObjectWriter::open(chains);
            entry.text("chainId", &format!("eip155:{chain}"));
            entry.text("type", EIP191);
            entry.close();
        }
        chains.push(']');
        object.close();
        (EXTENSION.to_owned(), Raw::canonical(out))
    }
}

/// A signed message in the form of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIn {
    /// The message.
    pub message: Message,
    /// The signature over its text.
    pub signature: Signature,
}

impl SignedIn {
    /// The value of the header. `None` if it would exceed the limit of headers.
    pub fn to_header(&self) -> Option<String> {
        let fields = self.message.fields();
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.text("domain", &fields.domain);
        object.text("address", &fields.address.to_checksum(None));
        let time = |time: &'_ Option<Timestamp>| time.as_ref().map(|time| time.as_str().to_owned());
        let (expiration_time, not_before) = (time(&fields.expiration_time), time(&fields.not_before));
        write_texts(
            &mut object,
            [
                ("statement", fields.statement.as_deref()),
                ("uri", Some(&fields.uri)),
                ("nonce", Some(&fields.nonce)),
                ("issuedAt", Some(fields.issued_at.as_str())),
                ("expirationTime", expiration_time.as_deref()),
                ("notBefore", not_before.as_deref()),
                ("requestId", fields.request_id.as_deref()),
            ],
        );
        write_resources(&mut object, fields.resources.as_deref());
        object.text("version", "1");
        object.text("chainId", &format!("eip155:{}", fields.chain_id));
        object.text("type", EIP191);
        object.text("signature", &self.signature.to_string());
        object.close();
        Some(header::encode(out.as_bytes())).filter(|value| value.len() <= header::MAX_BYTES)
    }

    /// Parses the value of the header: base64 of JSON. The message is rebuilt from its fields.
    pub fn read(value: &str) -> Result<Self, Refused> {
        let malformed = Refused(code::HEADER);
        let bytes = header::decode(value).map_err(|_| malformed)?;
        let limits = Limits { max_bytes: header::MAX_BYTES, max_depth: json::MAX_DEPTH };
        let document = json::read(&bytes, limits).document.filter(json::Document::is_canonicalisable).ok_or(malformed)?;
        let root = document.root();
        if text(root, "type")? != Some(EIP191) {
            return Err(Refused(code::CHAIN));
        }
        let address = required(root, "address")?;
        // Without the checksum the signed text would be unknown: clients always write it with one.
        let address: Address = address.parse().map_err(|_| malformed)?;
        let chain_id = chain(required(root, "chainId")?).ok_or(Refused(code::CHAIN))?;
        let message = read_fields(root)?.message(address, chain_id).map_err(|fault| Refused(fault.code()))?;
        let signature = Signature::parse(required(root, "signature")?).ok_or(malformed)?;
        Ok(Self { message, signature })
    }
}

fn read_proposal(text_of: &str) -> Result<Proposal, Refused> {
    let malformed = Refused(code::MESSAGE);
    let limits = Limits { max_bytes: header::MAX_BYTES, max_depth: json::MAX_DEPTH };
    let document = json::read(text_of.as_bytes(), limits).document.ok_or(malformed)?;
    let mut proposal = read_fields(document.root().get("info").ok_or(malformed)?)?;
    let chains = document.root().get("supportedChains").and_then(Value::as_array).ok_or(malformed)?;
    for entry in chains.iter().take(MAX_CHAINS) {
        if let (Some(EIP191), Some(chain)) = (text(entry, "type")?, chain(required(entry, "chainId")?)) {
            proposal.chains.push(chain);
        }
    }
    Ok(proposal)
}

/// Parses the fields that a proposal and its answer share, without the chains.
fn read_fields(object: Value<'_>) -> Result<Proposal, Refused> {
    let malformed = Refused(code::MESSAGE);
    if required(object, "version")? != "1" {
        return Err(malformed);
    }
    let owned = |key| text(object, key).map(|text| text.map(str::to_owned));
    let time = |key| match text(object, key)? {
        None => Ok(None),
        Some(text) => Timestamp::parse(text).map(Some).ok_or(malformed),
    };
    let resources = match object.get("resources") {
        None => None,
        Some(list) => {
            let list = list.as_array().ok_or(malformed)?;
            let uris: Option<Vec<_>> = list.iter().map(|uri| uri.as_str().map(str::to_owned)).collect();
            Some(uris.ok_or(malformed)?)
        }
    };
    Ok(Proposal {
        domain: required(object, "domain")?.to_owned(),
        statement: owned("statement")?,
        uri: required(object, "uri")?.to_owned(),
        nonce: required(object, "nonce")?.to_owned(),
        issued_at: time("issuedAt")?.ok_or(malformed)?,
        expiration_time: time("expirationTime")?,
        not_before: time("notBefore")?,
        request_id: owned("requestId")?,
        resources,
        chains: Vec::new(),
    })
}

/// A string, or `None` if it is missing. Anything else is malformed.
fn text<'d>(object: Value<'d>, key: &str) -> Result<Option<&'d str>, Refused> {
    match object.get(key) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(Refused(code::MESSAGE)),
    }
}

fn required<'d>(object: Value<'d>, key: &str) -> Result<&'d str, Refused> {
    text(object, key)?.ok_or(Refused(code::MESSAGE))
}

/// The EVM chain id.
fn chain(text: &str) -> Option<u64> {
    ChainId::parse(text).ok()?.evm_id()
}

fn write_texts<const N: usize>(object: &mut ObjectWriter<'_>, texts: [(&'static str, Option<&str>); N]) {
    for (key, text) in texts {
        if let Some(text) = text {
            object.text(key, text);
        }
    }
}

fn write_resources(object: &mut ObjectWriter<'_>, resources: Option<&[String]>) {
    let Some(resources) = resources else { return };
    let out = object.key("resources");
    out.push('[');
    for (at, uri) in resources.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        toolcrib_core::canon::write_string(uri, out);
    }
    out.push(']');
}

/// The schema of the answer, which the extension requires with the proposal.
const SCHEMA: &str = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"address":{"type":"string"},"chainId":{"type":"string"},"domain":{"type":"string"},"expirationTime":{"format":"date-time","type":"string"},"issuedAt":{"format":"date-time","type":"string"},"nonce":{"type":"string"},"notBefore":{"format":"date-time","type":"string"},"requestId":{"type":"string"},"resources":{"items":{"format":"uri","type":"string"},"type":"array"},"signature":{"type":"string"},"statement":{"type":"string"},"type":{"type":"string"},"uri":{"format":"uri","type":"string"},"version":{"type":"string"}},"required":["domain","address","uri","version","chainId","type","nonce","issuedAt","signature"],"type":"object"}"#;
