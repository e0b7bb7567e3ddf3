//! A client for each known predicate: reads a tool's configuration, and builds the call that sets it.
//!
//! The predicate that denies every account has no configuration, so it needs only its address.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue};

use crate::Error;
use crate::abi::{
    IAccessProofPredicate, ICompositePredicate, IERC20BalancePredicate, IERC721OwnerPredicate, IERC1155OwnerPredicate,
    IMerkleAllowlistPredicate, ISubscriptionPredicate, ITraitGatedPredicate,
};
use crate::registry::{Registry, Revert};
use crate::rpc::{BoundedCall, CallOutcome, Chain};
use crate::sign::{AccessProof, Domain, StrictSignature};
use crate::transaction::Call;

use super::binding::{check_registry, registry_of};

/// Maximum size of a configuration: ten collections with sixteen tokens each take a tenth of it.
const MAX_CONFIG_BYTES: usize = 65_536;

/// Gas for reading a configuration from storage.
const CONFIG_GAS: u64 = 5_000_000;

/// Declares clients, each an address on a chain.
macro_rules! clients {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            chain: Chain,
            address: Address,
        }

        impl $name {
            /// Returns the client of the predicate at an address.
            pub const fn new(chain: Chain, address: Address) -> Self {
                Self { chain, address }
            }

            /// The address.
            pub const fn address(&self) -> Address {
                self.address
            }
        }
    )* };
}

clients! {
    /// Owners of ERC-721 tokens.
    Erc721Predicate;
    /// Owners of ERC-1155 tokens.
    Erc1155Predicate;
    /// Holders of an amount of an ERC-20 token.
    Erc20Predicate;
    /// Subscribers.
    SubscriptionPredicate;
    /// Owners of a token with a certain trait.
    TraitPredicate;
    /// Several predicates joined.
    CompositePredicate;
    /// Accounts on a list.
    MerklePredicate;
    /// Accounts that sign a challenge.
    AccessProofPredicate;
}

impl Erc721Predicate {
    /// The collections whose owners have access to a tool.
    pub async fn collections(&self, id: U256) -> Result<Vec<Address>, Error> {
        read(&self.chain, self.address, IERC721OwnerPredicate::getCollectionsCall { toolId: id }, "getCollections").await
    }

    /// The call that sets them; an empty list denies every account.
    pub fn set_collections(&self, id: U256, collections: Vec<Address>) -> Call {
        write(self.address, &IERC721OwnerPredicate::setCollectionsCall { toolId: id, collections })
    }
}

/// Tokens of one ERC-1155 collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erc1155Gate {
    /// The collection.
    pub collection: Address,
    /// The tokens; any one of them grants access.
    pub token_ids: Vec<U256>,
}

impl Erc1155Predicate {
    /// The tokens whose owners have access to a tool.
    pub async fn gates(&self, id: U256) -> Result<Vec<Erc1155Gate>, Error> {
        let call = IERC1155OwnerPredicate::getCollectionTokensCall { toolId: id };
        let entries = read(&self.chain, self.address, call, "getCollectionTokens").await?;
        Ok(entries.into_iter().map(|entry| Erc1155Gate { collection: entry.collection, token_ids: entry.tokenIds }).collect())
    }

    /// The call that sets them; an empty list denies every account.
    pub fn set_gates(&self, id: U256, gates: Vec<Erc1155Gate>) -> Call {
        let entries = gates
            .into_iter()
            .map(|gate| IERC1155OwnerPredicate::CollectionTokens { collection: gate.collection, tokenIds: gate.token_ids })
            .collect();
        write(self.address, &IERC1155OwnerPredicate::setCollectionTokensCall { toolId: id, entries })
    }
}

/// An amount of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erc20Gate {
    /// The token.
    pub token: Address,
    /// The minimum balance in the token's smallest unit.
    pub min_balance: U256,
}

impl Erc20Predicate {
    /// A tool's gate; `None` if none is configured.
    pub async fn gate(&self, id: U256) -> Result<Option<Erc20Gate>, Error> {
        let call = IERC20BalancePredicate::getToolERC20ConfigCall { toolId: id };
        let config = read(&self.chain, self.address, call, "getToolERC20Config").await?;
        Ok((!config.token.is_zero()).then_some(Erc20Gate { token: config.token, min_balance: config.minBalance }))
    }

    /// The call that sets it.
    pub fn set_gate(&self, id: U256, gate: Erc20Gate) -> Call {
        let call = IERC20BalancePredicate::configureToolERC20Call { toolId: id, token: gate.token, minBalance: gate.min_balance };
        write(self.address, &call)
    }
}

/// A tier of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionGate {
    /// The subscription NFT.
    pub collection: Address,
    /// The minimum tier; 0 accepts any.
    pub min_tier: u8,
}

/// The status of an account's subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// Whether the account has a subscription token.
    pub has_token: bool,
    /// The tier of that token.
    pub tier: u8,
    /// The minimum tier that the tool requires.
    pub required_tier: u8,
    /// The end of the subscription, as a Unix timestamp.
    pub expiration: u64,
    /// Whether the subscription grants access now.
    pub is_active: bool,
}

