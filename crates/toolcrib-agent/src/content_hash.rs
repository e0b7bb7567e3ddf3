//! Compares content with its CID if only the file's bytes are available.
//!
//! A content source checks every block as it arrives. Saved evidence has only the content and may have been modified, so
//! the hash is computed again before such evidence is judged.

use crate::ipfs::pack::repack;
use crate::ipfs::{Cid, Codec, HashFunction};

/// Compares content with a CID.
pub trait ContentHash: Send + Sync {
    /// Compares `content` with `cid`.
    fn content_matches(&self, cid: &str, content: &[u8]) -> ContentMatch;
}

/// The result of comparing content with a CID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentMatch {
    /// The content has the hash of the CID.
    Matches,
    /// The content has another hash.
    Differs,
    /// The content alone is not enough: the hash covers blocks with an unknown layout, or is of an unsupported kind.
    Unknown,
}

/// Compares content with every allowed CID: raw blocks by their hash, files in the layouts that importers write.
#[derive(Clone, Copy, Debug, Default)]
pub struct CidHash;

impl ContentHash for CidHash {
    fn content_matches(&self, cid: &str, content: &[u8]) -> ContentMatch {
        let Ok(cid) = Cid::parse(cid) else { return ContentMatch::Unknown };
        match cid.codec() {
            Codec::Raw if cid.matches(content) => ContentMatch::Matches,
            Codec::Raw => ContentMatch::Differs,
            Codec::DagPb if repack(&cid, content).is_some() => ContentMatch::Matches,
            // The same file may have been split into blocks by an unknown importer.
            Codec::DagPb => ContentMatch::Unknown,
        }
    }
}

/// Returns the CID of content as one raw block: version 1, SHA-256, base32.
///
/// ```
/// let cid = toolcrib_agent::content_hash::raw_sha256_cid(br#"{"agt":"1.0","domain":"exampleagent.agt"}"#);
/// assert_eq!(cid, "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4");
/// ```
pub fn raw_sha256_cid(content: &[u8]) -> String {
    Cid::of(Codec::Raw, HashFunction::default(), content).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: AGT-017
    #[test]
    fn content_is_compared_with_its_cid() {
        let content = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;
        let raw = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";
        for cid in [
            raw,
            "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha",
            "bafybeig7u7etudl7ttu7l3mh7weyxno7jvmgnmixjkz77c7dfiz6zfcpvu",
            "bafybeid4q42x32vwhltcxczp4bv65tlo5fxkqzjkbe7hxpeulx7imbsrfm",
            "bafkrgqfz6wokspgmhd66ubscvnxpfgg6h6f23ywezkurkspqrcejnmazevmtquyzejld5moal6tq3qhfxzzf54d3vicf2mmvxaf6dcdqja57y",
        ] {
            assert_eq!(CidHash.content_matches(cid, content), ContentMatch::Matches, "{cid}");
        }
        for at in 0..content.len() {
            let mut flipped = *content;
            flipped[at] ^= 1;
            assert_eq!(CidHash.content_matches(raw, &flipped), ContentMatch::Differs, "byte {at}");
        }
        assert_eq!(CidHash.content_matches(raw, b""), ContentMatch::Differs);
        let node = "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha";
        for (cid, other) in [(node, &b"other"[..]), ("QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ", content), ("", content)] {
            assert_eq!(CidHash.content_matches(cid, other), ContentMatch::Unknown, "{cid}");
        }
    }

    #[test]
    fn the_cid_of_nothing() {
        assert_eq!(raw_sha256_cid(b""), "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku");
    }
}
