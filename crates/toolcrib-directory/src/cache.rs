//! A cache of rendered responses, valid until the data behind them changes.
//!
//! A response is a function of its path and query, its form and a version. The version of a list is the number of the last change of the
//! feed; that of a tool is the number of the tool's last change, read from a fixed-size table into which tools are hashed: a collision
//! only costs an unnecessary rendering. Old versions are never requested again and are evicted.
//!
//! Versions are read before the database is, so a response cached under a version is at least as new.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use quick_cache::sync::{Cache as Kept, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, Weighter};
use tokio::time::Instant;

use crate::view::BAZAAR;

/// Entries of the version table: half a megabyte.
const PLACES: usize = 65_536;

/// The maximum length in bytes of a path and query whose response is cached. Longer ones are rarely requested twice.
const MAX_KEY_BYTES: usize = 1_024;

/// The approximate memory of a response in addition to its body.
const OVERHEAD: u64 = 1_024;

/// A cached response.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The `ETag` of a success.
    pub(crate) etag: Option<HeaderValue>,
    /// When it was rendered.
    pub(crate) made: Instant,
    /// Whether it is an error because the database is unavailable.
    pub(crate) is_outage: bool,
    /// Whether it is served although it may be outdated.
    pub(crate) is_stale: bool,
}

/// How long a response is cached at most, whatever the feed says: a verification with the same result is not a change, but has a new time.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The number of list versions that are remembered: half a minute of responses, if the feed is read every second or two.
const RECENT: usize = 16;

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) is_markdown: bool,
    pub(crate) coding: Coding,
}

/// The content encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Brotli,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    address: Box<str>,
    form: Form,
    version: i64,
}

/// A borrowed key for lookups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef<'a> {
    pub(crate) address: &'a str,
    pub(crate) form: Form,
    pub(crate) version: i64,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyRef { address: &self.address, form: self.form, version: self.version }.hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
        self.form.hash(state);
        self.version.hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.version == key.version && self.form == key.form && *self.address == *key.address
    }
}

impl From<&KeyRef<'_>> for Key {
    fn from(key: &KeyRef<'_>) -> Self {
        Self { address: key.address.into(), form: key.form, version: key.version }
    }
}

#[derive(Clone, Debug)]
struct Bytewise;

impl Weighter<Key, Arc<Entry>> for Bytewise {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        OVERHEAD + (key.address.len() + entry.body.len()) as u64
    }
}

/// The cached responses, and the versions of their data.
#[derive(Debug)]
pub(crate) struct Cache {
    kept: Option<Kept<Key, Arc<Entry>, Bytewise>>,
    /// The maximum size of one response in bytes: a sixty-fourth of all.
    largest: usize,
    all: AtomicI64,
    agents: AtomicI64,
    tools: Box<[AtomicI64]>,
    /// The previous version of each tool.
    before: Box<[AtomicI64]>,
    /// The last versions of lists, the newest last.
    recent: Mutex<VecDeque<i64>>,
}

/// The data that a response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One tool, by its entry in the table.
    Tool(usize),
    /// Every tool.
    All,
    /// Every agent.
    Agents,
    /// One agent, and the tools at its endpoints.
    Agent,
    /// Nothing that changes.
    Nothing,
}

