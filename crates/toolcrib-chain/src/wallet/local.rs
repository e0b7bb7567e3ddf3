//! A wallet with its key in this process.

use std::fmt;

use alloy_primitives::{Address, B256};
use alloy_signer::SignerSync;
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner, coins_bip39::English};
use async_trait::async_trait;
use zeroize::Zeroizing;

use super::{Cleared, Secret, Wallet, WalletError};
use crate::sign::StrictSignature;

/// The standard derivation path of a recovery phrase's first account.
pub const DEFAULT_PATH: &str = "m/44'/60'/0'/0/0";

/// A wallet whose key is in memory. The key is wiped when it is dropped.
pub struct LocalWallet {
    signer: PrivateKeySigner,
    description: String,
}

impl LocalWallet {
    /// A wallet from a key in hexadecimal digits, with or without `0x`.
    pub fn from_key(key: &Secret, place: &str) -> Result<Self, WalletError> {
        let bad = || WalletError::BadKey { place: place.to_owned() };
        let text = key.expose().trim();
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let mut bytes = Zeroizing::new([0_u8; 32]);
        alloy_primitives::hex::decode_to_slice(digits, &mut bytes[..]).map_err(|_| bad())?;
        Self::from_bytes(&bytes, place)
    }

    /// A wallet from a key in an environment variable.
    pub fn from_env(name: &str) -> Result<Self, WalletError> {
        Self::from_key(&Secret::from_env(name)?, &format!("environment variable {name}"))
    }

    /// A wallet from a key that is read from a file descriptor.
    pub fn from_fd(number: u32) -> Result<Self, WalletError> {
        Self::from_key(&Secret::from_fd(number)?, &format!("file descriptor {number}"))
    }

    /// The account of a recovery phrase at a derivation path, by default [`DEFAULT_PATH`].
    pub fn from_mnemonic(phrase: &Secret, path: Option<&str>) -> Result<Self, WalletError> {
        let path = path.unwrap_or(DEFAULT_PATH);
        let builder = MnemonicBuilder::<English>::default().phrase(phrase.expose().trim());
        let builder = builder.derivation_path(path).map_err(|_| WalletError::BadPath)?;
        let signer = builder.build().map_err(|_| WalletError::BadMnemonic)?;
        Ok(Self { signer, description: format!("recovery phrase, {path}") })
    }

    /// One of the ten development accounts.
    pub fn development(index: u32) -> Result<Self, WalletError> {
        let wallet = Self::from_mnemonic(&Secret::new(super::DEV_MNEMONIC.to_owned()), Some(&format!("m/44'/60'/0'/0/{index}")))?;
        Ok(Self { description: format!("development account {index}"), ..wallet })
    }

    /// A new key from the operating system's random number generator.
    pub fn random() -> Result<Self, WalletError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        // With a probability of 1 in 2^128, the value is not below the order of the curve.
        getrandom::fill(&mut bytes[..])
            .map_err(|_| WalletError::NoKey { place: "the operating system returned no random bytes".to_owned() })?;
        Self::from_bytes(&bytes, "new key")
    }

    pub(super) fn from_bytes(bytes: &[u8; 32], place: &str) -> Result<Self, WalletError> {
        let signer = PrivateKeySigner::from_slice(bytes).map_err(|_| WalletError::BadKey { place: place.to_owned() })?;
        Ok(Self { signer, description: place.to_owned() })
    }

    pub(super) fn described(self, description: String) -> Self {
        Self { description, ..self }
    }

    pub(super) fn key_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.signer.to_bytes().0)
    }
}

#[async_trait]
impl Wallet for LocalWallet {
    fn address(&self) -> Address {
        self.signer.address()
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    async fn sign_digest(&self, digest: B256, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        if cleared.address() != self.address() {
            return Err(WalletError::Refused { reason: "the permission to sign is for another account".to_owned() });
        }
        let signature =
            self.signer.sign_hash_sync(&digest).map_err(|_| WalletError::Refused { reason: "signing failed".to_owned() })?;
        StrictSignature::try_from(signature).map_err(|error| WalletError::Refused { reason: error.to_string() })
    }
}

impl fmt::Debug for LocalWallet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWallet")
            .field("address", &self.address())
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}
