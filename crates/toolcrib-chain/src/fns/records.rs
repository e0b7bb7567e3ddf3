//! TXT records in the Freename registry (FNS): strings under the keys `record.TXT.0`, `record.TXT.1`, …
//!
//! All calls of one read are pinned to one block by its hash. Lists are decoded by hand: a general ABI decoder trusts lengths and offsets
//! before it checks that the bytes exist.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use toolcrib_core::agent::txt::{MAX_RECORDS, MAX_TOTAL_BYTES};

use crate::Error;
use crate::rpc::{BoundedCall, CallOutcome, Chain, Snapshot};

/// Maximum number of keys of one name. Besides DNS, names have keys for addresses, sites and profiles.
pub const MAX_KEYS: usize = 4096;

/// Maximum size of the list of keys: [`MAX_KEYS`] with an offset, a length and one word of text each.
const MAX_KEYS_BYTES: usize = 64 + MAX_KEYS * 96;

/// Maximum size of the list of values: [`MAX_RECORDS`] with an offset, a length and padding each, and the total bytes allowed for one name.
const MAX_VALUES_BYTES: usize = 64 + MAX_RECORDS * 96 + MAX_TOTAL_BYTES;

/// Gas for one call: the chain's block gas limit. Reading the longest lists takes half of it.
const CALL_GAS: u64 = 30_000_000;

/// Number of blocks to read behind the chain head: nodes behind a load balancer are a block or two apart, and all calls need the same one.
const PIN_LAG: u64 = 2;

sol! {
    interface IFnsRecords {
        function exists(uint256 tokenId) external view returns (bool);
        function getAllKeys(uint256 tokenId) external view returns (string[] memory);
        function getManyRecords(string[] keys, uint256 tokenId) external view returns (string[] memory);
    }
}

/// The onchain TXT records of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxtRecords {
    /// The records, in the order of their numbers. Empty values are skipped, because that is how records are removed.
    Found {
        /// The records. They may be other bytes than UTF-8.
        records: Vec<Vec<u8>>,
        /// The block of all calls.
        block: u64,
    },
    /// The name was never minted, or was burned.
    NotMinted {
        /// The block of the call.
        block: u64,
    },
}

/// Why the records could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// No node returned a result.
    #[error(transparent)]
    Chain(#[from] Error),
    /// The registry's address has no code.
    #[error("there is no contract at the address of the registry")]
    NoCode,
    /// The contract reverted or ran out of gas.
    #[error("the call of {function} on the registry reverted or ran out of gas")]
    Reverted {
        /// The function.
        function: &'static str,
    },
    /// The returned data does not decode.
    #[error("the return data of {function} on the registry does not decode")]
    Malformed {
        /// The function.
        function: &'static str,
    },
    /// More keys, records or bytes than the limits allow.
    #[error("the records of the name onchain exceed the size limit")]
    TooMuch,
}

/// Reads the TXT records of a token, pinned to one block.
pub async fn txt_records(chain: &Chain, registry: Address, token_id: U256) -> Result<TxtRecords, RecordsError> {
    match read_once(chain, registry, token_id).await {
        Err(RecordsError::Chain(Error::Reorg { .. })) => read_once(chain, registry, token_id).await,
        read => read,
    }
}

async fn read_once(chain: &Chain, registry: Address, token_id: U256) -> Result<TxtRecords, RecordsError> {
    let snapshot = chain.snapshot_at(chain.block_number().await?.saturating_sub(PIN_LAG)).await?;
    let records = read_at(&snapshot, registry, token_id).await?;
    snapshot.confirm().await?;
    Ok(records)
}

