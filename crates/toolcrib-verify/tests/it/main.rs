//! The cache, and what others registered.
#![expect(clippy::print_stderr, reason = "what a test skips is said loudly")]

mod cache;
mod corpus;
mod odd;
mod recorded;
mod reference;
mod sources;

#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod support;
#[path = "../world/mod.rs"]
mod world;
