//! The file below a CID, block by block, without I/O.
//!
//! [`Walk`] returns the CID of the next block, takes its bytes, checks the hash before anything else, and ends with the content or an
//! error. Sizes are announced from the top: each node states the sizes of its links, and each block must have exactly that size. So a file
//! that is too large is rejected at its root, and no block can add content that the root does not announce.

mod node;

use toolcrib_core::codes::{self, Code};

use self::node::{Kind, Message, Node};
pub(super) use self::node::{NewLink, encode_leaf, encode_root};
use super::cid::{Cid, CidError, Codec};

/// Default maximum size of content: what every reader must accept (.agt 1.0, Security Considerations).
pub const DEFAULT_CONTENT_BYTES: usize = 65_536;

/// Upper bound of the maximum size of content: the largest manifest that Toolcrib reads, and one chunk of every importer.
pub const MAX_CONTENT_BYTES: usize = 262_144;

/// Maximum number of levels of links below the root. Importers need one for 45 MB.
pub const MAX_DEPTH: usize = 8;

/// Maximum number of blocks of a file, counted once per link: the largest content in chunks of 4 KiB.
pub const MAX_BLOCKS: usize = 64;

/// Maximum size of a block. IPFS nodes do not exchange larger ones.
pub const MAX_BLOCK_BYTES: usize = 2 * 1024 * 1024;

/// The limits of a walk. Depth, blocks and block size are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLimits {
    content: usize,
}

impl WalkLimits {
    /// Sets the maximum size of content, at most [`MAX_CONTENT_BYTES`].
    pub const fn with_content(bytes: usize) -> Self {
        Self { content: if bytes < MAX_CONTENT_BYTES { bytes } else { MAX_CONTENT_BYTES } }
    }

    /// The maximum size of content in bytes.
    pub const fn content(self) -> usize {
        self.content
    }
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self::with_content(DEFAULT_CONTENT_BYTES)
    }
}

/// A walk over the blocks of a file, in the order of its content.
#[derive(Clone, Debug)]
pub struct Walk {
    limits: WalkLimits,
    /// Blocks that are still missing, the next one last.
    pending: Vec<Pending>,
    /// Number of supplied and pending blocks.
    blocks: usize,
    content: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Pending {
    cid: Cid,
    depth: usize,
    /// The announced size of its content; `None` for the root.
    promised: Option<u64>,
}

impl Walk {
    /// Starts at a root.
    pub fn new(root: Cid, limits: WalkLimits) -> Self {
        Self { limits, pending: vec![Pending { cid: root, depth: 0, promised: None }], blocks: 1, content: Vec::new() }
    }

    /// The CID of the next block; `None` when the content is complete.
    pub fn wanted(&self) -> Option<&Cid> {
        self.pending.last().map(|pending| &pending.cid)
    }

    /// Supplies the wanted block. After [`WalkError::Mismatch`] the same block is still wanted, and other bytes may be tried.
    pub fn supply(&mut self, block: &[u8]) -> Result<(), WalkError> {
        let Some(Pending { cid, .. }) = self.pending.last() else { return Ok(()) };
        if !cid.matches(block) {
            return Err(WalkError::Mismatch { block: cid.clone() });
        }
        let Some(Pending { cid, depth, promised }) = self.pending.pop() else { return Ok(()) };
        if block.len() > MAX_BLOCK_BYTES {
            return Err(DagError::BlockTooLarge { size: block.len() }.into());
        }
        match cid.codec() {
            Codec::Raw => self.take_content(block, block.len() as u64, promised)?,
            Codec::DagPb => self.take_node(&Node::parse(block)?, depth, promised)?,
        }
        Ok(())
    }

    /// The content; `None` while blocks are missing.
    pub fn finish(self) -> Option<Vec<u8>> {
        self.pending.is_empty().then_some(self.content)
    }

