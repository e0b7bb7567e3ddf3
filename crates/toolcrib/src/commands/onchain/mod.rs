//! Commands that reach a chain: those that look, and those that change.

pub(crate) mod agt;
pub(crate) mod dev;
pub(crate) mod look;
pub(crate) mod wallet;
pub(crate) mod write;
