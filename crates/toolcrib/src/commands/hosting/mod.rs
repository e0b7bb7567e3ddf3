//! Commands that run for long and serve others: the index and the directory.

pub(crate) mod directory;
pub(crate) mod engine;
pub(crate) mod followed;
pub(crate) mod house;
pub(crate) mod index;
pub(crate) mod logging;
pub(crate) mod shelf;
