//! Addresses and deployment of Toolcrib's own contracts.
//!
//! Each contract has the same address on every chain, because the CREATE2 factory derives it from the code. Deployment is therefore
//! idempotent: a contract that already exists at its address has the same code and is skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, b256, keccak256};
use alloy_provider::Provider;
use alloy_sol_types::SolValue;
use serde::Deserialize;
use toolcrib_contracts::{DEPLOYMENTS, artifact};

use crate::Error;
use crate::network::{CREATE2_FACTORY, Network, Predicates};
use crate::rpc::Chain;
use crate::transaction::Call;
use crate::wallet::Wallet;

/// The CREATE2 salt of every deployment.
pub const SALT: B256 = b256!("0000000000000000000000000000000000000000000000000000000000000001");

/// How long to wait for one deployment.
const MAX_WAIT: Duration = Duration::from_secs(180);

/// The contracts to deploy, the registry first.
const CONTRACTS: [&str; 10] = [
    "ToolRegistry",
    "AccessProofPredicate",
    "CompositePredicate",
    "DenyAllPredicate",
    "ERC1155OwnerPredicate",
    "ERC20BalancePredicate",
    "ERC721OwnerPredicate",
    "MerkleAllowlistPredicate",
    "SubscriptionPredicate",
    "TraitGatedPredicate",
];

/// A name and constructor arguments.
type TestAsset = (&'static str, fn() -> Vec<u8>);

/// Tokens and other assets for tests and demos. Never deployed to public chains.
const TEST_ASSETS: [TestAsset; 7] = [
    ("TestERC721", || ("Test Collection", "TEST").abi_encode_params()),
    ("TestERC1155", || ("https://tokens.example/{id}.json",).abi_encode_params()),
    ("TestERC20", || ("Test Token", "TTK", U256::from(18)).abi_encode_params()),
    ("TestUSDC", || ("USD Coin", "2").abi_encode_params()),
    ("TestSubscriptionNFT", || ("Test Subscription", "TSUB").abi_encode_params()),
    ("TestTraitsNFT", || ("Test Traits", "TTRT").abi_encode_params()),
    ("TestDelegateRegistry", Vec::new),
];

/// One of Toolcrib's own contracts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Its name.
    pub name: &'static str,
    /// Its address on every chain.
    pub address: Address,
    /// The init code that the factory gets: code and constructor arguments.
    pub init_code: Bytes,
    /// keccak256 of the runtime code, if it does not depend on the address.
    pub code_hash: Option<B256>,
}

/// The result of deploying a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployed {
    /// Deployed now.
    Now,
    /// Already deployed.
    Before,
}

impl Contract {
    /// Returns the call that deploys it.
    pub fn call(&self) -> Call {
        Call { to: CREATE2_FACTORY, data: [SALT.as_slice(), &self.init_code].concat().into(), value: U256::ZERO }
    }
}

#[derive(Deserialize)]
struct Deployments {
    contracts: BTreeMap<String, ContractEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContractEntry {
    address: Address,
    constructor_arguments: Bytes,
    /// `null` for contracts whose runtime code depends on their address.
    code_hash: Option<B256>,
}

/// All our contracts, the registry first. `None` means that the artifacts in this crate contradict each other, which a test
/// rules out.
pub fn contracts() -> Option<Vec<Contract>> {
    let places: Deployments = serde_json::from_str(DEPLOYMENTS).ok()?;
    CONTRACTS
        .into_iter()
        .map(|name| {
            let place = places.contracts.get(name)?;
            let init_code = artifact(name)?.init_code(&place.constructor_arguments);
            Some(Contract { name, address: place.address, init_code, code_hash: place.code_hash })
        })
        .collect()
}

/// Test assets, at CREATE2 addresses like those of the contracts.
pub fn test_assets() -> Option<Vec<Contract>> {
    TEST_ASSETS
        .iter()
        .map(|(name, arguments)| {
            let init_code = artifact(name)?.init_code(&arguments());
            let address = CREATE2_FACTORY.create2_from_code(SALT, &init_code);
            Some(Contract { name, address, init_code, code_hash: None })
        })
        .collect()
}

/// Returns the network with our contracts deployed: their registry and predicates replace the built-in ones.
pub fn with_our_contracts(network: &Network) -> Network {
    let all = contracts().unwrap_or_default();
    let at = |name: &str| all.iter().find(|contract| contract.name == name).map(|contract| contract.address);
    Network {
        registry: at("ToolRegistry"),
        registry_code: all.iter().find(|contract| contract.name == "ToolRegistry").and_then(|contract| contract.code_hash),
        predicates: Predicates {
            erc721: at("ERC721OwnerPredicate"),
            erc1155: at("ERC1155OwnerPredicate"),
            subscription: at("SubscriptionPredicate"),
            traits: at("TraitGatedPredicate"),
            erc20: at("ERC20BalancePredicate"),
            merkle: at("MerkleAllowlistPredicate"),
            access_proof: at("AccessProofPredicate"),
            composite: at("CompositePredicate"),
            deny_all: at("DenyAllPredicate"),
        },
        ..network.clone()
    }
}

/// What a deployment of registry and predicates would do, and its maximum cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Every contract, in the order of deployment, with the gas of its transaction; `None` if it is already deployed.
    pub contracts: Vec<(Contract, Option<u64>)>,
    /// The current maximum fee per gas.
    pub max_fee_per_gas: u128,
    /// The account's balance in the native currency.
    pub balance: U256,
}

