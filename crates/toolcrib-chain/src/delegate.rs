//! Delegations: whether one account may act for another (delegate.xyz, `DelegateRegistry` v2).

use alloy_primitives::{Address, B256, address};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::IDelegateRegistry;
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// The address of delegate.xyz's registry on every chain where it is deployed.
pub const DELEGATE_REGISTRY: Address = address!("00000000000000447e69651d841bD8D104Bed493");

/// Gas for one check, which takes a few storage reads.
const CHECK_GAS: u64 = 200_000;

/// Whether `holder` has delegated everything to `agent`. Delegations of a single contract or token do not count, because a predicate may
/// check any of the holder's assets.
///
/// Returns an error, never "no", if the registry is not deployed or does not return a boolean.
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
