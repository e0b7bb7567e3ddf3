//! Codes of chain-agnostic identifiers.

super::codes! {}
