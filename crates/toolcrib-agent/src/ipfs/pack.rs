//! Making CIDs: splits bytes into blocks and computes their root.
//!
//! The same bytes have many CIDs, one for each layout and hash function. By default a manifest is one raw block: the
//! shortest form, what current importers write, and the only one whose CID is the hash of the file.

use std::fmt;

use toolcrib_core::agent::txt::{CidText, pointer_record};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;

use super::cid::{Cid, Codec};
use super::dag::{NewLink, encode_leaf, encode_root};
use super::hash::HashFunction;

/// Size of a chunk: the default of Kubo and of the `UnixFS` profile that most files were added with.
pub const CHUNK_BYTES: usize = 262_144;

/// Maximum number of links of one node in current importers. A larger file needs a second level, which is not supported.
pub const MAX_LINKS: usize = 174;

/// Maximum size of a file.
pub const MAX_BYTES: usize = CHUNK_BYTES * MAX_LINKS;

/// How a file is split into blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One raw block up to [`CHUNK_BYTES`]; for larger files a node over raw leaves.
    #[default]
    RawLeaves,
    /// One `UnixFS` file node up to [`CHUNK_BYTES`]; for larger files a node over such nodes.
    FileNodes,
    /// One `UnixFS` node of type `Raw`, which some importers write for leaves. Up to [`CHUNK_BYTES`].
    RawNode,
    /// A node over one raw leaf, as written by importers that do not collapse a single leaf. Up to [`CHUNK_BYTES`].
    NodeOverLeaf,
}

/// A block and its CID.
#[derive(Clone, PartialEq, Eq)]
pub struct Block {
    /// The CID of the block.
    pub cid: Cid,
    /// The bytes of the block.
    pub bytes: Vec<u8>,
}

impl Block {
    /// Computes the CID of a block.
    pub fn new(codec: Codec, hash: HashFunction, bytes: Vec<u8>) -> Self {
        Self { cid: Cid::of(codec, hash, &bytes), bytes }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({}, {} bytes)", self.cid, self.bytes.len())
    }
}

/// A file as blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The root first, then the leaves in the order of the content.
    blocks: Vec<Block>,
    root: Cid,
}

impl Packed {
    /// The CID of the file.
    pub const fn root(&self) -> &Cid {
        &self.root
    }

    /// The blocks: the root first, then the leaves in the order of the content.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the blocks.
    pub(crate) fn into_blocks(self) -> Vec<Block> {
        self.blocks
    }

    /// The blocks as an archive (`CARv1`).
    pub fn to_car(&self) -> Vec<u8> {
        super::car::write(&self.root, &self.blocks)
    }

    /// The TXT record that points to the file. An error while `existing` has legacy records.
    pub fn txt_record(&self, existing: &[impl AsRef<[u8]>]) -> Result<String, PackError> {
        let text = CidText::parse(&self.root.to_string()).map_err(|_| PackError::Text)?;
        pointer_record(&text, existing).map_err(PackError::Legacy)
    }

    fn one(block: Block) -> Self {
        Self { root: block.cid.clone(), blocks: vec![block] }
    }

    fn over(hash: HashFunction, leaves: Vec<Block>, sizes: impl Iterator<Item = usize>) -> Self {
        let links: Vec<NewLink<'_>> = leaves
            .iter()
            .zip(sizes)
            .map(|(leaf, size)| NewLink { cid: &leaf.cid, content: size as u64, encoded: leaf.bytes.len() as u64 })
            .collect();
        let root = Block::new(Codec::DagPb, hash, encode_root(&links));
        Self { root: root.cid.clone(), blocks: std::iter::once(root).chain(leaves).collect() }
    }
}

/// Packs a file.
///
/// ```
/// use toolcrib_agent::ipfs::{HashFunction, Layout, pack};
///
/// let packed = pack(br#"{"agt":"1.0","domain":"exampleagent.agt"}"#, Layout::default(), HashFunction::default())?;
/// assert_eq!(packed.root().to_string(), "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4");
/// # Ok::<(), toolcrib_agent::ipfs::PackError>(())
/// ```
pub fn pack(content: &[u8], layout: Layout, hash: HashFunction) -> Result<Packed, PackError> {
    let limit = match layout {
        Layout::RawLeaves | Layout::FileNodes => MAX_BYTES,
        Layout::RawNode | Layout::NodeOverLeaf => CHUNK_BYTES,
    };
    if content.len() > limit {
        return Err(PackError::TooLarge { size: content.len(), limit });
    }
    let leaf = |chunk: &[u8]| match layout {
        Layout::RawLeaves | Layout::NodeOverLeaf => Block::new(Codec::Raw, hash, chunk.to_vec()),
        Layout::FileNodes => Block::new(Codec::DagPb, hash, encode_leaf(false, chunk)),
        Layout::RawNode => Block::new(Codec::DagPb, hash, encode_leaf(true, chunk)),
    };
    if content.len() <= CHUNK_BYTES && layout != Layout::NodeOverLeaf {
        return Ok(Packed::one(leaf(content)));
    }
    // An empty file has a single empty leaf.
    let chunks: Vec<&[u8]> = if content.is_empty() { vec![content] } else { content.chunks(CHUNK_BYTES).collect() };
    let leaves = chunks.iter().map(|chunk| leaf(chunk)).collect();
    Ok(Packed::over(hash, leaves, chunks.iter().map(|chunk| chunk.len())))
}