impl SubscriptionPredicate {
    /// A tool's gate; `None` if none is configured.
    pub async fn gate(&self, id: U256) -> Result<Option<SubscriptionGate>, Error> {
        let call = ISubscriptionPredicate::getToolGatingConfigCall { toolId: id };
        let config = read(&self.chain, self.address, call, "getToolGatingConfig").await?;
        Ok((!config.collection.is_zero()).then_some(SubscriptionGate { collection: config.collection, min_tier: config.minTier }))
    }

    /// The status of an account.
    pub async fn status(&self, id: U256, account: Address) -> Result<SubscriptionStatus, Error> {
        let call = ISubscriptionPredicate::getSubscriptionStatusCall { toolId: id, account };
        let status = read(&self.chain, self.address, call, "getSubscriptionStatus").await?;
        Ok(SubscriptionStatus {
            has_token: status.hasNft,
            tier: status.tier,
            required_tier: status.requiredTier,
            expiration: status.expiration,
            is_active: status.active,
        })
    }

    /// The call that sets it. The tool must already use this predicate.
    pub fn set_gate(&self, id: U256, gate: SubscriptionGate) -> Call {
        let call =
            ISubscriptionPredicate::configureToolGatingCall { toolId: id, collection: gate.collection, minTier: gate.min_tier };
        write(self.address, &call)
    }

    /// The registry that this predicate is bound to.
    pub async fn registry(&self) -> Result<Address, Error> {
        read(&self.chain, self.address, ISubscriptionPredicate::registryCall {}, "registry").await
    }
}

/// Values of a trait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraitGate {
    /// The collection that returns the token's owner.
    pub collection: Address,
    /// The contract that returns the trait.
    pub traits: Address,
    /// The trait.
    pub key: B256,
    /// The accepted values.
    pub values: Vec<B256>,
}

impl TraitPredicate {
    /// A tool's gate; `None` if none is configured.
    pub async fn gate(&self, id: U256) -> Result<Option<TraitGate>, Error> {
        let call = ITraitGatedPredicate::getToolTraitConfigCall { toolId: id };
        let config = read(&self.chain, self.address, call, "getToolTraitConfig").await?;
        Ok((!config.collection.is_zero()).then_some(TraitGate {
            collection: config.collection,
            traits: config.traitsContract,
            key: config.traitKey,
            values: config.allowedValues,
        }))
    }

    /// The call that sets it.
    pub fn set_gate(&self, id: U256, gate: TraitGate) -> Call {
        write(
            self.address,
            &ITraitGatedPredicate::configureToolTraitCall {
                toolId: id,
                collection: gate.collection,
                traitsContract: gate.traits,
                traitKey: gate.key,
                allowedValues: gate.values,
            },
        )
    }

    /// The `data` that names the token that the account owns.
    pub fn data(token_id: U256) -> Bytes {
        token_id.abi_encode().into()
    }
}

/// How the terms of a composite are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompositeOp {
    /// Every term must grant.
    All,
    /// At least one term must grant.
    Any,
}

/// One term of a composite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompositeTerm {
    /// The predicate to ask.
    pub predicate: Address,
    /// Whether the predicate's answer is negated. Failures are not.
    pub is_negated: bool,
}

impl CompositePredicate {
    /// How a tool's terms combine.
    pub async fn op(&self, id: U256) -> Result<CompositeOp, Error> {
        match read(&self.chain, self.address, ICompositePredicate::getOpCall { toolId: id }, "getOp").await? {
            0 => Ok(CompositeOp::All),
            1 => Ok(CompositeOp::Any),
            _ => Err(Error::Undecodable { contract: self.address, function: "getOp", length: 32 }),
        }
    }

    /// A tool's terms.
    pub async fn terms(&self, id: U256) -> Result<Vec<CompositeTerm>, Error> {
        let terms = read(&self.chain, self.address, ICompositePredicate::getTermsCall { toolId: id }, "getTerms").await?;
        Ok(terms.into_iter().map(|term| CompositeTerm { predicate: term.predicate, is_negated: term.negate }).collect())
    }

    /// The call that sets them; an empty list denies every account.
    pub fn set(&self, id: U256, op: CompositeOp, terms: &[CompositeTerm]) -> Call {
        let terms =
            terms.iter().map(|term| ICompositePredicate::Term { predicate: term.predicate, negate: term.is_negated }).collect();
        write(self.address, &ICompositePredicate::setCompositionCall { toolId: id, op: op as u8, terms })
    }
}

impl MerklePredicate {
    /// The Merkle root of a tool's allowlist; `None` if none is set.
    pub async fn root(&self, id: U256) -> Result<Option<B256>, Error> {
        let root = read(&self.chain, self.address, IMerkleAllowlistPredicate::getRootCall { toolId: id }, "getRoot").await?;
        Ok((!root.is_zero()).then_some(root))
    }

    /// The call that sets it.
    pub fn set_root(&self, id: U256, root: B256) -> Call {
        write(self.address, &IMerkleAllowlistPredicate::setRootCall { toolId: id, root })
    }

