//! Plans: lists of steps with one transaction each.
//!
//! The order ensures that stopping anywhere never opens a tool that should be gated: a gated tool is registered
//! with its predicate from the start, and a predicate without a configuration denies every account.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use serde::{Deserialize, Serialize};
use toolcrib_chain::predicate::{
    CompositeOp, CompositePredicate, CompositeTerm, Erc20Gate, Erc20Predicate, Erc721Predicate, Erc1155Gate, Erc1155Predicate,
    Limits, MerklePredicate, SubscriptionGate, SubscriptionPredicate, TraitGate, TraitPredicate, check_registry, proof_kind,
};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::transaction::Call;

use crate::Error;

/// Which accounts may use a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Every account.
    Open,
    /// A predicate that is configured elsewhere, or needs no configuration.
    Predicate(Address),
    /// Owners of a token from any of these collections.
    Erc721 {
        /// The predicate contract.
        predicate: Address,
        /// The collections.
        collections: Vec<Address>,
    },
    /// Owners of any of these tokens.
    Erc1155 {
        /// The predicate contract.
        predicate: Address,
        /// Collections and the accepted tokens.
        tokens: Vec<(Address, Vec<U256>)>,
    },
    /// Holders of an amount of a token.
    Erc20 {
        /// The predicate contract.
        predicate: Address,
        /// The token.
        token: Address,
        /// The minimum balance, in the smallest unit.
        min_balance: U256,
    },
    /// Subscribers with at least this tier.
    Subscription {
        /// The predicate contract.
        predicate: Address,
        /// The subscription NFT.
        collection: Address,
        /// The minimum tier.
        min_tier: u8,
    },
    /// Owners of a token whose trait has one of these values.
    Trait {
        /// The predicate contract.
        predicate: Address,
        /// The collection.
        collection: Address,
        /// The contract that returns the traits; often the collection itself.
        traits: Address,
        /// The trait.
        key: B256,
        /// The accepted values.
        values: Vec<B256>,
    },
    /// Several predicates combined; each may be negated.
    Composite {
        /// The predicate contract.
        predicate: Address,
        /// Whether all terms must grant access, or one.
        all: bool,
        /// The predicates, and whether their answer is negated.
        terms: Vec<(Address, bool)>,
    },
    /// Accounts on an allowlist.
    Merkle {
        /// The predicate contract.
        predicate: Address,
        /// The Merkle root of the list.
        root: B256,
    },
}

impl Gate {
    /// The predicate to register; `None` for open access.
    pub const fn predicate(&self) -> Option<Address> {
        match self {
            Self::Open => None,
            Self::Predicate(predicate)
            | Self::Erc721 { predicate, .. }
            | Self::Erc1155 { predicate, .. }
            | Self::Erc20 { predicate, .. }
            | Self::Subscription { predicate, .. }
            | Self::Trait { predicate, .. }
            | Self::Composite { predicate, .. }
            | Self::Merkle { predicate, .. } => Some(*predicate),
        }
    }

