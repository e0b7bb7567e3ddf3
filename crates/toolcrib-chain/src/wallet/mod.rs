//! Wallets: signers for one account each.
//!
//! A wallet signs only with a [`Cleared`], which only [`Scope::clear`] creates; the rule about development chains is enforced
//! there and nowhere else. The trait is async, so that a wallet may be another device.

use std::fmt;

use alloy_consensus::{SignableTransaction, Transaction, TypedTransaction};
use alloy_dyn_abi::TypedData;
use alloy_primitives::{Address, B256, address, eip191_hash_message};
use alloy_provider::Provider;
use async_trait::async_trait;
use toolcrib_core::codes::{self, Code};

use crate::Error;
use crate::network::LOCAL_CHAIN_ID;
use crate::rpc::Chain;
use crate::sign::StrictSignature;

mod keystore;
mod local;
mod secret;

pub use keystore::{Cost, Keystore, KeystoreEntry};
pub use local::{DEFAULT_PATH, LocalWallet};
pub use secret::Secret;

/// A signer for one account.
#[async_trait]
pub trait Wallet: fmt::Debug + Send + Sync {
    /// The account.
    fn address(&self) -> Address;

    /// What the wallet is and where it stores its key, for display. Never a secret.
    fn description(&self) -> String;

    /// Signs a digest of 32 bytes. Wallets that need to see what they sign return an error.
    async fn sign_digest(&self, digest: B256, cleared: Cleared) -> Result<StrictSignature, WalletError>;

    /// Signs a message by EIP-191.
    async fn sign_message(&self, message: &[u8], cleared: Cleared) -> Result<StrictSignature, WalletError> {
        self.sign_digest(eip191_hash_message(message), cleared).await
    }

    /// Signs typed data by EIP-712. Its chain id must be that of the permission; wallets that override this must check it too.
    async fn sign_typed_data(&self, data: &TypedData, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        let absurd = |_| WalletError::Refused { reason: "no chain has the chain id of the typed data".to_owned() };
        cleared.check_chain(data.domain.chain_id.map(u64::try_from).transpose().map_err(absurd)?)?;
        let digest =
            data.eip712_signing_hash().map_err(|_| WalletError::Refused { reason: "the typed data has no digest".to_owned() })?;
        self.sign_digest(digest, cleared).await
    }

    /// Signs a transaction for the chain of the permission.
    async fn sign_transaction(&self, transaction: &TypedTransaction, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        cleared.check_chain(transaction.chain_id())?;
        self.sign_digest(transaction.signature_hash(), cleared).await
    }
}

/// Where a signature will be valid: the kind of place and, except for documents, the chain id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    place: ChainKind,
    chain_id: Option<u64>,
}

/// What kind of chain a signature is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainKind {
    /// A public chain.
    Public,
    /// The local development chain 31337.
    Development,
    /// A local development chain with the chain id of a public one: signatures for it are also valid on the real chain.
    Impersonated,
    /// A document, which belongs to no chain.
    Document,
}

/// Permission to sign once. Created only by [`Scope::clear`], for one account and one chain.
#[derive(Debug)]
pub struct Cleared {
    address: Address,
    chain_id: Option<u64>,
}

impl Cleared {
    /// The account that may sign.
    pub const fn address(&self) -> Address {
        self.address
    }

    /// The chain that it may sign for; `None` for documents.
    pub const fn chain_id(&self) -> Option<u64> {
        self.chain_id
    }

    fn check_chain(&self, chain_id: Option<u64>) -> Result<(), WalletError> {
        let reason = || format!("the permission to sign is for chain {:?}, the data for chain {chain_id:?}", self.chain_id);
        if self.chain_id == chain_id { Ok(()) } else { Err(WalletError::Refused { reason: reason() }) }
    }
}

impl Scope {
    /// Documents, whose signatures are valid everywhere.
    pub const DOCUMENT: Self = Self { place: ChainKind::Document, chain_id: None };

    /// Determines where a chain's signatures are valid. A node that identifies itself as a development node, and an unknown one on this
    /// computer, is not the real chain.
    pub async fn of(chain: &Chain) -> Result<Self, Error> {
        let chain_id = chain.chain_id();
        if chain_id == LOCAL_CHAIN_ID {
            return Ok(Self::offline(chain_id));
        }
        if chain.network().is_local {
            return Ok(Self::impersonated(chain_id));
        }
        let version = match chain.provider().get_client_version().await {
            Ok(version) => version.to_ascii_lowercase(),
            Err(error) if error.as_error_resp().is_some() => String::new(),
            Err(error) => return Err(Error::from_rpc(error)),
        };
        Ok(Self { place: Self::from_version(&version, chain.is_loopback()), chain_id: Some(chain_id) })
    }

    /// A chain that is used without a node, such as that of a payment. If you have a node, use [`Self::of`].
    pub const fn offline(chain_id: u64) -> Self {
        let place = if chain_id == LOCAL_CHAIN_ID { ChainKind::Development } else { ChainKind::Public };
        Self { place, chain_id: Some(chain_id) }
    }

    /// A local development chain with this chain id, as stated by the program that started it.
    pub const fn impersonated(chain_id: u64) -> Self {
        if chain_id == LOCAL_CHAIN_ID {
            Self::offline(chain_id)
        } else {
            Self { place: ChainKind::Impersonated, chain_id: Some(chain_id) }
        }
    }

