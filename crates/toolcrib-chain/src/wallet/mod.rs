//! Wallets: whoever can sign.
//!
//! A wallet signs only with a [`Cleared`] in hand, which only [`Scope::clear`] makes; that is the one place where the rule
//! about development chains is kept. The trait is async, so that a wallet may be another machine.

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

/// Whoever can sign for one account.
#[async_trait]
pub trait Wallet: fmt::Debug + Send + Sync {
    /// The account.
    fn address(&self) -> Address;

    /// What it is and where it keeps its key, for people. Never a secret.
    fn description(&self) -> String;

    /// Signs 32 bytes as they are. Wallets that want to see what they sign refuse this.
    async fn sign_digest(&self, digest: B256, cleared: Cleared) -> Result<StrictSignature, WalletError>;

    /// Signs a text by EIP-191.
    async fn sign_message(&self, message: &[u8], cleared: Cleared) -> Result<StrictSignature, WalletError> {
        self.sign_digest(eip191_hash_message(message), cleared).await
    }

    /// Signs typed data by EIP-712. Its chain is that of the leave, and a wallet that overrides this checks it too.
    async fn sign_typed_data(&self, data: &TypedData, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        let absurd = |_| WalletError::Refused { reason: "no chain has the chain id of the typed data".to_owned() };
        cleared.check_chain(data.domain.chain_id.map(u64::try_from).transpose().map_err(absurd)?)?;
        let digest =
            data.eip712_signing_hash().map_err(|_| WalletError::Refused { reason: "the typed data has no digest".to_owned() })?;
        self.sign_digest(digest, cleared).await
    }

    /// Signs a transaction for the chain of the leave.
    async fn sign_transaction(&self, transaction: &TypedTransaction, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        cleared.check_chain(transaction.chain_id())?;
        self.sign_digest(transaction.signature_hash(), cleared).await
    }
}

/// Where a signature will be valid: a place and, unless it is a document, a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    place: Place,
    chain_id: Option<u64>,
}

/// What kind of chain a signature is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A chain that people use, reached as such.
    Public,
    /// The throw-away chain 31337.
    Development,
    /// A throw-away chain that carries the number of a public one: what is signed there is valid on the real chain too.
    Impersonated,
    /// No chain at all.
    Document,
}

/// Leave to sign once. Made by [`Scope::clear`] only, for one account and one chain.
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
    /// Documents, which are valid everywhere alike.
    pub const DOCUMENT: Self = Self { place: Place::Document, chain_id: None };

    /// Finds out where a chain's signatures are valid. A node that calls itself a development node, and an unknown one on this
    /// machine, is not the real chain.
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

    /// A chain that no node is asked about, such as that of a payment. Whoever has a node uses [`Self::of`].
    pub const fn offline(chain_id: u64) -> Self {
        let place = if chain_id == LOCAL_CHAIN_ID { Place::Development } else { Place::Public };
        Self { place, chain_id: Some(chain_id) }
    }

    /// A throw-away chain with this number, said by whoever started it.
    pub const fn impersonated(chain_id: u64) -> Self {
        if chain_id == LOCAL_CHAIN_ID {
            Self::offline(chain_id)
        } else {
            Self { place: Place::Impersonated, chain_id: Some(chain_id) }
        }
    }

    /// The kind of chain.
    pub const fn place(self) -> Place {
        self.place
    }

    /// Gives leave to sign, or refuses.
    pub fn clear(self, wallet: &dyn Wallet) -> Result<Cleared, WalletError> {
        let address = wallet.address();
        if self.place == Place::Impersonated && !DEV_ACCOUNTS.contains(&address) {
            return Err(WalletError::DevChain { address });
        }
        if self.place == Place::Public && DEV_ACCOUNTS.contains(&address) {
            return Err(WalletError::PublishedKey { address });
        }
        Ok(Cleared { address, chain_id: self.chain_id })
    }

    fn from_version(version: &str, is_loopback: bool) -> Place {
        /// Names that throw-away chains give themselves.
        const DEVELOPMENT: [&str; 6] = ["anvil", "hardhat", "ganache", "toolcrib", "tenderly", "evm_rs"];
        /// Names of programs that follow real chains.
        const REAL: [&str; 9] = ["geth", "reth", "erigon", "nethermind", "besu", "bor", "monad", "nitro", "zksync"];
        if DEVELOPMENT.iter().any(|name| version.contains(name)) {
            return Place::Impersonated;
        }
        if is_loopback && !REAL.iter().any(|name| version.contains(name)) { Place::Impersonated } else { Place::Public }
    }
}

/// The ten accounts of `test test test test test test test test test test test junk`. Everybody has their keys.
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

/// Why a wallet is not there or did not sign. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The key is missing.
    #[error("no key found: {place}")]
    NoKey {
        /// Where it should be.
        place: String,
    },
    /// The key is no key.
    #[error("the key from {place} is not valid")]
    BadKey {
        /// Where it came from.
        place: String,
    },
    /// The phrase is no phrase.
    #[error("the recovery phrase is not valid")]
    BadMnemonic,
    /// The derivation path is none.
    #[error("the derivation path is not valid")]
    BadPath,
    /// The file is no keystore.
    #[error("the keystore {name} is not valid: {reason}")]
    KeystoreMalformed {
        /// Which one.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The file asks for too much or too little work.
    #[error("the key derivation cost of the keystore {name} is out of range: {what}")]
    KeystoreCost {
        /// Which one.
        name: String,
        /// What it asks for.
        what: &'static str,
    },
    /// The checksum does not match.
    #[error("the password does not open the keystore {name}")]
    WrongPassword {
        /// Which one.
        name: String,
    },
    /// The password is empty.
    #[error("the password is empty")]
    WeakPassword,
    /// The file names another account than its key.
    #[error("the keystore {name} states the address {stated}, but its key belongs to {actual}")]
    KeystoreAddress {
        /// Which one.
        name: String,
        /// In the file.
        stated: Address,
        /// Of the key.
        actual: Address,
    },
    /// Nothing is overwritten.
    #[error("a wallet named {name} already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// No such wallet.
    #[error("no wallet is named {name}")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The name cannot be a file name.
    #[error("the wallet name is not valid")]
    BadName,
    /// The operating system refused.
    #[error("the keystore cannot be read or written: {source}")]
    Io {
        /// Its words.
        #[from]
        source: std::io::Error,
    },
    /// Only development accounts sign here.
    #[error("{address} may not sign on a local chain with a public chain id; only the ten development accounts may")]
    DevChain {
        /// Who wanted to sign.
        address: Address,
    },
    /// Everybody has this key.
    #[error("the key of {address} is public; it may sign on development chains only")]
    PublishedKey {
        /// Who wanted to sign.
        address: Address,
    },
    /// The wallet said no.
    #[error("the wallet did not sign: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
}

impl WalletError {
    /// The code of the vocabulary.
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
