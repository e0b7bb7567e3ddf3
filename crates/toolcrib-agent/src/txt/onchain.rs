//! TXT records that the owner of a name wrote onchain: the only source without an intermediary except the node.

use std::time::Instant;

use alloy_primitives::Address;
use async_trait::async_trait;
use toolcrib_chain::fns::records::{self, RecordsError, TxtRecords};
use toolcrib_chain::rpc::Chain;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;

use super::{answer, failed, records};
use crate::evidence::{TxtAnswer, TxtLookup};
use crate::source::TxtSource;

/// The records of the Freename registry (FNS).
#[derive(Debug)]
pub struct FnsSource {
    chain: Chain,
    registry: Address,
}

impl FnsSource {
    /// Uses the registry at this address. The nodes must be on the network that the chain was created for.
    pub const fn new(chain: Chain, registry: Address) -> Self {
        Self { chain, registry }
    }
}

#[async_trait]
impl TxtSource for FnsSource {
    fn name(&self) -> &str {
        "fns"
    }

    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer {
        let started = Instant::now();
        let outcome = match records::txt_records(&self.chain, self.registry, domain.token_id()).await {
            Ok(TxtRecords::Found { records: found, .. }) => records(found),
            Ok(TxtRecords::NotMinted { .. }) => TxtLookup::NotFound,
            Err(RecordsError::Chain(error)) => failed(error.code(), &error.to_string()),
            Err(error @ RecordsError::TooMuch) => failed(codes::agent::TXT_TOO_MUCH, &error.to_string()),
            Err(error) => failed(codes::agent::FNS_RECORDS_MALFORMED, &error.to_string()),
        };
        answer("fns", started, outcome)
    }
}