impl Plan {
    /// The contracts that are not deployed yet.
    pub fn missing(&self) -> impl Iterator<Item = (&Contract, u64)> {
        self.contracts.iter().filter_map(|(contract, gas)| Some((contract, (*gas)?)))
    }

    /// Gas of all transactions together.
    pub fn gas(&self) -> u64 {
        self.missing().map(|(_, gas)| gas).fold(0, u64::saturating_add)
    }

    /// The maximum cost for the account, in wei.
    pub fn most_cost(&self) -> U256 {
        U256::from(self.gas()).saturating_mul(U256::from(self.max_fee_per_gas))
    }
}

/// Computes what a deployment would do. Nothing is signed.
pub async fn plan(chain: &Chain, from: Address) -> Result<Plan, Error> {
    check_factory(chain).await?;
    let provider = chain.provider();
    let mut planned = Vec::new();
    for contract in contracts().unwrap_or_default() {
        let gas = if is_deployed(chain, &contract).await? { None } else { Some(chain.estimate(from, &contract.call()).await?) };
        planned.push((contract, gas));
    }
    let fees = provider.estimate_eip1559_fees().await.map_err(Error::from_rpc)?;
    let balance = provider.get_balance(from).await.map_err(Error::from_rpc)?;
    Ok(Plan { contracts: planned, max_fee_per_gas: fees.max_fee_per_gas, balance })
}

/// Deploys registry and predicates. Calls `progress` for each.
pub async fn deploy(chain: &Chain, wallet: &dyn Wallet, progress: impl FnMut(&Contract, Deployed)) -> Result<(), Error> {
    deploy_all(chain, wallet, contracts().unwrap_or_default(), progress).await
}

/// Deploys the test assets.
pub async fn deploy_test_assets(chain: &Chain, wallet: &dyn Wallet) -> Result<(), Error> {
    deploy_all(chain, wallet, test_assets().unwrap_or_default(), |_, _| {}).await
}

async fn deploy_all(
    chain: &Chain,
    wallet: &dyn Wallet,
    contracts: Vec<Contract>,
    mut progress: impl FnMut(&Contract, Deployed),
) -> Result<(), Error> {
    check_factory(chain).await?;
    for contract in contracts {
        if is_deployed(chain, &contract).await? {
            progress(&contract, Deployed::Before);
            continue;
        }
        chain.send(wallet, &contract.call(), MAX_WAIT).await?;
        if !is_deployed(chain, &contract).await? {
            return Err(Error::NotDeployed { name: contract.name, address: contract.address });
        }
        progress(&contract, Deployed::Now);
    }
    Ok(())
}

async fn check_factory(chain: &Chain) -> Result<(), Error> {
    if chain.code(CREATE2_FACTORY).await?.is_empty() {
        return Err(Error::NoFactory { factory: CREATE2_FACTORY });
    }
    Ok(())
}

/// Whether a contract is deployed. Other code at its address is an error: on an honest chain the address follows from the code.
async fn is_deployed(chain: &Chain, contract: &Contract) -> Result<bool, Error> {
    let code = chain.code(contract.address).await?;
    if code.is_empty() {
        return Ok(false);
    }
    match (contract.code_hash, keccak256(&code)) {
        (Some(expected), got) if expected != got => {
            Err(Error::OtherCode { name: contract.name, address: contract.address, expected, got })
        }
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_the_code() {
        let all = contracts().expect("the files fit each other");
        assert_eq!(all.len(), CONTRACTS.len());
        for contract in all {
            let derived = CREATE2_FACTORY.create2_from_code(SALT, &contract.init_code);
            assert_eq!(derived, contract.address, "{}", contract.name);
            assert!(contract.init_code.len() < 2 * 24_576, "{}: fits EIP-3860", contract.name);
        }
        assert_eq!(test_assets().map(|assets| assets.len()), Some(TEST_ASSETS.len()));
        let network = with_our_contracts(Network::find("local").expect("built in"));
        assert!(network.registry.is_some() && network.predicates.deny_all.is_some());
        let usdc = test_assets().into_iter().flatten().find(|asset| asset.name == "TestUSDC").expect("listed").address;
        let pinned = toolcrib_x402::asset::usdc(crate::network::LOCAL_CHAIN_ID).expect("listed");
        assert_eq!(usdc, pinned.address, "the pinned table follows the code of the test token");
    }
}
