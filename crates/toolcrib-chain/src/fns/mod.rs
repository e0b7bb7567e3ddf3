//! The Freename registry (FNS): who owns a `.agt` name (.agt 1.0 §4 Verification, steps 7 and 8).
//!
//! All reads for one result are pinned to one block by its hash, so that the owner, the registry's code and a contract's verdict on a
//! signature are consistent. If a reorg happens between them, they are repeated once; after a second reorg the result is an error. Node
//! failures are kept apart from the registry's answer: a node that is unreachable, limits the rate or disagrees with others is an error
//! and never a statement about the name. [`Chain`] checks a node's chain id before it sends anything else.

pub mod records;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::{IERC721Owner, IERC1271};
use crate::rpc::{BoundedCall, CallOutcome, Chain, Snapshot, is_out_of_gas};
use crate::sign::{ERC1271_GAS, is_agreed_value};

/// The chain whose registry decides who owns a name. The registry has the same address on other chains, where tokens with the same ids may
/// have other owners.
pub const FNS_CHAIN_ID: u64 = 137;

/// The registry contract on Polygon.
pub const FNS_REGISTRY: Address = address!("465ea4967479A96D4490d575b5a6cC2B4A4BEE65");

/// Gas for `ownerOf`. Behind the proxy it takes about 12,000; the rest is for later implementations of the proxy.
const OWNER_OF_GAS: u64 = 500_000;

/// Maximum length of the data that `ownerOf` returns. An address takes 32 bytes; revert reasons with a text need more.
const MAX_OWNER_OF_BYTES: usize = 1_024;

/// The first bytes of the code of an account with an EIP-7702 delegation. The code is 23 bytes long.
const DELEGATION_PREFIX: [u8; 3] = [0xef, 0x01, 0x00];
const DELEGATION_BYTES: usize = 23;

/// A client of the registry.
#[derive(Clone, Debug)]
pub struct Fns {
    chain: Chain,
    registry: Address,
    height: ReadHeight,
}

/// Which block to read at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadHeight {
    /// The chain head; a little behind it if several nodes must agree.
    #[default]
    Latest,
    /// The newest finalized block.
    Finalized,
}

/// The result of reading one name.
#[derive(Debug)]
pub struct FnsRead {
    /// The block of all reads; `None` if no node returned one, or if a reorg replaced it before all reads were made.
    pub block: Option<u64>,
    /// The hash of that block.
    pub block_hash: Option<B256>,
    /// The owner according to the registry.
    pub holder: Result<Holder, Error>,
    /// The owner's verdict on the signature (ERC-1271), if a signature was given and the name has an owner.
    pub contract: Option<Result<ContractAnswer, Error>>,
}

/// The owner of a token according to the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This account.
    Account(Address),
    /// No owner: the token was never minted, or was burned.
    NotMinted,
    /// There is no code at the registry's address.
    NoCode,
    /// The returned data is not an address.
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// An account's verdict on a signature (ERC-1271).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractAnswer {
    /// It has no code, or only an EIP-7702 delegation: its key signs.
    NotAContract,
    /// It accepts the signature.
    Accepted,
    /// It does not accept it.
    Rejected,
}

impl Fns {
    /// The registry on Polygon. Fails if `chain` is another chain.
    pub fn new(chain: Chain) -> Result<Self, Error> {
        if chain.chain_id() != FNS_CHAIN_ID {
            return Err(Error::WrongChain { node: chain.network().described(), expected: FNS_CHAIN_ID, got: chain.chain_id() });
        }
        Ok(Self::at(chain, FNS_REGISTRY))
    }

    /// A registry at another address or on another chain, for tests. Owning a name there proves nothing under .agt 1.0.
    pub const fn at(chain: Chain, registry: Address) -> Self {
        Self { chain, registry, height: ReadHeight::Latest }
    }

    /// Reads at another height than the chain head.
    #[must_use]
    pub const fn with_height(mut self, height: ReadHeight) -> Self {
        self.height = height;
        self
    }

    /// The chain id that every node must return.
    pub const fn chain_id(&self) -> u64 {
        self.chain.chain_id()
    }

    /// The address of the registry.
    pub const fn registry(&self) -> Address {
        self.registry
    }

    /// Reads the owner of a token. An owner with code is asked whether the digest and signature in `signed` are valid (ERC-1271).
    pub async fn read(&self, token_id: U256, signed: Option<(B256, &[u8])>) -> FnsRead {
        match self.read_once(token_id, signed).await {
            // Reorgs of a block or two are common at the chain head; the second attempt reads a newer block.
            Err(Error::Reorg { .. }) => self.read_once(token_id, signed).await,
            read => read,
        }
        .unwrap_or_else(|error| FnsRead { block: None, block_hash: None, holder: Err(error), contract: None })
    }

