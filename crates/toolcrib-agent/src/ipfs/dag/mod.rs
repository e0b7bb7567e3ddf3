//! The file below a CID, block by block, without I/O.
//!
//! [`Walk`] says which block it wants, takes its bytes, checks the hash before it reads anything else, and ends with the content or a
//! refusal. Sizes are promised from the top: each node says what its links hold, and each block must hold exactly that. So a file that is
//! too large is refused at its root, and no block can add what the root does not announce.

mod node;

use toolcrib_core::codes::{self, Code};

use self::node::{Kind, Message, Node};
pub(super) use self::node::{NewLink, encode_leaf, encode_root};
use super::cid::{Cid, CidError, Codec};

/// Largest content by default: what every reader must accept (.agt 1.0, Security Considerations).
pub const DEFAULT_CONTENT_BYTES: usize = 65_536;

/// Largest content that can be allowed: the largest manifest that Toolcrib reads, and one chunk of every importer.
pub const MAX_CONTENT_BYTES: usize = 262_144;

/// Most levels of links below the root. Importers need one for 45 MB.
pub const MAX_DEPTH: usize = 8;

/// Most blocks of a file, each counted as often as it is linked. The largest content in chunks of 4 KiB.
pub const MAX_BLOCKS: usize = 64;

/// Largest block. IPFS nodes exchange none that is larger.
pub const MAX_BLOCK_BYTES: usize = 2 * 1024 * 1024;

/// The limits of a walk. Depth, blocks and block size are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLimits {
    content: usize,
}

impl WalkLimits {
    /// Allows this much content, and at most [`MAX_CONTENT_BYTES`].
    pub const fn with_content(bytes: usize) -> Self {
        Self { content: if bytes < MAX_CONTENT_BYTES { bytes } else { MAX_CONTENT_BYTES } }
    }

    /// The largest content in bytes.
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
    /// Blocks that are still wanted, the next one last.
    pending: Vec<Pending>,
    /// Blocks that were taken or are pending.
    blocks: usize,
    content: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Pending {
    cid: Cid,
    depth: usize,
    /// The content that it must hold; `None` for the root.
    promised: Option<u64>,
}

impl Walk {
    /// Begins at a root.
    pub fn new(root: Cid, limits: WalkLimits) -> Self {
        Self { limits, pending: vec![Pending { cid: root, depth: 0, promised: None }], blocks: 1, content: Vec::new() }
    }

    /// The block that is wanted next; `None` when the content is whole.
    pub fn wanted(&self) -> Option<&Cid> {
        self.pending.last().map(|pending| &pending.cid)
    }

    /// Takes the wanted block. After [`WalkError::Mismatch`] the same block is still wanted, and other bytes may be tried.
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

    /// The content; `None` while blocks are wanted.
    pub fn finish(self) -> Option<Vec<u8>> {
        self.pending.is_empty().then_some(self.content)
    }

    /// Takes a node that is a file or a part of one.
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

    /// Appends what a block itself holds; `total` is that and what its links promise.
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

/// Why a block was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// The bytes do not have the hash of the block: the source is wrong, not the content.
    #[error("the bytes do not have the hash of the block {block}")]
    Mismatch {
        /// The block that was wanted.
        block: Cid,
    },
    /// The block is genuine, and the content cannot be used. Every honest source has the same.
    #[error(transparent)]
    Refused(#[from] DagError),
}

/// Why genuine blocks are not a file within the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DagError {
    /// A folder, a symbolic link, or something else that is not a file.
    #[error("the CID names {kind}, not a file")]
    NotAFile {
        /// What it is.
        kind: &'static str,
    },
    /// A node that no importer writes.
    #[error("{reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A link whose CID is not accepted.
    #[error("a link of the file has a CID that is not accepted: {0}")]
    Link(#[from] CidError),
    /// A size that is not true.
    #[error("a node of the file promises {expected} bytes, and there are {got}")]
    SizeMismatch {
        /// What is promised.
        expected: u64,
        /// What is there.
        got: u64,
    },
    /// More content than allowed.
    #[error("the content has {size} bytes or more, above the limit of {limit}")]
    TooLarge {
        /// Bytes that are announced.
        size: u64,
        /// The limit.
        limit: usize,
    },
    /// A block that is larger than IPFS exchanges.
    #[error("a block has {size} bytes, above the limit of {MAX_BLOCK_BYTES}")]
    BlockTooLarge {
        /// Its bytes.
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
    /// The code of a finding about it.
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
