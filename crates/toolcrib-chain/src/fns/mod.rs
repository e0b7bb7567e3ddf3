//! The registry of Freename names (FNS): who holds a `.agt` name (.agt 1.0 §4 Verification, steps 7 and 8).
//!
//! All reads of one answer are made at one block, by its hash, so that the holder, the code of the registry and what a contract says about
//! a signature belong together. A reorg between them is met by a second try, and then by an error. What a node did is kept apart from what the registry said: a node that cannot be reached, limits the rate,
//! or disagrees with others gives an error and never an answer about the name. The number of the chain is checked by [`Chain`] before a
//! node is asked anything else.

pub mod records;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::{IERC721Owner, IERC1271};
use crate::rpc::{BoundedCall, CallOutcome, Chain, Snapshot, is_out_of_gas};
use crate::sign::{ERC1271_GAS, is_agreed_value};

/// The chain on which holding a name counts. The registry has the same address on other chains, where tokens with the same ids may
/// belong to anyone.
pub const FNS_CHAIN_ID: u64 = 137;

/// The registry contract on Polygon.
pub const FNS_REGISTRY: Address = address!("465ea4967479A96D4490d575b5a6cC2B4A4BEE65");

/// Gas for `ownerOf`. Behind a proxy it takes about 12,000; the rest is for registries that the proxy may lead to later.
const OWNER_OF_GAS: u64 = 500_000;

/// The most bytes of an answer to `ownerOf`. An address takes 32; errors with a text need more, and are told apart by their kind.
const MAX_OWNER_OF_BYTES: usize = 1_024;

/// The code of an account that has delegated to a contract starts like this and has 23 bytes (EIP-7702).
const DELEGATION_PREFIX: [u8; 3] = [0xef, 0x01, 0x00];
const DELEGATION_BYTES: usize = 23;

/// A client of the registry.
#[derive(Clone, Debug)]
pub struct Fns {
    chain: Chain,
    registry: Address,
    height: ReadHeight,
}

/// Which block is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadHeight {
    /// The newest one; a little behind it where several nodes must agree.
    #[default]
    Latest,
    /// The newest one that the chain will not replace.
    Finalized,
}

/// What was read about one name.
#[derive(Debug)]
pub struct FnsRead {
    /// The block of all reads; `None` if no node gave one, or it was replaced before all of them were made.
    pub block: Option<u64>,
    /// The hash of that block.
    pub block_hash: Option<B256>,
    /// What the registry says about the holder.
    pub holder: Result<Holder, Error>,
    /// What a contract that holds the name says about the signature, if one was given and the name has a holder.
    pub contract: Option<Result<ContractAnswer, Error>>,
}

/// What the registry says about the holder of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The account that holds it.
    Account(Address),
    /// There is none: the token was never minted, or was burned.
    NotMinted,
    /// There is no contract at the address of the registry.
    NoCode,
    /// The answer is not an address.
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// What an account says about a signature by ERC-1271.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractAnswer {
    /// It has no code, or only a delegation (EIP-7702): its key signs.
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

    /// A registry at another address or on another chain, for tests. Holding a name there proves nothing under .agt 1.0.
    pub const fn at(chain: Chain, registry: Address) -> Self {
        Self { chain, registry, height: ReadHeight::Latest }
    }

    /// Reads another block than the newest.
    #[must_use]
    pub const fn with_height(mut self, height: ReadHeight) -> Self {
        self.height = height;
        self
    }

    /// The number of the chain that every node has to give.
    pub const fn chain_id(&self) -> u64 {
        self.chain.chain_id()
    }

    /// The address of the registry.
    pub const fn registry(&self) -> Address {
        self.registry
    }

    /// Reads who holds a token. `signed` is a digest and a signature that the holder is asked about if it is a contract (ERC-1271).
    pub async fn read(&self, token_id: U256, signed: Option<(B256, &[u8])>) -> FnsRead {
        match self.read_once(token_id, signed).await {
            // Reorgs of a block or two are common at the chain head, and the next block has an answer.
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
        // An address without code answers every call with nothing, which must not pass for an answer of the registry.
        if snapshot.code(self.registry).await?.is_empty() {
            return Ok(Holder::NoCode);
        }
        let data = IERC721Owner::ownerOfCall { tokenId: token_id }.abi_encode().into();
        let call = BoundedCall { to: self.registry, data, from: None, gas: Some(OWNER_OF_GAS), max_bytes: MAX_OWNER_OF_BYTES };
        match snapshot.call(&call).await? {
            CallOutcome::Returned(bytes) => Ok(read_owner(&bytes)),
            CallOutcome::Reverted(_) => Ok(Holder::NotMinted),
            CallOutcome::TooLarge => Ok(Holder::Malformed { reason: "ownerOf returns far more than 32 bytes" }),
            // Nodes also say "execution aborted" about their own time limits, so this is no answer of the registry.
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

/// Reads what `ownerOf` returned: exactly one word with an address in its last 20 bytes.
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
