//! Local tools: folders on the user's machine with functions that models can call.

mod arguments;
pub mod audit;
mod call;
mod canonical;
mod content;
mod doctor;
pub mod export;
mod folder;
mod host;
pub mod import;
pub mod install;
mod make_runtime;
mod manage;
pub mod permissions;
mod publish;
mod request;
mod result;
mod runtime;
mod sandbox;
pub mod secrets;
mod set;
mod shown;
mod snapshot;
pub(crate) mod state_file;
mod watch;

pub use call::DEFAULT_LIMIT;
pub use content::{
    CONTENT_HASH_PREFIX, ContentHash, ContentHashError, EntryKind, FolderEntry, FolderError, MAX_FILES, MAX_FOLDER_BYTES,
    MAX_PATH_BYTES, hash_entries, hash_folder, list_folder,
};
pub use doctor::Check;
pub use folder::{LoadError, LoadedFunction, LoadedTool, MANIFEST, PROMPT};
pub use host::{Host, HostError, HostSettings};
pub use manage::ChangeError;
pub use publish::{PublishError, PublishOptions, Published, PublishedError};
pub use request::{Approval, ApprovalPrompt, Bound, CallError, CallRequest, CallResult};
pub use result::{MODEL_RESULT_BYTES, ModelResult};
pub use runtime::{Event, Events, MAX_RESULT_BYTES, RunError};
pub use set::{MAX_TOOLS, Problem, ToolSet};
pub use snapshot::SnapshotError;
pub use state_file::StateFileError;

pub(crate) use call::definition;
pub(crate) use shown::access;