async fn read_at(snapshot: &Snapshot<'_>, registry: Address, token_id: U256) -> Result<TxtRecords, RecordsError> {
    let block = snapshot.number();
    let reader = Reader { snapshot, registry };
    let exists = IFnsRecords::existsCall { tokenId: token_id };
    let exists = reader.call("exists", exists.abi_encode(), 32).await?;
    match <[u8; 32]>::try_from(&exists[..]).map(U256::from_be_bytes) {
        Ok(word) if word.is_zero() => return Ok(TxtRecords::NotMinted { block }),
        Ok(word) if word == U256::from(1) => {}
        _ => return Err(RecordsError::Malformed { function: "exists" }),
    }
    let keys = IFnsRecords::getAllKeysCall { tokenId: token_id };
    let keys = reader.call("getAllKeys", keys.abi_encode(), MAX_KEYS_BYTES).await?;
    let keys = decode_strings(&keys, MAX_KEYS).map_err(|fault| fault.error("getAllKeys"))?;
    let keys = txt_keys(&keys);
    if keys.len() > MAX_RECORDS {
        return Err(RecordsError::TooMuch);
    }
    if keys.is_empty() {
        return Ok(TxtRecords::Found { records: Vec::new(), block });
    }
    let count = keys.len();
    let values = IFnsRecords::getManyRecordsCall { keys, tokenId: token_id };
    let values = reader.call("getManyRecords", values.abi_encode(), MAX_VALUES_BYTES).await?;
    let values = decode_strings(&values, MAX_RECORDS).map_err(|fault| fault.error("getManyRecords"))?;
    if values.len() != count {
        return Err(RecordsError::Malformed { function: "getManyRecords" });
    }
    let records = values.into_iter().filter(|value| !value.is_empty()).map(<[u8]>::to_vec).collect();
    Ok(TxtRecords::Found { records, block })
}

struct Reader<'a> {
    snapshot: &'a Snapshot<'a>,
    registry: Address,
}

impl Reader<'_> {
    async fn call(&self, function: &'static str, data: Vec<u8>, max_bytes: usize) -> Result<Bytes, RecordsError> {
        let call = BoundedCall { to: self.registry, data: data.into(), from: None, gas: Some(CALL_GAS), max_bytes };
        match self.snapshot.call(&call).await? {
            CallOutcome::Returned(bytes) if bytes.is_empty() => Err(RecordsError::NoCode),
            CallOutcome::Returned(bytes) => Ok(bytes),
            CallOutcome::TooLarge => Err(RecordsError::TooMuch),
            CallOutcome::Reverted(_) | CallOutcome::Halted(_) => Err(RecordsError::Reverted { function }),
        }
    }
}