    async fn read_once(&self, token_id: U256, signed: Option<(B256, &[u8])>) -> Result<FnsRead, Error> {
        let snapshot = match self.height {
            ReadHeight::Latest => self.chain.snapshot().await?,
            ReadHeight::Finalized => self.chain.finalized_snapshot().await?,
        };
        let holder = match self.owner_of(token_id, &snapshot).await {
            Err(reorg @ Error::Reorg { .. }) => return Err(reorg),
            holder => holder,
        };
        let contract = match (&holder, signed) {
            (Ok(Holder::Account(account)), Some((digest, signature))) => {
                Some(ask_contract(&snapshot, *account, digest, signature).await)
            }
            _ => None,
        };
        if let Some(Err(Error::Reorg { number })) = contract {
            return Err(Error::Reorg { number });
        }
        if holder.is_ok() {
            snapshot.confirm().await?;
        }
        Ok(FnsRead { block: Some(snapshot.number()), block_hash: Some(snapshot.hash()), holder, contract })
    }

    async fn owner_of(&self, token_id: U256, snapshot: &Snapshot<'_>) -> Result<Holder, Error> {
        // Calls to an address without code succeed and return nothing, which must not count as the registry's answer.
        if snapshot.code(self.registry).await?.is_empty() {
            return Ok(Holder::NoCode);
        }
        let data = IERC721Owner::ownerOfCall { tokenId: token_id }.abi_encode().into();
        let call = BoundedCall { to: self.registry, data, from: None, gas: Some(OWNER_OF_GAS), max_bytes: MAX_OWNER_OF_BYTES };
        match snapshot.call(&call).await? {
            CallOutcome::Returned(bytes) => Ok(read_owner(&bytes)),
            CallOutcome::Reverted(_) => Ok(Holder::NotMinted),
            CallOutcome::TooLarge => Ok(Holder::Malformed { reason: "ownerOf returns far more than 32 bytes" }),
            // Nodes also report their own time limits as "execution aborted", so this is not the registry's answer.
            CallOutcome::Halted(message) => Err(Error::Refused { rpc_code: 0, message }),
        }
    }
}

async fn ask_contract(
    snapshot: &Snapshot<'_>,
    account: Address,
    digest: B256,
    signature: &[u8],
) -> Result<ContractAnswer, Error> {
    let code = snapshot.code(account).await?;
    if code.is_empty() || is_delegation(&code) {
        return Ok(ContractAnswer::NotAContract);
    }
    let data = IERC1271::isValidSignatureCall { hash: digest, signature: Bytes::copy_from_slice(signature) }.abi_encode().into();
    let call = BoundedCall { to: account, data, from: None, gas: Some(ERC1271_GAS), max_bytes: 32 };
    match snapshot.call(&call).await? {
        CallOutcome::Returned(bytes) if is_agreed_value(&bytes) => Ok(ContractAnswer::Accepted),
        CallOutcome::Returned(_) | CallOutcome::Reverted(_) | CallOutcome::TooLarge => Ok(ContractAnswer::Rejected),
        CallOutcome::Halted(message) if is_out_of_gas(&message) => Ok(ContractAnswer::Rejected),
        CallOutcome::Halted(message) => Err(Error::Refused { rpc_code: 0, message }),
    }
}

/// Decodes the return value of `ownerOf`: exactly one word with an address in its last 20 bytes.
fn read_owner(bytes: &[u8]) -> Holder {
    let Ok(word) = <[u8; 32]>::try_from(bytes) else {
        return Holder::Malformed { reason: "ownerOf does not return exactly 32 bytes" };
    };
    let (padding, account) = word.split_at(12);
    if padding.iter().any(|&byte| byte != 0) {
        return Holder::Malformed { reason: "the first 12 bytes of ownerOf's return data are not zero" };
    }
    match Address::from_slice(account) {
        Address::ZERO => Holder::NotMinted,
        account => Holder::Account(account),
    }
}

fn is_delegation(code: &[u8]) -> bool {
    code.len() == DELEGATION_BYTES && code.starts_with(&DELEGATION_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: AGT-020
    #[test]
    fn an_owner_is_one_clean_word() {
        let account = Address::repeat_byte(0x11);
        let word = account.into_word();
        assert_eq!(read_owner(word.as_slice()), Holder::Account(account));
        assert_eq!(read_owner(&[0; 32]), Holder::NotMinted);
        for length in [0, 1, 20, 31, 33, 64] {
            assert!(matches!(read_owner(&vec![0x11; length]), Holder::Malformed { .. }), "{length} bytes");
        }
        for at in 0..12 {
            let mut dirty = word;
            dirty[at] = 1;
            assert!(matches!(read_owner(dirty.as_slice()), Holder::Malformed { .. }), "byte {at}");
        }
    }

    #[test]
    fn a_delegation_is_not_a_contract() {
        let delegation = [&DELEGATION_PREFIX[..], &[0x22; 20]].concat();
        assert!(is_delegation(&delegation));
        assert!(!is_delegation(&delegation[..22]), "too short");
        assert!(!is_delegation(&[&delegation[..], &[0]].concat()), "too long");
        assert!(!is_delegation(&[0x60, 0x80, 0x60]));
        assert!(!is_delegation(&[]));
    }
}
