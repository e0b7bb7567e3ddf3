//! Tests of the public interface, on files: the vectors of this repository, and a corpus when one is given.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "core itself reads no files; its tests do, and say what they skip"
)]

mod agent_corpus;
mod erc_verdicts;
mod jcs_corpus;
mod jcs_vectors;
mod kind_corpus;
mod local_corpus;
mod local_vectors;
mod reference_gaps;
mod schema_suite;
mod tool_vectors;
mod url_corpus;
mod verdicts;