/// Finds the layout in which `content` has the CID `cid`, for sources that have a file instead of blocks. `None` if no known layout
/// matches: the file may still be the right one, but that cannot be proven.
pub fn repack(cid: &Cid, content: &[u8]) -> Option<Packed> {
    let layouts: &[Layout] = match cid.codec() {
        Codec::Raw => &[Layout::RawLeaves],
        Codec::DagPb => &[Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf],
    };
    if content.len() > CHUNK_BYTES {
        return None;
    }
    layouts.iter().filter_map(|layout| pack(content, *layout, cid.hash()).ok()).find(|packed| packed.root() == cid)
}

/// Why bytes cannot be packed, or a record cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The file exceeds the layout's limit.
    #[error("the file has {size} bytes, above the limit of {limit} for this layout")]
    TooLarge {
        /// The size of the file in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The CID cannot be written into a record.
    #[error("the CID cannot be written into a TXT record")]
    Text,
    /// The name has legacy records.
    #[error("{}", .0.message)]
    Legacy(Box<Finding>),
}

impl PackError {
    /// The code of a finding about this error.
    pub fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } => codes::agent::CONTENT_TOO_LARGE,
            Self::Text => codes::agent::CID_MALFORMED,
            Self::Legacy(finding) => finding.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;

    fn root(content: &[u8], layout: Layout, hash: HashFunction) -> String {
        pack(content, layout, hash).unwrap().root().to_string()
    }

    /// The CIDs that Kubo, Helia and other importers computed for the same 41 bytes.
    // req: AGT-017
    #[test]
    fn cids_of_other_importers() {
        let sha256 = HashFunction::Sha2_256;
        for (layout, hash, cid) in [
            (Layout::RawLeaves, sha256, "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4"),
            (Layout::FileNodes, sha256, "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha"),
            (Layout::RawNode, sha256, "bafybeig7u7etudl7ttu7l3mh7weyxno7jvmgnmixjkz77c7dfiz6zfcpvu"),
            (Layout::NodeOverLeaf, sha256, "bafybeid4q42x32vwhltcxczp4bv65tlo5fxkqzjkbe7hxpeulx7imbsrfm"),
            (
                Layout::RawLeaves,
                HashFunction::Sha2_512,
                "bafkrgqfz6wokspgmhd66ubscvnxpfgg6h6f23ywezkurkspqrcejnmazevmtquyzejld5moal6tq3qhfxzzf54d3vicf2mmvxaf6dcdqja57y",
            ),
        ] {
            assert_eq!(root(FILE, layout, hash), cid, "{layout:?}");
        }
        // The well-known empty file.
        let empty = Cid::parse_any_version("QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH").unwrap();
        assert_eq!(empty.to_string(), root(b"", Layout::FileNodes, sha256));
        // The sixth form: a file node with a version 0 CID.
        let v0 = Cid::parse_any_version("QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ").unwrap();
        assert_eq!(v0.to_string(), root(FILE, Layout::FileNodes, sha256));
    }

    #[test]
    fn chunked_files_of_other_importers() {
        let content: Vec<u8> = (0..600_000_u32).map(|i| (i * 31 + 7) as u8).collect();
        let raw = pack(&content, Layout::RawLeaves, HashFunction::Sha2_256).unwrap();
        assert_eq!(raw.root().to_string(), "bafybeidudknqwx4o547irvvb4yjeyfa5ndfno3g7ikcsr25a6k4tytdeqm");
        assert_eq!(raw.blocks().len(), 4);
        let nodes = pack(&content, Layout::FileNodes, HashFunction::Sha2_256).unwrap();
        assert_eq!(nodes.root().to_string(), "bafybeigu7iskdxdpg5hnhvp52e4mqrdlhf6ekhxsjwpzp5a235wvlgdbwe");
    }

    #[test]
    fn one_block_up_to_a_chunk() {
        for (size, blocks) in [(0, 1), (1, 1), (CHUNK_BYTES, 1), (CHUNK_BYTES + 1, 3), (2 * CHUNK_BYTES, 3)] {
            for layout in [Layout::RawLeaves, Layout::FileNodes] {
                assert_eq!(pack(&vec![7; size], layout, HashFunction::Sha2_256).unwrap().blocks().len(), blocks, "{size}");
            }
        }
        for layout in [Layout::RawNode, Layout::NodeOverLeaf] {
            let error = pack(&vec![7; CHUNK_BYTES + 1], layout, HashFunction::Sha2_256).unwrap_err();
            assert_eq!(error.code(), codes::agent::CONTENT_TOO_LARGE);
        }
        let error = pack(&vec![7; MAX_BYTES + 1], Layout::RawLeaves, HashFunction::Sha2_256).unwrap_err();
        assert!(error.to_string().contains("45613057"), "{error}");
    }

    #[test]
    fn a_file_is_found_again_under_every_layout() {
        for hash in HashFunction::ALL {
            for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
                for content in [FILE, b""] {
                    let packed = pack(content, layout, hash).unwrap();
                    assert_eq!(repack(packed.root(), content).as_ref(), Some(&packed));
                    assert_eq!(repack(packed.root(), b"other"), None);
                }
            }
        }
    }

    #[test]
    fn the_record_that_points_at_it() {
        let packed = pack(FILE, Layout::RawLeaves, HashFunction::Sha2_256).unwrap();
        let none: [&str; 0] = [];
        assert_eq!(
            packed.txt_record(&none).unwrap(),
            "agt-manifest=ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4"
        );
        let error = packed.txt_record(&["agt-version=1"]).unwrap_err();
        assert_eq!(error.code(), codes::agent::POINTER_WITH_LEGACY);
    }
}
