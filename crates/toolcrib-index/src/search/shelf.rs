//! One word index: in a folder or in memory, with one writer, and the in-memory data of each of its segments.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tantivy::directory::error::LockError;
use tantivy::directory::{Directory as _, RamDirectory};
use tantivy::index::SegmentComponent;
use tantivy::indexer::IndexWriterOptions;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, TantivyError};

use crate::Error;
use crate::model::ToolKey;
use crate::search::document::Fields;
use crate::search::files::{META, Payload, create, locked, open_copy, open_folder};
use crate::search::part::{Order, Part, SegmentColumns};

/// The memory of the writer in bytes before it begins a new segment. Little more than the engine's minimum: changes come a few at a time,
/// and building a million tools takes a minute in any case.
const WRITER_BYTES: usize = 40 << 20;

/// How often opening a folder in use is tried: with the pause between tries, two seconds altogether.
const LOCK_TRIES: usize = 21;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// How often a folder is staged again because segments were merged meanwhile.
const STAGE_TRIES: usize = 5;

/// A word index.
pub(super) struct Shelf {
    pub(super) fields: Arc<Fields>,
    folder: Option<PathBuf>,
    reader: IndexReader,
    /// `None` after it could not be reopened.
    writer: Mutex<Option<IndexWriter>>,
    current: RwLock<Arc<Snapshot>>,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shelf({} tools)", self.snapshot().searcher.num_docs())
    }
}

impl Shelf {
    /// Opens a word index, and returns the last change that it includes. An index of another format and a damaged one are recreated.
    ///
    /// A folder in use is retried for a moment: a process that is shutting down may still hold its lock, and so does a child process that
    /// another thread is spawning, until its exec.
    pub(super) fn open(from: From<'_>, fields: &Arc<Fields>, format: &str) -> Result<(Self, Option<i64>), Error> {
        let mut tries = LOCK_TRIES;
        loop {
            match Self::open_now(from, Arc::clone(fields), format) {
                Err(Error::SearchLocked { .. }) if tries > 1 => {
                    tries -= 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                opened => return opened,
            }
        }
    }

    fn open_now(from: From<'_>, fields: Arc<Fields>, format: &str) -> Result<(Self, Option<i64>), Error> {
        let (folder, (index, cursor)) = match from {
            From::Memory => (None, (create(RamDirectory::create(), &fields)?, None)),
            From::Copy(folder) => (None, open_copy(folder, &fields, format)?),
            From::Folder(folder) => (Some(folder), open_folder(folder, &fields, format)?),
        };
        let writer = open_writer(&index).map_err(|error| locked(error, folder))?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let snapshot = Snapshot::of(reader.searcher(), &HashMap::new())?;
        let folder = folder.map(Path::to_owned);
        Ok((Self { fields, folder, reader, writer: Mutex::new(Some(writer)), current: RwLock::new(Arc::new(snapshot)) }, cursor))
    }

    /// Returns its folder, if it has one.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the searchable state.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the files of the last commit into an empty folder: as hard links if possible. Nothing is committed meanwhile, but segments may
    /// be merged, which replaces files.
    pub(super) fn stage(&self, folder: &Path) -> Result<(), Error> {
        let index = self.reader.searcher().index().clone();
        let mut tries = STAGE_TRIES;
        loop {
            std::fs::create_dir(folder)?;
            match self.stage_now(&index, folder) {
                Err(_) if tries > 1 => {
                    tries -= 1;
                    std::fs::remove_dir_all(folder)?;
                }
                done => return done,
            }
        }
    }

    fn stage_now(&self, index: &Index, folder: &Path) -> Result<(), Error> {
        let meta = index.load_metas()?;
        let all = index.directory().list_managed_files();
        for segment in &meta.segments {
            let (id, deleted) = (segment.id().uuid_string(), segment.relative_path(SegmentComponent::Delete));
            let of_segment = all.iter().filter(|path| path.to_str().is_some_and(|name| name.starts_with(&id)));
            for path in of_segment.filter(|path| path.extension().is_none_or(|kind| kind != "del") || **path == deleted) {
                let target = folder.join(path);
                let is_linked = self.folder.as_ref().is_some_and(|from| std::fs::hard_link(from.join(path), &target).is_ok());
                if !is_linked {
                    // Not `open_read`, which leaves out the checksum at the end of a file.
                    std::fs::write(&target, index.directory().atomic_read(path).map_err(TantivyError::from)?)?;
                }
            }
        }
        let meta = serde_json::to_vec(&meta).map_err(|_| Error::Corrupt { what: "search index" })?;
        Ok(std::fs::write(folder.join(META), meta)?)
    }

    /// Replaces a tool; without a document it is deleted. Visible after the next commit.
    pub(super) fn replace(&self, key: ToolKey, document: Option<TantivyDocument>) -> Result<(), Error> {
        self.write(|writer| {
            writer.delete_term(self.fields.key_term(key));
            document.map_or(Ok(()), |document| writer.add_document(document).map(drop))
        })
    }

    /// Adds a new tool.
    pub(super) fn add(&self, document: TantivyDocument) -> Result<(), Error> {
        self.write(|writer| writer.add_document(document).map(drop))
    }

    /// Deletes everything.
    pub(super) fn clear(&self) -> Result<(), Error> {
        self.write(|writer| writer.delete_all_documents().map(drop))
    }

    /// Discards uncommitted changes, and opens another writer: one whose thread met a full disk accepts no more documents.
    pub(super) fn undo(&self) -> Result<(), Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The old one holds the lock of the folder.
        drop(writer.take());
        let index = self.reader.searcher().index().clone();
        let mut tries = LOCK_TRIES;
        loop {
            // As when it is opened: a child process that is being spawned may hold the lock for a moment.
            match open_writer(&index) {
                Err(TantivyError::LockFailure(LockError::LockBusy, _)) if tries > 1 => {
                    tries -= 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                opened => {
                    *writer = Some(opened?);
                    return Ok(());
                }
            }
        }
    }

    fn write<T>(&self, work: impl FnOnce(&mut IndexWriter) -> tantivy::Result<T>) -> Result<T, Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = writer.as_mut().ok_or_else(|| Error::Search { reason: "the writer is not open".to_owned() })?;
        Ok(work(writer)?)
    }

