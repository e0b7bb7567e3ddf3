//! Commands that check whether a tool can be trusted: they query the chain and the tool's server, and change nothing.

pub(crate) mod diff;
pub(crate) mod door;
pub(crate) mod explain_hash;
mod git;
pub(crate) mod probe;
pub(crate) mod show;
pub(crate) mod verify;
pub(crate) mod watch;
mod webhook;

pub(crate) use door::{EgressArgs, verifier};
