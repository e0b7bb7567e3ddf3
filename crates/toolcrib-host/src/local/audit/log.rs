//! Appends to the log.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolcrib_core::clock::Clock;

use super::lines::{Line, Read, next_line, write_line};
use super::sync::{Background, PendingSync, SyncPolicy};
use super::{AuditError, BreakCause, Event, Head, MAX_LINE_BYTES, Record};
use crate::local::state_file::{LockFile, Owners, StateFolder, StateLock, check_private, file_number, opening, private_options};
use crate::local::{ContentHash, StateFileError};

/// The name of the current file.
pub const AUDIT_FILE: &str = "audit.jsonl";

/// Default size at which a new file is started: some 30,000 lines, which every editor can open.
pub const DEFAULT_MAX_BYTES: u64 = 16 << 20;

/// The lock file of the log.
const LOCK_FILE: &str = ".audit.lock";

/// Options of the log.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The size at which a new file is started.
    pub max_bytes: u64,
    /// Whether redacted arguments are written.
    pub record_arguments: bool,
    /// When lines are synced to disk.
    pub sync: SyncPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: DEFAULT_MAX_BYTES, record_arguments: false, sync: SyncPolicy::Background }
    }
}

impl Options {
    /// Sets the size at which a new file is started.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Sets when lines are synced to disk.
    #[must_use]
    pub const fn with_sync(mut self, sync: SyncPolicy) -> Self {
        self.sync = sync;
        self
    }

    /// Writes redacted arguments.
    #[must_use]
    pub const fn with_recorded_arguments(mut self) -> Self {
        self.record_arguments = true;
        self
    }
}

/// The audit log of one user. All functions block.
pub struct AuditLog {
    folder: StateFolder,
    clock: Arc<dyn Clock + Send + Sync>,
    options: Options,
    tail: Mutex<Option<Tail>>,
    /// The open lock file, kept between appends.
    lock_file: Mutex<Option<LockFile>>,
    background: Background,
}

/// The end of the file after the last append of this process.
struct Tail {
    file: Arc<File>,
    number: (u64, u64),
    bytes: u64,
    head: Head,
    /// Whether written lines may not be on disk yet.
    is_unsynchronised: bool,
}

