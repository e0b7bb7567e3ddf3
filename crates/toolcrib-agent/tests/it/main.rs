//! Judgement and resolution of `.agt` names: doubles for every source, real chains for the holder.

mod chain;
mod contents;
mod corpus;
mod documents;
mod doubles;
mod fixture;
mod history;
mod holders;
mod resolving;
mod signatures;
mod txt_answers;
mod vectors;
mod verdicts;
//! Retrieval and publishing against servers on loopback, most of them hostile.
mod gateway;
mod helia;
mod local;
mod pin;
#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod support;
/// The content of a retrieval, if there is one.
fn content(retrieval: &toolcrib_agent::evidence::Retrieval) -> Option<&[u8]> {
    retrieval.content.as_ref().map(AsRef::as_ref)
}
//! TXT sources and writers against servers on this machine: honest ones, hostile ones, and BIND.
mod authority;
mod bind;
mod dns;
mod dnssec;
mod fns;
mod json_sources;
mod liars;
mod writers;
