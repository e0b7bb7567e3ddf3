//! The multihash functions that are strong enough to identify content.

use std::fmt;

use blake2::Blake2b;
use blake2::digest::consts::U32;

/// A hash function of at least 256 bits, as `.agt` 1.0 §1 requires, with its full digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashFunction {
    /// SHA-256, which nearly every CID has.
    #[default]
    Sha2_256,
    /// SHA-512.
    Sha2_512,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-512.
    Sha3_512,
    /// `BLAKE2b` with 32 bytes.
    Blake2b256,
    /// BLAKE3 with 32 bytes.
    Blake3,
}

impl HashFunction {
    /// Every supported function.
    pub const ALL: [Self; 6] = [Self::Sha2_256, Self::Sha2_512, Self::Sha3_256, Self::Sha3_512, Self::Blake2b256, Self::Blake3];

    /// Returns the function with this multihash code.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.code() == code)
    }

    /// The code in a multihash.
    pub const fn code(self) -> u64 {
        match self {
            Self::Sha2_256 => 0x12,
            Self::Sha2_512 => 0x13,
            Self::Sha3_512 => 0x14,
            Self::Sha3_256 => 0x16,
            Self::Blake3 => 0x1e,
            Self::Blake2b256 => 0xb220,
        }
    }

    /// The name in the multicodec table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha2_256 => "sha2-256",
            Self::Sha2_512 => "sha2-512",
            Self::Sha3_256 => "sha3-256",
            Self::Sha3_512 => "sha3-512",
            Self::Blake2b256 => "blake2b-256",
            Self::Blake3 => "blake3",
        }
    }

    /// The length of a full digest.
    pub(crate) const fn digest_bytes(self) -> usize {
        match self {
            Self::Sha2_512 | Self::Sha3_512 => 64,
            Self::Sha2_256 | Self::Sha3_256 | Self::Blake2b256 | Self::Blake3 => 32,
        }
    }

    /// Hashes `data`.
    pub fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha2_256 => <sha2::Sha256 as sha2::Digest>::digest(data).to_vec(),
            Self::Sha2_512 => <sha2::Sha512 as sha2::Digest>::digest(data).to_vec(),
            Self::Sha3_256 => <sha3::Sha3_256 as sha3::Digest>::digest(data).to_vec(),
            Self::Sha3_512 => <sha3::Sha3_512 as sha3::Digest>::digest(data).to_vec(),
            Self::Blake2b256 => <Blake2b<U32> as blake2::Digest>::digest(data).to_vec(),
            Self::Blake3 => blake3::hash(data).as_bytes().to_vec(),
        }
    }
}

impl fmt::Display for HashFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an unsupported hash function.
pub(super) const fn refused_name(code: u64) -> Option<&'static str> {
    Some(match code {
        0x00 => "identity",
        0x11 => "sha1",
        0x15 => "sha3-384",
        0x17 => "sha3-224",
        0x1b => "keccak-256",
        0x20 => "sha2-384",
        0x56 => "dbl-sha2-256",
        0xd4 => "md4",
        0xd5 => "md5",
        0x1012 => "sha2-256-trunc254-padded",
        0x1013 => "sha2-224",
        _ => return None,
    })
}

/// Whether a hash function is insecure: it contains the content itself, or collisions are feasible.
pub(super) const fn is_weak(code: u64) -> bool {
    matches!(code, 0x00 | 0x11 | 0xd4 | 0xd5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published digests of the empty input.
    #[test]
    fn published_digests_of_nothing() {
        for (function, digest) in [
            (HashFunction::Sha2_256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (
                HashFunction::Sha2_512,
                "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            ),
            (HashFunction::Sha3_256, "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
            (
                HashFunction::Sha3_512,
                "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a615b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
            ),
            (HashFunction::Blake2b256, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"),
            (HashFunction::Blake3, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        ] {
            let got = function.digest(b"");
            assert_eq!(Some(got.clone()), toolcrib_core::hex::decode(digest), "{function}");
            assert_eq!(got.len(), function.digest_bytes(), "{function}");
            assert_eq!(HashFunction::from_code(function.code()), Some(function));
            assert_eq!(refused_name(function.code()), None);
        }
    }
}
