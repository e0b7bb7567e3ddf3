//! A gate in front of tools that are written in any language: `serve`, and `dry-run-gate`, which says what it would answer.
//!
//! The tool itself is a URL, a program or a function of a local tool; all are in [`behind`]. Who may call is in [`gating`], money in [`paying`], the store of
//! used payments in [`keeping`], who else is told in [`telling`]. Options of every server are in [`listening`].

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
