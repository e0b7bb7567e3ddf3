//! The search index, and applying changes to it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::Mutex;

use crate::bazaar::ResourceView;
use crate::model::{RegistryId, ToolKey, ToolView};
use crate::search::document::Fields;
use crate::search::embedding::Embedding;
use crate::search::files::install;
use crate::search::held::RankedCache;
use crate::search::run::Answering;
use crate::search::shelf::{From, Shelf};
use crate::search::snapshot::{Snapshots, fetch};
use crate::search::{SearchPage, SearchQuery};
use crate::{Error, Index, MAX_TOOLS, feed};

/// The version of the document format. Increase it with each change of how documents are built; every index is then rebuilt.
const FORMAT: &str = "4";

/// The number of changes after which they are committed: a crash loses no more work than this.
const COMMIT_CHANGES: usize = 20_000;

/// An external reputation of a tool, between 0 and 1; `None` if there is none. It is read when a tool changes, and has a small weight.
pub type Reputation = Arc<dyn Fn(&ToolView) -> Option<f32> + Send + Sync>;

/// Options of search.
#[derive(Clone, Default)]
pub struct SearchOptions {
    /// The folder of the word index, so that a restart continues with it. One process at a time uses it. Without a folder the index is in
    /// memory and rebuilt at each start.
    pub folder: Option<PathBuf>,
    /// A folder with a static embedding: the unpacked package `wordllama`, or one `*.safetensors` and `tokenizer.json`.
    pub embedding: Option<PathBuf>,
    /// Snapshots in an object store: a process without an index begins with the newest one instead of reading the whole database.
    pub snapshots: Option<Snapshots>,
    /// External reputation of tools and creators.
    pub reputation: Option<Reputation>,
}

impl fmt::Debug for SearchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, embedding, snapshots, reputation } = self;
        let reputation = reputation.as_ref().map(|_| "a function");
        f.debug_struct("SearchOptions")
            .field("folder", folder)
            .field("embedding", embedding)
            .field("snapshots", snapshots)
            .field("reputation", &reputation)
            .finish()
    }
}

/// The initial content of a search index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStart {
    /// The content of its own folder.
    Folder,
    /// A snapshot of another process.
    Snapshot,
    /// Empty: everything is read from the database.
    Database,
}

impl SearchStart {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Snapshot => "snapshot",
            Self::Database => "database",
        }
    }
}

/// The names of the two parts of a search index and of their folders.
pub(super) const VERIFIED: &str = "verified";
pub(super) const UNVERIFIED: &str = "unverified";

/// Both parts, and the last change that they include.
struct Opened {
    verified: Shelf,
    unverified: Shelf,
    cursor: Option<i64>,
}

impl Opened {
    /// Opens both. A staged folder is read into memory if no folder is configured.
    fn open(folder: Option<&Path>, staged: Option<&Path>, fields: &Arc<Fields>, format: &str) -> Result<Self, Error> {
        let open = |name: &str| {
            let (folder, staged) = (folder.map(|folder| folder.join(name)), staged.map(|staged| staged.join(name)));
            let from = match (&folder, &staged) {
                (Some(folder), _) => From::Folder(folder),
                (None, Some(staged)) => From::Copy(staged),
                (None, None) => From::Memory,
            };
            Shelf::open(from, fields, format)
        };
        let (verified, cursor) = open(VERIFIED)?;
        let (unverified, other) = open(UNVERIFIED)?;
        // They are committed one after the other; changes that only one has are applied again.
        Ok(Self { verified, unverified, cursor: cursor.zip(other).map(|(cursor, other)| cursor.min(other)) })
    }

    /// Whether the feed still has all changes since its cursor. Otherwise it is outdated, and stays in use until it is rebuilt.
    async fn is_followed(&self, index: &Index) -> Result<bool, Error> {
        let Some(cursor) = self.cursor else { return Ok(false) };
        let is_beyond = cursor > index.last_change().await?;
        match index.changes(cursor, 1).await {
            Ok(_) if !is_beyond => return Ok(true),
            Ok(_) | Err(Error::Forgotten { .. }) => {}
            Err(error) => return Err(error),
        }
        tracing::info!(cursor, is_beyond, "search index does not match the change feed, rebuilding");
        Ok(false)
    }
}