impl AuditLog {
    /// Opens the log in this folder, which may not exist yet.
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock + Send + Sync>, options: Options) -> Self {
        Self {
            folder: StateFolder::new(folder),
            clock,
            options,
            tail: Mutex::new(None),
            lock_file: Mutex::new(None),
            background: Background::default(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The current file.
    pub fn path(&self) -> PathBuf {
        self.folder.file(AUDIT_FILE)
    }

    /// Whether redacted arguments are written.
    pub const fn records_arguments(&self) -> bool {
        self.options.record_arguments
    }

    /// Appends records in order, all or none, and returns the new head. If one of them [must be](Event::is_synchronised) on disk, all are
    /// when this returns.
    pub fn append(&self, records: impl IntoIterator<Item = Record>) -> Result<Head, AuditError> {
        let (head, pending) = self.append_lines(records)?;
        if let Some(pending) = pending {
            pending.sync()?;
            self.is_synchronised(&head);
        }
        Ok(head)
    }

    /// Appends the records of a call before it is made. They survive the end of this process when this returns, and are synced by the
    /// [policy](SyncPolicy): if something is returned, sync it before returning the result of the call.
    ///
    /// Fails if lines of earlier calls could not be synced.
    pub fn append_call(&self, records: impl IntoIterator<Item = Record>) -> Result<Option<PendingSync>, AuditError> {
        self.background.check()?;
        let (_, pending) = self.append_lines(records)?;
        match pending {
            Some(pending) if self.options.sync == SyncPolicy::Background => self.background.schedule(pending).map(|()| None),
            pending => Ok(pending),
        }
    }

    /// Writes lines, and returns what to sync if one of them must be on disk.
    fn append_lines(&self, records: impl IntoIterator<Item = Record>) -> Result<(Head, Option<PendingSync>), AuditError> {
        let records: Vec<_> = records.into_iter().collect();
        let mut must_sync = records.iter().any(|record| record.event().is_synchronised());
        // Threads of this process wait on a mutex first, because waiting for the file lock means polling.
        let mut kept = self.tail();
        let lock = self.folder.lock_with(LOCK_FILE, self.lock_file().take())?;
        let (mut tail, torn) = self.current(&lock, kept.take())?;
        must_sync |= torn.is_some();
        self.write(&mut tail, torn)?;
        if tail.bytes >= self.options.max_bytes {
            let rotated;
            (tail, rotated) = self.rotate(tail)?;
            self.write(&mut tail, [rotated])?;
        }
        let written = self.write(&mut tail, records);
        let (file, head) = (Arc::clone(&tail.file), tail.head);
        *kept = Some(tail);
        written?;
        // Other processes may append while this one syncs: their lines come after.
        *self.lock_file() = lock.release();
        drop(kept);
        let must_sync = must_sync && self.options.sync != SyncPolicy::Never;
        Ok((head, must_sync.then(|| PendingSync::new(file, self.path()))))
    }

    /// Syncs all lines of this process to disk.
    pub fn sync(&self) -> Result<(), AuditError> {
        let pending = self.tail().as_ref().filter(|tail| tail.is_unsynchronised).map(|tail| (Arc::clone(&tail.file), tail.head));
        let Some((file, head)) = pending else { return Ok(()) };
        file.sync_data().map_err(StateFileError::io("write", &self.path()))?;
        self.is_synchronised(&head);
        Ok(())
    }

    /// Returns the last line. Note it elsewhere to detect later that lines at the end were removed.
    pub fn head(&self) -> Result<Head, AuditError> {
        let mut kept = self.tail();
        let lock = self.folder.lock(LOCK_FILE)?;
        let (mut tail, torn) = self.current(&lock, kept.take())?;
        let written = self.write(&mut tail, torn);
        let head = tail.head;
        *kept = Some(tail);
        written.map(|()| head)
    }

    /// Moves a file whose last line is invalid aside, and starts a new chain that names it. For operators, after they inspected the file.
    pub fn restart(&self, why: &str) -> Result<PathBuf, AuditError> {
        let mut kept = self.tail();
        let lock = self.folder.lock(LOCK_FILE)?;
        *kept = None;
        let path = self.path();
        let (seq, hash) = survey(&path)?;
        let seq = seq.max(self.last_rotated()?.map_or(0, |(seq, _)| seq));
        let aside = self.folder.file(&format!("audit-{seq:012}.broken"));
        if fs::symlink_metadata(&aside).is_ok() {
            return Err(StateFileError::io("create", &aside)(std::io::ErrorKind::AlreadyExists.into()).into());
        }
        fs::rename(&path, &aside).map_err(StateFileError::io("move", &path))?;
        self.folder.sync()?;
        let mut tail = self.open(Head { seq, ..Head::START })?;
        let name = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let record = Record::new(Event::ChainRestarted).detail(&format!("{name} {hash}: {why}"));
        self.write(&mut tail, [record])?;
        tail.file.sync_data().map_err(StateFileError::io("write", &path))?;
        *kept = Some(tail);
        drop(lock);
        Ok(aside)
    }

    fn tail(&self) -> MutexGuard<'_, Option<Tail>> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_file(&self) -> MutexGuard<'_, Option<LockFile>> {
        self.lock_file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_synchronised(&self, head: &Head) {
        if let Some(tail) = self.tail().as_mut().filter(|tail| tail.head == *head) {
            tail.is_unsynchronised = false;
        }
    }

    /// Returns the current end of the log, and a record of an incomplete line that was moved aside.
    fn current(&self, _: &StateLock, kept: Option<Tail>) -> Result<(Tail, Option<Record>), AuditError> {
        let path = self.path();
        let is_unsynchronised = kept.as_ref().is_some_and(|tail| tail.is_unsynchronised);
        if let (Some(tail), Ok(metadata)) = (kept, fs::symlink_metadata(&path)) {
            // No other process appended since, so the stored end is still correct. On systems without file ids, only the size is compared.
            if metadata.is_file() && file_number(&metadata) == tail.number && metadata.len() == tail.bytes {
                return Ok((tail, None));
            }
        }
        let mut tail = self.open(Head::START)?;
        // Lines of this process may be in the same file. If another process rotated it, that process synced them.
        tail.is_unsynchronised = is_unsynchronised;
        let mut torn = None;
        if tail.bytes > 0 {
            let (line, rest) = last_line(&tail.file, tail.bytes).map_err(StateFileError::io("read", &path))?;
            if let Some(line) = line {
                tail.head = Line::parse(&line).map_err(|cause| AuditError::Tail { path: path.clone(), cause })?.head;
            } else {
                tail.head = self.head_before()?;
            }
            if !rest.is_empty() {
                torn = Some(self.move_torn(&mut tail, &rest)?);
            }
        } else {
            tail.head = self.head_before()?;
        }
        Ok((tail, torn))
    }

    /// Opens or creates the file.
    fn open(&self, head: Head) -> Result<Tail, AuditError> {
        let path = self.path();
        let file = private_options().read(true).append(true).create(true).open(&path).map_err(opening(&path))?;
        let metadata = file.metadata().map_err(StateFileError::io("open", &path))?;
        if !metadata.is_file() {
            return Err(StateFileError::NotRegular { path }.into());
        }
        check_private(&metadata, &path, 0o600, Owners::User)?;
        if metadata.len() == 0 {
            // The new name must survive a power failure as the lines do.
            self.folder.sync()?;
        }
        Ok(Tail { file: Arc::new(file), number: file_number(&metadata), bytes: metadata.len(), head, is_unsynchronised: false })
    }

    /// The head of the newest rotated file, which an empty file continues.
    fn head_before(&self) -> Result<Head, AuditError> {
        let Some((_, path)) = self.last_rotated()? else { return Ok(Head::START) };
        let file = File::open(&path).map_err(StateFileError::io("open", &path))?;
        let bytes = file.metadata().map_err(StateFileError::io("open", &path))?.len();
        let (line, _) = last_line(&file, bytes).map_err(StateFileError::io("read", &path))?;
        let line = line.ok_or(BreakCause::NotALine).and_then(|line| Line::parse(&line));
        Ok(line.map_err(|cause| AuditError::Tail { path, cause })?.head)
    }

    fn last_rotated(&self) -> Result<Option<(u64, PathBuf)>, AuditError> {
        Ok(rotated_files(self.folder.path())?.pop())
    }

    fn rotate(&self, tail: Tail) -> Result<(Tail, Record), AuditError> {
        let path = self.path();
        let name = format!("audit-{:012}.jsonl", tail.head.seq);
        let target = self.folder.file(&name);
        // The old file is not written again, so it must be synced now.
        tail.file.sync_data().map_err(StateFileError::io("write", &path))?;
        if fs::symlink_metadata(&target).is_ok() {
            return Err(StateFileError::io("create", &target)(std::io::ErrorKind::AlreadyExists.into()).into());
        }
        fs::rename(&path, &target).map_err(StateFileError::io("move", &path))?;
        // If the process ends here, the next one finds no current file and continues the newest rotated one.
        Ok((self.open(tail.head)?, Record::new(Event::Rotated).detail(&format!("continues {name}"))))
    }

    fn move_torn(&self, tail: &mut Tail, torn: &[u8]) -> Result<Record, AuditError> {
        let path = self.path();
        let name = format!("audit-{:012}.torn", tail.head.seq + 1);
        let aside = self.folder.file(&name);
        // Synced before the line is truncated from the log. If the process ends in between, the next one repeats this.
        let mut file = private_options().write(true).create(true).truncate(true).open(&aside).map_err(opening(&aside))?;
        file.write_all(torn).and_then(|()| file.sync_all()).map_err(StateFileError::io("write", &aside))?;
        self.folder.sync()?;
        tail.bytes -= torn.len() as u64;
        tail.file.set_len(tail.bytes).map_err(StateFileError::io("write", &path))?;
        let hash = ContentHash::new(Sha256::digest(torn).into());
        Ok(Record::new(Event::TornLine).detail(&format!("{} bytes moved to {name}, {hash}", torn.len())))
    }

    /// Appends all records with one write.
    fn write(&self, tail: &mut Tail, records: impl IntoIterator<Item = Record>) -> Result<(), AuditError> {
        let (now, mut head, mut lines) = (self.clock.now(), tail.head, Vec::new());
        for record in records {
            let object = record.into_object(now, self.options.record_arguments);
            let bytes = write_line(object, &mut head, &mut lines);
            if bytes > MAX_LINE_BYTES {
                return Err(AuditError::LineTooLong { bytes });
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        if let Err(error) = (&*tail.file).write_all(&lines) {
            // A full disk may have stored a part. If it cannot be truncated now, the next append moves it aside.
            let _ = tail.file.set_len(tail.bytes);
            return Err(StateFileError::io("write", &self.path())(error).into());
        }
        tail.bytes += lines.len() as u64;
        tail.head = head;
        tail.is_unsynchronised = true;
        Ok(())
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        // The operating system has the lines; only a power failure could lose them.
        let _ = self.sync();
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("folder", &self.folder).field("options", &self.options).finish_non_exhaustive()
    }
}

/// The rotated files, oldest first.
pub(super) fn rotated_files(folder: &Path) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StateFileError::io("read", folder)(error).into()),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StateFileError::io("read", folder))?;
        let name = entry.file_name();
        let seq = name.to_str().and_then(|name| name.strip_prefix("audit-")?.strip_suffix(".jsonl"));
        let seq = seq.filter(|seq| seq.bytes().all(|byte| byte.is_ascii_digit())).and_then(|seq| seq.parse().ok());
        files.extend(seq.map(|seq: u64| (seq, entry.path())));
    }
    files.sort();
    Ok(files)
}

/// The last complete line of a file without its line feed, if there is one, and the bytes after it.
fn last_line(mut file: &File, bytes: u64) -> std::io::Result<(Option<Vec<u8>>, Vec<u8>)> {
    let mut window = 2 * MAX_LINE_BYTES as u64;
    loop {
        let start = bytes.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut read = Vec::new();
        file.take(bytes - start).read_to_end(&mut read)?;
        let mut ends = read.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index);
        match (ends.next(), ends.next()) {
            (Some(last), before) if before.is_some() || start == 0 => {
                let rest = read.split_off(last + 1);
                read.truncate(last);
                return Ok((Some(read.split_off(before.map_or(0, |before| before + 1))), rest));
            }
            // A line above the size limit, or bytes without a line feed.
            (None, _) if start == 0 => return Ok((None, read)),
            _ => window = window.saturating_mul(4),
        }
    }
}