    /// Returns an error for a gate that exceeds its predicate's limits, before anything is signed. Otherwise a tool would be registered
    /// that every account is denied.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        let within = |what: &'static str, count: usize, most: u64| {
            if count as u64 > most { Err(Error::GateTooLarge { what, count, most }) } else { Ok(()) }
        };
        match self {
            Self::Erc721 { collections, .. } => within("collections", collections.len(), limits.erc721_collections),
            Self::Erc1155 { tokens, .. } => {
                within("collections", tokens.len(), limits.erc1155_collections)?;
                tokens.iter().try_for_each(|(_, ids)| within("token ids of one collection", ids.len(), limits.token_ids))?;
                let all = tokens.iter().map(|(_, ids)| ids.len()).sum();
                within("token ids in all", all, limits.token_ids_in_all.unwrap_or(u64::MAX))
            }
            Self::Trait { values, .. } => within("values of the trait", values.len(), limits.trait_values),
            Self::Composite { terms, .. } => within("predicates", terms.len(), limits.terms),
            _ => Ok(()),
        }
    }

    /// Every predicate that decides: the registered one and, for a composite, its terms.
    fn predicates(&self) -> impl Iterator<Item = Address> {
        let terms: &[_] = if let Self::Composite { terms, .. } = self { terms } else { &[] };
        self.predicate().into_iter().chain(terms.iter().map(|(predicate, _)| *predicate))
    }

    /// [`Self::check`] with the limits that the predicate states. Also rejects predicates that are bound to another registry
    /// than the tool's.
    pub async fn check_on(&self, registry: &Registry) -> Result<(), Error> {
        for predicate in self.predicates() {
            check_registry(registry, predicate).await?;
        }
        let Some(predicate) = self.predicate().filter(|_| self.needs_configuration()) else { return Ok(()) };
        let collections = if let Self::Erc1155 { tokens, .. } = self { tokens.len() } else { 1 };
        self.check(&Limits::read(registry.chain(), predicate, collections).await?)?;
        self.check_proofs(registry).await
    }

    /// Rejects a composite that can never grant access: all terms get the same `data`, and no `data` is a proof of two kinds. Our
    /// composites reject it too, but only after the tool is registered, and the reference's do not.
    async fn check_proofs(&self, registry: &Registry) -> Result<(), Error> {
        let Self::Composite { all: true, terms, .. } = self else { return Ok(()) };
        let mut needed: Option<(Address, [u8; 4])> = None;
        for (term, _) in terms {
            let Some(kind) = proof_kind(registry.chain(), *term).await? else { continue };
            match needed {
                Some((first, other)) if other != kind => return Err(Error::NeverGrants { first, second: *term }),
                _ => needed = Some((*term, kind)),
            }
        }
        Ok(())
    }

    /// Whether the predicate must be configured for the tool after its registration.
    pub const fn needs_configuration(&self) -> bool {
        !matches!(self, Self::Open | Self::Predicate(_))
    }

    /// The call that configures the predicate; `None` if there is nothing to configure.
    fn configure(&self, registry: &Registry, tool: U256) -> Option<Call> {
        let chain = registry.chain().clone();
        Some(match self {
            Self::Open | Self::Predicate(_) => return None,
            Self::Erc721 { predicate, collections } => {
                Erc721Predicate::new(chain, *predicate).set_collections(tool, collections.clone())
            }
            Self::Erc1155 { predicate, tokens } => {
                let gates = tokens
                    .iter()
                    .map(|(collection, ids)| Erc1155Gate { collection: *collection, token_ids: ids.clone() })
                    .collect();
                Erc1155Predicate::new(chain, *predicate).set_gates(tool, gates)
            }
            Self::Erc20 { predicate, token, min_balance } => {
                Erc20Predicate::new(chain, *predicate).set_gate(tool, Erc20Gate { token: *token, min_balance: *min_balance })
            }
            Self::Subscription { predicate, collection, min_tier } => SubscriptionPredicate::new(chain, *predicate)
                .set_gate(tool, SubscriptionGate { collection: *collection, min_tier: *min_tier }),
            Self::Trait { predicate, collection, traits, key, values } => {
                let gate = TraitGate { collection: *collection, traits: *traits, key: *key, values: values.clone() };
                TraitPredicate::new(chain, *predicate).set_gate(tool, gate)
            }
            Self::Composite { predicate, all, terms } => {
                let op = if *all { CompositeOp::All } else { CompositeOp::Any };
                let terms: Vec<_> = terms
                    .iter()
                    .map(|(predicate, is_negated)| CompositeTerm { predicate: *predicate, is_negated: *is_negated })
                    .collect();
                CompositePredicate::new(chain, *predicate).set(tool, op, &terms)
            }
            Self::Merkle { predicate, root } => MerklePredicate::new(chain, *predicate).set_root(tool, *root),
        })
    }
}

