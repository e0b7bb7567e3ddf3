//! Local tools: folders on the user's machine with functions that a model may call.

pub mod audit;
mod canonical;
mod content;
pub mod export;
pub mod import;
pub mod install;
pub mod permissions;
pub mod secrets;
mod state_file;

pub use content::{CONTENT_HASH_PREFIX, ContentHash, ContentHashError};
pub use state_file::StateFileError;
