//! Hostile archives, built from raw bytes, because archivers do not produce them.

use std::io::Write as _;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::super::InstallError;
use super::*;

/// An entry with forged headers.
struct Raw {
    name: Vec<u8>,
    /// The name in the local header, if it differs.
    local_name: Option<Vec<u8>>,
    data: Vec<u8>,
    /// The size in the headers.
    size: Option<u32>,
    mode: u32,
    flags: u16,
    method: u16,
    /// Uses the offset of the entry with this index.
    at: Option<usize>,
}

fn file(name: &str) -> Raw {
    Raw {
        name: name.as_bytes().to_vec(),
        local_name: None,
        data: b"x".to_vec(),
        size: None,
        mode: 0o100_644,
        flags: UTF8_FLAG,
        method: 0,
        at: None,
    }
}

/// Bit by bit, which is fast enough for tests.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

fn zip(entries: &[Raw]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut offsets: Vec<u32> = Vec::new();
    let fixed = |entry: &Raw| {
        let mut fixed = Vec::new();
        fixed.extend(entry.flags.to_le_bytes());
        fixed.extend(entry.method.to_le_bytes());
        // 1980-01-01.
        fixed.extend([0, 0, 0x21, 0]);
        fixed.extend(crc(&entry.data).to_le_bytes());
        fixed.extend((entry.data.len() as u32).to_le_bytes());
        fixed.extend(entry.size.unwrap_or(entry.data.len() as u32).to_le_bytes());
        fixed
    };
    for entry in entries {
        if let Some(at) = entry.at {
            offsets.push(offsets[at]);
            continue;
        }
        offsets.push(out.len() as u32);
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        out.extend(b"PK\x03\x04\x14\x00");
        out.extend(fixed(entry));
        out.extend((name.len() as u16).to_le_bytes());
        out.extend([0, 0]);
        out.extend(name);
        out.extend(&entry.data);
    }
    let start = out.len() as u32;
    for (entry, offset) in entries.iter().zip(&offsets) {
        out.extend(b"PK\x01\x02\x14\x03\x14\x00");
        out.extend(fixed(entry));
        out.extend((entry.name.len() as u16).to_le_bytes());
        out.extend([0; 8]);
        out.extend((entry.mode << 16).to_le_bytes());
        out.extend(offset.to_le_bytes());
        out.extend(&entry.name);
    }
    let size = out.len() as u32 - start;
    out.extend(end(entries.len() as u16, size, start, &[]));
    out
}

fn end(entries: u16, size: u32, start: u32, comment: &[u8]) -> Vec<u8> {
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend(entries.to_le_bytes());
    end.extend(entries.to_le_bytes());
    end.extend(size.to_le_bytes());
    end.extend(start.to_le_bytes());
    end.extend((comment.len() as u16).to_le_bytes());
    end.extend(comment);
    end
}

#[track_caller]
fn refused(bytes: &[u8], expected: Code) -> String {
    let error = match Archive::open(bytes) {
        Err(error) => error,
        // Detected only while inflating.
        Ok(mut archive) => match archive.root().and_then(|root| {
            let folder = tempfile::tempdir().unwrap();
            match archive.unpack(&root, folder.path()) {
                Ok(()) => panic!("not refused"),
                Err(InstallError::Archive(error)) => Err(error),
                Err(error) => panic!("{error}"),
            }
        }) {
            Err(error) => error,
            Ok(()) => panic!("not refused"),
        },
    };
    assert_eq!(error.code(), expected, "{error}");
    error.to_string()
}

#[test]
fn the_raw_archive_is_one() {
    let bytes = zip(&[file("manifest.json"), file("a/b.txt"), Raw { data: vec![], mode: 0o040_755, ..file("empty/") }]);
    let mut archive = Archive::open(&bytes).unwrap();
    assert_eq!(archive.files().iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["a/b.txt", "manifest.json"]);
    assert_eq!(archive.read("a/b.txt", 10).unwrap().unwrap(), b"x");
    assert_eq!(archive.root().unwrap(), "");
    let folder = tempfile::tempdir().unwrap();
    archive.unpack("", folder.path()).unwrap();
    assert_eq!(std::fs::read(folder.path().join("a/b.txt")).unwrap(), b"x");
}

