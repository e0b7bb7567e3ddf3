//! A gate in front of tools that are written in any language: `serve`, and `dry-run-gate`, which shows what it would answer.
//!
//! The backend of a tool is a URL, a program or a function of a local tool; all are in [`behind`]. Access is in [`gating`], settlement in
//! [`paying`], the replay store in [`keeping`], usage reports and metrics in [`telling`]. Options of all servers are in [`listening`].

mod behind;
pub(crate) mod dry_run;
mod gating;
mod keeping;
mod listening;
mod manifests;
mod paying;
pub(crate) mod serve;
mod telling;

pub(crate) use behind::{Behind, Function};
pub(crate) use listening::{TlsArgs, header_name};
pub(crate) use manifests::{Loaded, load};
pub(crate) use serve::{ServerArgs, serve_tools, stopped};
