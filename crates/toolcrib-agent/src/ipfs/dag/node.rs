//! Nodes of dag-pb and the `UnixFS` message inside, parsed strictly and written like every importer writes them.
//!
//! The hash covers a node's bytes, so another encoding of the same file has another CID. Encodings that no importer writes are rejected,
//! because implementations interpret them differently.

use super::DagError;
use crate::ipfs::{Cid, varint};

/// A dag-pb node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node<'a> {
    /// The CIDs of the links in binary form.
    pub(super) links: Vec<&'a [u8]>,
    /// The message of the node.
    pub(super) data: &'a [u8],
}

impl<'a> Node<'a> {
    /// Parses a node: links first, then the data, as the dag-pb specification requires.
    pub(super) fn parse(block: &'a [u8]) -> Result<Self, DagError> {
        let mut rest = block;
        let (mut links, mut data) = (Vec::new(), None);
        while !rest.is_empty() {
            match (field(&mut rest)?, data) {
                ((2, Value::Bytes(link)), None) => links.push(parse_link(link)?),
                ((1, Value::Bytes(bytes)), None) => data = Some(bytes),
                ((1 | 2, Value::Bytes(_)), Some(_)) => return malformed("a field of a node follows its data"),
                _ => return malformed("a node has a field that dag-pb does not have"),
            }
        }
        let Some(data) = data else { return malformed("a node has no UnixFS message") };
        Ok(Self { links, data })
    }
}

/// Parses a link: its CID, then its name and size, each at most once. Names are for folders. Sizes are the encoded bytes below the link and
/// are not used here.
fn parse_link(bytes: &[u8]) -> Result<&[u8], DagError> {
    let mut rest = bytes;
    let mut cid = None;
    let mut last = 0;
    while !rest.is_empty() {
        let (number, value) = field(&mut rest)?;
        if number <= last {
            return malformed("the fields of a link are repeated or out of order");
        }
        last = number;
        match (number, value) {
            (1, Value::Bytes(bytes)) => cid = Some(bytes),
            (2, Value::Bytes(_)) | (3, Value::Number(_)) => {}
            _ => return malformed("a link has a field that dag-pb does not have"),
        }
    }
    cid.ok_or(DagError::Malformed { reason: "a link has no CID" })
}

/// The type of a `UnixFS` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A leaf of a file, as written by some importers.
    Raw,
    Directory,
    File,
    Metadata,
    Symlink,
    HamtShard,
}

impl Kind {
    const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Raw,
            1 => Self::Directory,
            2 => Self::File,
            3 => Self::Metadata,
            4 => Self::Symlink,
            5 => Self::HamtShard,
            _ => return None,
        })
    }

    /// The name in an error.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Raw | Self::File => "a file",
            Self::Directory => "a folder",
            Self::Metadata => "metadata",
            Self::Symlink => "a symbolic link",
            Self::HamtShard => "a sharded folder",
        }
    }
}

/// A `UnixFS` message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: Kind,
    /// The node's own content.
    pub(super) data: &'a [u8],
    /// The size of the file below this node, if the message has it.
    pub(super) file_size: Option<u64>,
    /// The sizes of the links' contents, in the order of the links.
    pub(super) block_sizes: Vec<u64>,
}

impl<'a> Message<'a> {
    /// Parses a message. Fields are in the order of their numbers, each once except the sizes of blocks.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, DagError> {
        let mut rest = bytes;
        let mut kind = None;
        let mut message = Self { kind: Kind::Raw, data: &[], file_size: None, block_sizes: Vec::new() };
        let mut last = 0;
        while !rest.is_empty() {
            let (number, value) = field(&mut rest)?;
            if number < last || (number == last && number != 4) {
                return malformed("the fields of a UnixFS message are repeated or out of order");
            }
            last = number;
            match (number, value) {
                (1, Value::Number(number)) => {
                    kind = Kind::from_number(number);
                    if kind.is_none() {
                        return malformed("a UnixFS message has an unknown type");
                    }
                }
                (2, Value::Bytes(data)) => message.data = data,
                (3, Value::Number(size)) => message.file_size = Some(size),
                (4, Value::Number(size)) => message.block_sizes.push(size),
                // Hash type and fanout of sharded folders, mode and time of a file.
                (5..=7, Value::Number(_)) | (8, Value::Bytes(_)) => {}
                _ => return malformed("a UnixFS message has a field that UnixFS does not have"),
            }
        }
        message.kind = kind.ok_or(DagError::Malformed { reason: "a UnixFS message has no type" })?;
        Ok(message)
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Parses and removes a protobuf field at the start of `bytes`: its number and value. Fixed-width fields do not occur here.
fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Value<'a>), DagError> {
    let mut take = || {
        let tag = varint::take(bytes)?;
        let number = varint::take(bytes)?;
        match tag & 7 {
            0 => Some((tag >> 3, Value::Number(number))),
            2 => Some((tag >> 3, Value::Bytes(varint::take_bytes(bytes, number)?))),
            _ => None,
        }
    };
    take().ok_or(DagError::Malformed { reason: "a protobuf field is cut off or malformed" })
}

fn malformed<T>(reason: &'static str) -> Result<T, DagError> {
    Err(DagError::Malformed { reason })
}

/// A link to write.
#[derive(Clone, Debug)]
pub(in crate::ipfs) struct NewLink<'a> {
    pub(in crate::ipfs) cid: &'a Cid,
    /// Size of the content below it.
    pub(in crate::ipfs) content: u64,
    /// Size of the blocks below it.
    pub(in crate::ipfs) encoded: u64,
}

/// Encodes a node with its own content. Importers write a size of zero too, and then no data field.
pub(in crate::ipfs) fn encode_leaf(is_raw: bool, content: &[u8]) -> Vec<u8> {
    let mut message = vec![0x08, if is_raw { 0 } else { 2 }];
    if !content.is_empty() {
        push_bytes(0x12, content, &mut message);
    }
    push_number(0x18, content.len() as u64, &mut message);
    let mut node = Vec::with_capacity(message.len() + 6);
    push_bytes(0x0a, &message, &mut node);
    node
}

/// Encodes a file node over links.
pub(in crate::ipfs) fn encode_root(links: &[NewLink<'_>]) -> Vec<u8> {
    let mut message = vec![0x08, 2];
    push_number(0x18, links.iter().map(|link| link.content).sum(), &mut message);
    let mut node = Vec::new();
    for link in links {
        let mut encoded = Vec::new();
        push_bytes(0x0a, &link.cid.to_bytes(), &mut encoded);
        // The name field is written although it is empty.
        push_bytes(0x12, b"", &mut encoded);
        push_number(0x18, link.encoded, &mut encoded);
        push_bytes(0x12, &encoded, &mut node);
        push_number(0x20, link.content, &mut message);
    }
    push_bytes(0x0a, &message, &mut node);
    node
}

fn push_number(tag: u8, number: u64, out: &mut Vec<u8>) {
    out.push(tag);
    varint::push(number, out);
}

fn push_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    push_number(tag, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