#[test]
fn names_that_leave_or_deceive() {
    for name in [
        "../x",
        "a/../../x",
        "a/..",
        "..",
        "/etc/passwd",
        "//host/share",
        "C:/x",
        "C:x",
        "a/b:stream",
        "a\\b",
        "..\\x",
        "\\\\host\\x",
        "./x",
        "a/./b",
        "a//b",
        "",
        "/",
        "a\0b",
        "a\nb",
        "a\u{1b}[31mb",
    ] {
        let message = refused(&zip(&[file("manifest.json"), file(name)]), code::ARCHIVE_NAME);
        assert!(!message.contains('\u{1b}') && !message.contains('\n'), "{message}");
    }
    refused(&zip(&[file("manifest.json"), file(&"a/".repeat(40))]), code::ARCHIVE_NAME);
    refused(&zip(&[file("manifest.json"), file(&"a".repeat(256))]), code::ARCHIVE_NAME);
    refused(&zip(&[Raw { name: b"caf\xe9.txt".to_vec(), ..file("") }]), code::ARCHIVE_NAME);
    // Valid UTF-8, but readers would decode it as code page 437.
    refused(&zip(&[Raw { flags: 0, ..file("café.txt") }]), code::ARCHIVE_NAME);
}

#[test]
fn names_that_are_the_same_somewhere() {
    for (one, other) in
        [("a.txt", "A.TXT"), ("caf\u{e9}", "cafe\u{301}"), ("d", "d/x"), ("D", "d/x"), ("straße", "STRASSE/x/../..")]
    {
        if other.contains("..") {
            continue;
        }
        refused(&zip(&[file("manifest.json"), file(one), file(other)]), code::ARCHIVE_DUPLICATE);
        refused(&zip(&[file("manifest.json"), file(other), file(one)]), code::ARCHIVE_DUPLICATE);
    }
    refused(&zip(&[file("manifest.json"), file("a"), file("a")]), code::ARCHIVE_DUPLICATE);
    refused(&zip(&[file("manifest.json"), file("a"), Raw { data: vec![], mode: 0, ..file("a/") }]), code::ARCHIVE_DUPLICATE);
}

#[test]
fn links_and_devices() {
    for mode in [0o120_777, 0o020_666, 0o060_666, 0o010_644, 0o140_755, 0o040_755] {
        refused(&zip(&[file("manifest.json"), Raw { mode, data: b"/etc/passwd".to_vec(), ..file("link") }]), code::ARCHIVE_LINK);
    }
    refused(&zip(&[file("manifest.json"), Raw { mode: 0o120_777, data: vec![], ..file("link/") }]), code::ARCHIVE_LINK);
}

#[test]
fn methods() {
    refused(&zip(&[file("manifest.json"), Raw { flags: UTF8_FLAG | 1, data: vec![0; 40], ..file("a") }]), code::ARCHIVE_METHOD);
    for method in [12, 14, 93, 99] {
        let bytes = zip(&[file("manifest.json"), Raw { method, ..file("a") }]);
        let error = Archive::open(&bytes).unwrap_err();
        assert!([code::ARCHIVE_METHOD, code::ARCHIVE].contains(&error.code()), "{method}: {error}");
    }
}

#[test]
fn sizes_that_lie() {
    refused(&zip(&[Raw { size: Some(0), ..file("manifest.json") }]), code::ARCHIVE);
    refused(&zip(&[Raw { size: Some(100), ..file("manifest.json") }]), code::ARCHIVE);
    refused(&zip(&[Raw { size: Some(u32::MAX - 1), ..file("manifest.json") }]), code::ARCHIVE_LIMIT);
    refused(&zip(&[file("manifest.json"), Raw { mode: 0, ..file("folder/") }]), code::ARCHIVE);
}

#[test]
fn bombs() {
    let deflated = |files: &[(&str, usize)]| {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, size) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(&vec![0; *size]).unwrap();
        }
        writer.finish().unwrap().into_inner()
    };
    let bomb = deflated(&[("manifest.json", 32 * 1024 * 1024)]);
    assert!(bomb.len() < 64 * 1024);
    refused(&bomb, code::ARCHIVE_LIMIT);
    // Each file is small, but together they exceed the limit.
    let names: Vec<_> = (0..64).map(|n| format!("f{n}")).collect();
    let mut files: Vec<_> = names.iter().map(|name| (name.as_str(), 1024 * 1024)).collect();
    files.push(("manifest.json", 1));
    refused(&deflated(&files), code::ARCHIVE_LIMIT);
    // The header claims a small size.
    let mut lying = bomb;
    let real = (32_u32 * 1024 * 1024).to_le_bytes();
    let places: Vec<_> = lying.windows(4).enumerate().filter(|(_, piece)| *piece == real).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 2);
    for at in places {
        lying[at..at + 4].copy_from_slice(&100_u32.to_le_bytes());
    }
    let error = refused_any(&lying);
    assert!([code::ARCHIVE, code::ARCHIVE_LIMIT].contains(&error.code()), "{error}");
    // A few repetitive files are fine.
    let fine = deflated(&[("manifest.json", 3 * 1024 * 1024)]);
    let folder = tempfile::tempdir().unwrap();
    Archive::open(&fine).unwrap().unpack("", folder.path()).unwrap();
}

