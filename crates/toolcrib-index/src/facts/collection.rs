//! Metadata of collections: name and symbol from the chain, images and prices from the operator's provider.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use futures_util::future::BoxFuture;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::image::{ImageKind, ImageUri};
use toolcrib_judge::Untrusted;

use crate::listing::CollectionFacts;

/// The maximum number of collections of one tool whose names are read. Gates have one, composites three.
pub const MAX_COLLECTIONS: usize = 8;

/// The maximum length of a name or symbol in bytes. Longer ones are advertisements.
const MAX_TEXT_BYTES: usize = 256;

/// The gas for each call: eight words of storage and the code around them, with a margin.
const TEXT_GAS: u64 = 200_000;

/// How long names are cached. They hardly ever change, and a popular collection gates many tools.
const REMEMBERED_SECONDS: i64 = 86_400;

/// The maximum number of cached collections, at some hundred bytes each.
const MAX_REMEMBERED: usize = 4_096;

/// `name()` and `symbol()`.
const NAME: [u8; 4] = [0x06, 0xfd, 0xde, 0x03];
const SYMBOL: [u8; 4] = [0x95, 0xd8, 0x9b, 0x41];

/// A source of images and floor prices of collections. The index has none built in, and asks on each verification: the provider caches
/// results for as long as they are valid, and responds in seconds.
pub trait CollectionProvider: fmt::Debug + Send + Sync {
    /// Returns the provider's data about a collection.
    fn collection(&self, chain: u64, contract: Address) -> BoxFuture<'_, Option<Provided>>;
}

/// A provider's data about a collection. Untrusted text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provided {
    /// The URL of an image.
    pub image: Option<String>,
    /// The floor price as text.
    pub floor_price: Option<String>,
}

/// Name and symbol of a contract.
type Names = (Option<String>, Option<String>);

/// The cached names, each with its expiry.
type Known = HashMap<(u64, Address), (Names, UnixTime)>;

/// Reads collections, with a cache. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collections {
    provider: Option<Arc<dyn CollectionProvider>>,
    known: Arc<Mutex<Known>>,
}

impl Collections {
    pub(crate) fn with(provider: Arc<dyn CollectionProvider>) -> Self {
        Self { provider: Some(provider), known: Arc::default() }
    }

    /// Reads the metadata of these contracts. A contract that does not respond has no name, which is not an error.
    pub(crate) async fn read(&self, chain: &Chain, contracts: &[Address], now: UnixTime) -> BTreeMap<Address, CollectionFacts> {
        let mut found = BTreeMap::new();
        for contract in contracts.iter().take(MAX_COLLECTIONS) {
            let key = (chain.chain_id(), *contract);
            let known = self.lock().get(&key).filter(|(_, until)| now < *until).map(|(names, _)| names.clone());
            let (name, symbol) = match known {
                Some(names) => names,
                None => {
                    let names = (text(chain, *contract, NAME).await, text(chain, *contract, SYMBOL).await);
                    let mut known = self.lock();
                    if known.len() >= MAX_REMEMBERED {
                        known.clear();
                    }
                    known.insert(key, (names.clone(), now.plus(REMEMBERED_SECONDS)));
                    names
                }
            };
            let Provided { image, floor_price } = self.provided(chain.chain_id(), *contract).await;
            let facts = CollectionFacts { name, symbol, image, floor_price };
            found.insert(*contract, facts);
        }
        found
    }

    /// Returns the provider's data in a form that may be shown.
    async fn provided(&self, chain: u64, contract: Address) -> Provided {
        let provided = match &self.provider {
            Some(provider) => provider.collection(chain, contract).await.unwrap_or_default(),
            None => Provided::default(),
        };
        let shown = |uri: &String| {
            matches!(ImageUri::classify(uri), ImageKind::Https(_) | ImageKind::Ipfs)
                && uri.len() <= toolcrib_core::url::MAX_URL_BYTES
        };
        Provided {
            image: provided.image.filter(shown),
            floor_price: provided.floor_price.map(|price| Untrusted::new(&price).to_string()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a short text from a contract, escaped.
async fn text(chain: &Chain, contract: Address, selector: [u8; 4]) -> Option<String> {
    let data = selector.to_vec().into();
    let call = BoundedCall { to: contract, data, from: None, gas: Some(TEXT_GAS), max_bytes: 64 + MAX_TEXT_BYTES };
    match chain.call(&call).await {
        Ok(CallOutcome::Returned(bytes)) => decode(&bytes).map(|text| Untrusted::new(&text).to_string()),
        _ => None,
    }
}

/// Decodes an ABI string, or the 32 bytes that some old tokens return.
fn decode(bytes: &[u8]) -> Option<String> {
    let (first, rest) = bytes.split_first_chunk::<32>()?;
    let text = if rest.is_empty() {
        first.split(|byte| *byte == 0).next()?
    } else {
        if U256::from_be_bytes(*first) != U256::from(32) {
            return None;
        }
        let length = usize::try_from(U256::from_be_bytes(*rest.first_chunk::<32>()?)).ok()?;
        rest.get(32..32_usize.checked_add(length)?).filter(|text| text.len() <= MAX_TEXT_BYTES)?
    };
    std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::SolValue;

    use super::*;

    #[test]
    fn names_are_short_texts() {
        assert_eq!(decode(&"Apes".abi_encode()).as_deref(), Some("Apes"));
        let mut old = [0; 32];
        old[..3].copy_from_slice(b"MKR");
        assert_eq!(decode(&old).as_deref(), Some("MKR"));
        assert_eq!(decode(&"x".repeat(257).abi_encode()), None);
        assert_eq!(decode(&[0xff; 96]), None);
        assert_eq!(decode(&[0; 96]), None);
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[0; 32]), None);
    }
}
