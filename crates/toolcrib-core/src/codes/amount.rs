//! Codes of amounts.

super::codes! {}
