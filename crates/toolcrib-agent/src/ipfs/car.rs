//! Archives of blocks (`CARv1`): written for publishing, read as an untrusted source.
//!
//! A reader uses only blocks that match the hash in their CID. Roots are ignored, because the pointer identifies
//! the file; order and duplicates do not matter; a truncated archive is rejected as a whole. The header is DAG-CBOR, which has one
//! encoding of everything, so it is compared byte for byte; `minicbor` would accept other encodings.

use std::collections::HashMap;

use toolcrib_core::codes::{self, Code};

use super::cid::{Cid, Parts};
use super::dag::MAX_BLOCK_BYTES;
use super::pack::Block;
use super::varint;

/// Maximum size of the header. One root takes 60 bytes; roots are ignored here.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Maximum size of a block's CID: every field, and the longest digest of a multihash in use.
const MAX_CID_BYTES: usize = 200;

/// Writes an archive with one root.
pub fn write(root: &Cid, blocks: &[Block]) -> Vec<u8> {
    let root = root.to_bytes();
    // DAG-CBOR: {"roots": [link], "version": 1}. A link is tag 42 of a byte string that begins with zero.
    let mut header = b"\xa2\x65roots\x81\xd8\x2a\x58".to_vec();
    header.push(root.len() as u8 + 1);
    header.push(0);
    header.extend_from_slice(&root);
    header.extend_from_slice(b"\x67version\x01");
    let mut out = Vec::new();
    varint::push(header.len() as u64, &mut out);
    out.extend_from_slice(&header);
    for Block { cid, bytes } in blocks {
        let cid = cid.to_bytes();
        varint::push((cid.len() + bytes.len()) as u64, &mut out);
        out.extend_from_slice(&cid);
        out.extend_from_slice(bytes);
    }
    out
}

/// The blocks of an archive by CID. All of them match their hashes.
#[derive(Clone, Debug, Default)]
pub struct Archive<'a> {
    blocks: HashMap<Cid, &'a [u8]>,
}

impl<'a> Archive<'a> {
    /// Parses an archive and checks every block. Blocks with unsupported CIDs are skipped: no file can refer to them.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CarError> {
        let mut rest = bytes;
        let length = varint::take(&mut rest).filter(|length| *length <= MAX_HEADER_BYTES).ok_or(CarError::Header)?;
        let header = varint::take_bytes(&mut rest, length).ok_or(CarError::Header)?;
        check_header(header)?;
        let mut blocks = HashMap::new();
        while !rest.is_empty() {
            let length = varint::take(&mut rest).ok_or(CarError::CutOff)?;
            if length > (MAX_CID_BYTES + MAX_BLOCK_BYTES) as u64 {
                return Err(CarError::BlockTooLarge { size: length });
            }
            let mut section = varint::take_bytes(&mut rest, length).ok_or(CarError::CutOff)?;
            if let Ok(cid) = take_cid(&mut section)? {
                if !cid.matches(section) {
                    return Err(CarError::Mismatch { block: cid });
                }
                blocks.insert(cid, section);
            }
        }
        Ok(Self { blocks })
    }

    /// The bytes of a block.
    pub fn block(&self, cid: &Cid) -> Option<&'a [u8]> {
        self.blocks.get(cid).copied()
    }

    /// Number of different blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// Parses and removes the CID at the start of a section, of either version.
fn take_cid(section: &mut &[u8]) -> Result<Result<Cid, super::CidError>, CarError> {
    if section.starts_with(&[0x12, 0x20]) {
        let cid = varint::take_bytes(section, 34).ok_or(CarError::Section)?;
        return Ok(Cid::from_link(cid));
    }
    Parts::take(section).map(Cid::try_from).ok_or(CarError::Section)
}

/// Checks that a header is one of version 1: a map with the keys `roots` and `version`, in either order.
fn check_header(header: &[u8]) -> Result<(), CarError> {
    const VERSION: &[u8] = b"\x67version";
    if header == b"\xa1\x67version\x02" {
        return Err(CarError::VersionTwo);
    }
    let mut rest = header.strip_prefix(b"\xa2").ok_or(CarError::Header)?;
    if let Some(after) = rest.strip_prefix(VERSION) {
        rest = after.strip_prefix(b"\x01").ok_or(CarError::Header)?;
        return skip_roots(rest).filter(|rest| rest.is_empty()).map(drop).ok_or(CarError::Header);
    }
    rest = skip_roots(rest).ok_or(CarError::Header)?;
    match rest.strip_prefix(VERSION) {
        Some(b"\x01") => Ok(()),
        _ => Err(CarError::Header),
    }
}

/// Skips the key `roots` and its list of links.
fn skip_roots(header: &[u8]) -> Option<&[u8]> {
    let mut rest = header.strip_prefix(b"\x65roots")?;
    let count = take_head(&mut rest, 4)?;
    for _ in 0..count {
        rest = rest.strip_prefix(b"\xd8\x2a")?;
        let length = take_head(&mut rest, 2)?;
        varint::take_bytes(&mut rest, length)?;
    }
    Some(rest)
}

/// Parses and removes the head of a CBOR item with this major type and an argument of at most two bytes.
fn take_head(bytes: &mut &[u8], major: u8) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first >> 5 != major {
        return None;
    }
    let (argument, rest) = match (first & 0x1f, rest) {
        (small @ 0..24, rest) => (u64::from(small), rest),
        (24, [one, rest @ ..]) => (u64::from(*one), rest),
        (25, [high, low, rest @ ..]) => (u64::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return None,
    };
    *bytes = rest;
    Some(argument)
}

