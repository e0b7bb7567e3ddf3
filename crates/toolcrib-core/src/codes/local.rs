//! Codes of the local rules.

super::codes! {}
