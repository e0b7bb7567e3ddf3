//! Content from local files: the file itself, or an archive of its blocks. Both are checked like a gateway's response.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes;
use toolcrib_core::text;

use super::car::{Archive, CarError};
use super::cid::{Cid, Codec};
use super::dag::{MAX_BLOCK_BYTES, WalkLimits};
use super::retrieve::{Ended, Retriever, Untaken, refused_cid, single, unreachable};
use crate::evidence::{GatewayOutcome, Retrieval};
use crate::source::ContentSource;

/// Maximum size of an archive. The blocks of the largest content take a fiftieth of it; archives of several files fit too.
pub const MAX_ARCHIVE_BYTES: usize = 16 * 1024 * 1024;

/// A file that is claimed to have the CID.
#[derive(Clone, Debug)]
pub struct LocalFile {
    path: PathBuf,
    limits: WalkLimits,
}

impl LocalFile {
    /// Uses the file at `path`.
    pub fn new(path: impl Into<PathBuf>, limits: WalkLimits) -> Self {
        Self { path: path.into(), limits }
    }

    fn walk(&self, cid: Cid, bytes: &[u8]) -> Ended {
        let mut retriever = Retriever::new(cid.clone(), self.limits);
        while let Some(wanted) = retriever.wanted()? {
            if wanted != cid {
                return Err(GatewayOutcome::Unverifiable { reason: "the file is the first block of several".to_owned() });
            }
            retriever.take(&wanted, bytes).map_err(|untaken| match untaken {
                Untaken::Refused(outcome) => outcome,
                Untaken::Mismatch(block) if block.codec() == Codec::Raw => GatewayOutcome::Tampered { block: block.to_string() },
                Untaken::Mismatch(_) => {
                    GatewayOutcome::Unverifiable { reason: "no known layout gives the file this CID".to_owned() }
                }
            })?;
        }
        Ok(retriever.finish())
    }
}

#[async_trait]
impl ContentSource for LocalFile {
    async fn retrieve(&self, cid: &CidText, _: Instant) -> Retrieval {
        let source = self.clone();
        retrieve(&self.path, MAX_BLOCK_BYTES, cid, move |cid, bytes| source.walk(cid, bytes)).await
    }
}

/// An archive of blocks (`CARv1`) that is claimed to have the CID.
#[derive(Clone, Debug)]
pub struct CarFile {
    path: PathBuf,
    limits: WalkLimits,
}

impl CarFile {
    /// Uses the archive at `path`.
    pub fn new(path: impl Into<PathBuf>, limits: WalkLimits) -> Self {
        Self { path: path.into(), limits }
    }

    fn walk(&self, cid: Cid, bytes: &[u8]) -> Ended {
        let archive = Archive::parse(bytes).map_err(|error| match error {
            CarError::Mismatch { block } => GatewayOutcome::Tampered { block: block.to_string() },
            error => GatewayOutcome::Unverifiable { reason: error.to_string() },
        })?;
        let mut retriever = Retriever::new(cid, self.limits);
        while let Some(wanted) = retriever.wanted()? {
            let block = archive.block(&wanted).ok_or(GatewayOutcome::NotFound)?;
            retriever.take(&wanted, block).map_err(|untaken| match untaken {
                Untaken::Refused(outcome) => outcome,
                Untaken::Mismatch(block) => GatewayOutcome::Tampered { block: block.to_string() },
            })?;
        }
        Ok(retriever.finish())
    }
}

#[async_trait]
impl ContentSource for CarFile {
    async fn retrieve(&self, cid: &CidText, _: Instant) -> Retrieval {
        let source = self.clone();
        retrieve(&self.path, MAX_ARCHIVE_BYTES, cid, move |cid, bytes| source.walk(cid, bytes)).await
    }
}

/// Reads a file on a blocking thread and walks over it.
async fn retrieve(path: &Path, max: usize, cid: &CidText, walk: impl FnOnce(Cid, &[u8]) -> Ended + Send + 'static) -> Retrieval {
    let parsed = match Cid::try_from(cid) {
        Ok(parsed) => parsed,
        Err(error) => return refused_cid(cid, &error),
    };
    let started = Instant::now();
    let name = text::escape_for_display(&path.display().to_string());
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || match read_file(&path, max) {
        Ok(bytes) => (walk(parsed, &bytes), bytes.len() as u64),
        Err(outcome) => (Err(outcome), 0),
    });
    let (ended, bytes) =
        read.await.unwrap_or_else(|_| (Err(unreachable(codes::agent::FILE_UNREADABLE, "the reader was stopped")), 0));
    let took: Duration = started.elapsed();
    single(cid, name, ended, bytes, took)
}

/// Reads a regular file of at most `max` bytes, counted while reading.
fn read_file(path: &Path, max: usize) -> Result<Vec<u8>, GatewayOutcome> {
    let fail = |message: String| Err(unreachable(codes::agent::FILE_UNREADABLE, message));
    let read = || -> io::Result<Option<Vec<u8>>> {
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(max as u64 + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    match read() {
        Ok(Some(bytes)) if bytes.len() > max => fail(format!("the file has more than {max} bytes")),
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => fail("not a file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(GatewayOutcome::NotFound),
        Err(error) => fail(error.to_string()),
    }
}
