//! Reproducible archives: the same files give the same bytes.

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

/// A file to archive.
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) executable: bool,
}

/// Best compression. The level is fixed, because a default could change.
const LEVEL: i64 = 9;

/// Returns a zip file with sorted names, the earliest zip timestamp for all files, and no extra fields.
pub(super) fn write(mut entries: Vec<Entry>) -> Result<Vec<u8>, zip::result::ZipError> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .last_modified_time(DateTime::DEFAULT)
            .system(System::Unix)
            .unix_permissions(if entry.executable { 0o755 } else { 0o644 });
        writer.start_file(entry.path, options)?;
        writer.write_all(&entry.bytes)?;
    }
    Ok(writer.finish()?.into_inner())
}
