//! Codes of secrets of local tools.

super::codes! {}
