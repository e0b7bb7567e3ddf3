//! Report formats.

pub(crate) mod github;
pub(crate) mod human;
pub(crate) mod sarif;
pub(crate) mod snippet;
