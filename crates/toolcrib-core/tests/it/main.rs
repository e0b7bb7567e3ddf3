//! Tests that look at the crate from outside, most of them over a corpus of foreign files.

mod schema_suite;
