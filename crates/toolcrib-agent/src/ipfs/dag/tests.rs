use std::collections::HashMap;

use super::*;
use crate::ipfs::hash::HashFunction;
use crate::ipfs::pack::{Block, Layout, Packed, pack};
use crate::ipfs::varint;

/// Walks over blocks that are all available.
fn walk(root: &Cid, blocks: &HashMap<Cid, Vec<u8>>, limits: WalkLimits) -> Result<Vec<u8>, WalkError> {
    let mut walk = Walk::new(root.clone(), limits);
    while let Some(wanted) = walk.wanted() {
        let block = blocks.get(wanted).unwrap_or_else(|| panic!("{wanted} is not there")).clone();
        walk.supply(&block)?;
    }
    Ok(walk.finish().expect("nothing is wanted"))
}

fn blocks(packed: &Packed) -> HashMap<Cid, Vec<u8>> {
    packed.blocks().iter().map(|block| (block.cid.clone(), block.bytes.clone())).collect()
}

fn refused(root: &Block, others: &[Block]) -> DagError {
    let all = std::iter::once(root).chain(others).map(|block| (block.cid.clone(), block.bytes.clone())).collect();
    match walk(&root.cid, &all, WalkLimits::default()) {
        Err(WalkError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn raw(bytes: &[u8]) -> Block {
    Block::new(Codec::Raw, HashFunction::Sha2_256, bytes.to_vec())
}

fn node(bytes: Vec<u8>) -> Block {
    Block::new(Codec::DagPb, HashFunction::Sha2_256, bytes)
}

/// A protobuf field: a number for an even wire type, bytes otherwise.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint::push(bytes.len() as u64, &mut out);
    [out, bytes.to_vec()].concat()
}

fn number(field: u8, value: u64) -> Vec<u8> {
    let mut out = vec![field << 3];
    varint::push(value, &mut out);
    out
}

/// A node over links, with a message of these fields.
fn over(links: &[&Block], message: &[Vec<u8>]) -> Block {
    let mut bytes = Vec::new();
    for link in links {
        bytes.extend(field(2, &[field(1, &link.cid.to_bytes()), field(2, b""), number(3, 0)].concat()));
    }
    bytes.extend(field(1, &message.concat()));
    node(bytes)
}

/// A file node with correct sizes over these leaves.
fn file_over(links: &[&Block], sizes: &[u64]) -> Block {
    let mut message = vec![number(1, 2), number(3, sizes.iter().sum())];
    message.extend(sizes.iter().map(|size| number(4, *size)));
    over(links, &message)
}

#[test]
fn every_layout_gives_the_bytes_back() {
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
        for hash in HashFunction::ALL {
            for content in [&b""[..], b"{}", &[7; 1000]] {
                let packed = pack(content, layout, hash).unwrap();
                let got = walk(packed.root(), &blocks(&packed), WalkLimits::default());
                assert_eq!(got.as_deref(), Ok(content), "{layout:?} {hash}");
            }
        }
    }
}

// req: AGT-017
#[test]
fn wrong_bytes_are_not_read() {
    let packed = pack(b"content", Layout::FileNodes, HashFunction::Sha2_256).unwrap();
    let genuine = &packed.blocks()[0].bytes;
    let mut walk = Walk::new(packed.root().clone(), WalkLimits::default());
    for place in 0..genuine.len() {
        for bit in 0..8 {
            let mut bad = genuine.clone();
            bad[place] ^= 1 << bit;
            assert_eq!(walk.supply(&bad), Err(WalkError::Mismatch { block: packed.root().clone() }));
        }
    }
    assert_eq!(walk.supply(&genuine[1..]), Err(WalkError::Mismatch { block: packed.root().clone() }));
    // The right bytes are still accepted, and bytes after the end change nothing.
    assert_eq!(walk.supply(genuine), Ok(()));
    assert_eq!(walk.supply(b"more"), Ok(()));
    assert_eq!(walk.finish().as_deref(), Some(&b"content"[..]));
}

#[test]
fn content_up_to_the_limit() {
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
        for (limits, limit) in [
            (WalkLimits::default(), 65_536),
            (WalkLimits::with_content(100), 100),
            (WalkLimits::with_content(MAX_CONTENT_BYTES), 262_144),
            (WalkLimits::with_content(usize::MAX), 262_144),
        ] {
            let whole = pack(&vec![b'x'; limit], layout, HashFunction::Sha2_256).unwrap();
            assert_eq!(walk(whole.root(), &blocks(&whole), limits).map(|content| content.len()), Ok(limit), "{layout:?}");
            let Ok(more) = pack(&vec![b'x'; limit + 1], layout, HashFunction::Sha2_256) else { continue };
            let error = DagError::TooLarge { size: limit as u64 + 1, limit };
            assert_eq!(walk(more.root(), &blocks(&more), limits), Err(error.into()), "{layout:?}");
        }
    }
    // The root alone is enough to reject a large file.
    let large = pack(&vec![0; 10 << 20], Layout::RawLeaves, HashFunction::Sha2_256).unwrap();
    let mut walk = Walk::new(large.root().clone(), WalkLimits::default());
    let error = walk.supply(&large.blocks()[0].bytes).unwrap_err();
    assert_eq!(error, DagError::TooLarge { size: 10 << 20, limit: 65_536 }.into());
}

