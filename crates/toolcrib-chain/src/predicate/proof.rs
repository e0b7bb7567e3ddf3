//! Which proof a predicate expects in `data`.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolCall;
use toolcrib_core::registry::{PROOF_BASED_INTERFACE, RequirementKind};

use crate::Error;
use crate::abi::{IAccessPredicate, IProofBased};
use crate::rpc::{BoundedCall, CallOutcome, Chain};

use super::{ERC165_GAS, Opaque, read_text, supports_interface};

/// Proof-based predicates by name: those of the reference do not claim [`PROOF_BASED_INTERFACE`].
const BY_NAME: [(&str, RequirementKind); 3] = [
    ("TraitGatedPredicate", RequirementKind::Erc7496Trait),
    ("AccessProofPredicate", RequirementKind::AccessProof),
    ("MerkleAllowlistPredicate", RequirementKind::MerkleAllowlist),
];

/// Returns the requirement kind of the proof that a predicate expects in `data`, which determines the encoding. `None` if the predicate
/// ignores `data` or does not state a kind.
pub async fn proof_kind(chain: &Chain, predicate: Address) -> Result<Option<[u8; 4]>, Error> {
    if supports_interface(chain, predicate, PROOF_BASED_INTERFACE).await?
        && let Some(kind) = stated_kind(chain, predicate).await?
    {
        return Ok(Some(kind));
    }
    let name = read_text(chain, predicate, IAccessPredicate::nameCall {}.abi_encode()).await?;
    let known = |name: Opaque| BY_NAME.iter().find(|(known, _)| *known == name.as_str()).map(|(_, kind)| kind.id());
    Ok(name.and_then(known))
}

async fn stated_kind(chain: &Chain, predicate: Address) -> Result<Option<[u8; 4]>, Error> {
    let data = IProofBased::proofKindCall {}.abi_encode().into();
    let call = BoundedCall { to: predicate, data, from: None, gas: Some(ERC165_GAS), max_bytes: 32 };
    let CallOutcome::Returned(bytes) = chain.call(&call).await? else { return Ok(None) };
    let Ok(word) = <[u8; 32]>::try_from(&bytes[..]) else { return Ok(None) };
    let [a, b, c, d, rest @ ..] = word;
    Ok((rest == [0; 28] && U256::from_be_bytes(word) != U256::ZERO).then_some([a, b, c, d]))
}
