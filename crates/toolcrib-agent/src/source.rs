//! Where evidence comes from: TXT sources, content sources and the registry of names.
//!
//! Resolution is written against these traits, so that each part is tested by itself and a hostile one can stand in for any of them. None of
//! them fails: what went wrong is part of the answer.

use async_trait::async_trait;
use tokio::time::Instant;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::CidText;

use crate::evidence::{OwnerRead, Retrieval, TxtAnswer};

/// A source of TXT records.
#[async_trait]
pub trait TxtSource: Send + Sync {
    /// The name of the source in reports, without secrets.
    fn name(&self) -> &str;

    /// Asks for the TXT records of a name.
    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer;
}

/// A source of content by CID.
#[async_trait]
pub trait ContentSource: Send + Sync {
    /// Retrieves the content of a CID and checks it block by block.
    ///
    /// Nothing is waited for after `until`. A source that asks several places divides the time until then among them, and ends a little
    /// before, so that it can still say what each did.
    async fn retrieve(&self, cid: &CidText, until: Instant) -> Retrieval;
}

/// The registry that says who holds a name.
#[async_trait]
pub trait OwnerSource: Send + Sync {
    /// Reads the holder of a name. `signed` is a digest and a signature that a contract is asked about if it holds the name.
    async fn holder(&self, domain: &AgtDomain, signed: Option<(alloy_primitives::B256, &[u8; 65])>) -> OwnerRead;
}