/// Search over an index. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Search {
    inner: Arc<Inner>,
}

struct Inner {
    index: Index,
    verified: Shelf,
    unverified: Shelf,
    embedding: Option<Embedding>,
    reputation: Option<Reputation>,
    format: String,
    start: SearchStart,
    held: RankedCache,
    cursor: AtomicI64,
    /// Whether it has been filled. Until then an empty result means nothing.
    is_filled: AtomicBool,
    /// Whether everything must be read from the database: it was never filled, its cursor is too old, or its files are damaged.
    must_rebuild: AtomicBool,
    /// Whether a write failed, so that the writers must be reopened.
    is_broken: AtomicBool,
    /// Whether the sort orders of an existing folder were requested.
    is_prepared: AtomicBool,
    /// Held while changes are applied: one task at a time.
    feeding: Mutex<()>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("verified", &self.verified).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Search {
    /// Opens the search index. Until [`Search::catch_up`] it finds what an existing folder has; without one it is not ready.
    pub async fn open(index: Index, options: SearchOptions) -> Result<Self, Error> {
        let SearchOptions { folder, embedding, snapshots, reputation } = options;
        let kept = folder.clone();
        let (embedding, format, fields, mut opened) = blocking(move || {
            let embedding = embedding.as_deref().map(Embedding::open).transpose()?;
            let format = match &embedding {
                Some(embedding) => format!("{FORMAT} {}", embedding.fingerprint()),
                None => FORMAT.to_owned(),
            };
            let fields = Arc::new(Fields::new(embedding.is_some()));
            let opened = Opened::open(kept.as_deref(), None, &fields, &format)?;
            Ok((embedding, format, fields, opened))
        })
        .await?;
        let mut start = if opened.is_followed(&index).await? { SearchStart::Folder } else { SearchStart::Database };
        if let (SearchStart::Database, Some(snapshots)) = (start, snapshots)
            && let Some(staged) = fetch(&index, &snapshots, &format, &fields.schema, folder.as_deref()).await?
        {
            // It holds the locks of its folders.
            drop(opened);
            let (fields, format) = (Arc::clone(&fields), format.clone());
            opened = blocking(move || {
                if let Some(folder) = &folder {
                    for name in [UNVERIFIED, VERIFIED] {
                        install(&folder.join(name), &staged.path().join(name))?;
                    }
                }
                Opened::open(folder.as_deref(), Some(staged.path()), &fields, &format)
            })
            .await?;
            if opened.cursor.is_some() {
                start = SearchStart::Snapshot;
            }
        }
        let Opened { verified, unverified, cursor } = opened;
        Ok(Self {
            inner: Arc::new(Inner {
                index,
                verified,
                unverified,
                embedding,
                reputation,
                format,
                start,
                held: RankedCache::default(),
                cursor: AtomicI64::new(cursor.unwrap_or_default()),
                is_filled: AtomicBool::new(cursor.is_some()),
                must_rebuild: AtomicBool::new(start == SearchStart::Database),
                is_broken: AtomicBool::new(false),
                is_prepared: AtomicBool::new(false),
                feeding: Mutex::default(),
            }),
        })
    }

    /// Returns its initial content.
    pub fn start(&self) -> SearchStart {
        self.inner.start
    }

    pub(super) fn index(&self) -> &Index {
        &self.inner.index
    }

    pub(super) fn format(&self) -> &str {
        &self.inner.format
    }

    pub(super) fn schema(&self) -> &tantivy::schema::Schema {
        &self.inner.verified.fields.schema
    }

    /// Returns its folder, if it has one.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.inner.verified.folder().and_then(Path::parent)
    }

