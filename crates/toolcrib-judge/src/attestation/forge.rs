//! Creates Nitro-like documents with a test authority: valid ones and every kind of invalid one. For tests.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use p384::ecdsa::signature::Signer as _;
use p384::ecdsa::{Signature, SigningKey};
use x509_cert::certificate::{Certificate, TbsCertificate, Version};
use x509_cert::der::asn1::{BitString, ObjectIdentifier, OctetString, UtcTime};
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Any, Encode};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

/// The time of the documents, unless a test sets another: 2026-05-01T18:00:00Z.
pub(super) const MADE: i64 = 1_777_658_400;

/// The measurement in them.
pub(super) const IMAGE: [u8; 48] = [0xa5; 48];

/// Returns the key for a number.
fn key(number: u8) -> SigningKey {
    SigningKey::from_slice(&[number; 48]).expect("in the range of the curve")
}

/// Signs deterministically, so that certificates that many tests share are signed once.
pub(super) fn sign(number: u8, message: &[u8]) -> Signature {
    type Known = HashMap<(u8, Vec<u8>), Signature>;
    static MADE: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let id = (number, message.to_vec());
    let known = MADE.lock().expect("no test panics while it signs").get(&id).copied();
    known.unwrap_or_else(|| {
        let signature = key(number).sign(message);
        MADE.lock().expect("no test panics while it signs").insert(id, signature);
        signature
    })
}

/// The public key as a point.
fn point(number: u8) -> Vec<u8> {
    static MADE: LazyLock<Mutex<HashMap<u8, Vec<u8>>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().expect("no test panics while it makes keys");
    made.entry(number).or_insert_with(|| key(number).verifying_key().to_encoded_point(false).as_bytes().to_vec()).clone()
}

/// The contents of a certificate to create.
#[derive(Clone)]
pub(super) struct Card {
    pub(super) subject: &'static str,
    pub(super) issuer: &'static str,
    pub(super) key: u8,
    pub(super) signed_by: u8,
    pub(super) valid: (i64, i64),
    /// Basic constraints: whether it is an authority, and its path length; `None` omits the extension.
    pub(super) basic: Option<(bool, Option<u8>)>,
    pub(super) usage: Option<FlagSet<KeyUsages>>,
    pub(super) more: Vec<(&'static str, bool)>,
    pub(super) algorithm: &'static str,
    pub(super) curve: &'static str,
    pub(super) version: Version,
}

const ECDSA_WITH_SHA384: &str = "1.2.840.10045.4.3.3";
const SECP384R1: &str = "1.3.132.0.34";

impl Card {
    pub(super) fn authority(subject: &'static str, issuer: &'static str, key: u8, signed_by: u8) -> Self {
        Self {
            subject,
            issuer,
            key,
            signed_by,
            valid: (MADE - 86_400, MADE + 86_400),
            basic: Some((true, None)),
            usage: Some(KeyUsages::KeyCertSign | KeyUsages::DigitalSignature),
            more: Vec::new(),
            algorithm: ECDSA_WITH_SHA384,
            curve: SECP384R1,
            version: Version::V3,
        }
    }

    pub(super) fn leaf(subject: &'static str, issuer: &'static str, key: u8, signed_by: u8) -> Self {
        Self {
            valid: (MADE - 60, MADE + 10_800),
            basic: Some((false, None)),
            usage: Some(KeyUsages::DigitalSignature.into()),
            ..Self::authority(subject, issuer, key, signed_by)
        }
    }

    pub(super) fn der(&self) -> Vec<u8> {
        let oid = |text| ObjectIdentifier::new(text).expect("an OID");
        let algorithm = AlgorithmIdentifierOwned { oid: oid(self.algorithm), parameters: None };
        let time = |seconds: i64| {
            let since = Duration::from_secs(u64::try_from(seconds).expect("after 1970"));
            Time::UtcTime(UtcTime::from_unix_duration(since).expect("before 2050"))
        };
        let tbs = TbsCertificate {
            version: self.version,
            serial_number: SerialNumber::new(&[self.key]).expect("short"),
            signature: algorithm.clone(),
            issuer: self.issuer.parse::<Name>().expect("a name"),
            validity: Validity { not_before: time(self.valid.0), not_after: time(self.valid.1) },
            subject: self.subject.parse::<Name>().expect("a name"),
            subject_public_key_info: SubjectPublicKeyInfoOwned {
                algorithm: AlgorithmIdentifierOwned {
                    oid: oid("1.2.840.10045.2.1"),
                    parameters: Some(Any::encode_from(&oid(self.curve)).expect("encodes")),
                },
                subject_public_key: BitString::from_bytes(&point(self.key)).expect("short"),
            },
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: (self.version == Version::V3).then(|| self.extensions()),
        };
        let signature = sign(self.signed_by, &tbs.to_der().expect("encodes"));
        let certificate = Certificate {
            tbs_certificate: tbs,
            signature_algorithm: algorithm,
            signature: BitString::from_bytes(signature.to_der().as_bytes()).expect("short"),
        };
        certificate.to_der().expect("encodes")
    }