impl Cache {
    /// Creates a cache of this number of bytes. With zero it caches no responses, but has versions.
    pub(crate) fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / 4_096).unwrap_or(usize::MAX).clamp(64, 1_000_000);
        let kept =
            (bytes > 0).then(|| Kept::with(items, bytes, Bytewise, DefaultHashBuilder::default(), DefaultLifecycle::default()));
        let largest = usize::try_from(bytes / 64).unwrap_or(usize::MAX);
        Self {
            kept,
            largest,
            all: AtomicI64::new(-1),
            agents: AtomicI64::new(0),
            tools: (0..PLACES).map(|_| AtomicI64::new(0)).collect(),
            before: (0..PLACES).map(|_| AtomicI64::new(0)).collect(),
            recent: Mutex::default(),
        }
    }

    /// Returns what the response to a request depends on. `None` when it must not be cached.
    pub(crate) fn scope(&self, path: &str, query: Option<&str>) -> Option<Scope> {
        self.kept.as_ref()?;
        let query = query.unwrap_or_default();
        // Before the feed was read for the first time, versions are not known.
        if path.len() + query.len() > MAX_KEY_BYTES || self.last() < 0 {
            return None;
        }
        if let Some(rest) = path.strip_prefix("/api/v2/tools") {
            return match rest {
                "" => Some(Scope::All),
                // A query with another spelling of the parameter is not cached either, because the response itself is private. This check
                // only avoids waiting.
                "/search" if query.contains("callable_by") => None,
                "/search" => Some(Scope::All),
                _ => {
                    let mut parts = rest.strip_prefix('/')?.splitn(4, '/');
                    let (chain, registry, id) = (parts.next()?, parts.next()?, parts.next()?);
                    // A resource also depends on the tool with the same endpoint.
                    (parts.next().is_none() && registry != BAZAAR).then(|| Scope::Tool(place(chain, registry, id)))
                }
            };
        }
        let agents = path.strip_prefix("/api/v2").unwrap_or(path).strip_prefix("/agents");
        if agents.is_some_and(|rest| rest.is_empty() || (rest.starts_with('/') && rest.matches('/').count() == 1)) {
            return Some(if agents == Some("") { Scope::Agents } else { Scope::Agent });
        }
        if let Some(rest) = path.strip_prefix("/tools/") {
            let mut parts = rest.splitn(3, '/');
            let (chain, registry, id) = (parts.next()?, parts.next()?, parts.next()?);
            return (registry != BAZAAR).then(|| Scope::Tool(place(chain, registry, id)));
        }
        match path {
            "/" => Some(Scope::All),
            "/openapi.json" | "/style.css" => Some(Scope::Nothing),
            _ => None,
        }
    }

    /// Returns the number of the last change of the tool in a path, or of everything when the tool is unknown.
    pub(crate) fn tool_version(&self, path: &str) -> Option<i64> {
        let rest = ["/api/v2/tools/", "/tools/", "/images/"].iter().find_map(|prefix| path.strip_prefix(prefix))?;
        let mut parts = rest.splitn(4, '/');
        let (chain, registry, id) = (parts.next()?, parts.next()?, parts.next()?);
        Some(self.version(Scope::Tool(place(chain, registry, id))))
    }

    /// Returns the version of a scope.
    pub(crate) fn version(&self, scope: Scope) -> i64 {
        match scope {
            Scope::Tool(place) => self.tools[place % PLACES].load(Ordering::Acquire),
            Scope::All => self.last(),
            Scope::Agents => self.agents.load(Ordering::Acquire),
            // Neither ever decreases, so the sum changes when one of them does.
            Scope::Agent => self.agents.load(Ordering::Acquire).saturating_add(self.last().max(0)),
            Scope::Nothing => 0,
        }
    }

    /// Returns the number of the last change that responses include.
    pub(crate) fn last(&self) -> i64 {
        self.all.load(Ordering::Acquire)
    }

    /// Records a change of a tool.
    pub(crate) fn changed(&self, chain: u64, registry: &str, id: &str, seq: i64) {
        let mut buffer = String::new();
        let _ = std::fmt::Write::write_fmt(&mut buffer, format_args!("{chain}"));
        let place = place(&buffer, registry, id);
        let before = self.tools[place].fetch_max(seq, Ordering::AcqRel);
        if before < seq {
            self.before[place].store(before, Ordering::Release);
        }
    }

    /// Records that everything may have changed.
    pub(crate) fn all_changed(&self, seq: i64) {
        for (version, before) in self.tools.iter().zip(&self.before) {
            let last = version.fetch_max(seq, Ordering::AcqRel);
            if last < seq {
                before.store(last, Ordering::Release);
            }
        }
    }

    /// Records that responses include all changes of agents up to this one.
    pub(crate) fn agents_reached(&self, last: i64) {
        self.agents.fetch_max(last, Ordering::AcqRel);
    }

    /// Records that responses include all changes up to this one.
    pub(crate) fn reached(&self, seq: i64) {
        let before = self.all.fetch_max(seq, Ordering::AcqRel);
        if before < seq {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.push_back(before);
            if recent.len() > RECENT {
                recent.pop_front();
            }
        }
    }

    /// Returns the newest cached response, for use when no new one can be rendered.
    pub(crate) fn last_known(&self, key: &KeyRef<'_>, scope: Scope) -> Option<Arc<Entry>> {
        let kept = self.kept.as_ref()?;
        let older: Vec<i64> = match scope {
            Scope::Tool(place) => vec![self.before[place % PLACES].load(Ordering::Acquire)],
            Scope::All => self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().copied().collect(),
            Scope::Agents | Scope::Agent | Scope::Nothing => Vec::new(),
        };
        let versions = std::iter::once(key.version).chain(older);
        versions.filter_map(|version| kept.get(&KeyRef { version, ..*key })).find(|entry| entry.etag.is_some())
    }

    pub(crate) fn get(&self, key: &KeyRef<'_>) -> Option<Arc<Entry>> {
        let kept = self.kept.as_ref()?;
        kept.get(key).filter(|entry| !entry.is_stale && entry.made.elapsed() <= MAX_AGE)
    }

    /// Returns the cached response, or one that `render` creates. Concurrent requests for the same response wait for it and share it. A
    /// response that is too large or not a success is shared with those that wait, and then dropped.
    pub(crate) async fn get_or<F>(&self, key: &KeyRef<'_>, render: F) -> Arc<Entry>
    where
        F: Future<Output = Entry>,
    {
        let Some(kept) = &self.kept else { return Arc::new(render.await) };
        let owned = Key::from(key);
        if kept.get(key).is_some_and(|entry| entry.is_stale || entry.made.elapsed() > MAX_AGE) {
            kept.remove(key);
        }
        match kept.get_value_or_guard_async(&owned).await {
            Ok(entry) => entry,
            Err(guard) => {
                let entry = Arc::new(render.await);
                // A response that is marked as private is not cached, however it was requested.
                let is_private = entry.headers.get(CACHE_CONTROL).is_some_and(|value| value == "no-store");
                let is_kept = entry.etag.is_some() && entry.body.len() <= self.largest && !is_private;
                // The guard fails when another insertion was faster, which is fine.
                let _ = guard.insert(entry.clone());
                if !is_kept {
                    kept.remove(key);
                }
                entry
            }
        }
    }

    /// Returns hits, misses and bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.kept.as_ref().map_or(0, Kept::weight)
    }
}