    /// Puts the files of both parts into an empty folder, and returns the last change that they include, and the number of tools.
    pub(super) async fn stage(&self, folder: PathBuf) -> Result<(i64, u64), Error> {
        // Nothing is committed meanwhile, so both parts and the cursor match.
        let _feeding = self.inner.feeding.lock().await;
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            inner.verified.stage(&folder.join(VERIFIED))?;
            inner.unverified.stage(&folder.join(UNVERIFIED))?;
            let count = |shelf: &Shelf| shelf.snapshot().searcher.num_docs();
            Ok((inner.cursor.load(Ordering::Acquire), count(&inner.verified) + count(&inner.unverified)))
        })
        .await
    }

    /// Applies all new changes, and returns their number. The first time everything is read from the database.
    pub async fn catch_up(&self) -> Result<usize, Error> {
        self.catch_up_from(&self.inner.index).await
    }

    /// Applies all new changes from a replica of the index. Everything of one call comes from the same replica: documents of a replica
    /// that is behind the one that the changes were read from would be taken for the newest.
    pub async fn catch_up_from(&self, index: &Index) -> Result<usize, Error> {
        let _feeding = self.inner.feeding.lock().await;
        if self.inner.is_broken.load(Ordering::Acquire) {
            self.undo().await?;
            self.inner.is_broken.store(false, Ordering::Release);
        }
        let fed = self.feed(index).await;
        if !self.inner.is_prepared.swap(true, Ordering::AcqRel) {
            // In the background: a search that comes first waits only for the one order that it needs.
            let inner = Arc::clone(&self.inner);
            tokio::task::spawn_blocking(move || {
                inner.verified.prepare();
                inner.unverified.prepare();
            });
        }
        if matches!(fed, Err(Error::Search { .. })) {
            self.inner.is_broken.store(true, Ordering::Release);
        }
        fed
    }

    async fn feed(&self, index: &Index) -> Result<usize, Error> {
        if !self.inner.must_rebuild.load(Ordering::Acquire) {
            match self.apply_changes(index).await {
                Err(Error::Forgotten { cursor, oldest }) => {
                    tracing::info!(cursor, oldest, "search index is older than the change feed, rebuilding");
                    self.inner.must_rebuild.store(true, Ordering::Release);
                }
                other => return other,
            }
        }
        let count = self.rebuild(index).await?;
        self.inner.must_rebuild.store(false, Ordering::Release);
        self.inner.is_filled.store(true, Ordering::Release);
        Ok(count + self.apply_changes(index).await?)
    }

    /// Returns the number of the last change that it includes. Zero before it was filled.
    pub fn cursor(&self) -> i64 {
        self.inner.cursor.load(Ordering::Acquire)
    }

    /// Whether it can be searched: it was filled once, and no damage was found since.
    pub fn is_ready(&self) -> bool {
        self.inner.is_filled.load(Ordering::Acquire)
    }

    /// Runs a search. It takes up to some milliseconds of CPU time and does not block. [`Error::NotReady`] before it was filled.
    pub fn run(&self, query: &SearchQuery) -> Result<SearchPage, Error> {
        if !self.is_ready() {
            return Err(Error::NotReady);
        }
        let Inner { verified, unverified, held, embedding, .. } = &*self.inner;
        let answering = Answering { verified, unverified, held, embedding: embedding.as_ref() };
        // The engine panics on files that are damaged while they are open. Reading does not change its state.
        catch_unwind(AssertUnwindSafe(|| answering.run(query))).unwrap_or_else(|_| {
            tracing::error!("search index damaged, rebuilding");
            self.inner.must_rebuild.store(true, Ordering::Release);
            self.inner.is_filled.store(false, Ordering::Release);
            Err(Error::NotReady)
        })
    }

    /// Runs a search on a blocking thread: long queries over many tools take tens of milliseconds.
    pub async fn find(&self, query: &SearchQuery) -> Result<SearchPage, Error> {
        let (search, query) = (self.clone(), query.clone());
        blocking(move || search.run(&query)).await
    }

    async fn apply_changes(&self, index: &Index) -> Result<usize, Error> {
        let (mut applied, mut waiting, mut cursor) = (0, 0, self.cursor());
        loop {
            let changes = index.changes(cursor, feed::MAX_PAGE).await?;
            if let Some(last) = changes.last() {
                let keys = changes.iter().map(|change| change.key).filter(|key| !key.is_agent());
                let mut keys: Vec<ToolKey> = keys.collect();
                keys.sort();
                keys.dedup();
                let resources = keys.split_off(keys.partition_point(|key| key.registry < RegistryId::BAZAAR));
                let views = index.tools(&keys).await?;
                let listed = index.resources_for_search(&resources).await?;
                let inner = Arc::clone(&self.inner);
                blocking(move || {
                    inner.replace(&keys, &views)?;
                    inner.replace_resources(&resources, &listed)
                })
                .await?;
                cursor = last.seq;
                waiting += changes.len();
                applied += changes.len();
            }
            if waiting >= COMMIT_CHANGES || (changes.is_empty() && waiting > 0) {
                self.commit(cursor).await?;
                waiting = 0;
            }
            if changes.is_empty() {
                if applied == 0 {
                    // Segments may have been merged since.
                    let inner = Arc::clone(&self.inner);
                    blocking(move || inner.verified.refresh_if_merged().and_then(|()| inner.unverified.refresh_if_merged()))
                        .await?;
                }
                return Ok(applied);
            }
        }
    }

    async fn rebuild(&self, index: &Index) -> Result<usize, Error> {
        // Before the first tool is read: concurrent changes are applied again.
        let cursor = index.last_change().await?;
        // Left over from a failed attempt.
        self.undo().await?;
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            inner.verified.clear()?;
            inner.unverified.clear()
        })
        .await?;
        let (mut count, mut after) = (0, None);
        loop {
            let views = index.scan(after, MAX_TOOLS).await?;
            let Some(last) = views.last() else { break };
            after = Some(last.row.key);
            count += views.len();
            let inner = Arc::clone(&self.inner);
            blocking(move || inner.add(&views)).await?;
        }
        let mut after = Some(0);
        while let Some(last) = after {
            let (views, next) = self.inner.index.scan_resources(last, MAX_TOOLS).await?;
            after = next;
            count += views.len();
            let inner = Arc::clone(&self.inner);
            blocking(move || inner.add_resources(&views)).await?;
        }
        self.commit(cursor).await?;
        Ok(count)
    }

    /// Discards uncommitted changes.
    async fn undo(&self) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.verified.undo().and_then(|()| inner.unverified.undo())).await
    }

    async fn commit(&self, cursor: i64) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            inner.unverified.commit(&inner.format, cursor)?;
            inner.verified.commit(&inner.format, cursor)?;
            inner.cursor.store(cursor, Ordering::Release);
            Ok(())
        })
        .await
    }
}

