//! Tests of the public interface, on files: the vectors of this repository, and a corpus when one is given.
#![expect(clippy::disallowed_methods, reason = "the crate itself reads no files; its tests do")]

mod drift;
mod explain;
