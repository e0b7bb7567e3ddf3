//! Commands: one file or folder for each.

pub(crate) mod agt;
pub(crate) mod calling;
pub(crate) mod canon;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod discovery;
pub(crate) mod explain;
pub(crate) mod hash;
pub(crate) mod help;
pub(crate) mod hosting;
pub(crate) mod init;
pub(crate) mod lint;
pub(crate) mod local;
pub(crate) mod new;
pub(crate) mod onchain;
pub(crate) mod schema;
pub(crate) mod serving;
pub(crate) mod shell;
pub(crate) mod trust;
pub(crate) mod validate;
