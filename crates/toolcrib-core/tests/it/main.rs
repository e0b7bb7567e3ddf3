//! Tests over files: the project's own vectors, and a corpus of real data that is not part of the repository.
//!
//! The corpus is found through `TOOLCRIB_CORPUS`. Tests that need it say loudly when they are skipped.

mod corpus;
mod local_corpus;
mod reference_gaps;
mod tool_vectors;
mod verdicts;
