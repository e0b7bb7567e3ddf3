//! The directory on both engines.

mod calls;
mod contract;
mod feeds;
mod filters;
mod hostile;
mod keeping;
mod keys;
mod openapi;
mod serving;
mod shelf;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;
