//! The index on both engines.

mod feed;
mod work;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;
#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod support;
