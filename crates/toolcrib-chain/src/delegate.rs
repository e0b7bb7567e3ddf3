//! Delegations: whether one account lets another act for it (delegate.xyz, `DelegateRegistry` v2).

use alloy_primitives::{Address, B256, address};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::IDelegateRegistry;
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// Where delegate.xyz has its registry, on every chain that has one.
pub const DELEGATE_REGISTRY: Address = address!("00000000000000447e69651d841bD8D104Bed493");

/// Gas for one answer, which takes a few reads of storage.
const CHECK_GAS: u64 = 200_000;

/// Whether `holder` has delegated everything to `agent`. Narrower delegations, of one contract or token, do not count: a predicate may
/// look at anything that the holder has.
///
/// A registry that is not there, or does not answer with a boolean, is an error and never a no.
pub async fn is_delegate(chain: &Chain, registry: Address, agent: Address, holder: Address) -> Result<bool, Error> {
    let call = IDelegateRegistry::checkDelegateForAllCall { to: agent, from: holder, rights: B256::ZERO };
    let call = BoundedCall { to: registry, data: call.abi_encode().into(), from: None, gas: Some(CHECK_GAS), max_bytes: 32 };
    let length = match chain.call(&call).await? {
        CallOutcome::Returned(bytes) if bytes[..] == B256::ZERO[..] => return Ok(false),
        CallOutcome::Returned(bytes) if bytes[..] == B256::with_last_byte(1)[..] => return Ok(true),
        CallOutcome::Returned(bytes) => bytes.len(),
        _ => 0,
    };
    Err(Error::Undecodable { contract: registry, function: "checkDelegateForAll", length })
}
