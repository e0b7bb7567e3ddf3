//! Tests of the crate as its users see it.

mod url_corpus;
