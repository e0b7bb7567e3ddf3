//! Codes of the url rules.

super::codes! {}
