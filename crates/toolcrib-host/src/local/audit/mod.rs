//! The audit log: one hash-chained JSON line for every decision and call.
