//! TXT records from a file, for offline use.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use async_trait::async_trait;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::{MAX_TOTAL_BYTES, records_from_text};
use toolcrib_core::codes;

use super::{answer, failed, records};
use crate::evidence::TxtAnswer;
use crate::source::TxtSource;

/// Maximum size of the file. Zone files need at most four characters per byte, and comments take room.
const MAX_FILE_BYTES: usize = 8 * MAX_TOTAL_BYTES;

/// A text file with one record per line. Its records are returned for every requested name.
#[derive(Debug)]
pub struct FileSource {
    name: String,
    path: PathBuf,
}

impl FileSource {
    /// Uses the file at `path`, which is read at each lookup.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: format!("file:{}", path.display()), path }
    }
}

#[async_trait]
impl TxtSource for FileSource {
    fn name(&self) -> &str {
        &self.name
    }

    async fn lookup(&self, _: &AgtDomain) -> TxtAnswer {
        let started = Instant::now();
        let path = self.path.clone();
        let outcome = match tokio::task::spawn_blocking(move || read(&path)).await {
            Ok(Ok(text)) => records(records_from_text(&text).into_iter().map(|record| record.bytes).collect()),
            Ok(Err(reason)) => failed(codes::agent::TXT_FILE, &reason),
            Err(error) => failed(codes::agent::TXT_FILE, &error.to_string()),
        };
        answer(&self.name, started, outcome)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let limit = MAX_FILE_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(format!("the file has more than {MAX_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::TxtLookup;

    fn domain() -> AgtDomain {
        AgtDomain::parse("exampleagent.agt").unwrap()
    }

    #[tokio::test]
    async fn records_of_a_file_are_those_of_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.txt");
        std::fs::write(&path, "; comment\nagt-version=1\n\"agt-\" \"name=A\"\n").unwrap();
        let found = FileSource::new(&path).lookup(&domain()).await;
        assert_eq!(found.outcome, TxtLookup::Records(vec![b"agt-version=1".into(), b"agt-name=A".into()]));
        assert!(found.source.starts_with("file:"));
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(FileSource::new(&path).lookup(&domain()).await.outcome, TxtLookup::NoRecords);
    }

    #[tokio::test]
    async fn files_that_cannot_be_read_have_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.txt");
        let code = |outcome: TxtLookup| match outcome {
            TxtLookup::Failed { code, .. } => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(FileSource::new(&path).lookup(&domain()).await.outcome), "agent.txt_file");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(code(FileSource::new(&path).lookup(&domain()).await.outcome), "agent.txt_file");
        std::fs::write(&path, "x".repeat(MAX_FILE_BYTES + 1)).unwrap();
        assert_eq!(code(FileSource::new(&path).lookup(&domain()).await.outcome), "agent.txt_file");
        std::fs::write(&path, "x\n".repeat(2_000)).unwrap();
        assert_eq!(code(FileSource::new(&path).lookup(&domain()).await.outcome), "agent.txt_too_much");
    }
}
