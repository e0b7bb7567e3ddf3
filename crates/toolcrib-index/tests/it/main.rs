//! The index on both engines.

mod feed;
mod search;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;

#[path = "../support/quality.rs"]
mod quality;
#[path = "../support/mod.rs"]
mod samples;
