//! Where a directory's embedding comes from: the option, the environment, the settings, or the usual folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toolcrib_core::codes;

use crate::outcome::{Failure, Stop};
use crate::printer::{Printer, shown};
use crate::settings::{Settings, data_folders};

/// The name of the folder in each folder of data.
const FOLDER: &str = "embedding";

/// What puts a known package into such a folder, without what it needs in Python.
const INSTALL: &str = "python3 -m pip install --no-deps wordllama==0.4.0.post1 --target";

/// The folder of the embedding. What is named must be there; without a name it is looked for in the usual folders, and its absence is
/// said here and nowhere else.
pub(crate) fn find(option: Option<&Path>, settings: &Settings, printer: &mut Printer) -> Result<Option<PathBuf>, Stop> {
    if let Some(path) = option.or(settings.embedding.value.as_deref()) {
        return Ok(Some(path.to_owned()));
    }
    let folders: Vec<PathBuf> = data_folders().into_iter().map(|folder| folder.join(FOLDER)).collect();
    for folder in &folders {
        match std::fs::metadata(folder) {
            Ok(_) => return Ok(Some(folder.clone())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => {
                let what = format!("cannot search {} for an embedding: {error}", folder.display());
                return Err(Failure::new(codes::index::EMBEDDING, what).into());
            }
        }
    }
    let place = folders.first().map_or_else(|| "FOLDER".to_owned(), |folder| shown(&folder.display().to_string()));
    printer.note(&format!("no embedding is installed, so search compares only words\nhint: {INSTALL} {place}"))?;
    Ok(None)
}
