//! Codes of the tool rules.

super::codes! {}
