//! Verification: a queue of tools to verify, and the workers.

mod batch;
mod batcher;
pub(crate) mod expiry;
mod groups;
pub(crate) mod intake;
pub(crate) mod jobs_table;
pub(crate) mod kept;
mod look;
pub(crate) mod origins;
mod outage;
pub(crate) mod pace;
mod prior;
mod queue;
mod site;
mod worker;
mod writing;

pub use expiry::Expired;
pub use kept::{MAX_VERDICTS, VerdictChange};
pub use look::{Live, Look, NameServers, ToolVerifier};
pub use pace::WorkOptions;
pub use queue::{Job, MAX_COUNTED, MAX_LEASE, Queue, QueueState, Reason, Wanted};
pub use worker::{Done, Round, Worker};
