//! The cache, and recorded registrations.
#![expect(clippy::print_stderr, reason = "tests print what they counted")]

mod cache;
mod corpus;
mod odd;
mod recorded;
mod reference;
mod sources;
