//! Commands that use a chain: read-only ones, and those that send transactions.

pub(crate) mod contracts;
mod gate;
pub(crate) mod look;
pub(crate) mod pause;
pub(crate) mod publish;
mod serving;
pub(crate) mod wallet;
mod work;
pub(crate) mod write;

pub(crate) use work::confirm;
