//! Comparing content with its CID where only the bytes of the file are at hand.
//!
//! A content source checks every block as it arrives. Saved evidence has the content alone and may have been changed, so
//! the hash is computed again before such evidence is judged.

use sha2::{Digest as _, Sha256};

/// Compares content with a CID.
pub trait ContentHash: Send + Sync {
    /// Says whether `content` is what `cid` names.
    fn content_matches(&self, cid: &str, content: &[u8]) -> ContentMatch;
}

/// Whether content is what a CID names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentMatch {
    /// It has the hash of the CID.
    Matches,
    /// It does not.
    Differs,
    /// It cannot be told from the content alone: the hash covers blocks whose layout is not known, or is of a kind that is not supported.
    Unknown,
}

/// Compares content with the most common CIDs: version 1, raw codec, SHA-256, base32. Every other CID is [`ContentMatch::Unknown`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSha256;

impl ContentHash for RawSha256 {
    fn content_matches(&self, cid: &str, content: &[u8]) -> ContentMatch {
        if cid.len() != RAW_SHA256_CHARS || !cid.starts_with(RAW_SHA256_START) {
            return ContentMatch::Unknown;
        }
        if raw_sha256_cid(content) == cid { ContentMatch::Matches } else { ContentMatch::Differs }
    }
}

/// Returns the CID of content as one raw block: version 1, SHA-256, base32.
///
/// ```
/// let cid = toolcrib_agent::content_hash::raw_sha256_cid(br#"{"agt":"1.0","domain":"exampleagent.agt"}"#);
/// assert_eq!(cid, "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4");
/// ```
pub fn raw_sha256_cid(content: &[u8]) -> String {
    let mut bytes = [0_u8; 36];
    let (head, digest) = bytes.split_at_mut(4);
    head.copy_from_slice(&RAW_SHA256_HEAD);
    digest.copy_from_slice(&Sha256::digest(content));
    let mut text = String::with_capacity(RAW_SHA256_CHARS);
    text.push('b');
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(base32_digit(buffer >> bits));
        }
        // Only the bits that are still to be written stay, so the shift above never loses any.
        buffer &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(base32_digit(buffer << (5 - bits)));
    }
    text
}

/// Version 1, raw, SHA-256, 32 bytes.
const RAW_SHA256_HEAD: [u8; 4] = [0x01, 0x55, 0x12, 0x20];

/// What every such CID starts with: the base and the first 30 bits.
const RAW_SHA256_START: &str = "bafkrei";

/// The base, and 36 bytes in groups of five bits.
const RAW_SHA256_CHARS: usize = 59;

/// The digit for the lowest five bits (RFC 4648 §6, in lower case).
fn base32_digit(value: u32) -> char {
    char::from(b"abcdefghijklmnopqrstuvwxyz234567"[(value & 31) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: AGT-017
    #[test]
    fn content_is_compared_with_raw_sha256_cids() {
        let content = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;
        let cid = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";
        assert_eq!(RawSha256.content_matches(cid, content), ContentMatch::Matches);
        for at in 0..content.len() {
            let mut flipped = *content;
            flipped[at] ^= 1;
            assert_eq!(RawSha256.content_matches(cid, &flipped), ContentMatch::Differs, "byte {at}");
        }
        assert_eq!(RawSha256.content_matches(cid, b""), ContentMatch::Differs);
        for other in [
            "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha",
            "bafkrgqfz6wokspgmhd66ubscvnxpfgg6h6f23ywezkurkspqrcejnmazevmtquyzejld5moal6tq3qhfxzzf54d3vicf2mmvxaf6dcdqja57y",
            "QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ",
            "BAFKREIGERZ3NHHY7ZONH55SRSPHPLGWZR7AI2LCTAKKVQVALXXLFUIKVK4",
            &cid[..58],
            "",
        ] {
            assert_eq!(RawSha256.content_matches(other, content), ContentMatch::Unknown, "{other}");
        }
    }

    #[test]
    fn the_cid_of_nothing() {
        assert_eq!(raw_sha256_cid(b""), "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku");
    }
}
