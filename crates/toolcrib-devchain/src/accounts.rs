//! The ten development accounts.
//!
//! They come from the mnemonic `test test test test test test test test test test test junk` at `m/44'/60'/0'/0/0..9`, as on
//! every other development chain. The keys are public: any funds that they hold on a real chain will be stolen.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, U256, b256};
use alloy_signer_local::PrivateKeySigner;

/// The published keys.
pub const DEV_KEYS: [B256; 10] = [
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// The initial balance of each account: 10,000 ether.
pub const DEV_BALANCE: U256 = U256::from_limbs([0x19e0_c9ba_b240_0000, 0x021e, 0, 0]);

static SIGNERS: LazyLock<Vec<PrivateKeySigner>> =
    LazyLock::new(|| DEV_KEYS.iter().filter_map(|key| PrivateKeySigner::from_bytes(key).ok()).collect());

/// Signers for the ten accounts, in order.
pub fn dev_signers() -> &'static [PrivateKeySigner] {
    &SIGNERS
}

/// The addresses of the ten accounts, in order.
pub fn dev_accounts() -> impl ExactSizeIterator<Item = Address> {
    dev_signers().iter().map(PrivateKeySigner::address)
}

/// The signer of one of the ten accounts; `None` for any other address. Every signature of this crate is made through it.
pub fn dev_signer(address: Address) -> Option<&'static PrivateKeySigner> {
    dev_signers().iter().find(|signer| signer.address() == address)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    #[test]
    fn the_keys_belong_to_the_well_known_addresses() {
        let known = [
            address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
            address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"),
            address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
            address!("90F79bf6EB2c4f870365E785982E1f101E93b906"),
            address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65"),
            address!("9965507D1a55bcC2695C58ba16FB37d819B0A4dc"),
            address!("976EA74026E726554dB657fA54763abd0C3a0aa9"),
            address!("14dC79964da2C08b23698B3D3cc7Ca32193d9955"),
            address!("23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f"),
            address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"),
        ];
        assert_eq!(dev_accounts().collect::<Vec<_>>(), known);
        assert_eq!(DEV_BALANCE, U256::from(10_000) * U256::from(10).pow(U256::from(18)));
        assert!(dev_signer(Address::ZERO).is_none());
    }
}
