//! Files in blocks: for any blocks, the walk ends within its limits, and no source can make it accept other bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_agent::ipfs::car::Archive;
use toolcrib_agent::ipfs::dag::MAX_BLOCKS;
use toolcrib_agent::ipfs::{Block, Codec, HashFunction, Layout, Walk, WalkError, WalkLimits, pack};
use toolcrib_core::codes::Code;

/// Smaller than the fuzzer's inputs, so that both sides of the limit are tested.
const MAX_CONTENT: usize = 512;

/// Replaced by the digest of the previous block, which a fuzzer cannot guess.
const PREVIOUS: [u8; 32] = [0xaa; 32];

fuzz_target!(|data: &[u8]| {
    let limits = WalkLimits::with_content(MAX_CONTENT);
    walked(&blocks(data), limits);
    let _ = Archive::parse(data);
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
        let packed = pack(data, layout, HashFunction::Sha2_256).expect("less than a chunk");
        let content = walked(packed.blocks().iter().rev().cloned().collect::<Vec<_>>().as_slice(), limits);
        assert_eq!(content.as_deref(), (data.len() <= MAX_CONTENT).then_some(data), "{layout:?}");
        let car = packed.to_car();
        let archive = Archive::parse(&car).expect("our own archive");
        for block in packed.blocks() {
            assert_eq!(archive.block(&block.cid), Some(block.bytes.as_slice()));
        }
    }
});

/// Blocks with links to the previous one; the root is the last.
fn blocks(data: &[u8]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let end = rest.windows(4).position(|window| window == [0xff; 4]);
        let (piece, after) = match end {
            Some(end) => (&rest[..end], &rest[end + 4..]),
            None => (rest, &[][..]),
        };
        rest = after;
        let mut bytes = piece.to_vec();
        if let Some(previous) = blocks.last() {
            let mut at = 0;
            while let Some(found) = bytes[at..].windows(32).position(|window| window == PREVIOUS) {
                at += found;
                bytes[at..at + 32].copy_from_slice(previous.cid.digest());
            }
        }
        // The first block is a leaf of either kind; the link to it says which.
        blocks.push(Block::new(Codec::DagPb, HashFunction::Sha2_256, bytes));
    }
    blocks
}

/// Walks from the last block. `None` if the content is refused or a block is missing.
fn walked(blocks: &[Block], limits: WalkLimits) -> Option<Vec<u8>> {
    let root = blocks.last()?;
    let mut walk = Walk::new(root.cid.clone(), limits);
    let mut steps = 0;
    while let Some(wanted) = walk.wanted().cloned() {
        steps += 1;
        assert!(steps <= MAX_BLOCKS, "the walk ends");
        // Raw links and links to nodes have the same digest. A link may name another hash function.
        let block = blocks.iter().find(|block| (block.cid.hash(), block.cid.digest()) == (wanted.hash(), wanted.digest()))?;
        let mut changed = block.bytes.clone();
        changed.push(0);
        assert!(matches!(walk.supply(&changed), Err(WalkError::Mismatch { .. })), "other bytes are not taken");
        match walk.supply(&block.bytes) {
            Ok(()) => {}
            Err(WalkError::Refused(error)) => {
                assert_eq!(Code::find(error.code().id()), Some(error.code()), "every code is in the table");
                return None;
            }
            Err(WalkError::Mismatch { block }) => panic!("{block} has this digest"),
        }
    }
    let content = walk.finish().expect("nothing is wanted");
    assert!(content.len() <= limits.content());
    Some(content)
}