/// A step of a plan: one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Register a tool with its predicate.
    Register {
        /// The URL of its manifest.
        uri: String,
        /// The hash of its manifest.
        hash: B256,
        /// The access predicate.
        predicate: Option<Address>,
        /// The value of the transaction in wei. Most registries take nothing and revert otherwise.
        #[serde(default)]
        value: U256,
    },
    /// Configure the predicate.
    Configure(Gate),
    /// Change URL and hash of the manifest.
    Update {
        /// The new URL.
        uri: String,
        /// The new hash.
        hash: B256,
    },
    /// Change the access predicate.
    SetPredicate(Option<Address>),
    /// Deregister the tool for good.
    Deregister,
}

impl Step {
    /// The call of this step. Every step except the registration needs `tool`.
    pub fn call(&self, registry: &Registry, tool: Option<U256>) -> Result<Call, Error> {
        if let Self::Register { uri, hash, predicate, value } = self {
            return Ok(Call { value: *value, ..registry.register(uri, *hash, *predicate) });
        }
        let tool = tool.ok_or(Error::NoTool)?;
        Ok(match self {
            Self::Register { .. } => return Err(Error::NoTool),
            Self::Configure(gate) => gate.configure(registry, tool).ok_or(Error::NothingToConfigure)?,
            Self::Update { uri, hash } => registry.update(tool, uri, *hash),
            Self::SetPredicate(predicate) => registry.set_predicate(tool, *predicate),
            Self::Deregister => registry.deregister(tool),
        })
    }

    /// A short description of the step.
    pub fn described(&self) -> String {
        match self {
            Self::Register { uri, predicate: None, .. } => format!("register {uri}, open to everybody"),
            Self::Register { uri, predicate: Some(predicate), .. } => format!("register {uri} behind the predicate {predicate}"),
            Self::Configure(gate) => match gate.predicate() {
                Some(predicate) => format!("tell the predicate {predicate} whom to let in"),
                None => "nothing to configure".to_owned(),
            },
            Self::Update { uri, hash } => format!("change the manifest to {uri} with hash {hash}"),
            Self::SetPredicate(None) => "open the tool to everybody".to_owned(),
            Self::SetPredicate(Some(predicate)) => format!("put the tool behind the predicate {predicate}"),
            Self::Deregister => "remove the tool for good".to_owned(),
        }
    }
}

/// The steps that register a tool with a gate, without a fee.
pub fn register(uri: &str, hash: B256, gate: &Gate) -> Vec<Step> {
    register_for(uri, hash, gate, U256::ZERO)
}

/// The steps that register a tool with a gate at a registry that takes a fee or a bond, in wei.
pub fn register_for(uri: &str, hash: B256, gate: &Gate, value: U256) -> Vec<Step> {
    let mut steps = vec![Step::Register { uri: uri.to_owned(), hash, predicate: gate.predicate(), value }];
    if gate.needs_configuration() {
        steps.push(Step::Configure(gate.clone()));
    }
    steps
}

/// The steps that change a registered tool's gate. The new predicate is configured first. Until then it would deny
/// every account, and the former gate stays until the new one works.
pub fn change_gate(gate: &Gate) -> Vec<Step> {
    let configure = gate.needs_configuration().then(|| Step::Configure(gate.clone()));
    configure.into_iter().chain([Step::SetPredicate(gate.predicate())]).collect()
}