    /// The leaf of an account: hashed twice, so that no inner node can be used as a leaf.
    pub fn leaf(account: Address) -> B256 {
        keccak256(keccak256(account.abi_encode()))
    }

    /// The root of an allowlist. Pairs are sorted before hashing; an odd node moves up a level. Order and duplicates make no difference.
    pub fn root_of(accounts: &[Address]) -> Option<B256> {
        Self::levels(accounts).last().and_then(|level| level.first().copied())
    }

    /// The `data` with the Merkle proof for an account; `None` if it is not on the list.
    pub fn data(accounts: &[Address], account: Address) -> Option<Bytes> {
        let levels = Self::levels(accounts);
        let mut at = levels.first()?.binary_search(&Self::leaf(account)).ok()?;
        let mut proof = Vec::new();
        for level in &levels {
            proof.extend(level.get(at ^ 1).copied());
            at /= 2;
        }
        Some(proof.abi_encode().into())
    }

    fn levels(accounts: &[Address]) -> Vec<Vec<B256>> {
        let mut level: Vec<_> = accounts.iter().map(|account| Self::leaf(*account)).collect();
        level.sort_unstable();
        level.dedup();
        let mut levels = Vec::new();
        while level.len() > 1 {
            let above = level
                .chunks(2)
                .map(|pair| match *pair {
                    [left, right] if left <= right => keccak256([left.0, right.0].concat()),
                    [left, right] => keccak256([right.0, left.0].concat()),
                    _ => pair.first().copied().unwrap_or_default(),
                })
                .collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        levels.push(level);
        levels
    }
}

impl AccessProofPredicate {
    /// The digest that the contract computes, to compare with [`crate::sign::AccessProof`].
    pub async fn digest(&self, id: U256, account: Address, deadline: u64) -> Result<B256, Error> {
        let call = IAccessProofPredicate::proofDigestCall { toolId: id, account, deadline };
        read(&self.chain, self.address, call, "proofDigest").await
    }

    /// Returns the access proof that `account` signs to use a tool of `registry`, and the domain to sign it in.
    ///
    /// The signed struct has no field for the registry, and every registry uses the same ids: a proof signed for a predicate that belongs
    /// to another registry would also be valid for the tool with the same id there. So a predicate that states another registry is an
    /// error, and so is one that states none, because it is not bound to any.
    pub async fn challenge(
        &self,
        registry: &Registry,
        id: U256,
        account: Address,
        deadline: u64,
    ) -> Result<(AccessProof, Domain), Error> {
        check_registry(registry, self.address).await?;
        if registry_of(&self.chain, self.address).await?.is_none() {
            return Err(Error::UnboundProof { predicate: self.address });
        }
        let domain = AccessProof::domain(self.chain.chain_id(), self.address);
        Ok((AccessProof { tool_id: id, account, deadline }, domain))
    }

    /// The `data` that carries a proof.
    pub fn data(deadline: u64, signature: &StrictSignature) -> Bytes {
        (deadline, Bytes::copy_from_slice(&signature.canonical())).abi_encode_params().into()
    }
}

fn write(to: Address, call: &impl SolCall) -> Call {
    Call { to, data: call.abi_encode().into(), value: U256::ZERO }
}

async fn read<C: SolCall>(chain: &Chain, to: Address, call: C, function: &'static str) -> Result<C::Return, Error> {
    let call = BoundedCall { to, data: call.abi_encode().into(), from: None, gas: Some(CONFIG_GAS), max_bytes: MAX_CONFIG_BYTES };
    let undecodable = |length| Error::Undecodable { contract: to, function, length };
    match chain.call(&call).await? {
        CallOutcome::Returned(bytes) => C::abi_decode_returns_validate(&bytes).map_err(|_| undecodable(bytes.len())),
        CallOutcome::Reverted(data) => Err(Error::Reverted(Revert::decode(&data))),
        CallOutcome::Halted(_) => Err(Error::Reverted(Revert::Unknown(Bytes::new()))),
        CallOutcome::TooLarge => Err(undecodable(usize::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merkle_proof_leads_to_the_root() {
        for size in 1..=17_u8 {
            let accounts: Vec<_> = (1..=size).map(Address::repeat_byte).collect();
            let root = MerklePredicate::root_of(&accounts).expect("a list");
            for account in &accounts {
                let data = MerklePredicate::data(&accounts, *account).expect("on the list");
                let proof = Vec::<B256>::abi_decode_validate(&data).expect("words");
                let top = proof.iter().fold(MerklePredicate::leaf(*account), |node, other| {
                    let (low, high) = if node <= *other { (node, *other) } else { (*other, node) };
                    keccak256([low.0, high.0].concat())
                });
                assert_eq!(top, root, "{size} accounts");
            }
            assert_eq!(MerklePredicate::data(&accounts, Address::repeat_byte(99)), None);
            let mut shuffled = accounts.clone();
            shuffled.reverse();
            shuffled.push(accounts[0]);
            assert_eq!(MerklePredicate::root_of(&shuffled), Some(root), "order and repetitions do not count");
        }
        assert_eq!(MerklePredicate::root_of(&[]), None);
    }
}
