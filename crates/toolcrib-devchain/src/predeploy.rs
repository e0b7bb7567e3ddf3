//! Contracts in the genesis block.

use alloy_primitives::{Address, Bytes, U256, address, bytes};

/// An account in the genesis block.
#[derive(Clone, Debug, Default)]
pub struct Predeploy {
    /// Its address.
    pub address: Address,
    /// Runtime code.
    pub code: Bytes,
    /// Storage slots that are not zero.
    pub storage: Vec<(U256, U256)>,
}

/// The factory for deterministic deployment: calldata is a 32-byte salt and init code.
/// <https://github.com/Arachnid/deterministic-deployment-proxy>
pub const CREATE2_FACTORY: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");

/// Its runtime code.
const CREATE2_FACTORY_CODE: Bytes = bytes!(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
);

impl Predeploy {
    /// The CREATE2 factory at its well-known address.
    pub const fn create2_factory() -> Self {
        Self { address: CREATE2_FACTORY, code: CREATE2_FACTORY_CODE, storage: Vec::new() }
    }
}
