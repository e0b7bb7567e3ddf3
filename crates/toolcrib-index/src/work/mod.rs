//! Verification: a queue of tools to look at, and workers that do.

pub(crate) mod jobs_table;
