//! Accounts that are not deployed yet (ERC-6492): simulates a call after the deployment call in their signature.
//!
//! One `eth_call` without a recipient runs the factory and then the account; nothing persists. It needs no contract on the chain and no
//! state override, so every node of an EVM chain supports it. Chains with another virtual machine do not.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::SolValue;
use toolcrib_x402::erc6492::Wrapped;

use crate::Error;
use crate::rpc::{CallOutcome, Chain};

/// Gas for a factory to deploy an account. Common factories take 150,000 to 500,000.
pub const DEPLOYMENT_GAS: u64 = 3_000_000;

/// Gas for the simulation itself: the transaction, its calldata, and the result, which a node charges like deployed code.
const OVERHEAD_GAS: u64 = 1_000_000;

/// Maximum length of the second call's return data; `SimulatedCalls` truncates the rest.
const MAX_RETURNED_BYTES: usize = 1_024;

/// The contract that makes both calls in its constructor.
static SIMULATED_CALLS: LazyLock<Bytes> = LazyLock::new(|| {
    // A test rules out that it is missing; without code every simulation fails, and no signature is accepted.
    toolcrib_contracts::artifact("SimulatedCalls").map_or_else(Bytes::new, |artifact| artifact.init_code(&[]))
});

/// The result of a call in a simulation after the account's deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// The factory call fails.
    NotDeployed,
    /// The call reverts with these bytes.
    Reverted(Bytes),
    /// The call returns these bytes; an address without code returns none.
    Returned(Bytes),
}

/// Simulates the factory call of a wrapped signature and then a call of `to` with `data`, with at most `gas` for both. Nothing is sent to
/// the chain, and no state change persists.
pub async fn simulate_deployed(
    chain: &Chain,
    wrapped: &Wrapped<'_>,
    to: Address,
    data: Bytes,
    gas: u64,
) -> Result<Simulated, Error> {
    let arguments = (wrapped.factory, Bytes::copy_from_slice(wrapped.calldata), to, data).abi_encode_params();
    let code = [SIMULATED_CALLS.as_ref(), &arguments].concat().into();
    let outcome = chain.call_code(code, gas.saturating_add(OVERHEAD_GAS), 32 + MAX_RETURNED_BYTES).await?;
    let CallOutcome::Returned(bytes) = outcome else { return Ok(Simulated::NotDeployed) };
    let Some((status, rest)) = bytes.split_first_chunk::<32>() else { return Ok(Simulated::NotDeployed) };
    let returned = Bytes::copy_from_slice(rest);
    Ok(match B256::from(*status) {
        status if status == B256::with_last_byte(2) => Simulated::Returned(returned),
        status if status == B256::with_last_byte(1) => Simulated::Reverted(returned),
        _ => Simulated::NotDeployed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_the_simulation_is_there() {
        assert!(SIMULATED_CALLS.len() > 100);
    }
}
