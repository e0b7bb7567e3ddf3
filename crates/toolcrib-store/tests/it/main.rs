//! One suite of scenarios for every backend, a model to compare with, real processes that race and are killed, and the database layer.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![expect(clippy::print_stdout, reason = "children talk to their parent")]

mod batches;
mod bulk;
mod database;
mod flat;
mod model;
#[cfg(feature = "objects")]
mod objects;
mod payment_ids;
mod processes;
mod room;
mod rows;
mod scenarios;