/// The id of a task in the journal. The same task always has the same id.
pub fn journal_id(verb: &str, chain_id: u64, registry: Address, signer: Address, subject: &[u8]) -> String {
    let mut preimage = Vec::new();
    for part in [verb.as_bytes(), &chain_id.to_be_bytes(), registry.as_slice(), signer.as_slice(), subject] {
        preimage.extend((part.len() as u64).to_be_bytes());
        preimage.extend(part);
    }
    let digest: Bytes = keccak256(preimage)[..8].to_vec().into();
    format!("{verb}-{chain_id}-{}", alloy_primitives::hex::encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gated_tool_is_never_open_on_the_way() {
        let predicate = Address::repeat_byte(9);
        let gate = Gate::Erc721 { predicate, collections: vec![Address::repeat_byte(1)] };
        let steps = register("https://a.example/x", B256::ZERO, &gate);
        assert!(matches!(&steps[0], Step::Register { predicate: Some(at), .. } if *at == predicate), "from the first step on");
        assert_eq!(steps[1..], [Step::Configure(gate.clone())]);
        assert_eq!(
            change_gate(&gate),
            [Step::Configure(gate), Step::SetPredicate(Some(predicate))],
            "configured before it counts"
        );
        assert_eq!(register("https://a.example/x", B256::ZERO, &Gate::Open).len(), 1);
        assert_eq!(change_gate(&Gate::Open), [Step::SetPredicate(None)]);
    }

    #[test]
    fn a_gate_that_is_too_large_is_refused_before_anything_is_signed() {
        #[track_caller]
        fn check(gate: &Gate, expected: Option<&str>) {
            let found = gate.check(&Limits::OURS).err();
            assert_eq!(found.as_ref().map(|error| error.code().id()), expected.map(|_| "author.gate_too_large"));
            if let (Some(error), Some(expected)) = (found, expected) {
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
        let predicate = Address::repeat_byte(9);
        let erc721 = |count: u8| Gate::Erc721 { predicate, collections: (1..=count).map(Address::repeat_byte).collect() };
        check(&erc721(3), None);
        check(&erc721(4), Some("4 collections"));
        let erc1155 = |collections: u8, ids: u64| Gate::Erc1155 {
            predicate,
            tokens: (1..=collections).map(|at| (Address::repeat_byte(at), (0..ids).map(U256::from).collect())).collect(),
        };
        check(&erc1155(2, 12), None);
        check(&erc1155(3, 1), Some("3 collections"));
        check(&erc1155(1, 13), Some("13 token ids"));
        let mut shared = Limits::OURS;
        shared.token_ids_in_all = Some(8);
        assert!(erc1155(2, 4).check(&shared).is_ok());
        assert!(erc1155(2, 5).check(&shared).is_err_and(|error| error.to_string().contains("10 token ids in all")));
        let composite = |count: u8| Gate::Composite {
            predicate,
            all: true,
            terms: (1..=count).map(|at| (Address::repeat_byte(at), false)).collect(),
        };
        check(&composite(3), None);
        check(&composite(4), Some("4 predicates"));
        check(&Gate::Open, None);
    }

    // req: REG-045
    #[test]
    fn a_registration_pays_nothing_unless_it_is_told_to() {
        let value = |steps: &[Step]| match &steps[0] {
            Step::Register { value, .. } => *value,
            step => panic!("{step:?}"),
        };
        assert_eq!(value(&register("https://a.example/x", B256::ZERO, &Gate::Open)), U256::ZERO);
        assert_eq!(value(&register_for("https://a.example/x", B256::ZERO, &Gate::Open, U256::from(5))), U256::from(5));
        // Older journals have no value.
        let old = format!(r#"{{"register":{{"uri":"u","hash":"{}","predicate":null}}}}"#, B256::ZERO);
        assert_eq!(value(&[serde_json::from_str(&old).expect("an old step")]), U256::ZERO);
    }

    #[test]
    fn the_same_work_has_the_same_name() {
        let id = |verb, subject: &[u8]| journal_id(verb, 1, Address::ZERO, Address::ZERO, subject);
        assert_eq!(id("register", b"x"), id("register", b"x"));
        assert_ne!(id("register", b"x"), id("register", b"y"));
        assert_ne!(id("update", b"x"), id("register", b"x"));
    }
}