/// Returns the entry of a tool in the table. Addresses may differ in case only.
fn place(chain: &str, registry: &str, id: &str) -> usize {
    // FNV-1a: the table is not worth attacking, since a collision costs one rendering.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in
        chain.bytes().chain([b'/']).chain(registry.bytes().map(|byte| byte.to_ascii_lowercase())).chain([b'/']).chain(id.bytes())
    {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    usize::try_from((hash ^ (hash >> 32)) % PLACES as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_touches_its_tool_and_every_list() {
        let cache = Cache::new(1 << 20);
        assert_eq!(cache.scope("/api/v2/tools", None), None, "nothing is known yet");
        cache.reached(7);
        let of = |path: &str| cache.scope(path, None).map(|scope| cache.version(scope));
        assert_eq!(of("/api/v2/tools"), Some(7));
        let (one, other) = ("/api/v2/tools/8453/0xAB/7", "/tools/8453/0xab/8");
        assert_eq!((of(one), of(other)), (Some(0), Some(0)));
        cache.changed(8453, "0xab", "7", 8);
        assert_eq!((of(one), of(other), of("/")), (Some(8), Some(0), Some(7)));
        cache.reached(8);
        assert_eq!(of("/"), Some(8));
        cache.all_changed(9);
        assert_eq!((of(one), of(other)), (Some(9), Some(9)));
        cache.agents_reached(3);
        for (path, version) in [("/agents", 3), ("/agents/a.agt", 11), ("/api/v2/agents", 3), ("/api/v2/agents/a.agt", 11)] {
            assert_eq!(of(path), Some(version), "{path}");
        }
        cache.reached(9);
        assert_eq!((of("/agents"), of("/agents/a.agt")), (Some(3), Some(12)), "the page of an agent shows tools");
        for path in [
            "/agentsx",
            "/api/v2/agents/a.agt/report",
            "/api/v2/tools/8453/0xab/7/can_call",
            "/api/v2/tools/8453/0xab/7/verify",
            "/api/v2/stats",
            "/health",
            "/api/v2/tools/8453",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
        assert_eq!(cache.scope("/api/v2/tools/search", Some("callable_by=0x")), None);
    }

    #[tokio::test]
    async fn what_is_not_to_be_stored_is_not() {
        let cache = Cache::new(1 << 20);
        let made = |control: &'static str| Entry {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static(control))]),
            body: Bytes::from_static(b"{}"),
            etag: Some(HeaderValue::from_static("\"x\"")),
            made: Instant::now(),
            is_outage: false,
            is_stale: false,
        };
        let form = Form { is_markdown: false, coding: Coding::Identity };
        // Another spelling of callable_by, which a check of the query text does not find.
        let private = KeyRef { address: "/api/v2/tools/search?callable%5Fby=0x", form, version: 1 };
        cache.get_or(&private, async { made("no-store") }).await;
        assert!(cache.get(&private).is_none());
        let public = KeyRef { address: "/api/v2/tools/search?query=x", form, version: 1 };
        cache.get_or(&public, async { made("public, max-age=5") }).await;
        assert!(cache.get(&public).is_some());
    }
}
