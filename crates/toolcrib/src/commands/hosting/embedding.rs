//! Finds the embedding of a directory: from the option, the environment, the settings, or the default folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toolcrib_core::codes;

use crate::outcome::{Failure, Stop};
use crate::printer::{Printer, shown};
use crate::settings::{Settings, data_folders};

/// The name of the default folder, inside the data folders.
const FOLDER: &str = "embedding";

/// The command that installs a known embedding package into such a folder, without its Python dependencies.
const INSTALL: &str = "python3 -m pip install --no-deps wordllama==0.4.0.post1 --target";

/// Returns the folder of the embedding. A configured folder must exist. Without one, the default folders are searched, and a note says so
/// if none exists.
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
