//! The index on both engines.

mod feed;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;