/// Why an archive cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CarError {
    /// It has no header of version 1.
    #[error("the archive does not begin with the header of a CAR file of version 1")]
    Header,
    /// It is of version 2.
    #[error("the archive is a CAR file of version 2; only version 1 is read")]
    VersionTwo,
    /// The archive ends inside a section.
    #[error("the archive is cut off")]
    CutOff,
    /// A section has no CID.
    #[error("a section of the archive has no CID")]
    Section,
    /// A block is larger than the maximum in IPFS.
    #[error("a section of the archive has {size} bytes, above the limit of a block, {MAX_BLOCK_BYTES}")]
    BlockTooLarge {
        /// The size of the section in bytes.
        size: u64,
    },
    /// A block does not match its hash.
    #[error("the archive has other bytes under the CID {block}")]
    Mismatch {
        /// The CID.
        block: Cid,
    },
}

impl CarError {
    /// The code of a finding about this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::BlockTooLarge { .. } => codes::agent::BLOCK_TOO_LARGE,
            Self::Mismatch { .. } => codes::agent::BLOCK_MISMATCH,
            Self::Header | Self::VersionTwo | Self::CutOff | Self::Section => codes::agent::ARCHIVE_MALFORMED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipfs::{Codec, HashFunction, Layout, pack};

    fn packed() -> (Vec<Block>, Vec<u8>) {
        let packed = pack(b"content", Layout::NodeOverLeaf, HashFunction::Sha2_256).unwrap();
        (packed.blocks().to_vec(), packed.to_car())
    }

    /// The section of a block.
    fn section(cid: &[u8], bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint::push((cid.len() + bytes.len()) as u64, &mut out);
        [out, cid.to_vec(), bytes.to_vec()].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let (blocks, car) = packed();
        let archive = Archive::parse(&car).unwrap();
        assert_eq!(archive.len(), 2);
        for block in &blocks {
            assert_eq!(archive.block(&block.cid), Some(block.bytes.as_slice()));
        }
        // The header that other implementations write.
        assert!(car.starts_with(&[
            0x3a, 0xa2, 0x65, b'r', b'o', b'o', b't', b's', 0x81, 0xd8, 0x2a, 0x58, 0x25, 0x00, 0x01, 0x70, 0x12, 0x20
        ]));
    }

    #[test]
    fn roots_order_duplicates_and_unknown_blocks_do_not_matter() {
        let (blocks, _) = packed();
        let other = Cid::of(Codec::Raw, HashFunction::Sha3_256, b"elsewhere");
        let mut car = write(&other, &[blocks[1].clone(), blocks[0].clone(), blocks[1].clone()]);
        // An identity block, a sha1 block, and the root with its version 0 CID.
        car.extend(section(&[0x01, 0x55, 0x00, 0x02, b'h', b'i'], b"hi"));
        car.extend(section(&[&[0x01, 0x55, 0x11, 0x14][..], &[0; 20]].concat(), b"anything"));
        car.extend(section(&[&[0x12, 0x20][..], blocks[0].cid.digest()].concat(), &blocks[0].bytes));
        let archive = Archive::parse(&car).unwrap();
        assert_eq!(archive.len(), 2);
        // No roots at all, and the keys in the other order.
        for header in [&b"\x11\xa2\x65roots\x80\x67version\x01"[..], b"\x11\xa2\x67version\x01\x65roots\x80"] {
            assert!(Archive::parse(header).unwrap().is_empty(), "{header:?}");
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let (blocks, car) = packed();
        let ends = [car.len() - section(&blocks[1].cid.to_bytes(), &blocks[1].bytes).len()];
        for length in 0..car.len() {
            let got = Archive::parse(&car[..length]);
            match got {
                // Between two sections nothing shows that one is missing; the walk detects it.
                Ok(archive) => {
                    assert!(length == 59 && archive.is_empty() || ends.contains(&length) && archive.len() == 1, "{length}")
                }
                Err(error) => assert_eq!(error.code(), codes::agent::ARCHIVE_MALFORMED, "{length}: {error}"),
            }
        }
    }

    #[test]
    fn a_changed_bit_anywhere_is_found_or_harmless() {
        let (blocks, car) = packed();
        for place in 0..car.len() {
            for bit in 0..8 {
                let mut bad = car.clone();
                bad[place] ^= 1 << bit;
                if let Ok(archive) = Archive::parse(&bad) {
                    for block in &blocks {
                        assert!(archive.block(&block.cid).is_none_or(|bytes| bytes == block.bytes), "{place} {bit}");
                    }
                }
            }
        }
        let mut bad = car;
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(Archive::parse(&bad).unwrap_err(), CarError::Mismatch { block: blocks[1].cid.clone() });
    }

    #[test]
    fn what_is_not_an_archive() {
        let mut huge = b"\x11\xa2\x65roots\x80\x67version\x01".to_vec();
        varint::push(3 << 20, &mut huge);
        for (bytes, error) in [
            (&b""[..], CarError::Header),
            (b"\x00", CarError::Header),
            (b"<html>", CarError::Header),
            (b"\x11\xa2\x65roots\x80\x67version\x02", CarError::Header),
            (b"\x0a\xa1\x67version\x02", CarError::VersionTwo),
            (b"\xff\xff\xff\xff\x0f", CarError::Header),
            (&huge, CarError::BlockTooLarge { size: 3 << 20 }),
            (b"\x11\xa2\x65roots\x80\x67version\x01\x00", CarError::Section),
        ] {
            assert_eq!(Archive::parse(bytes).unwrap_err(), error, "{bytes:?}");
        }
    }
}
