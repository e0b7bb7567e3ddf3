//! Tests of the public interface, on files: the vectors of this repository, and a corpus when one is given.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the crate itself reads no files; its tests do, and say what they counted"
)]

mod corpus;
mod vectors;
