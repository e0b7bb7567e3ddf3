//! Sources of evidence: TXT sources, content sources and the registry of names.
//!
//! Resolution uses only these traits, so that each part is tested separately, and tests can replace any of them by a hostile one. Their
//! methods never return errors: a failure is part of the result.

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

    /// Looks up the TXT records of a name.
    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer;
}

/// A source of content by CID.
#[async_trait]
pub trait ContentSource: Send + Sync {
    /// Retrieves the content of a CID and checks it block by block.
    ///
    /// It must return before `until`. A source that asks several gateways divides the time among them, and ends a little
    /// earlier to report what each did.
    async fn retrieve(&self, cid: &CidText, until: Instant) -> Retrieval;
}

/// A registry of owners.
#[async_trait]
pub trait OwnerSource: Send + Sync {
    /// Reads the owner of a name. If the owner is a contract, it is asked whether the digest and signature in `signed` are valid.
    async fn holder(&self, domain: &AgtDomain, signed: Option<(alloy_primitives::B256, &[u8; 65])>) -> OwnerRead;
}