/// Returns the keys of TXT records without duplicates, in the order of their numbers. Gaps are allowed: removing a record leaves one.
fn txt_keys(keys: &[&[u8]]) -> Vec<String> {
    let mut numbers: Vec<u32> = keys
        .iter()
        .filter_map(|key| {
            let digits = std::str::from_utf8(key.strip_prefix(b"record.TXT.")?).ok()?;
            let number = digits.parse::<u32>().ok()?;
            // Each number has one spelling.
            (number.to_string() == digits).then_some(number)
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| format!("record.TXT.{number}")).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxtRecordError {
    Malformed,
    TooMany,
}

impl TxtRecordError {
    const fn error(self, function: &'static str) -> RecordsError {
        match self {
            Self::Malformed => RecordsError::Malformed { function },
            Self::TooMany => RecordsError::TooMuch,
        }
    }
}

/// Decodes return data that consists of one list of strings.
fn decode_strings(bytes: &[u8], most: usize) -> Result<Vec<&[u8]>, TxtRecordError> {
    let list = follow(bytes, 0, 32)?;
    let count = number(list, 0)?;
    if count > most {
        return Err(TxtRecordError::TooMany);
    }
    let entries = list.get(32..).ok_or(TxtRecordError::Malformed)?;
    // Check that the offsets exist before allocating the list.
    let head = 32 * count;
    if entries.len() < head {
        return Err(TxtRecordError::Malformed);
    }
    let mut texts = Vec::with_capacity(count);
    let mut total = 0;
    for at in 0..count {
        let entry = follow(entries, at, head)?;
        let length = number(entry, 0)?;
        let text = entry.get(32..).and_then(|rest| rest.get(..length)).ok_or(TxtRecordError::Malformed)?;
        total += length;
        // Entries that share bytes would turn a small response into large output.
        if total > bytes.len() {
            return Err(TxtRecordError::Malformed);
        }
        texts.push(text);
    }
    Ok(texts)
}

/// Returns the bytes from an offset on. The offset must not point into the `head` bytes that hold the offsets.
fn follow(area: &[u8], index: usize, head: usize) -> Result<&[u8], TxtRecordError> {
    let offset = number(area, index)?;
    if offset < head { Err(TxtRecordError::Malformed) } else { area.get(offset..).ok_or(TxtRecordError::Malformed) }
}

fn number(area: &[u8], index: usize) -> Result<usize, TxtRecordError> {
    let word = area.get(32 * index..).and_then(|rest| rest.first_chunk::<32>()).ok_or(TxtRecordError::Malformed)?;
    usize::try_from(U256::from_be_bytes(*word)).map_err(|_| TxtRecordError::Malformed)
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::SolValue as _;

    use super::*;

    fn decoded(texts: &[&str], most: usize) -> Result<Vec<String>, TxtRecordError> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let bytes = texts.abi_encode();
        let found = decode_strings(&bytes, most)?;
        Ok(found.into_iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect())
    }

    #[test]
    fn lists_of_texts_decode_within_their_limits() {
        assert_eq!(decoded(&[], 0), Ok(Vec::new()));
        let long = "x".repeat(100);
        assert_eq!(decoded(&["a", "", &long], 3), Ok(vec!["a".to_owned(), String::new(), long.clone()]));
        assert_eq!(decoded(&["a", "b"], 1), Err(TxtRecordError::TooMany));
    }

    #[test]
    fn lists_that_lie_are_refused() {
        let honest = vec!["abc".to_owned(), "d".to_owned()].abi_encode();
        for length in 0..honest.len() - 31 {
            assert_eq!(decode_strings(&honest[..length], 9), Err(TxtRecordError::Malformed), "{length}");
        }
        let with = |at: usize, word: U256| {
            let mut bytes = honest.clone();
            bytes[32 * at..32 * (at + 1)].copy_from_slice(&word.to_be_bytes::<32>());
            decode_strings(&bytes, 9).map(|found| found.len())
        };
        // The offset of the list, its length, the offsets of the entries, and the length of the first.
        assert_eq!(with(0, U256::ZERO), Err(TxtRecordError::Malformed));
        assert_eq!(with(0, U256::MAX), Err(TxtRecordError::Malformed));
        assert_eq!(with(1, U256::MAX), Err(TxtRecordError::Malformed));
        assert_eq!(with(1, U256::from(10)), Err(TxtRecordError::TooMany));
        assert_eq!(with(1, U256::from(9)), Err(TxtRecordError::Malformed));
        assert_eq!(with(2, U256::ZERO), Err(TxtRecordError::Malformed));
        assert_eq!(with(3, U256::MAX), Err(TxtRecordError::Malformed));
        assert_eq!(with(4, U256::from(1_000)), Err(TxtRecordError::Malformed));
        // All offsets point to the same entry.
        let mut shared = vec![String::new(); 9].abi_encode();
        let text = 64 + 32 * 9;
        for at in 0..9 {
            shared[64 + 32 * at..96 + 32 * at].copy_from_slice(&U256::from(32 * 9).to_be_bytes::<32>());
        }
        shared[text..text + 32].copy_from_slice(&U256::from(200).to_be_bytes::<32>());
        assert_eq!(decode_strings(&shared, 9), Err(TxtRecordError::Malformed));
    }

    #[test]
    fn keys_are_taken_by_their_numbers() {
        let keys: Vec<&[u8]> = vec![
            b"record.TXT.10",
            b"crypto.ETH.address",
            b"record.TXT.2",
            b"record.TXT.2",
            b"record.TXT.02",
            b"record.TXT.+3",
            b"record.TXT.",
            b"record.txt.1",
            b"record.TXT.\xff",
            b"record.TXT.0",
        ];
        assert_eq!(txt_keys(&keys), ["record.TXT.0", "record.TXT.2", "record.TXT.10"]);
    }
}
