//! Options of a directory.

use axum::http::HeaderName;

use crate::limits::Rate;

/// Options of a directory. The defaults are for a directory that an operator runs for private use.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who may call.
    pub auth: Auth,
    /// Whether any caller may get a key. Otherwise only the operator issues keys.
    pub issues_keys: bool,
    /// The lifetime of an instant key in seconds.
    pub key_seconds: i64,
    /// The read limit of one key, in addition to that of its caller's address.
    pub key_reads: Rate,
    /// The write limit of one key, in addition to that of its caller's address.
    pub key_writes: Rate,
    /// The read limit of one address without a key. `None`: unlimited.
    pub anonymous_reads: Option<Rate>,
    /// The write limit of one address without a key.
    pub anonymous_writes: Rate,
    /// The limit of keys issued to one address.
    pub keys_per_address: Rate,
    /// The limit of keys issued to all addresses together.
    pub keys_in_all: Rate,
    /// The limit of verifications on demand for tools at one origin, for all callers together.
    pub looks_per_origin: Rate,
    /// The header in which a proxy in front puts the caller's address, such as `x-forwarded-for`. Its last entry is used. Set it only if
    /// every request comes through that proxy: any other caller can forge it.
    pub address_header: Option<HeaderName>,
    /// The size of the response cache in bytes. 0 disables it.
    pub cache_bytes: u64,
    /// The interval of polling the change feed in milliseconds: how old a cached response can be.
    pub poll_millis: u64,
    /// The limit of image fetches caused by visitors of one address. Cached images do not count.
    pub images_per_address: Rate,
    /// The limit of image fetches from one host, for all visitors.
    pub images_per_host: Rate,
    /// The size of the image cache in bytes, at least 4 MiB.
    pub image_cache_bytes: u64,
    /// The gateway for `ipfs://` images, such as `https://ipfs.example/ipfs/`. `None`: a placeholder is served.
    pub ipfs_gateway: Option<String>,
    /// The title of pages.
    pub title: String,
    /// Whether `/metrics` is served on the same socket.
    pub serves_metrics: bool,
    /// How many seconds shared caches may keep responses with surrogate keys (`surrogate`). Set it only if a process purges the cache by
    /// the change feed. `None`: they keep them as browsers do, for seconds.
    pub shared_max_age: Option<u32>,
}

/// Who may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// All callers; a key adds to the limits of its caller's address. Unknown keys are rejected.
    #[default]
    Open,
    /// Callers with a key.
    Required,
}

/// A week, as in the public API.
const KEY_SECONDS: i64 = 7 * 86_400;

/// Responses take some kilobytes each, so this holds the first pages of most lists and several thousand tools.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Images of some thousand tools, at some tens of kilobytes each.
const IMAGE_CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Users do not notice a quarter of a second, and four small reads a second cost nothing.
const POLL_MILLIS: u64 = 250;

impl Default for Options {
    fn default() -> Self {
        Self {
            auth: Auth::Open,
            issues_keys: true,
            key_seconds: KEY_SECONDS,
            // As documented for instant keys of the public API.
            key_reads: Rate::per_hour(600),
            key_writes: Rate::per_hour(30),
            // A person who clicks, or an agent that explores, is far below.
            anonymous_reads: Some(Rate::per_hour(3_600)),
            anonymous_writes: Rate::per_hour(30),
            keys_per_address: Rate::per_hour(3),
            keys_in_all: Rate::per_hour(1_000),
            looks_per_origin: Rate::per_hour(60),
            address_header: None,
            cache_bytes: CACHE_BYTES,
            poll_millis: POLL_MILLIS,
            // A visitor who browses pages of twenty tools is below; the burst is sixty.
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
