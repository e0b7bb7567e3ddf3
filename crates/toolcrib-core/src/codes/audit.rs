//! Codes of the audit log of local tools.

super::codes! {}
