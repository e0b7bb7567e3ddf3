//! Codes of exporting and importing local tools.

super::codes! {}