    /// Commits everything up to a change, and makes it visible.
    pub(super) fn commit(&self, format: &str, cursor: i64) -> Result<(), Error> {
        let payload = Payload { format: format.to_owned(), cursor };
        let payload = serde_json::to_string(&payload).map_err(|_| Error::Corrupt { what: "search cursor" })?;
        self.write(|writer| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&payload);
            prepared.commit()
        })?;
        self.refresh()
    }

    /// Shows segments that were merged since the last commit, so that their old files can be deleted.
    pub(super) fn refresh_if_merged(&self) -> Result<(), Error> {
        let mut now = self.reader.searcher().index().searchable_segment_ids()?;
        let mut shown: Vec<_> = self.snapshot().parts.iter().map(|part| part.reader.segment_id()).collect();
        now.sort();
        shown.sort();
        if now != shown { self.refresh() } else { Ok(()) }
    }

    /// Computes missing sort orders, as after a start, before a reader waits for them.
    pub(super) fn prepare(&self) {
        self.snapshot().prepare();
    }

    /// Shows what was committed or merged.
    pub(super) fn refresh(&self) -> Result<(), Error> {
        self.reader.reload()?;
        let before = self.snapshot();
        let known = before.parts.iter().map(|part| (part.reader.segment_id(), Arc::clone(&part.kept))).collect();
        let snapshot = Snapshot::of(self.reader.searcher(), &known)?;
        snapshot.prepare();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        Ok(())
    }
}

fn open_writer(index: &Index) -> tantivy::Result<IndexWriter> {
    let options =
        IndexWriterOptions::builder().num_worker_threads(1).num_merge_threads(1).memory_budget_per_thread(WRITER_BYTES).build();
    index.writer_with_options(options)
}

/// The source of a word index.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'f> {
    /// Empty, in memory.
    Memory,
    /// In memory, with the content of a folder.
    Copy(&'f Path),
    /// In a folder.
    Folder(&'f Path),
}

impl std::convert::From<TantivyError> for Error {
    fn from(error: TantivyError) -> Self {
        Self::Search { reason: error.to_string() }
    }
}

impl std::convert::From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Search { reason: error.to_string() }
    }
}

/// The searchable state as of one commit.
pub(super) struct Snapshot {
    pub(super) searcher: Searcher,
    pub(super) parts: Vec<Part>,
}

impl Snapshot {
    pub(super) fn of(searcher: Searcher, known: &HashMap<tantivy::index::SegmentId, Arc<SegmentColumns>>) -> Result<Self, Error> {
        let mut parts = Vec::with_capacity(searcher.segment_readers().len());
        for reader in searcher.segment_readers() {
            let kept = match known.get(&reader.segment_id()) {
                Some(kept) => Arc::clone(kept),
                None => Arc::new(SegmentColumns::of(reader)?),
            };
            parts.push(Part { reader: reader.clone(), kept });
        }
        Ok(Self { searcher, parts })
    }

    /// Computes missing sort orders before the first request, so that no request waits for them. For a million tools this takes some
    /// tenths of a second.
    fn prepare(&self) {
        for part in &self.parts {
            for order in Order::ALL {
                part.order(order);
            }
        }
    }
}
