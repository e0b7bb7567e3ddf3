//! Warns if a gate may exceed the registry's gas on a chain that charges more than Ethereum for cold access.
//!
//! Our predicates refuse configurations that do not fit at Ethereum's costs, and known bugs of the reference's predicates are in
//! `toolcrib_core::registry::known`. What remains is the cost on other chains.

use std::fmt;

use alloy_primitives::Address;
use toolcrib_chain::network::Network;
use toolcrib_chain::predicate::{ProxyKind, detect_proxy};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::gas::{self, ColdAccess, GasUse, Implementation, TokenCode};
use toolcrib_core::registry::known::REGISTRY_GAS;

use crate::Error;
use crate::plan::Gate;

/// A gate that may run out of gas on its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GasWarning {
    /// The chain.
    pub network: &'static str,
    /// The chain's gas costs.
    pub prices: ColdAccess,
    /// The estimate; `None` for a composite, whose terms are configured elsewhere.
    pub needs: Option<GasUse>,
}

impl GasWarning {
    /// Returns the code of this warning.
    pub const fn code(&self) -> Code {
        codes::predicate::GAS_ON_CHAIN
    }
}

impl fmt::Display for GasWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, prices: ColdAccess { account, slot }, needs } = self;
        match needs {
            Some(needs) => write!(
                f,
                "this predicate may run out of the {REGISTRY_GAS} gas that the registry gives on {network}: a check reads up to {} \
                 accounts at {account} gas and {} slots at {slot}, about {} gas in all ({} on Ethereum)",
                needs.accounts,
                needs.slots,
                needs.at(self.prices),
                needs.at(ColdAccess::ETHEREUM),
            ),
            None => write!(
                f,
                "terms of this composite may run out of gas on {network}: they share the {REGISTRY_GAS} gas that the registry gives, \
                 and {network} charges {account} gas for first access to an account and {slot} for a slot; check with `toolcrib \
                 access` once it is configured"
            ),
        }
    }
}

/// Estimates the gas of a gate's check for a holder of its last token, and returns a warning if the registry's gas limit may not suffice.
/// Checks whether the tokens are proxies. Reads nothing on chains with Ethereum's costs.
pub async fn warning(gate: &Gate, registry: &Registry) -> Result<Option<GasWarning>, Error> {
    let chain = registry.chain();
    let Network { title, cold_access, .. } = *chain.network();
    if cold_access == ColdAccess::ETHEREUM {
        return Ok(None);
    }
    let found = |needs| Some(GasWarning { network: title, prices: cold_access, needs });
    if matches!(gate, Gate::Composite { .. }) {
        return Ok(found(None));
    }
    let needs = estimate(gate, chain).await?;
    Ok(needs.filter(|needs| !needs.fits_registry(cold_access)).and_then(|needs| found(Some(needs))))
}

/// Returns `None` for gates without a list of tokens: they fit at all known costs.
async fn estimate(gate: &Gate, chain: &Chain) -> Result<Option<GasUse>, Error> {
    Ok(match gate {
        Gate::Erc721 { predicate, collections } => {
            let mut codes = Vec::new();
            for collection in collections {
                codes.push(token_code(chain, *collection).await?);
            }
            Some(gas::erc721(implementation(chain, *predicate), codes))
        }
        Gate::Erc1155 { predicate, tokens } => {
            let mut codes = Vec::new();
            for (collection, ids) in tokens {
                codes.push((token_code(chain, *collection).await?, ids.len()));
            }
            Some(gas::erc1155(implementation(chain, *predicate), codes))
        }
        Gate::Erc20 { token, .. } => Some(gas::erc20(token_code(chain, *token).await?)),
        _ => None,
    })
}

/// Our own predicates are recognised by their addresses, which are the same on every chain.
fn implementation(chain: &Chain, predicate: Address) -> Implementation {
    let ours = toolcrib_chain::deploy::with_our_contracts(chain.network()).predicates;
    if [ours.erc721, ours.erc1155].contains(&Some(predicate)) { Implementation::Toolcrib } else { Implementation::Reference }
}

/// Detects ERC-1967 proxies. Other designs look like a plain contract.
async fn token_code(chain: &Chain, token: Address) -> Result<TokenCode, Error> {
    let code = chain.code(token).await?;
    Ok(match detect_proxy(chain, token, &code).await?.map(|proxy| proxy.kind) {
        Some(ProxyKind::Beacon) => TokenCode::Beacon,
        Some(_) => TokenCode::Proxy,
        None => TokenCode::Plain,
    })
}
