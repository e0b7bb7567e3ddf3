//! Retrieval and publishing against servers on loopback, most of them hostile.

mod gateway;
mod helia;
mod local;
mod pin;
#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod support;
