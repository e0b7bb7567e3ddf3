//! Files are replaced completely, get the permissions that were requested, and leave no temporary files.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

fn count(folder: &tempfile::TempDir) -> usize {
    fs::read_dir(folder.path()).expect("readable").count()
}

#[test]
fn a_link_beside_the_file_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let [victim, path] = ["victim", "out.json"].map(|name| folder.path().join(name));
    fs::write(&victim, "precious").expect("written");
    for name in ["out.json.partial", ".out.json.partial", "out.json.tmp", "out.tmp", ".out.json", "out.json.new"] {
        symlink(&victim, folder.path().join(name)).expect("linked");
    }
    AtomicFile::new(&path).shared().replace(b"new").expect("written");
    AtomicFile::new(&path).under_lock().replace(b"new").expect("written");
    assert_eq!(fs::read(&path).expect("there"), b"new");
    assert_eq!(fs::read(&victim).expect("there"), b"precious");
    assert!(!folder.path().join(".out.json.partial").exists());
    // A symlink at the file's own name is replaced, and its target is unchanged.
    fs::remove_file(&path).and_then(|()| symlink(&victim, &path)).expect("linked");
    AtomicFile::new(&path).replace(b"newer").expect("written");
    assert_eq!((fs::read(&path).expect("there"), fs::read(&victim).expect("there")), (b"newer".to_vec(), b"precious".to_vec()));
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn nothing_is_left_behind_when_it_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).expect("made");
    assert!(AtomicFile::new(&taken).replace(b"x").is_err(), "a folder is not replaced");
    assert_eq!(count(&folder), 1);
}

#[test]
fn a_failure_at_any_step_before_the_rename_leaves_the_old_content_and_nothing_else() {
    for step in Step::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        for file in [AtomicFile::new(&path), AtomicFile::new(&path).under_lock()] {
            file.replace(b"old").expect("written");
            let failed = file.replace_with(b"new", |at| if at == step { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) });
            assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull), "{step:?}");
            let expected: &[u8] = if matches!(step, Step::SyncFolder | Step::Done) { b"new" } else { b"old" };
            assert_eq!((fs::read(&path).expect("there"), count(&folder)), (expected.to_vec(), 1), "{step:?}");
        }
    }
}

#[test]
fn what_is_there_is_not_created_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    AtomicFile::new(&path).create(b"first").expect("created");
    let refused = AtomicFile::new(&path).create(b"second").map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::AlreadyExists));
    assert_eq!((fs::read(&path).expect("there"), mode(&path), count(&folder)), (b"first".to_vec(), 0o600, 1));
}

#[test]
fn permissions_are_kept_and_folders_are_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("a/b");
    create_private_folder(&inner).expect("created");
    create_private_folder(&inner).expect("there");
    let path = inner.join("x");
    let prepared = AtomicFile::new(&path).permissions(Permissions::from_mode(0o640)).prepare(b"x").expect("written");
    assert!(!path.exists());
    prepared.replace().expect("replaced");
    assert_eq!((mode(&inner), mode(&path)), (0o700, 0o640));
}
