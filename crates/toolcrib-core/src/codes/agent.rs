//! Codes of the agent rules.

super::codes! {}
