//! Codes of permissions of local tools.

super::codes! {}
