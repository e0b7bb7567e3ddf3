//! Codes of the schema rules.

super::codes! {}
