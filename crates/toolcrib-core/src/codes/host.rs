//! Codes of loading and calling local tools.

super::codes! {}
