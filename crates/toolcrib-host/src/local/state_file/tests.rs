//! Files of state: private, locked, whole.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use super::*;

fn folder() -> (tempfile::TempDir, StateFolder) {
    let place = tempfile::tempdir().unwrap();
    let folder = StateFolder::new(place.path().join("state"));
    (place, folder)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_created_is_private() {
    let (_place, folder) = folder();
    let lock = folder.lock("x.lock").unwrap();
    folder.replace(&lock, "x.json", b"{}").unwrap();
    assert_eq!((mode(folder.path()), mode(&folder.file("x.json")), mode(&folder.file("x.lock"))), (0o700, 0o600, 0o600));
    assert_eq!(folder.read("x.json", 10).unwrap().as_deref(), Some(&b"{}"[..]));
    assert_eq!(folder.read("y.json", 10).unwrap(), None);
    assert!(matches!(folder.read("x.json", 1), Err(StateFileError::TooLarge { limit: 1, .. })));
}

#[test]
fn open_folders_and_files_are_refused() {
    let (_place, folder) = folder();
    let lock = folder.lock("x.lock").unwrap();
    folder.replace(&lock, "x", b"1").unwrap();
    fs::set_permissions(folder.file("x"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(folder.read("x", 10), Err(StateFileError::Exposed { mode: 0o640, .. })));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(folder.ensure(), Err(StateFileError::Exposed { mode: 0o755, expected: 0o700, .. })));
}

#[test]
fn links_pipes_and_folders_are_not_files() {
    let (place, folder) = folder();
    folder.ensure().unwrap();
    fs::write(place.path().join("target"), "x").unwrap();
    symlink(place.path().join("target"), folder.file("link")).unwrap();
    fs::create_dir(folder.file("folder")).unwrap();
    for name in ["link", "folder"] {
        assert!(matches!(folder.read(name, 10), Err(StateFileError::NotRegular { .. })), "{name}");
    }
    // A link with the name of the new file is removed, and its target is kept.
    symlink(place.path().join("target"), folder.file(".a.partial")).unwrap();
    let lock = folder.lock("x.lock").unwrap();
    folder.replace(&lock, "a", b"new").unwrap();
    assert_eq!(fs::read_to_string(place.path().join("target")).unwrap(), "x");
    symlink(place.path().join("target"), folder.file("y.lock")).unwrap();
    assert!(matches!(folder.lock("y.lock"), Err(StateFileError::NotRegular { .. })));
}

#[test]
fn an_error_at_any_step_before_the_rename_leaves_the_old_content_and_nothing_else() {
    for step in Step::ALL {
        let (_place, folder) = folder();
        let lock = folder.lock("x.lock").unwrap();
        folder.replace(&lock, "x", b"old").unwrap();
        let failing = folder
            .clone()
            .with_fault(Arc::new(move |_, at| if at == step { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }));
        assert!(matches!(failing.replace(&lock, "x", b"new"), Err(StateFileError::Io { .. })), "{step:?}");
        let expected = if matches!(step, Step::SyncFolder | Step::Done) { &b"new"[..] } else { b"old" };
        assert_eq!(folder.read("x", 10).unwrap().as_deref(), Some(expected), "{step:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{step:?}");
    }
}

#[test]
fn one_lock_at_a_time() {
    let (_place, folder) = folder();
    let lock = folder.lock("x.lock").unwrap();
    let waiting = thread::spawn(move || folder.lock("x.lock").map(drop));
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished());
    drop(lock);
    waiting.join().unwrap().unwrap();
}
#[test]
fn a_kept_lock_file_is_used_as_long_as_it_has_the_name() {
    let place = tempfile::tempdir().unwrap();
    let folder = StateFolder::new(place.path().join("state"));
    let kept = folder.lock("x.lock").unwrap().release().expect("released");
    // Released: it can be taken again at once.
    drop(folder.lock("x.lock").unwrap());
    let number = kept.number;
    let lock = folder.lock_with("x.lock", Some(kept)).unwrap();
    assert_eq!(lock.0.number, number);
    let kept = lock.release().expect("released");
    // Another process that locks the new file does not conflict with a lock on the old one. The old one stays open here, so its inode is
    // not reused.
    fs::remove_file(folder.file("x.lock")).unwrap();
    let other = File::create(folder.file("x.lock")).unwrap();
    other.lock().unwrap();
    let lock = thread::spawn(move || folder.lock_with("x.lock", Some(kept)));
    thread::sleep(Duration::from_millis(50));
    assert!(!lock.is_finished(), "a lock on a file without a name");
    drop(other);
    assert_ne!(lock.join().unwrap().unwrap().0.number, number);
}
