//! Money.
