//! CIDs of version 1, parsed strictly: one text in each base, one binary form, a strong and complete hash.
//!
//! The security of a pointer in a TXT record depends on this parser. If two implementations parsed a CID differently, or its hash could be
//! forged, a gateway could choose the content.

use std::fmt;
use std::str::FromStr;

use toolcrib_core::agent::txt::{CidText, MAX_CID_BYTES};
use toolcrib_core::codes::{self, Code};

use super::hash::{self, HashFunction};
use super::{multibase, varint};

/// The codec of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Raw content.
    Raw,
    /// A protobuf node with a `UnixFS` file or a part of one.
    DagPb,
}

impl Codec {
    const fn from_code(code: u64) -> Option<Self> {
        match code {
            0x55 => Some(Self::Raw),
            0x70 => Some(Self::DagPb),
            _ => None,
        }
    }

    /// The code in a CID.
    pub const fn code(self) -> u64 {
        match self {
            Self::Raw => 0x55,
            Self::DagPb => 0x70,
        }
    }

    /// The name in the multicodec table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::DagPb => "dag-pb",
        }
    }
}

/// A CID of version 1 with a supported codec and hash function. Two CIDs are equal if their binary forms are, in whatever base they
/// were written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Cid {
    codec: Codec,
    hash: HashFunction,
    digest: Vec<u8>,
}

impl Cid {
    /// Parses the text of a CID.
    ///
    /// ```
    /// use toolcrib_agent::ipfs::Cid;
    ///
    /// let cid = Cid::parse("bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4")?;
    /// assert!(cid.matches(br#"{"agt":"1.0","domain":"exampleagent.agt"}"#));
    /// # Ok::<(), toolcrib_agent::ipfs::CidError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, CidError> {
        if text.len() > MAX_CID_BYTES {
            return Err(CidError::TooLong { length: text.len() });
        }
        if text.contains(['/', '?', '#']) {
            return Err(CidError::Path);
        }
        if let Some(v1) = Self::from_version_zero(text) {
            return Err(CidError::VersionZero { v1: v1.to_string() });
        }
        let bytes = multibase::decode(text).map_err(|fault| match fault {
            multibase::MultibaseError::NoBase => CidError::NoBase,
            multibase::MultibaseError::NotInBase => CidError::NotInBase,
            multibase::MultibaseError::NotCanonical => CidError::NotCanonical,
        })?;
        Self::from_bytes(&bytes)
    }

    /// Parses the binary form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CidError> {
        if let Some(v1) = Self::from_bytes_of_version_zero(bytes) {
            return Err(CidError::VersionZero { v1: v1.to_string() });
        }
        let mut rest = bytes;
        let parts = Parts::take(&mut rest).ok_or(CidError::CutOff)?;
        let cid = Self::try_from(parts)?;
        if rest.is_empty() { Ok(cid) } else { Err(CidError::TrailingBytes { count: rest.len() }) }
    }

    /// Parses a text of either version. Some services return version 0; pointers may not have it.
    pub fn parse_any_version(text: &str) -> Result<Self, CidError> {
        Self::from_version_zero(text).map_or_else(|| Self::parse(text), Ok)
    }

    /// Parses the CID in a link or an archive, which may be of version 0: 34 bytes, a node with SHA-256.
    pub(super) fn from_link(bytes: &[u8]) -> Result<Self, CidError> {
        Self::from_bytes_of_version_zero(bytes).map_or_else(|| Self::from_bytes(bytes), Ok)
    }

    /// Computes the CID of a block.
    pub fn of(codec: Codec, hash: HashFunction, block: &[u8]) -> Self {
        Self { codec, hash, digest: hash.digest(block) }
    }

    /// Returns whether `block` matches the hash.
    pub fn matches(&self, block: &[u8]) -> bool {
        self.hash.digest(block) == self.digest
    }

    /// The codec of the block.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// The hash function.
    pub const fn hash(&self) -> HashFunction {
        self.hash
    }

    /// The digest of the block.
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// The binary form: version, codec and multihash.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(6 + self.digest.len());
        varint::push(1, &mut bytes);
        varint::push(self.codec.code(), &mut bytes);
        varint::push(self.hash.code(), &mut bytes);
        varint::push(self.digest.len() as u64, &mut bytes);
        bytes.extend_from_slice(&self.digest);
        bytes
    }

    /// Converts a text of version 0; `None` if it is not one.
    fn from_version_zero(text: &str) -> Option<Self> {
        // Base58 of 34 bytes that begin with 0x12 0x20 has 46 characters and begins with Qm.
        if text.len() != 46 || !text.starts_with("Qm") {
            return None;
        }
        Self::from_bytes_of_version_zero(&multibase::decode_base58(text).ok()?)
    }

    /// Converts bytes of version 0; `None` if they are not: a bare multihash, SHA-256 with its full digest.
    fn from_bytes_of_version_zero(bytes: &[u8]) -> Option<Self> {
        let digest = bytes.strip_prefix(&[0x12, 0x20]).filter(|digest| digest.len() == 32)?;
        Some(Self { codec: Codec::DagPb, hash: HashFunction::Sha2_256, digest: digest.to_vec() })
    }
}

impl TryFrom<&CidText> for Cid {
    type Error = CidError;

