//! How a directory behaves.

use axum::http::HeaderName;

use crate::limits::Rate;

/// How a directory behaves. The defaults are for somebody who runs his own.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who is answered.
    pub auth: Auth,
    /// Whether everybody may have a key. Where not, keys are issued by the operator alone.
    pub issues_keys: bool,
    /// How long an instant key is good for, in seconds.
    pub key_seconds: i64,
    /// Reads of one key, beside those of its caller's address.
    pub key_reads: Rate,
    /// Writes of one key, likewise.
    pub key_writes: Rate,
    /// Reads of one address without a key. `None`: as many as it likes.
    pub anonymous_reads: Option<Rate>,
    /// Writes of one address without a key.
    pub anonymous_writes: Rate,
    /// Keys that one address is given.
    pub keys_per_address: Rate,
    /// Keys that all addresses together are given.
    pub keys_in_all: Rate,
    /// Verifications on demand of tools at one origin, whoever asks.
    pub looks_per_origin: Rate,
    /// The header in which a proxy in front puts the caller's address, such as `x-forwarded-for`. Its last entry counts. Set it only
    /// where every request comes through that proxy: everybody else can write what he likes there.
    pub address_header: Option<HeaderName>,
    /// Bytes of rendered answers that are kept. 0 keeps none.
    pub cache_bytes: u64,
    /// Milliseconds between two looks at the change feed: how old an answer from the cache can be.
    pub poll_millis: u64,
    /// Fetches of images that visitors of one address cause. Images that are kept do not count.
    pub images_per_address: Rate,
    /// Fetches of images from one host, for all visitors.
    pub images_per_host: Rate,
    /// Bytes of images that are kept, at least 4 MiB.
    pub image_cache_bytes: u64,
    /// Where the directory fetches `ipfs://` images, such as `https://ipfs.example/ipfs/`. `None`: there is a placeholder.
    pub ipfs_gateway: Option<String>,
    /// What stands at the top of pages.
    pub title: String,
    /// Whether `/metrics` is served beside everything else.
    pub serves_metrics: bool,
    /// How many seconds shared caches may keep answers that name what they depend on (`surrogate`). Set it only where something purges
    /// the cache by the change feed. `None`: they keep them as browsers do, for seconds.
    pub shared_max_age: Option<u32>,
}

/// Who is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// All callers; a key adds to the limits of its caller's address. Unknown keys are refused.
    #[default]
    Open,
    /// Callers with a key.
    Required,
}

/// A week, as the public interface has it.
const KEY_SECONDS: i64 = 7 * 86_400;

/// Answers take some kilobytes each, so this keeps the front of most lists and several thousand tools.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Images of some thousand tools, at some tens of kilobytes each.
const IMAGE_CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Nobody notices a quarter of a second, and four small reads a second cost nothing.
const POLL_MILLIS: u64 = 250;

impl Default for Options {
    fn default() -> Self {
        Self {
            auth: Auth::Open,
            issues_keys: true,
            key_seconds: KEY_SECONDS,
            // As the public interface says of instant keys.
            key_reads: Rate::per_hour(600),
            key_writes: Rate::per_hour(30),
            // A person who clicks, or an agent that looks around, stays far below.
            anonymous_reads: Some(Rate::per_hour(3_600)),
            anonymous_writes: Rate::per_hour(30),
            keys_per_address: Rate::per_hour(3),
            keys_in_all: Rate::per_hour(1_000),
            looks_per_origin: Rate::per_hour(60),
            address_header: None,
            cache_bytes: CACHE_BYTES,
            poll_millis: POLL_MILLIS,
            // A visitor who leafs through pages of twenty tools stays below; the burst is sixty.
            images_per_address: Rate::per_hour(1_200),
            // A platform with many tools has as many icons, each fetched once in six hours.
            images_per_host: Rate::per_hour(600),
            image_cache_bytes: IMAGE_CACHE_BYTES,
            ipfs_gateway: None,
            title: "Toolcrib".to_owned(),
            serves_metrics: true,
            shared_max_age: None,
        }
    }
}
