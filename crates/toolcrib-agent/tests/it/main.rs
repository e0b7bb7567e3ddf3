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
