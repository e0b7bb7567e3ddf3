//! The settings of a report's reader: trusted roots and the greatest age of a report.

use std::fmt;

use sha2::{Digest, Sha256};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::hex;
use x509_cert::der::Document;

use super::lower_hex;
use super::x509::Certificate;

/// Greatest age of a report if the manifest has none: ERC-8257 §5 suggests one hour.
pub(crate) const DEFAULT_MAX_AGE: u64 = 3_600;

/// How far a report may be ahead of our clock, in seconds. Clock skew between servers is seconds, not minutes.
pub const MAX_AHEAD: i64 = 60;

/// The SHA-256 fingerprint of the root certificate that AWS publishes for Nitro Enclaves in its commercial partitions
/// (`aws.nitro-enclaves`, valid from 2019 to 2049). It is not pinned by default: settings must name it.
pub const AWS_NITRO_ROOT_G1: &str =
    "64:1A:03:21:A3:E2:44:EF:E4:56:46:31:95:D6:06:31:7E:D7:CD:CC:3C:17:56:E0:98:93:F3:C6:8F:79:BB:5B";

/// The policy for reports.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The trusted roots of AWS Nitro documents. If empty, no document is verified.
    pub nitro_roots: Vec<Root>,
    /// Greatest age of a report, in seconds, if the manifest has none.
    pub default_max_age: u64,
    /// Upper limit of the age of a report, in seconds, which a manifest cannot raise.
    pub max_age_ceiling: Option<u64>,
    /// Whether certificates must also be valid now, and not only when the document was made. The certificate of a Nitro enclave is valid
    /// for three hours, so a larger `maxAge` has no effect while this is set.
    pub certificates_valid_now: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { nitro_roots: Vec::new(), default_max_age: DEFAULT_MAX_AGE, max_age_ceiling: None, certificates_valid_now: true }
    }
}

impl Policy {
    /// The greatest accepted age of a report, given the `maxAge` of the manifest.
    pub fn max_age(&self, claimed: Option<u64>) -> u64 {
        let wanted = claimed.unwrap_or(self.default_max_age);
        self.max_age_ceiling.map_or(wanted, |ceiling| wanted.min(ceiling))
    }
}

/// A root certificate that the user trusts, identified by the SHA-256 of its DER form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Root([u8; 32]);

impl Root {
    /// Pins a certificate given in DER. It must be a P-384 authority.
    pub fn from_der(der: &[u8]) -> Result<Self, RootFault> {
        let certificate = Certificate::parse(der).map_err(|_| RootFault::NotACertificate)?;
        if certificate.may_issue() { Ok(Self(Sha256::digest(der).into())) } else { Err(RootFault::NotAnAuthority) }
    }

    /// Pins the only certificate in a PEM text.
    pub fn from_pem(pem: &str) -> Result<Self, RootFault> {
        match Document::from_pem(pem) {
            Ok(("CERTIFICATE", document)) => Self::from_der(document.as_bytes()),
            _ => Err(RootFault::NotACertificate),
        }
    }

    /// Pins a fingerprint: 64 hex digits of either case, with or without colons or `0x`.
    pub fn from_fingerprint(text: &str) -> Result<Self, RootFault> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let pairs: Vec<_> = digits.split(':').collect();
        let plain =
            if pairs.len() == 32 && pairs.iter().all(|pair| pair.len() == 2) { pairs.concat() } else { digits.to_owned() };
        let bytes = hex::decode(&plain).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(RootFault::NotAFingerprint)
    }

    /// Pins the value of a settings file: PEM or a fingerprint.
    pub fn from_setting(text: &str) -> Result<Self, RootFault> {
        if text.trim_start().starts_with("-----BEGIN") { Self::from_pem(text) } else { Self::from_fingerprint(text) }
    }

    /// The fingerprint: `0x` and 64 lowercase hex digits.
    pub fn fingerprint(&self) -> String {
        lower_hex(&self.0)
    }

    pub(super) fn matches(&self, der: &[u8]) -> bool {
        <[u8; 32]>::from(Sha256::digest(der)) == self.0
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root({})", self.fingerprint())
    }
}

/// Why a value cannot be pinned as a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RootFault {
    /// Not one X.509 certificate with a P-384 key.
    NotACertificate,
    /// The certificate may not sign others.
    NotAnAuthority,
    /// Not 64 hex digits.
    NotAFingerprint,
}

impl RootFault {
    /// The code of this error.
    pub const fn code(self) -> Code {
        codes::attestation::ROOT_SETTING
    }
}

impl fmt::Display for RootFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotACertificate => "not a single X.509 certificate with a P-384 key",
            Self::NotAnAuthority => "the certificate is not a CA that may sign certificates",
            Self::NotAFingerprint => "not 64 hex digits",
        })
    }
}

impl std::error::Error for RootFault {}
