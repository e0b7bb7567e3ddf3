//! Who may call, as the environment says it.

use std::error::Error;
//#if paid
use std::sync::Arc;
//#end

//#if chain
use toolcrib_chain::deploy::with_our_contracts;
use toolcrib_chain::network::Network;
//#end
//#if predicate
use toolcrib_chain::registry::Registry;
//#end
//#if chain
use toolcrib_chain::rpc::{Chain, ChainConfig};
//#end
//#if paid
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_gate::{Facilitator, Gate, LocalSettlement, PaidGate};
//#end
//#if free
use toolcrib_gate::Gate;
//#end

/// The gate, and whether calls are taken.
pub async fn from_env() -> Result<(Gate, bool), Box<dyn Error>> {
//#if open
    Ok((Gate::Open, true))
//#end
//#if predicate_only
    // The id of the tool in the registry, which it gets when it is published.
    let Some(id) = setting("TOOL_ID") else { return Ok((Gate::Open, false)) };
    let registry = Registry::of(chain().await?)?;
    Ok((Gate::predicate(registry, id.parse()?).into(), true))
//#end
//#if paid_only
    let gate = paid().await?;
    Ok((gate.into(), true))
//#end
//#if paid_predicate
    let gate = paid().await?;
    // The id of the tool in the registry, which it gets when it is published.
    let Some(id) = setting("TOOL_ID") else { return Ok((gate.into(), false)) };
    let registry = Registry::of(chain().await?)?;
    Ok((gate.predicate(Gate::predicate(registry, id.parse()?)).into(), true))
//#end
}
//#if paid

/// Payments are settled by a facilitator, or by your key, which pays the gas.
async fn paid() -> Result<PaidGate, Box<dyn Error>> {
    if let Some(url) = setting("FACILITATOR_URL") {
        return Ok(Gate::paid(Facilitator::from_setting(&url)?));
    }
    let chain = chain().await?;
    let wallet = match setting("TOOLCRIB_PRIVATE_KEY") {
        Some(_) => LocalWallet::from_env("TOOLCRIB_PRIVATE_KEY")?,
        // A public development key, for a local chain. Not the last one: the sample tools of `dev` settle with it.
        None if chain.network().is_local => LocalWallet::development(8)?,
        None => return Err("set FACILITATOR_URL, or TOOLCRIB_PRIVATE_KEY to settle payments".into()),
    };
    let manifest = crate::manifest();
    let recipients = manifest.value().pricing().iter().filter_map(|price| price.recipient.evm_address());
    Ok(Gate::paid(LocalSettlement::new(Arc::new(wallet), [chain]).recipients(recipients)))
}
//#end
//#if chain

/// The chain of the tool, at the node that RPC_URL names; the one of `toolcrib dev`, or a public one, without it.
async fn chain() -> Result<Chain, Box<dyn Error>> {
    let network = {{found}};
    let url = setting("RPC_URL");
    let config = if network.is_local {
        ChainConfig::from_setting(&with_our_contracts(network), url.as_deref())?
    } else {
        ChainConfig::from_setting(network, url.as_deref())?
    };
    Ok(Chain::connect(config).await?)
}
//#end

/// A setting from the environment. An empty one counts as none.
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
