//! Commands that find out whether a tool can be trusted: they ask the chain and the tool's own server, and change nothing.

mod door;
pub(crate) mod show;
pub(crate) mod verify;

pub(crate) use door::{Reach, verifier};
