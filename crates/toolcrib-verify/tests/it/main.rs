//! The cache, and what others registered.
#![expect(clippy::print_stderr, reason = "tests print what they counted")]

mod cache;
mod corpus;
mod odd;
mod recorded;
mod reference;
mod sources;