    fn extensions(&self) -> Vec<Extension> {
        let extension = |extn_id, critical, value: Vec<u8>| Extension {
            extn_id,
            critical,
            extn_value: OctetString::new(value).expect("short"),
        };
        let mut list = Vec::new();
        if let Some((ca, path_len_constraint)) = self.basic {
            let value = BasicConstraints { ca, path_len_constraint }.to_der().expect("encodes");
            list.push(extension(BasicConstraints::OID, true, value));
        }
        if let Some(usage) = self.usage {
            list.push(extension(KeyUsage::OID, true, KeyUsage(usage).to_der().expect("encodes")));
        }
        for &(oid, critical) in &self.more {
            list.push(extension(ObjectIdentifier::new(oid).expect("an OID"), critical, vec![0x05, 0x00]));
        }
        list
    }
}

/// The contents of a document to create. Fields are the CBOR of the payload, so that tests can break each.
#[derive(Clone)]
pub(super) struct Forge {
    pub(super) chain: Vec<Card>,
    pub(super) leaf: Card,
    pub(super) signed_by: u8,
    pub(super) made_ms: u64,
    pub(super) registers: Vec<(u64, Vec<u8>)>,
    pub(super) public_key: Option<Vec<u8>>,
    pub(super) user_data: Option<Vec<u8>>,
    pub(super) nonce: Option<Vec<u8>>,
    pub(super) protected: Vec<u8>,
    pub(super) tagged: bool,
    pub(super) indefinite: bool,
}

/// The keys of the chain: root, two below it, and the signing certificate.
const ROOT: &str = "CN=test.nitro-enclaves,OU=Test,O=Toolcrib,C=ZZ";
const REGION: &str = "CN=region.test.nitro-enclaves";
const INSTANCE: &str = "CN=instance.test.nitro-enclaves";

impl Default for Forge {
    fn default() -> Self {
        Self {
            chain: vec![
                Card::authority(ROOT, ROOT, 1, 1),
                Card { basic: Some((true, Some(1))), ..Card::authority(REGION, ROOT, 2, 1) },
                Card { basic: Some((true, Some(0))), ..Card::authority(INSTANCE, REGION, 3, 2) },
            ],
            leaf: Card::leaf("CN=module.test.nitro-enclaves", INSTANCE, 4, 3),
            signed_by: 4,
            made_ms: u64::try_from(MADE).expect("after 1970") * 1_000,
            registers: vec![(0, IMAGE.to_vec()), (1, vec![1; 48]), (2, vec![2; 48]), (31, vec![0; 48])],
            public_key: None,
            user_data: Some(b"hello".to_vec()),
            nonce: None,
            protected: vec![0xa1, 0x01, 0x38, 34],
            tagged: false,
            indefinite: false,
        }
    }
}

impl Forge {
    /// The root of the chain, in DER.
    pub(super) fn root(&self) -> Vec<u8> {
        self.chain[0].der()
    }

    /// The entries of the payload: CBOR of key and value.
    pub(super) fn entries(&self) -> Vec<Vec<u8>> {
        let optional = |value: &Option<Vec<u8>>| value.as_ref().map_or_else(|| vec![0xf6], |bytes| byte_string(bytes));
        let mut registers = head(5, self.registers.len() as u64);
        for (index, value) in &self.registers {
            registers.extend(head(0, *index));
            registers.extend(byte_string(value));
        }
        let mut bundle = head(4, self.chain.len() as u64);
        bundle.extend(self.chain.iter().flat_map(|card| byte_string(&card.der())));
        [
            ("module_id", text("i-0123456789abcdef0-enc0123456789abcdef")),
            ("digest", text("SHA384")),
            ("timestamp", head(0, self.made_ms)),
            ("pcrs", registers),
            ("certificate", byte_string(&self.leaf.der())),
            ("cabundle", bundle),
            ("public_key", optional(&self.public_key)),
            ("user_data", optional(&self.user_data)),
            ("nonce", optional(&self.nonce)),
        ]
        .map(|(key, value)| [text(key), value].concat())
        .to_vec()
    }

    /// The document.
    pub(super) fn document(&self) -> Vec<u8> {
        self.sign(&self.payload(&self.entries()))
    }

    /// A payload with these entries.
    pub(super) fn payload(&self, entries: &[Vec<u8>]) -> Vec<u8> {
        if self.indefinite {
            return [&[0xbf][..], &entries.concat(), &[0xff]].concat();
        }
        [head(5, entries.len() as u64), entries.concat()].concat()
    }

    /// A document with this payload and a valid signature.
    pub(super) fn sign(&self, payload: &[u8]) -> Vec<u8> {
        let (protected, payload) = (byte_string(&self.protected), byte_string(payload));
        let signed = [head(4, 4), text("Signature1"), protected.clone(), vec![0x40], payload.clone()].concat();
        let signature = sign(self.signed_by, &signed);
        let tag = if self.tagged { vec![0xd2] } else { Vec::new() };
        [tag, head(4, 4), protected, vec![0xa0], payload, byte_string(&signature.to_bytes())].concat()
    }
}

/// The head of a CBOR item, in its shortest form.
pub(super) fn head(major: u8, argument: u64) -> Vec<u8> {
    let first = major << 5;
    match argument {
        0..24 => vec![first | argument as u8],
        24..0x100 => vec![first | 24, argument as u8],
        0x100..0x1_0000 => [&[first | 25][..], &(argument as u16).to_be_bytes()].concat(),
        0x1_0000..0x1_0000_0000 => [&[first | 26][..], &(argument as u32).to_be_bytes()].concat(),
        _ => [&[first | 27][..], &argument.to_be_bytes()].concat(),
    }
}

pub(super) fn byte_string(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

pub(super) fn text(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}
