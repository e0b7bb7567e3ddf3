//! One index of words: in a folder or in memory, with one writer, and what is kept in memory of each of its segments.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tantivy::columnar::{Column, ColumnValues};
use tantivy::directory::error::{LockError, OpenDirectoryError};
use tantivy::directory::{Directory as _, INDEX_WRITER_LOCK, MmapDirectory, RamDirectory};
use tantivy::index::SegmentComponent;
use tantivy::indexer::IndexWriterOptions;
use tantivy::schema::IndexRecordOption;
use tantivy::store::Compressor;
use tantivy::{
    BitSet, DocId, DocSet as _, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher, SegmentReader,
    TERMINATED, TantivyDocument, TantivyError, Term,
};

use crate::Error;
use crate::model::ToolKey;
use crate::search::document::{Fields, column, key_of};
use crate::search::embedding::{COLUMNS, DIMENSIONS, Vector};
use crate::search::rank::Packed;
use crate::search::words::{GIVEN, Given};

/// Memory of the writer before it begins a new segment, in bytes. Little more than the least that the engine takes: changes come a few at a
/// time, and building a million tools takes a minute in any case.
const WRITER_BYTES: usize = 40 << 20;

/// Largest index whose files are all read and checked when it is opened: some 60 MB, a tenth of a second.
const CHECKED_TOOLS: u64 = 50_000;

/// Most filters whose tools are kept as bits, for each segment. A bit for each of a million tools is 125 kB.
const MAX_BITS: usize = 64;

/// How often a folder that is in use is tried, and the pause between: two seconds altogether.
const LOCK_TRIES: usize = 21;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// How often a folder is staged anew because segments were merged meanwhile.
const STAGE_TRIES: usize = 5;

/// Files of the engine: what an index has, and which files it looks after.
pub(super) const META: &str = "meta.json";
const MANAGED: &str = ".managed.json";

/// An index of words.
pub(super) struct Shelf {
    pub(super) fields: Arc<Fields>,
    folder: Option<PathBuf>,
    reader: IndexReader,
    /// `None` after one could not be opened again.
    writer: Mutex<Option<IndexWriter>>,
    current: RwLock<Arc<Snapshot>>,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shelf({} tools)", self.snapshot().searcher.num_docs())
    }
}

/// What is written with each commit.
#[derive(Serialize, Deserialize)]
struct Payload {
    format: String,
    cursor: i64,
}

impl Shelf {
    /// Opens a shelf, and says up to which change it is filled. One that is of another format or broken is begun anew.
    ///
    /// A folder that is in use is tried again for a moment: a process that is ending may still hold it, and so does a child
    /// that another thread is starting, until it runs its own program.
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

    /// The folder that it is kept in, if it is kept.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What can be found now.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the files of what was last committed into an empty folder: as links where that is possible. Nothing is committed meanwhile, but
    /// segments may be merged, which replaces files.
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

    /// Replaces a tool; without a document it is gone. Seen after the next commit.
    pub(super) fn replace(&self, key: ToolKey, document: Option<TantivyDocument>) -> Result<(), Error> {
        self.write(|writer| {
            writer.delete_term(self.fields.key_term(key));
            document.map_or(Ok(()), |document| writer.add_document(document).map(drop))
        })
    }

    /// Adds a tool that is not there.
    pub(super) fn add(&self, document: TantivyDocument) -> Result<(), Error> {
        self.write(|writer| writer.add_document(document).map(drop))
    }

    /// Removes everything.
    pub(super) fn clear(&self) -> Result<(), Error> {
        self.write(|writer| writer.delete_all_documents().map(drop))
    }

