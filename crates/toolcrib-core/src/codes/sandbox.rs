//! Codes of running programs under limits.

super::codes! {}