    fn try_from(text: &CidText) -> Result<Self, CidError> {
        Self::parse(text.as_str())
    }
}

impl FromStr for Cid {
    type Err = CidError;

    fn from_str(text: &str) -> Result<Self, CidError> {
        Self::parse(text)
    }
}

impl TryFrom<Parts<'_>> for Cid {
    type Error = CidError;

    fn try_from(parts: Parts<'_>) -> Result<Self, CidError> {
        if parts.version != 1 {
            return Err(CidError::Version { version: parts.version });
        }
        let codec = Codec::from_code(parts.codec)
            .ok_or_else(|| CidError::Codec { code: parts.codec, name: refused_codec(parts.codec) })?;
        let hash = HashFunction::from_code(parts.hash).ok_or_else(|| {
            let name = hash::refused_name(parts.hash).unwrap_or("unknown");
            if hash::is_weak(parts.hash) {
                CidError::WeakHash { name }
            } else {
                CidError::UnsupportedHash { code: parts.hash, name }
            }
        })?;
        if parts.digest.len() != hash.digest_bytes() {
            return Err(CidError::DigestLength { hash, got: parts.digest.len() });
        }
        Ok(Self { codec, hash, digest: parts.digest.to_vec() })
    }
}

impl fmt::Display for Cid {
    /// Base32 in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&multibase::encode_base32(&self.to_bytes()))
    }
}

impl fmt::Debug for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cid({self})")
    }
}

/// The fields of a binary CID of version 1, with any values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    version: u64,
    codec: u64,
    hash: u64,
    digest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Parses and removes a CID at the start of `bytes`. Returns `None` if a number is malformed or the digest is truncated.
    pub(super) fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let version = varint::take(bytes)?;
        let codec = varint::take(bytes)?;
        let hash = varint::take(bytes)?;
        let length = varint::take(bytes)?;
        Some(Self { version, codec, hash, digest: varint::take_bytes(bytes, length)? })
    }
}

/// The name of an unsupported codec.
const fn refused_codec(code: u64) -> &'static str {
    match code {
        0x0129 => "dag-json",
        0x0200 => "json",
        0x51 => "cbor",
        0x71 => "dag-cbor",
        0x72 => "libp2p-key",
        0x78 => "git-raw",
        0x0202 => "car",
        _ => "unknown",
    }
}

/// Why a text or byte sequence is not a supported CID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidError {
    /// Longer than any CID.
    #[error("the CID has {length} characters, more than {MAX_CID_BYTES}")]
    TooLong {
        /// The length of the text in characters.
        length: usize,
    },
    /// It is followed by a path, query or fragment.
    #[error("a path, query or fragment follows the CID")]
    Path,
    /// It is of version 0.
    #[error("the CID has version 0; its version 1 form is {v1}")]
    VersionZero {
        /// The same CID in version 1.
        v1: String,
    },
    /// No known multibase prefix.
    #[error("the CID has no known multibase prefix; most CIDs start with b")]
    NoBase,
    /// A character is not in the base's alphabet, such as one with the wrong case.
    #[error("the CID has characters that its base does not have")]
    NotInBase,
    /// The text is not canonical.
    #[error("the CID is not in its canonical form")]
    NotCanonical,
    /// The bytes end inside the CID, or a number in it is malformed.
    #[error("the CID is cut off or malformed")]
    CutOff,
    /// Bytes follow the CID.
    #[error("{count} bytes follow the CID")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// A version other than 1.
    #[error("the CID has version {version}; only version 1 is accepted")]
    Version {
        /// The version.
        version: u64,
    },
    /// A codec other than raw and dag-pb.
    #[error("unsupported codec {name} ({code:#x}); a manifest is a file: raw or dag-pb")]
    Codec {
        /// The code of the codec.
        code: u64,
        /// Its name.
        name: &'static str,
    },
    /// A hash function without security.
    #[error("the hash function {name} does not protect the content; SHA-256 is the minimum")]
    WeakHash {
        /// Its name.
        name: &'static str,
    },
    /// An unsupported hash function.
    #[error("unsupported hash function {name} ({code:#x})")]
    UnsupportedHash {
        /// The code of the function.
        code: u64,
        /// Its name.
        name: &'static str,
    },
    /// A truncated or too long digest.
    #[error("the digest has {got} bytes; {hash} has {}", .hash.digest_bytes())]
    DigestLength {
        /// The hash function.
        hash: HashFunction,
        /// The actual number of bytes.
        got: usize,
    },
}

impl CidError {
    /// The code of a finding about this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Path => codes::agent::POINTER_PATH,
            Self::VersionZero { .. } => codes::agent::POINTER_CID_V0,
            Self::NotCanonical | Self::TrailingBytes { .. } => codes::agent::CID_NOT_CANONICAL,
            Self::Codec { .. } => codes::agent::CID_CODEC,
            Self::WeakHash { .. } | Self::DigestLength { .. } => codes::agent::CID_HASH_WEAK,
            Self::UnsupportedHash { .. } => codes::agent::CID_HASH_UNSUPPORTED,
            Self::TooLong { .. } | Self::NoBase | Self::NotInBase | Self::CutOff | Self::Version { .. } => {
                codes::agent::CID_MALFORMED
            }
        }
    }
}

#[cfg(test)]
mod tests;