    /// Forgets what was not committed, and opens another writer: one whose thread met a full disk takes nothing any more.
    pub(super) fn undo(&self) -> Result<(), Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The old one holds the lock of the folder.
        drop(writer.take());
        let index = self.reader.searcher().index().clone();
        let mut tries = LOCK_TRIES;
        loop {
            // As when it is opened: a child that is being started may hold the lock for a moment.
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

    /// Makes everything up to a change durable, and visible.
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

    /// Shows segments that were merged since the last commit, so that their old files can go.
    pub(super) fn refresh_if_merged(&self) -> Result<(), Error> {
        let mut now = self.reader.searcher().index().searchable_segment_ids()?;
        let mut shown: Vec<_> = self.snapshot().parts.iter().map(|part| part.reader.segment_id()).collect();
        now.sort();
        shown.sort();
        if now != shown { self.refresh() } else { Ok(()) }
    }

    /// Puts tools in order that were not yet, as after a start, before a reader waits for it.
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

fn create(directory: impl Into<Box<dyn tantivy::Directory>>, fields: &Fields) -> Result<Index, Error> {
    let settings = IndexSettings { docstore_compression: Compressor::None, ..IndexSettings::default() };
    let index = Index::create(directory, fields.schema.clone(), settings)?;
    index.tokenizers().register(GIVEN, Given);
    Ok(index)
}

/// Where an index of words comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'f> {
    /// It begins empty, in memory.
    Memory,
    /// It is in memory, with what a folder has.
    Copy(&'f Path),
    /// It is in a folder.
    Folder(&'f Path),
}

/// Replaces what is in a folder by staged files. Until the last of them is there, which is renamed, the folder has no index.
pub(super) fn install(folder: &Path, staged: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    let directory =
        MmapDirectory::open(folder).map_err(|error: OpenDirectoryError| Error::Search { reason: error.to_string() })?;
    let _lock = directory
        .acquire_lock(&INDEX_WRITER_LOCK)
        .map_err(|error| locked(TantivyError::LockFailure(error, None), Some(folder)))?;
    std::fs::remove_file(folder.join(META)).or_else(missing_is_fine)?;
    remove_ours(folder)?;
    let names = names_in(staged)?;
    std::fs::write(folder.join(MANAGED), managed(&names)?)?;
    for name in names.iter().filter(|name| *name != META) {
        std::fs::rename(staged.join(name), folder.join(name))?;
    }
    std::fs::File::open(folder)?.sync_all()?;
    std::fs::rename(staged.join(META), folder.join(META))?;
    Ok(std::fs::File::open(folder)?.sync_all()?)
}

fn missing_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The names of the files in a folder.
pub(super) fn names_in(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// What the engine writes about the files that it looks after: those that are not in it are never removed.
fn managed(names: &[String]) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(names).map_err(|_| Error::Corrupt { what: "search index" })
}

/// Reads what a folder has into memory.
fn open_copy(folder: &Path, fields: &Fields, format: &str) -> Result<(Index, Option<i64>), Error> {
    let directory = RamDirectory::create();
    let names = names_in(folder)?;
    for name in &names {
        directory.atomic_write(Path::new(name), &std::fs::read(folder.join(name))?)?;
    }
    directory.atomic_write(Path::new(MANAGED), &managed(&names)?)?;
    match catch_unwind(AssertUnwindSafe(|| open_kept(&directory, fields, format))) {
        Ok(Ok(Some((index, cursor)))) => Ok((index, Some(cursor))),
        other => {
            let error = other.ok().and_then(Result::err).map(|error| error.to_string());
            let code = toolcrib_core::codes::objects::SNAPSHOT_DAMAGED;
            tracing::warn!(code = code.id(), error, "the search snapshot cannot be opened, building from the database");
            Ok((create(RamDirectory::create(), fields)?, None))
        }
    }
}

fn open_folder(folder: &Path, fields: &Fields, format: &str) -> Result<(Index, Option<i64>), Error> {
    let io = |error: std::io::Error| Error::Search { reason: format!("{}: {error}", folder.display()) };
    std::fs::create_dir_all(folder).map_err(io)?;
    let directory =
        MmapDirectory::open(folder).map_err(|error: OpenDirectoryError| Error::Search { reason: error.to_string() })?;
    // Nobody else may be writing while it is looked at and perhaps thrown away.
    let _lock = directory
        .acquire_lock(&INDEX_WRITER_LOCK)
        .map_err(|error| locked(TantivyError::LockFailure(error, None), Some(folder)))?;
    // The engine panics on files that are cut off.
    let kept = catch_unwind(AssertUnwindSafe(|| open_kept(&directory, fields, format)));
    match kept.unwrap_or_else(|_| Err(Error::Search { reason: "a file is damaged".to_owned() })) {
        Ok(Some((index, cursor))) => return Ok((index, Some(cursor))),
        Ok(None) => {}
        Err(error) => tracing::warn!(folder = %folder.display(), %error, "the search index is unreadable and made anew"),
    }
    remove_ours(folder).map_err(io)?;
    let directory =
        MmapDirectory::open(folder).map_err(|error: OpenDirectoryError| Error::Search { reason: error.to_string() })?;
    Ok((create(directory, fields)?, None))
}

fn remove_ours(folder: &Path) -> std::io::Result<()> {
    for name in names_in(folder)?.iter().filter(|name| is_ours(name)) {
        std::fs::remove_file(folder.join(name))?;
    }
    Ok(())
}

/// What is in a directory, if it can be read and is of this format.
fn open_kept<D: tantivy::Directory + Clone>(directory: &D, fields: &Fields, format: &str) -> Result<Option<(Index, i64)>, Error> {
    if !Index::exists(directory).map_err(TantivyError::from)? {
        return Ok(None);
    }
    let index = Index::open(directory.clone())?;
    let Some(payload) = index.load_metas()?.payload else { return Ok(None) };
    let Ok(payload) = serde_json::from_str::<Payload>(&payload) else { return Ok(None) };
    if index.schema() != fields.schema || payload.format != format {
        return Ok(None);
    }
    index.tokenizers().register(GIVEN, Given);
    // Where it takes no time everything is read and compared with its checksum; larger ones are only opened, which shows what is missing.
    if index.load_metas()?.segments.iter().map(|segment| u64::from(segment.max_doc())).sum::<u64>() <= CHECKED_TOOLS
        && !index.validate_checksum()?.is_empty()
    {
        return Err(Error::Search { reason: "a checksum is wrong".to_owned() });
    }
    Snapshot::of(index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?.searcher(), &HashMap::new())?;
    Ok(Some((index, payload.cursor)))
}

/// Whether a file is one that the engine writes. Nothing else in a folder is ever removed.
pub(super) fn is_ours(name: &str) -> bool {
    let is_segment = |name: &str| {
        name.split_once('.').is_some_and(|(id, _)| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    name == META || name == MANAGED || is_segment(name)
}

fn locked(error: TantivyError, folder: Option<&Path>) -> Error {
    match (error, folder) {
        (TantivyError::LockFailure(LockError::LockBusy, _), Some(folder)) => {
            Error::SearchLocked { folder: folder.display().to_string() }
        }
        (error, _) => error.into(),
    }
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

/// What could be found at one moment.
pub(super) struct Snapshot {
    pub(super) searcher: Searcher,
    pub(super) parts: Vec<Part>,
}

impl Snapshot {
    fn of(searcher: Searcher, known: &HashMap<tantivy::index::SegmentId, Arc<Kept>>) -> Result<Self, Error> {
        let mut parts = Vec::with_capacity(searcher.segment_readers().len());
        for reader in searcher.segment_readers() {
            let kept = match known.get(&reader.segment_id()) {
                Some(kept) => Arc::clone(kept),
                None => Arc::new(Kept::of(reader)?),
            };
            parts.push(Part { reader: reader.clone(), kept });
        }
        Ok(Self { searcher, parts })
    }

    /// Sorts what was not sorted yet, before the first request, so that no request waits for it. For a million tools it takes some tenths of a
    /// second.
    fn prepare(&self) {
        for part in &self.parts {
            for order in Order::ALL {
                part.order(order);
            }
        }
    }
}

/// A segment at one moment.
pub(super) struct Part {
    pub(super) reader: SegmentReader,
    kept: Arc<Kept>,
}

type Values = Arc<dyn ColumnValues<u64>>;

/// What is kept in memory of a segment. A segment never changes, but for tools that are taken out of it.
struct Kept {
    registry: Values,
    id: [Values; 4],
    registered: Values,
    payers: Values,
    merit: Values,
    signals: [Values; 2],
    price: Column<u64>,
    vector: Vec<Column<u64>>,
    orders: [OnceLock<Vec<DocId>>; 3],
    /// The place of each document in the order of keys.
    ranks: OnceLock<Vec<u32>>,
    bits: Mutex<HashMap<Term, Arc<BitSet>>>,
}

/// An order of all tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The best standing first.
    Merit,
    /// The newest first.
    Newest,
    /// The most payers first.
    MostUsed,
}

impl Order {
    const ALL: [Self; 3] = [Self::Merit, Self::Newest, Self::MostUsed];
}

impl Kept {
    fn of(reader: &SegmentReader) -> Result<Self, Error> {
        let columns = reader.fast_fields();
        let values = |name: &str| columns.column_first_or_default::<u64>(name);
        let optional = |name: &str| {
            let column = columns.column_opt::<u64>(name)?;
            Ok::<_, TantivyError>(column.unwrap_or_else(|| Column::build_empty_column(reader.max_doc())))
        };
        let [id0, id1, id2, id3] = column::ID;
        let [first, second] = column::SIGNALS;
        let has_vectors = reader.schema().get_field(COLUMNS[0]).is_ok();
        Ok(Self {
            registry: values(column::REGISTRY)?,
            id: [values(id0)?, values(id1)?, values(id2)?, values(id3)?],
            registered: values(column::REGISTERED)?,
            payers: values(column::PAYERS)?,
            merit: values(column::MERIT)?,
            signals: [values(first)?, values(second)?],
            price: optional(column::PRICE)?,
            vector: if has_vectors { COLUMNS.iter().map(|name| optional(name)).collect::<Result<_, _>>()? } else { Vec::new() },
            orders: Default::default(),
            ranks: OnceLock::new(),
            bits: Mutex::default(),
        })
    }

    fn values(&self, order: Order) -> &Values {
        match order {
            Order::Merit => &self.merit,
            Order::Newest => &self.registered,
            Order::MostUsed => &self.payers,
        }
    }

    fn ranks(&self, count: u32) -> &[u32] {
        self.ranks.get_or_init(|| {
            let [low, rest @ ..] = self.id.each_ref();
            let mut ranks = vec![0; count as usize];
            let mut number = |docs: &mut dyn Iterator<Item = DocId>| {
                for (doc, rank) in docs.zip(0..) {
                    ranks[doc as usize] = rank;
                }
            };
            if rest.iter().all(|limb| limb.max_value() == 0) {
                // Ids count up from one, so nearly always one limb is enough.
                let (registries, ids) = (decoded(&self.registry, count), decoded(low, count));
                let mut keys: Vec<(i64, u64, DocId)> = (registries.iter().zip(ids).zip(0..))
                    .map(|((registry, id), doc)| (registry.cast_signed(), id, doc))
                    .collect();
                if !keys.is_sorted() {
                    keys.sort_unstable();
                }
                number(&mut keys.into_iter().map(|(_, _, doc)| doc));
            } else {
                let mut keys: Vec<(ToolKey, DocId)> = (0..count).map(|doc| (self.key(doc), doc)).collect();
                keys.sort_unstable();
                number(&mut keys.into_iter().map(|(_, doc)| doc));
            }
            ranks
        })
    }

    fn key(&self, doc: DocId) -> ToolKey {
        key_of(self.registry.get_val(doc), self.id.each_ref().map(|limb| limb.get_val(doc)))
    }
}

/// All values of a column. Decoding them one after the other is quicker than one by one.
fn decoded(values: &Values, count: u32) -> Vec<u64> {
    let mut decoded = vec![0; count as usize];
    values.get_range(0, &mut decoded);
    decoded
}

impl Part {
    /// Which tool.
    pub(super) fn key(&self, doc: DocId) -> ToolKey {
        self.kept.key(doc)
    }

    /// Its packed signals.
    pub(super) fn signals(&self, doc: DocId) -> Packed {
        self.kept.signals.each_ref().map(|column| column.get_val(doc))
    }

    /// Its price, if it has one.
    pub(super) fn price(&self, doc: DocId) -> Option<u64> {
        self.kept.price.first(doc)
    }

    /// Its direction, if it has one.
    pub(super) fn vector(&self, doc: DocId) -> Option<Vector> {
        let mut packed = [0; DIMENSIONS / 8];
        for (packed, column) in packed.iter_mut().zip(&self.kept.vector) {
            *packed = column.first(doc)?;
        }
        (!self.kept.vector.is_empty()).then(|| Vector::unpacked(&packed))
    }

    /// Where it stands in an order.
    pub(super) fn place(&self, order: Order, doc: DocId) -> (u64, ToolKey) {
        (self.kept.values(order).get_val(doc), self.kept.key(doc))
    }

    /// All tools in an order, the first first; those that were taken out too.
    pub(super) fn order(&self, order: Order) -> &[DocId] {
        self.kept.orders[order as usize].get_or_init(|| {
            let ranks = self.kept.ranks(self.reader.max_doc());
            let values = decoded(self.kept.values(order), self.reader.max_doc());
            // Everything that decides is in one number, which sorts many times as fast as asking columns for each comparison.
            let mut rows: Vec<u128> = (values.iter().zip(ranks).zip(0_u32..))
                .map(|((value, rank), doc)| (u128::from(*value) << 64) | (u128::from(*rank) << 32) | u128::from(doc))
                .collect();
            rows.sort_unstable_by(|a, b| b.cmp(a));
            rows.into_iter().map(|row| row as DocId).collect()
        })
    }

    /// The tools with a label, as bits.
    pub(super) fn bits(&self, label: &Term) -> Result<Arc<BitSet>, Error> {
        if let Some(bits) = self.kept.bits.lock().unwrap_or_else(PoisonError::into_inner).get(label) {
            return Ok(Arc::clone(bits));
        }
        let mut bits = BitSet::with_max_value(self.reader.max_doc());
        let index = self.reader.inverted_index(label.field())?;
        if let Some(mut postings) = index.read_postings(label, IndexRecordOption::Basic)? {
            let mut doc = postings.doc();
            while doc != TERMINATED {
                bits.insert(doc);
                doc = postings.advance();
            }
        }
        let bits = Arc::new(bits);
        let mut kept = self.kept.bits.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_BITS {
            kept.clear();
        }
        kept.insert(label.clone(), Arc::clone(&bits));
        Ok(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_engine_are_removed() {
        assert!(is_ours("meta.json") && is_ours(".managed.json"));
        assert!(is_ours("0123456789abcdef0123456789abcdef.idx") && is_ours("0123456789abcdef0123456789abcdef.7.del"));
        assert!(!is_ours("holiday.jpg") && !is_ours("0123.idx") && !is_ours("meta.json.bak") && !is_ours("toolcrib.db"));
    }
}