    /// Handles a node that is a file or a part of one.
    fn take_node(&mut self, node: &Node<'_>, depth: usize, promised: Option<u64>) -> Result<(), DagError> {
        let message = Message::parse(node.data)?;
        match message.kind {
            Kind::File => {}
            Kind::Raw if node.links.is_empty() => {}
            Kind::Raw => return Err(DagError::Malformed { reason: "a raw leaf has links" }),
            other => return Err(DagError::NotAFile { kind: other.name() }),
        }
        if message.block_sizes.len() != node.links.len() {
            return Err(DagError::Malformed { reason: "a node does not give one size for each link" });
        }
        let total = message
            .block_sizes
            .iter()
            .try_fold(message.data.len() as u64, |sum, size| sum.checked_add(*size))
            .ok_or(DagError::TooLarge { size: u64::MAX, limit: self.limits.content })?;
        if let Some(said) = message.file_size.filter(|said| *said != total) {
            return Err(DagError::SizeMismatch { expected: said, got: total });
        }
        self.take_content(message.data, total, promised)?;
        if node.links.is_empty() {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return Err(DagError::TooDeep);
        }
        self.blocks += node.links.len();
        if self.blocks > MAX_BLOCKS {
            return Err(DagError::TooManyBlocks);
        }
        let first = self.pending.len();
        for (link, size) in node.links.iter().zip(&message.block_sizes) {
            let cid = Cid::from_link(link)?;
            self.pending.push(Pending { cid, depth: depth + 1, promised: Some(*size) });
        }
        if let Some(children) = self.pending.get_mut(first..) {
            children.reverse();
        }
        Ok(())
    }

    /// Appends a block's own content; `total` is its size plus the announced sizes of its links.
    fn take_content(&mut self, own: &[u8], total: u64, promised: Option<u64>) -> Result<(), DagError> {
        if let Some(expected) = promised.filter(|expected| *expected != total) {
            return Err(DagError::SizeMismatch { expected, got: total });
        }
        let size = total.saturating_add(self.content.len() as u64);
        if size > self.limits.content as u64 {
            return Err(DagError::TooLarge { size, limit: self.limits.content });
        }
        self.content.extend_from_slice(own);
        Ok(())
    }
}

/// Why a block was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// The bytes do not match the hash of the block: the source is at fault, not the content.
    #[error("the bytes do not have the hash of the block {block}")]
    Mismatch {
        /// The CID of the wanted block.
        block: Cid,
    },
    /// The block is genuine, but the content cannot be used. Every honest source has the same block.
    #[error(transparent)]
    Refused(#[from] DagError),
}

/// Why genuine blocks are not a file within the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DagError {
    /// It is a folder, a symbolic link, or something else than a file.
    #[error("the CID names {kind}, not a file")]
    NotAFile {
        /// What it is.
        kind: &'static str,
    },
    /// A node differs from what importers write.
    #[error("{reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A link has an unsupported CID.
    #[error("a link of the file has a CID that is not accepted: {0}")]
    Link(#[from] CidError),
    /// A size is wrong.
    #[error("a node of the file promises {expected} bytes, and there are {got}")]
    SizeMismatch {
        /// The announced size.
        expected: u64,
        /// The actual size.
        got: u64,
    },
    /// The content exceeds the limit.
    #[error("the content has {size} bytes or more, above the limit of {limit}")]
    TooLarge {
        /// The announced size in bytes.
        size: u64,
        /// The limit.
        limit: usize,
    },
    /// A block is larger than the maximum in IPFS.
    #[error("a block has {size} bytes, above the limit of {MAX_BLOCK_BYTES}")]
    BlockTooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// More blocks than allowed.
    #[error("the file has more than {MAX_BLOCKS} blocks")]
    TooManyBlocks,
    /// More levels of links than allowed.
    #[error("the file has more than {MAX_DEPTH} levels of links")]
    TooDeep,
}

impl DagError {
    /// The code of a finding about this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::NotAFile { .. } => codes::agent::CONTENT_NOT_A_FILE,
            Self::Malformed { .. } => codes::agent::CONTENT_MALFORMED,
            Self::Link(error) => error.code(),
            Self::SizeMismatch { .. } => codes::agent::CONTENT_SIZE_MISMATCH,
            Self::TooLarge { .. } => codes::agent::CONTENT_TOO_LARGE,
            Self::BlockTooLarge { .. } => codes::agent::BLOCK_TOO_LARGE,
            Self::TooManyBlocks => codes::agent::CONTENT_TOO_MANY_BLOCKS,
            Self::TooDeep => codes::agent::CONTENT_TOO_DEEP,
        }
    }
}

#[cfg(test)]
mod tests;
