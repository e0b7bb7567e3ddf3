//! The index on both engines.

mod access;
mod export;
mod feed;
mod stage;
mod usage;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;
