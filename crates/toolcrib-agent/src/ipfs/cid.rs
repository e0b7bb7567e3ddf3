//! CIDs of version 1, read strictly: one text in each base, one binary form, a hash that is strong and whole.
//!
//! A pointer in a TXT record is only as good as this reader. A CID that two readers understand differently, or whose hash can be forged,
//! would let a gateway choose the content.

use std::fmt;
use std::str::FromStr;

use toolcrib_core::agent::txt::{CidText, MAX_CID_BYTES};
use toolcrib_core::codes::{self, Code};

use super::hash::{self, HashFunction};
use super::{multibase, varint};

/// What the bytes of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Content as it is.
    Raw,
    /// A node of protobuf, which holds a `UnixFS` file or a part of one.
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

/// A CID of version 1 with a codec and a hash function that are accepted. Two are equal if their binary forms are, whatever base they were
/// written in.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Cid {
    codec: Codec,
    hash: HashFunction,
    digest: Vec<u8>,
}

impl Cid {
    /// Reads the text of a CID.
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
            multibase::Fault::NoBase => CidError::NoBase,
            multibase::Fault::NotInBase => CidError::NotInBase,
            multibase::Fault::NotCanonical => CidError::NotCanonical,
        })?;
        Self::from_bytes(&bytes)
    }

    /// Reads the binary form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CidError> {
        if let Some(v1) = Self::from_bytes_of_version_zero(bytes) {
            return Err(CidError::VersionZero { v1: v1.to_string() });
        }
        let mut rest = bytes;
        let parts = Parts::take(&mut rest).ok_or(CidError::CutOff)?;
        let cid = Self::try_from(parts)?;
        if rest.is_empty() { Ok(cid) } else { Err(CidError::TrailingBytes { count: rest.len() }) }
    }

    /// Reads a text of either version. Version 0 is what some services answer with; a pointer may not hold it.
    pub fn parse_any_version(text: &str) -> Result<Self, CidError> {
        Self::from_version_zero(text).map_or_else(|| Self::parse(text), Ok)
    }

    /// Reads the CID of a link or an archive, which may have version 0: 34 bytes, a node with a SHA-256.
    pub(super) fn from_link(bytes: &[u8]) -> Result<Self, CidError> {
        Self::from_bytes_of_version_zero(bytes).map_or_else(|| Self::from_bytes(bytes), Ok)
    }

    /// The CID of a block.
    pub fn of(codec: Codec, hash: HashFunction, block: &[u8]) -> Self {
        Self { codec, hash, digest: hash.digest(block) }
    }

    /// Returns whether `block` has the hash that this CID asks for.
    pub fn matches(&self, block: &[u8]) -> bool {
        self.hash.digest(block) == self.digest
    }

    /// What the block is.
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

    /// The CID that a text of version 0 means; `None` if it is not one.
    fn from_version_zero(text: &str) -> Option<Self> {
        // Base58 of 34 bytes that begin with 0x12 0x20 has 46 characters and begins with Qm.
        if text.len() != 46 || !text.starts_with("Qm") {
            return None;
        }
        Self::from_bytes_of_version_zero(&multibase::decode_base58(text).ok()?)
    }

    /// The CID that bytes of version 0 mean; `None` if they are not: a multihash alone, SHA-256 with its whole digest.
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

/// The fields of a binary CID of version 1, whatever their values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    version: u64,
    codec: u64,
    hash: u64,
    digest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a CID off the front of `bytes`. Returns `None` if a number is malformed or the digest is cut off.
    pub(super) fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let version = varint::take(bytes)?;
        let codec = varint::take(bytes)?;
        let hash = varint::take(bytes)?;
        let length = varint::take(bytes)?;
        Some(Self { version, codec, hash, digest: varint::take_bytes(bytes, length)? })
    }
}

/// What is known about codecs that are not accepted.
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

/// Why a text or byte sequence is not a CID that is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidError {
    /// Longer than any CID.
    #[error("the CID has {length} characters, more than {MAX_CID_BYTES}")]
    TooLong {
        /// The characters of the text.
        length: usize,
    },
    /// A path, query or fragment follows.
    #[error("a path, query or fragment follows the CID")]
    Path,
    /// Version 0.
    #[error("the CID has version 0; its version 1 form is {v1}")]
    VersionZero {
        /// The same CID in version 1.
        v1: String,
    },
    /// No known multibase prefix.
    #[error("the CID has no known multibase prefix; most CIDs start with b")]
    NoBase,
    /// A character that the base does not have, such as one of the other case.
    #[error("the CID has characters that its base does not have")]
    NotInBase,
    /// Another spelling of a text.
    #[error("the CID is not in its canonical form")]
    NotCanonical,
    /// The bytes end before the CID does, or a number in it is malformed.
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
    /// A hash that protects nothing.
    #[error("the hash function {name} does not protect the content; SHA-256 is the minimum")]
    WeakHash {
        /// Its name.
        name: &'static str,
    },
    /// A hash function that is not implemented.
    #[error("unsupported hash function {name} ({code:#x})")]
    UnsupportedHash {
        /// The code of the function.
        code: u64,
        /// Its name.
        name: &'static str,
    },
    /// A digest that is truncated or too long.
    #[error("the digest has {got} bytes; {hash} has {}", .hash.digest_bytes())]
    DigestLength {
        /// The hash function.
        hash: HashFunction,
        /// The bytes that are there.
        got: usize,
    },
}

impl CidError {
    /// The code of a finding about it.
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