    /// The kind of place.
    pub const fn place(self) -> ChainKind {
        self.place
    }

    /// Returns a permission to sign, or an error.
    pub fn clear(self, wallet: &dyn Wallet) -> Result<Cleared, WalletError> {
        let address = wallet.address();
        if self.place == ChainKind::Impersonated && !DEV_ACCOUNTS.contains(&address) {
            return Err(WalletError::DevChain { address });
        }
        if self.place == ChainKind::Public && DEV_ACCOUNTS.contains(&address) {
            return Err(WalletError::PublishedKey { address });
        }
        Ok(Cleared { address, chain_id: self.chain_id })
    }

    fn from_version(version: &str, is_loopback: bool) -> ChainKind {
        /// Names in the client versions of development nodes.
        const DEVELOPMENT: [&str; 6] = ["anvil", "hardhat", "ganache", "toolcrib", "tenderly", "evm_rs"];
        /// Names in the client versions of nodes of real chains.
        const REAL: [&str; 9] = ["geth", "reth", "erigon", "nethermind", "besu", "bor", "monad", "nitro", "zksync"];
        if DEVELOPMENT.iter().any(|name| version.contains(name)) {
            return ChainKind::Impersonated;
        }
        if is_loopback && !REAL.iter().any(|name| version.contains(name)) { ChainKind::Impersonated } else { ChainKind::Public }
    }
}

/// The ten accounts of `test test test test test test test test test test test junk`. Their keys are public.
pub const DEV_ACCOUNTS: [Address; 10] = [
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

/// The phrase of the development accounts.
pub const DEV_MNEMONIC: &str = "test test test test test test test test test test test junk";

/// Why a wallet is unavailable or did not sign. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The key is missing.
    #[error("no key found: {place}")]
    NoKey {
        /// Where it was expected.
        place: String,
    },
    /// Not a valid key.
    #[error("the key from {place} is not valid")]
    BadKey {
        /// Where it came from.
        place: String,
    },
    /// Not a valid recovery phrase.
    #[error("the recovery phrase is not valid")]
    BadMnemonic,
    /// Not a valid derivation path.
    #[error("the derivation path is not valid")]
    BadPath,
    /// Not a keystore file.
    #[error("the keystore {name} is not valid: {reason}")]
    KeystoreMalformed {
        /// The name of the file.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file requests too much or too little work for key derivation.
    #[error("the key derivation cost of the keystore {name} is out of range: {what}")]
    KeystoreCost {
        /// The name of the file.
        name: String,
        /// The parameter.
        what: &'static str,
    },
    /// The password is wrong: the checksum does not match.
    #[error("the password does not open the keystore {name}")]
    WrongPassword {
        /// The name of the file.
        name: String,
    },
    /// The password is empty.
    #[error("the password is empty")]
    WeakPassword,
    /// The file's address is not that of its key.
    #[error("the keystore {name} states the address {stated}, but its key belongs to {actual}")]
    KeystoreAddress {
        /// The name of the file.
        name: String,
        /// The address in the file.
        stated: Address,
        /// The address of the key.
        actual: Address,
    },
    /// A file with this name exists and is not overwritten.
    #[error("a wallet named {name} already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no such wallet.
    #[error("no wallet is named {name}")]
    NotFound {
        /// The requested name.
        name: String,
    },
    /// The name is not a valid file name.
    #[error("the wallet name is not valid")]
    BadName,
    /// An I/O error.
    #[error("the keystore cannot be read or written: {source}")]
    Io {
        /// The operating system's error.
        #[from]
        source: std::io::Error,
    },
    /// Only development accounts may sign here.
    #[error("{address} may not sign on a local chain with a public chain id; only the ten development accounts may")]
    DevChain {
        /// The account that was to sign.
        address: Address,
    },
    /// The key is published, so it is not used on public chains.
    #[error("the key of {address} is public; it may sign on development chains only")]
    PublishedKey {
        /// The account that was to sign.
        address: Address,
    },
    /// The wallet refused to sign.
    #[error("the wallet did not sign: {reason}")]
    Refused {
        /// Its message.
        reason: String,
    },
}

impl WalletError {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        use codes::wallet;
        match self {
            Self::NoKey { .. } => wallet::NO_KEY,
            Self::BadKey { .. } => wallet::BAD_KEY,
            Self::BadMnemonic => wallet::BAD_MNEMONIC,
            Self::BadPath => wallet::BAD_PATH,
            Self::KeystoreMalformed { .. } => wallet::KEYSTORE_MALFORMED,
            Self::KeystoreCost { .. } => wallet::KEYSTORE_COST,
            Self::WrongPassword { .. } => wallet::WRONG_PASSWORD,
            Self::WeakPassword => wallet::WEAK_PASSWORD,
            Self::KeystoreAddress { .. } => wallet::KEYSTORE_ADDRESS,
            Self::Exists { .. } => wallet::EXISTS,
            Self::NotFound { .. } => wallet::NOT_FOUND,
            Self::BadName => wallet::BAD_NAME,
            Self::Io { .. } => wallet::IO,
            Self::DevChain { .. } => wallet::DEV_CHAIN,
            Self::PublishedKey { .. } => wallet::PUBLISHED_KEY,
            Self::Refused { .. } => wallet::REFUSED,
        }
    }
}

#[cfg(test)]
mod tests;