#[test]
fn leaves_come_in_the_order_of_the_content() {
    let leaves: Vec<Block> = (0..10_u8).map(|at| raw(&[at; 3])).collect();
    // A tree with a node that has its own content: 0 1 | "own" 2 3 | 4..9, the last of them repeated.
    let inner = over(&[&leaves[2], &leaves[3]], &[number(1, 2), field(2, b"own"), number(3, 9), number(4, 3), number(4, 3)]);
    let tail: Vec<&Block> = leaves[4..].iter().chain([&leaves[9]]).collect();
    let links: Vec<&Block> = [&leaves[0], &leaves[1], &inner].into_iter().chain(tail).collect();
    let sizes: Vec<u64> = links.iter().map(|link| if link.cid == inner.cid { 9 } else { 3 }).collect();
    let root = file_over(&links, &sizes);
    let all = leaves.iter().chain([&inner, &root]).map(|block| (block.cid.clone(), block.bytes.clone())).collect();
    let expected: Vec<u8> = [&[0; 3][..], &[1; 3], b"own", &[2; 3], &[3; 3]]
        .concat()
        .into_iter()
        .chain((4..10_u8).chain([9]).flat_map(|at| [at; 3]))
        .collect();
    assert_eq!(walk(&root.cid, &all, WalkLimits::default()), Ok(expected));
}

#[test]
fn links_of_version_zero_are_followed() {
    // What Kubo wrote for the same 600,000 bytes with its defaults.
    let content: Vec<u8> = (0..600_000_u32).map(|i| (i * 31 + 7) as u8).collect();
    let leaves: Vec<Block> = content.chunks(262_144).map(|chunk| node(encode_leaf(false, chunk))).collect();
    let mut bytes = Vec::new();
    let mut message = [number(1, 2), number(3, 600_000)].concat();
    for (leaf, chunk) in leaves.iter().zip(content.chunks(262_144)) {
        let v0 = [&[0x12, 0x20][..], leaf.cid.digest()].concat();
        bytes.extend(field(2, &[field(1, &v0), field(2, b""), number(3, leaf.bytes.len() as u64)].concat()));
        message.extend(number(4, chunk.len() as u64));
    }
    bytes.extend(field(1, &message));
    let root = node(bytes);
    assert_eq!(Ok(&root.cid), Cid::parse_any_version("QmRT38sDncNFH3zMM29Lr7c2BCxdBEj1uyEUMjyoKahvYK").as_ref());
    assert_eq!(refused(&root, &leaves), DagError::TooLarge { size: 600_000, limit: 65_536 });
    // A small file with such a link.
    let leaf = node(encode_leaf(false, b"hello"));
    let v0 = [&[0x12, 0x20][..], leaf.cid.digest()].concat();
    let root = node([field(2, &field(1, &v0)), field(1, &[number(1, 2), number(3, 5), number(4, 5)].concat())].concat());
    let all = [&root, &leaf].map(|block| (block.cid.clone(), block.bytes.clone())).into();
    assert_eq!(walk(&root.cid, &all, WalkLimits::default()).as_deref(), Ok(&b"hello"[..]));
}

