//! Resolution from TXT records to a verdict: test doubles for every source, hostile servers on loopback, real name servers,
//! chains and gateways.

mod authority;
mod bind;
mod chain;
mod contents;
mod corpus;
mod dns;
mod dnssec;
mod documents;
mod doubles;
mod fixture;
mod fns;
mod gateway;
mod helia;
mod history;
mod holders;
mod json_sources;
mod liars;
mod local;
mod many_gateways;
mod pin;
mod pinning;
mod reorgs;
mod resolving;
mod safe;
mod signatures;
mod support;
mod txt_answers;
mod vectors;
mod verdicts;
mod writers;

/// The content of a retrieval, if any.
fn content(retrieval: &toolcrib_agent::evidence::Retrieval) -> Option<&[u8]> {
    retrieval.content.as_ref().map(AsRef::as_ref)
}
