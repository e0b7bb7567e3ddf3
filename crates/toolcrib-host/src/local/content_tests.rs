//! Content hashes of texts and folders.

use super::*;

#[test]
fn text_and_hash_are_the_same_thing() {
    let hash = ContentHash::new([0xab; 32]);
    let text = hash.to_string();
    assert_eq!(text, format!("sha256:{}", "ab".repeat(32)));
    assert_eq!(text.parse(), Ok(hash));
    for wrong in ["", "sha256:", &text[7..], &text.to_uppercase(), &format!("{text}ab"), &text[..70], "sha256:zz"] {
        assert_eq!(wrong.parse::<ContentHash>(), Err(ContentHashError), "{wrong}");
    }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

#[test]
fn the_hash_is_the_documented_one() {
    let place = folder(&[("b/c.txt", "two"), ("a.txt", "one"), (".git/config", "not hashed"), ("b/.git/x", "hashed")]);
    fs::create_dir(place.path().join("empty")).unwrap();
    let mut expected = Sha256::new();
    expected.update(b"toolcrib/tool-folder/1");
    for (path, content) in [("a.txt", "one"), ("b/.git/x", "hashed"), ("b/c.txt", "two")] {
        expected.update((path.len() as u64).to_be_bytes());
        expected.update(path);
        expected.update([0]);
        expected.update(Sha256::digest(content));
    }
    assert_eq!(hash_folder(place.path()).unwrap(), ContentHash(expected.finalize().into()));
}

#[test]
fn every_difference_gives_another_hash() {
    let files = [("a", "1"), ("b/c", "2")];
    let one = hash_folder(folder(&files).path()).unwrap();
    assert_eq!(one, hash_folder(folder(&files).path()).unwrap());
    for other in [
        &[("a", "1"), ("b/c", "3")][..],
        &[("a", "1"), ("b/d", "2")],
        &[("a", "1"), ("b", "2")],
        &[("a", "1")],
        &[("a", "1"), ("b/c", "2"), ("d", "")],
    ] {
        assert_ne!(one, hash_folder(folder(other).path()).unwrap(), "{other:?}");
    }
}

#[cfg(unix)]
#[test]
fn modes_and_links_count() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let place = folder(&[("a", "1"), ("b/c", "2")]);
    let plain = hash_folder(place.path()).unwrap();
    fs::set_permissions(place.path().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    let executable = hash_folder(place.path()).unwrap();
    assert_ne!(plain, executable);
    fs::set_permissions(place.path().join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(plain, hash_folder(place.path()).unwrap());
    symlink("../a", place.path().join("b/link")).unwrap();
    let linked = hash_folder(place.path()).unwrap();
    fs::remove_file(place.path().join("b/link")).unwrap();
    fs::write(place.path().join("b/link"), "../a").unwrap();
    assert_ne!(linked, hash_folder(place.path()).unwrap(), "a file with the text of a link is not the link");
}

#[cfg(unix)]
#[test]
fn what_leaves_the_folder_is_refused() {
    use std::os::unix::fs::symlink;

    let outside = folder(&[("secret", "x")]);
    for (target, refused) in [
        (outside.path().join("secret").to_str().unwrap(), true),
        ("../secret", true),
        ("b/../../x", true),
        (".git/config", true),
        ("b/../.git/config", true),
        ("up/a", true),
        ("b/c", false),
        ("nothing", false),
        (".", false),
    ] {
        let place = folder(&[("b/c", "2"), (".git/config", "x")]);
        symlink(target, place.path().join("link")).unwrap();
        // Points to another link.
        if target == "up/a" {
            symlink("/", place.path().join("up")).unwrap();
        }
        let result = hash_folder(place.path());
        assert_eq!(matches!(result, Err(FolderError::Link { .. })), refused, "{target}: {result:?}");
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_and_not_waited_for() {
    let place = folder(&[("a", "1")]);
    let socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
    let error = hash_folder(place.path()).unwrap_err();
    assert!(matches!(&error, FolderError::Special { path } if path == "socket"), "{error}");
    assert_eq!(error.code(), code::FOLDER_SPECIAL);
    drop(socket);
}

#[test]
fn limits() {
    let place = tempfile::tempdir().unwrap();
    let big = File::create(place.path().join("big")).unwrap();
    big.set_len(MAX_FOLDER_BYTES + 1).unwrap();
    assert!(matches!(hash_folder(place.path()), Err(FolderError::TooLarge)));
    assert!(matches!(hash_folder(&place.path().join("none")), Err(FolderError::Io { .. })));
}
