//! Verifies the chain.

use std::fmt;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::lines::{Line, Read, next_line};
use super::log::rotated_files;
use super::{AUDIT_FILE, AuditError, Break, BreakCause, Head};
use crate::local::StateFileError;
use crate::local::state_file::open_regular;

/// The content of a valid log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Files that were read.
    pub files: usize,
    /// Lines in them.
    pub lines: u64,
    /// The head that the first line continues: [`Head::START`] unless older files were removed.
    pub starts_after: Head,
    /// The last line.
    pub head: Head,
    /// Chains that an operator restarted. Each restart names the file that was moved aside.
    pub restarts: u64,
    /// Bytes of an incomplete last line, which the next append moves aside.
    pub torn_bytes: u64,
}

impl Summary {
    const EMPTY: Self = Self { files: 0, lines: 0, starts_after: Head::START, head: Head::START, restarts: 0, torn_bytes: 0 };
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, files, head, .. } = self;
        let plural = if *files == 1 { "" } else { "s" };
        write!(f, "{lines} lines in {files} file{plural}, the last is number {} with hash {}", head.seq, head.hash)
    }
}

/// Verifies a log: a file, or a folder with `audit.jsonl` and the rotated files.
///
/// `noted` is a head from an earlier [`AuditLog::head`](super::AuditLog::head). Without it, removed lines at the end are not detected.
pub fn verify(path: &Path, noted: Option<&Head>) -> Result<Summary, AuditError> {
    let files = if path.is_dir() { files(path)? } else { vec![path.to_owned()] };
    let mut check =
        Check { before: None, noted, summary: Summary::EMPTY, has_noted: noted.is_none_or(|noted| *noted == Head::START) };
    let last = files.len().saturating_sub(1);
    for (index, file) in files.iter().enumerate() {
        check.file(file, index == last)?;
    }
    let summary = check.summary;
    match noted {
        Some(noted) if !check.has_noted && *noted != summary.starts_after => {
            Err(AuditError::Head { expected: *noted, found: summary.head })
        }
        _ => Ok(summary),
    }
}

/// The files of a folder in the order of their lines. A file that is rotated meanwhile is read once.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let mut files: Vec<_> = rotated_files(folder)?.into_iter().map(|(_, path)| path).collect();
    let current = folder.join(AUDIT_FILE);
    if current.try_exists().map_err(StateFileError::io("open", &current))? {
        files.push(current);
    }
    Ok(files)
}

struct Check<'n> {
    before: Option<Head>,
    noted: Option<&'n Head>,
    summary: Summary,
    has_noted: bool,
}

impl Check<'_> {
    fn file(&mut self, path: &Path, is_last: bool) -> Result<(), AuditError> {
        let missing = || StateFileError::io("open", path)(std::io::ErrorKind::NotFound.into());
        let (file, _) = open_regular(path)?.ok_or_else(missing)?;
        let mut reader = BufReader::new(file);
        let mut bytes = Vec::new();
        for number in 1.. {
            let broken = |why| Break { file: path.to_owned(), line: number, why };
            match next_line(&mut reader, &mut bytes).map_err(StateFileError::io("read", path))? {
                Read::Line => self.line(&bytes, number == 1).map_err(broken)?,
                Read::TooLong => return Err(broken(BreakCause::TooLong).into()),
                Read::Torn if is_last => self.summary.torn_bytes = bytes.len() as u64,
                Read::Torn => return Err(broken(BreakCause::Torn).into()),
                Read::End => break,
            }
        }
        self.summary.files += 1;
        Ok(())
    }

    fn line(&mut self, bytes: &[u8], is_first_of_file: bool) -> Result<(), BreakCause> {
        let line = Line::parse(bytes)?;
        let restarts = is_first_of_file && line.is_restart();
        match &self.before {
            Some(before) if restarts && line.head.seq > before.seq => {}
            Some(before) => line.continues(before)?,
            // A log whose first line has number 1 continues nothing. One whose older files were removed starts later.
            None if restarts => {}
            None if line.head.seq == 1 || line.prev == Head::START.hash => line.continues(&Head::START)?,
            None => {}
        }
        if self.before.is_none() && !restarts {
            self.summary.starts_after = Head { seq: line.head.seq.saturating_sub(1), hash: line.prev };
        }
        self.before = Some(line.head);
        self.has_noted |= self.noted.is_some_and(|noted| *noted == line.head);
        let summary = &mut self.summary;
        summary.lines += 1;
        summary.restarts += u64::from(restarts);
        summary.head = line.head;
        Ok(())
    }
}
