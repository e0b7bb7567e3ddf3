//! The registry that a predicate is bound to.
//!
//! Tool ids start at 1 in every registry. A predicate that keeps settings by tool id for one registry therefore answers for another
//! registry's tool when it is put there: the check in this file runs before anything is signed.

use alloy_primitives::{Address, Bytes};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::{IRegistryPredicate, ISubscriptionPredicate};
use crate::registry::Registry;
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// Gas for `REGISTRY()`: an immutable costs a few hundred, one in storage behind a proxy a few thousand.
const REGISTRY_GAS: u64 = 100_000;

/// A selector that no function has on purpose. Only a fallback answers it.
const NO_FUNCTION: [u8; 4] = [0xff; 4];

/// Returns the registry that a predicate states by `REGISTRY()`, or by `registry()` as the reference's subscription predicate does;
/// `None` for a predicate without these functions.
///
/// Anything but one word that holds an address counts as "without". So does a contract whose fallback gives the same answer to every
/// call.
pub async fn registry_of(chain: &Chain, predicate: Address) -> Result<Option<Address>, Error> {
    let upper = address_from(chain, predicate, IRegistryPredicate::REGISTRYCall {}.abi_encode().into()).await?;
    let stated = match upper {
        None => address_from(chain, predicate, ISubscriptionPredicate::registryCall {}.abi_encode().into()).await?,
        stated => stated,
    };
    let Some(stated) = stated else { return Ok(None) };
    let fallback = address_from(chain, predicate, Bytes::from_static(&NO_FUNCTION)).await?;
    Ok(Some(stated).filter(|_| fallback != Some(stated)))
}

/// Refuses a predicate that states another registry than the one of the tool.
pub async fn check_registry(registry: &Registry, predicate: Address) -> Result<(), Error> {
    match registry_of(registry.chain(), predicate).await? {
        Some(stated) if stated != registry.address() => {
            Err(Error::OtherRegistry { predicate, stated, registry: registry.address() })
        }
        _ => Ok(()),
    }
}

async fn address_from(chain: &Chain, to: Address, data: Bytes) -> Result<Option<Address>, Error> {
    let call = BoundedCall { to, data, from: None, gas: Some(REGISTRY_GAS), max_bytes: 32 };
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) if bytes.len() == 32 && bytes[..12] == [0; 12] => Some(Address::from_slice(&bytes[12..])),
        _ => None,
    })
}
