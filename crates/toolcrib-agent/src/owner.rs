//! Reads the owner of a name from the Freename registry, as evidence.

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_chain::Error;
use toolcrib_chain::fns::{ContractAnswer, Fns, Holder};
use toolcrib_core::agent::AgtDomain;

use crate::evidence::{ContractRead, OwnerOutcome, OwnerRead};
use crate::source::OwnerSource;

#[async_trait]
impl OwnerSource for Fns {
    async fn holder(&self, domain: &AgtDomain, signed: Option<(B256, &[u8; 65])>) -> OwnerRead {
        let token_id = domain.token_id();
        let read = self.read(token_id, signed.map(|(digest, signature)| (digest, &signature[..]))).await;
        let outcome = match read.holder {
            Ok(Holder::Account(account)) => OwnerOutcome::Holder(account),
            Ok(Holder::NotMinted) => OwnerOutcome::NotMinted,
            Ok(Holder::NoCode) => OwnerOutcome::NoCode,
            Ok(Holder::Malformed { reason }) => OwnerOutcome::Malformed { reason: reason.to_owned() },
            Err(error) => {
                let (code, message) = described(&error);
                OwnerOutcome::Failed { code, message }
            }
        };
        let contract = read.contract.map(|answer| match answer {
            Ok(ContractAnswer::NotAContract) => ContractRead::NotAContract,
            Ok(ContractAnswer::Accepted) => ContractRead::Accepted,
            Ok(ContractAnswer::Rejected) => ContractRead::Rejected,
            Err(error) => {
                let (code, message) = described(&error);
                ContractRead::Failed { code, message }
            }
        });
        OwnerRead {
            chain_id: self.chain_id(),
            registry: self.registry(),
            token_id,
            block: read.block,
            block_hash: read.block_hash,
            outcome,
            contract,
        }
    }
}

/// The code and the message of an error. Messages of nodes are already escaped and truncated.
fn described(error: &Error) -> (String, String) {
    (error.code().id().to_owned(), error.to_string())
}