impl Inner {
    /// Replaces tools by their current state.
    fn replace(&self, keys: &[ToolKey], views: &[ToolView]) -> Result<(), Error> {
        // Both are in key order; deleted tools are missing.
        let mut views = views.iter().peekable();
        for key in keys {
            let view = views.next_if(|view| view.row.key == *key).filter(|view| view.moderation.is_none());
            let (verified, unverified) = match view.map(|view| (view.is_listed(), self.document(view))) {
                Some((true, document)) => (Some(document), None),
                Some((false, document)) => (None, Some(document)),
                None => (None, None),
            };
            self.verified.replace(*key, verified)?;
            self.unverified.replace(*key, unverified)?;
        }
        Ok(())
    }

    fn add(&self, views: &[ToolView]) -> Result<(), Error> {
        for view in views.iter().filter(|view| view.moderation.is_none()) {
            let shelf = if view.is_listed() { &self.verified } else { &self.unverified };
            shelf.add(self.document(view))?;
        }
        Ok(())
    }

    /// Replaces resources by their current state. They are never in the verified part.
    fn replace_resources(&self, keys: &[ToolKey], views: &[ResourceView]) -> Result<(), Error> {
        let mut views = views.iter().peekable();
        for key in keys {
            let view = views.next_if(|view| view.key() == *key);
            self.unverified.replace(*key, view.map(|view| self.unverified.fields.resource(view, self.embedding.as_ref())))?;
        }
        Ok(())
    }

    fn add_resources(&self, views: &[ResourceView]) -> Result<(), Error> {
        views.iter().try_for_each(|view| self.unverified.add(self.unverified.fields.resource(view, self.embedding.as_ref())))
    }

    fn document(&self, view: &ToolView) -> tantivy::TantivyDocument {
        let reputation = self.reputation.as_ref().and_then(|reputation| reputation(view));
        self.verified.fields.document(view, self.embedding.as_ref(), reputation)
    }
}

/// Runs CPU or disk work on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Search { reason: error.to_string() })?
}