#[track_caller]
fn refused_any(bytes: &[u8]) -> ArchiveError {
    let mut archive = match Archive::open(bytes) {
        Ok(archive) => archive,
        Err(error) => return error,
    };
    let folder = tempfile::tempdir().unwrap();
    match archive.unpack("", folder.path()) {
        Err(InstallError::Archive(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn overlaps_and_confusion() {
    refused(&zip(&[file("manifest.json"), Raw { at: Some(0), ..file("b") }]), code::ARCHIVE_OVERLAP);
    // The name in the local header would be used by streaming readers.
    refused(&zip(&[Raw { local_name: Some(b"../../evil.json".to_vec()), ..file("manifest.json__") }]), code::ARCHIVE);
    let plain = zip(&[file("manifest.json")]);
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"hello".to_vec()),
        ("cut", plain[..plain.len() - 1].to_vec()),
        ("more", [plain.as_slice(), b"x"].concat()),
        ("before", [b"#!/bin/sh\n", plain.as_slice()].concat()),
        ("two", [plain.as_slice(), plain.as_slice()].concat()),
        ("two ends", [plain.as_slice(), &end(0, 0, 0, &[])].concat()),
        ("end in the comment", {
            let mut bytes = plain[..plain.len() - 22].to_vec();
            let (start, size) = (bytes.len() as u32 - 59, 59);
            bytes.extend(end(1, size, start, &end(0, 0, 0, &[])));
            bytes
        }),
        ("many parts", {
            let mut bytes = plain.clone();
            let at = bytes.len() - 22 + 4;
            bytes[at] = 1;
            bytes
        }),
        ("hidden entry", {
            // A local header that is not in the directory.
            let hidden = zip(&[file("hidden"), file("manifest.json")]);
            let first = 30 + "hidden".len() + 1;
            let start = first + 30 + "manifest.json".len() + 1;
            let mut bytes = hidden[..start].to_vec();
            let entry = &hidden[start + 46 + "hidden".len()..hidden.len() - 22];
            bytes.extend(entry);
            bytes.extend(end(1, entry.len() as u32, start as u32, &[]));
            bytes
        }),
    ] {
        let result = Archive::open(&bytes).map(|_| ());
        assert!(result.as_ref().is_err_and(|error| error.code() == code::ARCHIVE), "{what}: {result:?}");
    }
    // A comment without an end record in it is accepted: `git archive` writes the commit there.
    let mut bytes = plain[..plain.len() - 22].to_vec();
    bytes.extend(end(1, 59, bytes.len() as u32 - 59, b"0123456789abcdef"));
    Archive::open(&bytes).unwrap();
}

#[test]
fn numbers() {
    let many: Vec<_> = (0..=MAX_FILES).map(|n| Raw { data: vec![], ..file(&format!("f{n}")) }).collect();
    refused(&zip(&many), code::ARCHIVE_LIMIT);
    refused(&end(u16::MAX, 0, 0, &[]), code::ARCHIVE_LIMIT);
    // A forged size of the directory must not cause a large allocation.
    refused(&end(40_000, 0, 0, &[]), code::ARCHIVE);
}

#[test]
fn roots() {
    let root = |names: &[&str]| {
        let bytes = zip(&names.iter().map(|name| file(name)).collect::<Vec<_>>());
        Archive::open(&bytes).unwrap().root()
    };
    assert_eq!(root(&["manifest.json", "a/manifest.json"]).unwrap(), "");
    assert_eq!(root(&["tool/manifest.json", "tool/x/manifest.json"]).unwrap(), "tool/");
    assert_eq!(root(&["tool/manifest.json", "__MACOSX/tool/._manifest.json"]).unwrap(), "tool/");
    for bad in [&["a/b/manifest.json"][..], &["a/manifest.json", "b/manifest.json"], &["a/manifest.json", "readme"], &["x"], &[]]
    {
        assert_eq!(root(bad).unwrap_err().code(), code::ARCHIVE_ROOT, "{bad:?}");
    }
}

#[test]
fn signed_bundles_are_read() {
    let mut bytes = zip(&[file("manifest.json")]);
    bytes.extend(b"MCPB_SIG_V1\x03\0\0\0sigMCPB_SIG_END");
    Archive::open(&bytes).unwrap();
}

#[test]
fn no_prefix_and_no_flipped_byte_panics() {
    let bytes = zip(&[file("manifest.json"), file("a/b"), Raw { mode: 0o100_755, ..file("run.sh") }]);
    for end in 0..bytes.len() {
        assert!(Archive::open(&bytes[..end]).is_err());
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            if let Ok(mut archive) = Archive::open(&bytes) {
                let folder = tempfile::tempdir().unwrap();
                // It is refused or written within the folder; nothing else may happen.
                let _ = archive.unpack("", folder.path());
            }
        }
    }
}