#[test]
fn what_is_not_a_file() {
    let leaf = raw(b"x");
    for (kind, name) in [(1, "a folder"), (3, "metadata"), (4, "a symbolic link"), (5, "a sharded folder")] {
        let block = over(&[&leaf], &[number(1, kind), field(2, b"data")]);
        assert_eq!(refused(&block, &[]), DagError::NotAFile { kind: name });
        // Below a file as well.
        let root = file_over(&[&block], &[4]);
        assert_eq!(refused(&root, &[block]).code(), codes::agent::CONTENT_NOT_A_FILE);
    }
    // The well-known empty folder.
    let empty = node(vec![0x0a, 0x02, 0x08, 0x01]);
    assert_eq!(empty.cid.to_string(), "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354");
    assert_eq!(refused(&empty, &[]).code(), codes::agent::CONTENT_NOT_A_FILE);
}

#[test]
fn sizes_that_are_not_true() {
    let leaf = raw(b"hello");
    for (links, sizes) in [
        // The root states a wrong size of its child, too small or too large.
        (vec![&leaf], vec![number(3, 4), number(4, 4)]),
        (vec![&leaf], vec![number(3, 6), number(4, 6)]),
        // The file size is not the sum of its parts.
        (vec![&leaf], vec![number(3, 50), number(4, 5)]),
        (vec![], vec![number(3, 50)]),
    ] {
        let message: Vec<_> = std::iter::once(number(1, 2)).chain(sizes).collect();
        let root = over(&links, &message);
        assert_eq!(refused(&root, std::slice::from_ref(&leaf)).code(), codes::agent::CONTENT_SIZE_MISMATCH);
    }
    // A child node states another size than its parent.
    let child = file_over(&[&leaf], &[5]);
    assert_eq!(refused(&file_over(&[&child], &[7]), &[child]), DagError::SizeMismatch { expected: 7, got: 5 });
    // Sizes that overflow.
    let root = over(&[&leaf, &leaf, &leaf], &[number(1, 2), number(4, (1 << 63) - 1), number(4, (1 << 63) - 1), number(4, 5)]);
    assert_eq!(refused(&root, &[]).code(), codes::agent::CONTENT_TOO_LARGE);
    // There must be as many sizes as links.
    for sizes in [vec![], vec![number(4, 5), number(4, 5)]] {
        let root = over(&[&leaf], &[vec![number(1, 2)], sizes].concat());
        assert_eq!(refused(&root, &[]).code(), codes::agent::CONTENT_MALFORMED);
    }
    // Without a file size, the sum of the parts is used.
    let root = over(&[&leaf], &[number(1, 2), number(4, 5)]);
    let all = [&root, &leaf].map(|block| (block.cid.clone(), block.bytes.clone())).into();
    assert_eq!(walk(&root.cid, &all, WalkLimits::default()).as_deref(), Ok(&b"hello"[..]));
}

#[test]
fn depth_and_count_are_limited() {
    let leaf = raw(b"x");
    let chain = |levels: usize| {
        let mut blocks = vec![leaf.clone()];
        for _ in 0..levels {
            let next = file_over(&[&blocks[blocks.len() - 1]], &[1]);
            blocks.push(next);
        }
        blocks
    };
    let deep = chain(MAX_DEPTH);
    let all = deep.iter().map(|block| (block.cid.clone(), block.bytes.clone())).collect();
    assert_eq!(walk(&deep[MAX_DEPTH].cid, &all, WalkLimits::default()).as_deref(), Ok(&b"x"[..]));
    let deeper = chain(MAX_DEPTH + 1);
    assert_eq!(refused(&deeper[MAX_DEPTH + 1], &deeper), DagError::TooDeep);

    let wide = |count: usize| file_over(&vec![&leaf; count], &vec![1; count]);
    let root = wide(MAX_BLOCKS - 1);
    let all = [&root, &leaf].map(|block| (block.cid.clone(), block.bytes.clone())).into();
    assert_eq!(walk(&root.cid, &all, WalkLimits::default()).map(|content| content.len()), Ok(MAX_BLOCKS - 1));
    assert_eq!(refused(&wide(MAX_BLOCKS), std::slice::from_ref(&leaf)), DagError::TooManyBlocks);
    assert_eq!(refused(&wide(40_000), std::slice::from_ref(&leaf)), DagError::TooManyBlocks);
    // Empty blocks count too: otherwise a tree of them would never end.
    let empty = node(encode_leaf(false, b""));
    let mut level = empty.clone();
    let mut all = vec![empty];
    for _ in 0..7 {
        level = file_over(&vec![&level; 32], &[0; 32]);
        all.push(level.clone());
    }
    assert_eq!(refused(&level, &all), DagError::TooManyBlocks);
}

