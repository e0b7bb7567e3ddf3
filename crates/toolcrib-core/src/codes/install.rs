//! Codes of installing local tools.

super::codes! {}
