//! The memory in a private file that several processes may use.
//!
//! A write goes to a temporary file, is synced to disk and replaces the old file atomically; every writer holds a lock
//! and first merges what others wrote. After a crash the file has the old content or the new. An unreadable file is an error and never an
//! empty memory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use toolcrib_core::agent::AgtDomain;
use toolcrib_files::{AtomicFile, create_private_folder, folder_of};

use super::{AgentMemory, MAX_NAMES, MemoryError, Names, Remembered};

/// The version of the file format.
const FORMAT: u32 = 1;

/// Maximum size of the file: a name with its CID takes at most 600 bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum wait for the lock. Another process holds it while it reads, merges and syncs one file, which takes milliseconds; after this
/// time it hangs, and must not block a verdict.
pub const LOCK_WAIT: Duration = Duration::from_secs(15);

/// Pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A memory in a file that only its owner can read.
#[derive(Debug)]
pub struct FileMemory {
    path: PathBuf,
    names: Mutex<State>,
    is_batched: bool,
    lock_wait: Duration,
}

#[derive(Debug)]
struct State {
    names: Names,
    /// Whether `names` has unwritten changes.
    is_dirty: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<D, R> {
    format: u32,
    names: Vec<WireName<D, R>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireName<D, R> {
    domain: D,
    newest: R,
}

impl FileMemory {
    /// Opens a memory. A missing file is an empty memory; the first write creates it with its folder.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MemoryError> {
        let path = path.into();
        let names = read(&path)?.unwrap_or_default();
        Ok(Self { path, names: Mutex::new(State { names, is_dirty: false }), is_batched: false, lock_wait: LOCK_WAIT })
    }

    /// Keeps changes in memory until [`Self::flush`], for runs over many names that would otherwise write the file for each of them.
    #[must_use]
    pub const fn batched(mut self) -> Self {
        self.is_batched = true;
        self
    }

    /// Sets the maximum wait for the lock, instead of [`LOCK_WAIT`].
    #[must_use]
    pub const fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Writes unwritten changes.
    pub fn flush(&self) -> Result<(), MemoryError> {
        let mut state = self.state();
        if state.is_dirty { self.write(&mut state) } else { Ok(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, state: &mut State) -> Result<(), MemoryError> {
        let folder = folder_of(&self.path);
        ensure_private(folder)?;
        let lock_path = with_suffix(&self.path, ".lock");
        let lock = private().create(true).truncate(false).write(true).open(&lock_path).map_err(failed("open", &lock_path))?;
        wait_for(&lock, &lock_path, self.lock_wait)?;
        // Entries that other processes wrote in the meantime stay, unless ours are newer.
        let mut merged = read(&self.path)?.unwrap_or_default();
        for (domain, remembered) in &state.names.0 {
            merged.keep(domain, remembered.clone())?;
        }
        AtomicFile::new(&self.path).under_lock().replace(&encode(&merged, &self.path)?).map_err(failed("replace", &self.path))?;
        *state = State { names: merged, is_dirty: false };
        Ok(())
    }
}

impl AgentMemory for FileMemory {
    fn recall(&self, domain: &AgtDomain) -> Option<Remembered> {
        self.state().names.get(domain.as_str()).cloned()
    }

    fn remember(&self, domain: &AgtDomain, remembered: Remembered) -> Result<(), MemoryError> {
        let mut state = self.state();
        if !state.names.keep(domain.as_str(), remembered)? && !state.is_dirty {
            return Ok(());
        }
        state.is_dirty = true;
        if self.is_batched { Ok(()) } else { self.write(&mut state) }
    }
}

/// Takes the lock, or fails after `wait`.
fn wait_for(lock: &File, path: &Path, wait: Duration) -> Result<(), MemoryError> {
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if began.elapsed() < wait => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(MemoryError::Busy { path: path.to_owned(), wait }),
            Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
        }
    }
}

fn read(path: &Path) -> Result<Option<Names>, MemoryError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path)(error)),
    };
    if !metadata.is_file() {
        return Err(MemoryError::NotRegular { path: path.to_owned() });
    }
    check_private(&metadata, path)?;
    let damaged = |reason: String| MemoryError::Damaged { path: path.to_owned(), reason };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed("open", path))?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(damaged(format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    let wire: Wire<String, Remembered> = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if wire.format != FORMAT {
        return Err(damaged(format!("it has format {}, and this version reads format {FORMAT}", wire.format)));
    }
    if wire.names.len() > MAX_NAMES {
        return Err(damaged(format!("it has more than {MAX_NAMES} names")));
    }
    let mut names = Names::default();
    for WireName { domain, newest } in wire.names {
        if AgtDomain::parse(&domain).is_err() {
            return Err(damaged("it has a name that is not a .agt name".to_owned()));
        }
        if names.0.insert(domain, newest).is_some() {
            return Err(damaged("it has a name twice".to_owned()));
        }
    }
    Ok(Some(names))
}

fn encode(names: &Names, path: &Path) -> Result<Vec<u8>, MemoryError> {
    let names = names.0.iter().map(|(domain, newest)| WireName { domain, newest }).collect();
    let mut bytes = serde_json::to_vec(&Wire { format: FORMAT, names }).map_err(|error| failed("write", path)(error.into()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn ensure_private(folder: &Path) -> Result<(), MemoryError> {
    match fs::metadata(folder) {
        Ok(metadata) => check_private(&metadata, folder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_private_folder(folder).map_err(failed("create", folder)),
        Err(error) => Err(failed("open", folder)(error)),
    }
}

/// Rejects files and folders that other users can write, because they could remove names, and files that they can read.
#[cfg(unix)]
fn check_private(metadata: &fs::Metadata, path: &Path) -> Result<(), MemoryError> {
    use std::os::unix::fs::MetadataExt as _;

    let mode = metadata.mode() & 0o777;
    let forbidden = if metadata.is_dir() { 0o022 } else { 0o077 };
    if mode & forbidden == 0 { Ok(()) } else { Err(MemoryError::Exposed { path: path.to_owned(), mode }) }
}

/// On systems without permission bits, the folder of the user's profile protects the file.
#[cfg(not(unix))]
fn check_private(_: &fs::Metadata, _: &Path) -> Result<(), MemoryError> {
    Ok(())
}

/// Options to create a file that only its owner can read from the start.
fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no permission bits to set"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MemoryError {
    move |source| MemoryError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use alloy_primitives::{Address, B256};
    use toolcrib_core::clock::UnixTime;

    use super::*;

    fn at(seconds: i64) -> Remembered {
        Remembered {
            created_at: UnixTime::from_seconds(seconds),
            cid: format!("cid{seconds}"),
            digest: B256::repeat_byte(1),
            owner: Address::repeat_byte(2),
        }
    }

    fn name(text: &str) -> AgtDomain {
        AgtDomain::parse(text).expect("a name")
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_remembered_outlives_the_process_and_is_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state/agents.json");
        let memory = FileMemory::open(&path).expect("empty");
        assert_eq!(memory.recall(&name("a.agt")), None);
        assert!(!path.exists(), "reading creates nothing");
        memory.remember(&name("a.agt"), at(5)).expect("written");
        assert_eq!((mode(&path), mode(folder_of(&path))), (0o600, 0o700));
        let again = FileMemory::open(&path).expect("readable");
        assert_eq!(again.recall(&name("a.agt")), Some(at(5)));
        again.remember(&name("a.agt"), at(4)).expect("ignored");
        assert_eq!(FileMemory::open(&path).expect("readable").recall(&name("a.agt")), Some(at(5)));
    }

    #[test]
    fn two_processes_keep_the_newest_of_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("set");
        let (one, two) = (FileMemory::open(&path).expect("empty"), FileMemory::open(&path).expect("empty"));
        one.remember(&name("a.agt"), at(5)).expect("written");
        one.remember(&name("b.agt"), at(1)).expect("written");
        two.remember(&name("a.agt"), at(3)).expect("written");
        two.remember(&name("b.agt"), at(2)).expect("written");
        assert_eq!(two.recall(&name("a.agt")), Some(at(5)), "a write takes in what others wrote");
        let third = FileMemory::open(&path).expect("readable");
        assert_eq!((third.recall(&name("a.agt")), third.recall(&name("b.agt"))), (Some(at(5)), Some(at(2))));
    }

    #[test]
    fn a_lock_that_is_never_released_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        let memory = FileMemory::open(&path).expect("empty").lock_wait(Duration::from_millis(100));
        let holder = File::create(with_suffix(&path, ".lock")).expect("a lock");
        holder.lock().expect("held");
        let began = Instant::now();
        let error = memory.remember(&name("a.agt"), at(5)).expect_err("held by another");
        assert_eq!(error.code().id(), "agent.memory_busy", "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "it does not wait for ever");
        assert!(!path.exists());
        // Unwritten changes are kept, and written once the lock is free.
        assert_eq!(memory.recall(&name("a.agt")), Some(at(5)));
        drop(holder);
        memory.flush().expect("written");
        assert_eq!(FileMemory::open(&path).expect("readable").recall(&name("a.agt")), Some(at(5)));
    }

    #[test]
    fn a_lock_that_is_released_in_time_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        let memory = FileMemory::open(&path).expect("empty");
        let holder = File::create(with_suffix(&path, ".lock")).expect("a lock");
        holder.lock().expect("held");
        let releasing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(holder);
        });
        memory.remember(&name("a.agt"), at(5)).expect("written");
        releasing.join().expect("ended");
    }

    #[test]
    fn a_batch_is_written_by_flush() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        let memory = FileMemory::open(&path).expect("empty").batched();
        memory.remember(&name("a.agt"), at(5)).expect("kept");
        assert!(!path.exists());
        assert_eq!(memory.recall(&name("a.agt")), Some(at(5)));
        memory.flush().expect("written");
        let written = fs::metadata(&path).expect("there").modified().expect("a time");
        memory.remember(&name("a.agt"), at(5)).expect("nothing new");
        memory.flush().expect("nothing to write");
        assert_eq!(fs::metadata(&path).expect("there").modified().expect("a time"), written);
        assert_eq!(FileMemory::open(&path).expect("readable").recall(&name("a.agt")), Some(at(5)));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        FileMemory::open(&path).expect("empty").remember(&name("a.agt"), at(5)).expect("written");
        let good = fs::read_to_string(&path).expect("text");
        let cases = [
            String::new(),
            "{}".to_owned(),
            good[..good.len() / 2].to_owned(),
            good.replace("\"format\":1", "\"format\":2"),
            good.replace("a.agt", "A.agt"),
            good.replace("\"cid\"", "\"sid\""),
            good.replace("[{", "[{\"more\":1,"),
            good.replace("\"created_at\":5", "\"created_at\":\"5\""),
            format!("{good}x"),
            good.replace("[", "[[").replace("]", "]]"),
        ];
        for text in cases {
            fs::write(&path, &text).expect("written");
            let error = FileMemory::open(&path).expect_err(&text);
            assert_eq!(error.code().id(), "agent.memory_damaged", "{text}: {error}");
            assert_eq!(fs::read_to_string(&path).expect("text"), text, "it is not touched");
        }
        let entry = &good[good.find("[{").expect("a list") + 1..good.find(']').expect("a list")];
        fs::write(&path, good.replace(entry, &format!("{entry},{entry}"))).expect("written");
        assert!(FileMemory::open(&path).is_err(), "a name twice");
        // Damage while the memory is open is detected before the file is overwritten.
        fs::write(&path, &good).expect("written");
        let memory = FileMemory::open(&path).expect("readable");
        fs::write(&path, "damaged").expect("written");
        assert_eq!(memory.remember(&name("b.agt"), at(6)).expect_err("damaged").code().id(), "agent.memory_damaged");
        assert_eq!(fs::read_to_string(&path).expect("text"), "damaged");
    }

    #[test]
    fn files_of_others_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        FileMemory::open(&path).expect("empty").remember(&name("a.agt"), at(5)).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        assert!(matches!(FileMemory::open(&path), Err(MemoryError::Exposed { mode: 0o644, .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(matches!(FileMemory::open(&link), Err(MemoryError::NotRegular { .. })));
        assert!(matches!(FileMemory::open(folder.path()), Err(MemoryError::NotRegular { .. })));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("set");
        let memory = FileMemory::open(&path).expect("readable");
        assert!(matches!(memory.remember(&name("b.agt"), at(6)), Err(MemoryError::Exposed { .. })));
    }

    #[test]
    fn what_a_crash_left_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agents.json");
        fs::write(folder.path().join(".agents.json.partial"), "half").expect("written");
        FileMemory::open(&path).expect("empty").remember(&name("a.agt"), at(5)).expect("written");
        assert!(!folder.path().join(".agents.json.partial").exists());
        assert_eq!(FileMemory::open(&path).expect("readable").recall(&name("a.agt")), Some(at(5)));
    }
}