#[test]
fn blocks_are_limited() {
    let block = raw(&vec![0; MAX_BLOCK_BYTES + 1]);
    assert_eq!(refused(&block, &[]), DagError::BlockTooLarge { size: MAX_BLOCK_BYTES + 1 });
    let block = raw(&vec![0; MAX_BLOCK_BYTES]);
    assert_eq!(refused(&block, &[]).code(), codes::agent::CONTENT_TOO_LARGE);
}

#[test]
fn malformed_nodes() {
    let leaf = raw(b"x");
    let link = field(2, &field(1, &leaf.cid.to_bytes()));
    let message = [number(1, 2), number(3, 1), number(4, 1)].concat();
    let of = |message: &[Vec<u8>]| field(1, &message.concat());
    for (name, bytes) in [
        ("nothing", vec![]),
        ("links alone", link.clone()),
        ("data before links", [field(1, &message), link.clone()].concat()),
        ("data twice", [link.clone(), field(1, &message), field(1, &message)].concat()),
        ("an unknown field", [link.clone(), field(1, &message), field(3, b"")].concat()),
        ("a number for data", number(1, 5)),
        ("a fixed width", vec![0x09, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("field zero", field(0, b"")),
        ("cut off", vec![0x0a, 0x05, 0x08]),
        ("a long varint", vec![0x0a, 0x82, 0x00, 0x08, 0x02]),
        ("a link without a CID", [field(2, &field(2, b"name")), field(1, &message)].concat()),
        (
            "a link with its name first",
            [field(2, &[field(2, b""), field(1, &leaf.cid.to_bytes())].concat()), field(1, &message)].concat(),
        ),
        (
            "a link with two CIDs",
            [field(2, &[field(1, &leaf.cid.to_bytes()), field(1, &leaf.cid.to_bytes())].concat()), field(1, &message)].concat(),
        ),
        ("a link with more", [field(2, &[field(1, &leaf.cid.to_bytes()), field(4, b"")].concat()), field(1, &message)].concat()),
        ("no type", of(&[field(2, b"x")])),
        ("two types", of(&[number(1, 2), number(1, 2)])),
        ("an unknown type", of(&[number(1, 6)])),
        ("data before the type", of(&[field(2, b"x"), number(1, 2)])),
        ("data twice in the message", of(&[number(1, 2), field(2, b"x"), field(2, b"y")])),
        ("packed sizes", [link.clone(), of(&[number(1, 2), number(3, 1), field(4, &[1])])].concat()),
        ("an unknown field of the message", of(&[number(1, 2), number(9, 1)])),
        ("a raw leaf with links", [link, of(&[number(1, 0), number(3, 1), number(4, 1)])].concat()),
    ] {
        let error = refused(&node(bytes), std::slice::from_ref(&leaf));
        assert_eq!(error.code(), codes::agent::CONTENT_MALFORMED, "{name}: {error}");
    }
    // A file's mode and time are ignored.
    let dated = node(of(&[number(1, 2), field(2, b"x"), number(3, 1), number(7, 0o644), field(8, &[0x08, 0x01])]));
    let all = HashMap::from([(dated.cid.clone(), dated.bytes.clone())]);
    assert_eq!(walk(&dated.cid, &all, WalkLimits::default()).as_deref(), Ok(&b"x"[..]));
}

#[test]
fn links_have_the_same_rules_as_pointers() {
    let message = [number(1, 2), number(3, 1), number(4, 1)].concat();
    for (cid, code) in [
        (vec![0x01, 0x55, 0x00, 0x01, b'x'], codes::agent::CID_HASH_WEAK),
        ([&[0x01, 0x71, 0x12, 0x20][..], &[0; 32]].concat(), codes::agent::CID_CODEC),
        ([&[0x01, 0x55, 0x12, 0x04][..], &[0; 4]].concat(), codes::agent::CID_HASH_WEAK),
        ([&[0x01, 0x55, 0x12, 0x20][..], &[0; 33]].concat(), codes::agent::CID_NOT_CANONICAL),
        ([&[0x12, 0x20][..], &[0; 31]].concat(), codes::agent::CID_MALFORMED),
        (vec![], codes::agent::CID_MALFORMED),
    ] {
        let root = node([field(2, &field(1, &cid)), field(1, &message)].concat());
        assert_eq!(refused(&root, &[]).code(), code, "{cid:?}");
    }
}
