//! Local tools: folders on the user's machine with functions that a model may call.

pub mod audit;
mod content;
pub mod export;
pub mod import;
pub mod install;
pub mod permissions;
pub mod secrets;

pub use content::{
    CONTENT_HASH_PREFIX, ContentHash, ContentHashError, EntryKind, FolderEntry, FolderError, MAX_FILES, MAX_FOLDER_BYTES,
    MAX_PATH_BYTES, hash_entries, hash_folder, list_folder,
};
