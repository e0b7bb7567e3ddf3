//! Compiled contracts of Toolcrib: the ERC-8257 registry, its access predicates and test assets, with their addresses.
//!
//! Cargo needs no Solidity compiler: the artifacts are committed, and `contracts/check` verifies that the sources compile to the same
//! bytes.
//!
//! ```
//! let registry = toolcrib_contracts::artifact("ToolRegistry").unwrap();
//! assert!(!registry.init_code(&[]).is_empty());
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use alloy_primitives::Bytes;
use serde::Deserialize;

/// The address of each contract on every chain, with constructor arguments and code hashes, as JSON.
pub const DEPLOYMENTS: &str = include_str!("deployments.json");

/// The compiler's output for a contract.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    bytecode: Bytes,
    deployed_bytecode: Bytes,
}

impl Artifact {
    /// The code that creates the contract, with its ABI-encoded constructor arguments.
    pub fn init_code(&self, arguments: &[u8]) -> Bytes {
        [&self.bytecode[..], arguments].concat().into()
    }

    /// The code at the address of the contract, before immutables are filled in.
    pub const fn runtime_code(&self) -> &Bytes {
        &self.deployed_bytecode
    }
}

/// Returns the contract with this name, or `None` if there is no such contract.
pub fn artifact(name: &str) -> Option<Artifact> {
    let (_, json) = ARTIFACTS.iter().find(|(known, _)| *known == name)?;
    serde_json::from_str(json).ok()
}

/// The names of all contracts.
pub fn names() -> impl Iterator<Item = &'static str> {
    ARTIFACTS.iter().map(|(name, _)| *name)
}

const ARTIFACTS: [(&str, &str); 23] = [
    ("AccessProofPredicate", include_str!("artifacts/AccessProofPredicate.json")),
    ("CompositePredicate", include_str!("artifacts/CompositePredicate.json")),
    ("DenyAllPredicate", include_str!("artifacts/DenyAllPredicate.json")),
    ("ERC1155OwnerPredicate", include_str!("artifacts/ERC1155OwnerPredicate.json")),
    ("ERC20BalancePredicate", include_str!("artifacts/ERC20BalancePredicate.json")),
    ("ERC721OwnerPredicate", include_str!("artifacts/ERC721OwnerPredicate.json")),
    ("MerkleAllowlistPredicate", include_str!("artifacts/MerkleAllowlistPredicate.json")),
    ("SimulatedCalls", include_str!("artifacts/SimulatedCalls.json")),
    ("SubscriptionPredicate", include_str!("artifacts/SubscriptionPredicate.json")),
    ("TestBeacon", include_str!("artifacts/TestBeacon.json")),
    ("TestBeaconProxy", include_str!("artifacts/TestBeaconProxy.json")),
    ("TestDelegateRegistry", include_str!("artifacts/TestDelegateRegistry.json")),
    ("TestERC1155", include_str!("artifacts/TestERC1155.json")),
    ("TestERC20", include_str!("artifacts/TestERC20.json")),
    ("TestERC721", include_str!("artifacts/TestERC721.json")),
    ("TestProxy", include_str!("artifacts/TestProxy.json")),
    ("TestSmartWallet", include_str!("artifacts/TestSmartWallet.json")),
    ("TestSubscriptionNFT", include_str!("artifacts/TestSubscriptionNFT.json")),
    ("TestTraitsNFT", include_str!("artifacts/TestTraitsNFT.json")),
    ("TestUSDC", include_str!("artifacts/TestUSDC.json")),
    ("TestWalletFactory", include_str!("artifacts/TestWalletFactory.json")),
    ("ToolRegistry", include_str!("artifacts/ToolRegistry.json")),
    ("TraitGatedPredicate", include_str!("artifacts/TraitGatedPredicate.json")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_artifact_can_be_read() {
        for name in names() {
            let artifact = artifact(name).unwrap_or_else(|| panic!("{name}"));
            assert!(!artifact.init_code(&[1]).is_empty() && artifact.init_code(&[1]).ends_with(&[1]), "{name}");
        }
        assert!(artifact("Unknown").is_none());
    }

    #[test]
    fn every_file_is_listed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts");
        let files = std::fs::read_dir(folder).expect("artifacts").count();
        assert_eq!(names().count(), files);
    }
}
