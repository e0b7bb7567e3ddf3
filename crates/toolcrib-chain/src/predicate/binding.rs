//! The registry that a predicate is bound to.
//!
//! Tool ids start at 1 in every registry. A predicate that stores settings by tool id for one registry would apply them to another
//! registry's tool with the same id. The check in this file runs before anything is signed.

use alloy_primitives::{Address, Bytes};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::{IRegistryPredicate, ISubscriptionPredicate};
use crate::registry::Registry;
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// Gas for `REGISTRY()`: an immutable costs a few hundred, a storage variable behind a proxy a few thousand.
const REGISTRY_GAS: u64 = 100_000;

/// A selector that is not used by any real function. Only a fallback answers it.
const NO_FUNCTION: [u8; 4] = [0xff; 4];

/// Returns the registry that a predicate returns from `REGISTRY()`, or from `registry()` like the reference's subscription predicate;
/// `None` for a predicate without these functions.
///
/// Any other return data than one word with an address counts as "without". So does a contract whose fallback returns the same data for
/// every call.
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

/// Returns an error if a predicate states another registry than the tool's.
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
