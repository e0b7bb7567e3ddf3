//! Cache of verified manifests' content, by name and CID.
//!
//! The content of a CID never changes, so it need not be retrieved twice. The owner of a name is never cached.

use alloy_primitives::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::CidText;

/// Maximum size of the cache: a thousand manifests of the largest size that every reader must accept.
const MAX_BYTES: u64 = 64 << 20;

/// Expected number of manifests: typical ones have a few kilobytes.
const EXPECTED_ITEMS: usize = 16_384;

/// The cache of verified content.
pub(crate) struct ContentCache(Cache<Key, Bytes, ByBytes>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    domain: String,
    cid: String,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Bytes> for ByBytes {
    fn weight(&self, key: &Key, content: &Bytes) -> u64 {
        (key.domain.len() + key.cid.len() + content.len()).max(1) as u64
    }
}

impl ContentCache {
    pub(crate) fn new() -> Self {
        Self(Cache::with_weighter(EXPECTED_ITEMS, MAX_BYTES, ByBytes))
    }

    pub(crate) fn get(&self, domain: &AgtDomain, cid: &CidText) -> Option<Bytes> {
        self.0.get(&key(domain, cid))
    }

    /// Inserts the content of a verified manifest. Nothing else may be inserted.
    pub(crate) fn insert(&self, domain: &AgtDomain, cid: &CidText, content: Bytes) {
        self.0.insert(key(domain, cid), content);
    }
}

fn key(domain: &AgtDomain, cid: &CidText) -> Key {
    Key { domain: domain.as_str().to_owned(), cid: cid.as_str().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_kept_by_name_and_cid_within_a_budget() {
        let cache = ContentCache::new();
        let (a, b) = (AgtDomain::parse("a.agt").expect("a name"), AgtDomain::parse("b.agt").expect("a name"));
        let cid =
            |at: usize| CidText::parse(&format!("b{}", format!("{at:058}").replace(['0', '1', '8', '9'], "a"))).expect("a CID");
        cache.insert(&a, &cid(2), Bytes::from_static(b"x"));
        assert_eq!(cache.get(&a, &cid(2)), Some(Bytes::from_static(b"x")));
        assert_eq!(cache.get(&b, &cid(2)), None, "another name");
        assert_eq!(cache.get(&a, &cid(3)), None, "another CID");
        let large = Bytes::from(vec![0; 1 << 20]);
        for at in 0..200 {
            let domain = AgtDomain::parse(&format!("n{at}.agt")).expect("a name");
            cache.insert(&domain, &cid(2), large.clone());
        }
        assert!(cache.0.weight() <= MAX_BYTES, "{} bytes", cache.0.weight());
    }
}