/// The highest number of the readable lines, and the hash of the whole file.
fn survey(path: &Path) -> Result<(u64, ContentHash), AuditError> {
    let wrong = || StateFileError::io("read", path);
    let file = File::open(path).map_err(wrong())?;
    let mut reader = std::io::BufReader::new(file);
    let (mut seq, mut hash, mut line) = (0, Sha256::new(), Vec::new());
    loop {
        let read = next_line(&mut reader, &mut line).map_err(wrong())?;
        hash.update(&line);
        match read {
            Read::End => return Ok((seq, ContentHash::new(hash.finalize().into()))),
            Read::Line => hash.update(b"\n"),
            Read::Torn | Read::TooLong => {}
        }
        let value: Option<Value> = serde_json::from_slice(&line).ok();
        let own = value.as_ref().and_then(|value| value.get("seq")).and_then(Value::as_u64);
        // A forged number must not exhaust the range.
        seq = seq.max(own.filter(|own| *own < 1 << 48).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_core::clock::{FixedClock, UnixTime};

    use super::*;

    fn call(log: &AuditLog) -> Result<Option<PendingSync>, AuditError> {
        log.append_call([Record::new(Event::Decision), Record::new(Event::CallStarted)])
    }

    #[test]
    fn the_policy_says_who_waits_for_the_disk() {
        for (sync, waits) in [(SyncPolicy::Background, false), (SyncPolicy::BeforeResult, true), (SyncPolicy::Never, false)] {
            let place = tempfile::tempdir().unwrap();
            let log = AuditLog::new(
                place.path().join("state"),
                Arc::new(FixedClock(UnixTime::from_seconds(1_800_000_000))),
                Options::default().with_sync(sync),
            );
            let pending = call(&log).unwrap();
            assert_eq!(pending.is_some(), waits, "{sync:?}");
            // The operating system has the lines in any case, so the end of this process loses nothing.
            assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 2);
            if let Some(pending) = pending {
                pending.sync().unwrap();
            }
        }
    }

    #[test]
    fn no_call_is_made_after_lines_of_another_were_lost() {
        let place = tempfile::tempdir().unwrap();
        let log = AuditLog::new(
            place.path().join("state"),
            Arc::new(FixedClock(UnixTime::from_seconds(1_800_000_000))),
            Options::default(),
        );
        assert!(call(&log).unwrap().is_none());
        log.background.fail("cannot write audit.jsonl");
        assert_eq!(call(&log).unwrap_err().code(), toolcrib_core::codes::audit::STORAGE);
        assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 2, "nothing is added");
        // Lines that are not about calls are still recorded.
        log.append([Record::new(Event::PermissionChanged)]).unwrap();
    }
}
