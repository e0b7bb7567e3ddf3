//! Who may call a tool, from the chain alone: what a manifest says about access is only a hint for people.

use std::collections::BTreeMap;

use alloy_primitives::{Address, hex};
use toolcrib_chain::predicate::Meaning;
use toolcrib_core::text::escape_for_display;
use toolcrib_core::tool::Logic;
use toolcrib_judge::evidence::{ChainReads, Erc165, PredicateFacts, Proxy, Requirement, Requirements};

use crate::listing::{AccessFacts, AccessKind, CollectionFacts, RequirementFacts};

/// The maximum number of requirements that are shown. Predicates list at most 256, too many for a page.
pub const MAX_REQUIREMENTS: usize = 32;

/// The maximum number of bytes shown of a requirement's data. All known kinds except one need at most 128.
const MAX_DATA_SHOWN: usize = 512;

/// Returns who may call a tool with this predicate. What was not read from the chain stays unknown.
pub(crate) fn access(
    predicate: Option<Address>,
    reads: Option<&ChainReads>,
    collections: &BTreeMap<Address, CollectionFacts>,
) -> AccessFacts {
    // Facts about another predicate do not apply to this tool.
    let facts = reads.and_then(|reads| reads.predicate.as_ref()).filter(|facts| Some(facts.address) == predicate);
    let requirements = facts.map_or(&Requirements::NoCode, |facts| &facts.requirements);
    let entries = requirements.entries();
    AccessFacts {
        kind: if predicate.is_none() { AccessKind::Open } else { kind(entries) },
        predicate,
        predicate_is_proxy: facts.map(|facts| facts.proxy.as_ref().is_some_and(Proxy::is_mutable)),
        predicate_name: facts.and_then(|facts| facts.name.as_deref()).map(escape_for_display),
        predicate_code: facts.and_then(|facts| facts.code_hash),
        is_advertised: facts.map(|facts| facts.erc165 == Erc165::Predicate),
        any: matches!(requirements, Requirements::Listed { logic: Logic::Or, .. }),
        requirements: entries.iter().take(MAX_REQUIREMENTS).map(|entry| requirement(entry, collections)).collect(),
    }
}

/// Whether a predicate denies access to every account.
pub(crate) fn is_always_deny(facts: &PredicateFacts) -> bool {
    let Requirements::Listed { logic, entries } = &facts.requirements else { return false };
    let denies = |entry: &Requirement| Meaning::from(entry) == Meaning::DenyAll;
    if *logic == Logic::Or { !entries.is_empty() && entries.iter().all(denies) } else { entries.iter().any(denies) }
}

/// Returns the contracts whose names are shown.
pub(crate) fn collections_of(facts: &PredicateFacts) -> Vec<Address> {
    let entries = facts.requirements.entries();
    let mut contracts: Vec<Address> = Vec::new();
    for entry in entries.iter().take(MAX_REQUIREMENTS) {
        let found = match Meaning::from(entry) {
            Meaning::Erc721 { collection }
            | Meaning::Erc1155 { collection, .. }
            | Meaning::Subscription { collection, .. }
            | Meaning::Trait { collection, .. } => Some(collection),
            _ => None,
        };
        contracts.extend(found.filter(|found| !contracts.contains(found)));
    }
    contracts
}

/// Returns the kind of access: that of the requirements, if all have the same.
fn kind(entries: &[Requirement]) -> AccessKind {
    let each = |entry: &Requirement| match Meaning::from(entry) {
        Meaning::Erc721 { .. } | Meaning::Erc1155 { .. } | Meaning::Trait { .. } => AccessKind::NftGated,
        Meaning::Erc20 { .. } => AccessKind::TokenGated,
        Meaning::Subscription { .. } => AccessKind::Subscription,
        _ => AccessKind::Gated,
    };
    let Some((first, rest)) = entries.split_first() else { return AccessKind::Gated };
    let first = each(first);
    if rest.iter().all(|entry| each(entry) == first) { first } else { AccessKind::Gated }
}

fn requirement(entry: &Requirement, collections: &BTreeMap<Address, CollectionFacts>) -> RequirementFacts {
    let mut facts = RequirementFacts {
        kind: entry.kind.to_string(),
        meaning: String::new(),
        contract: None,
        token_id: None,
        min_tier: None,
        min_balance: None,
        data: hex::encode_prefixed(entry.data.get(..MAX_DATA_SHOWN).unwrap_or(&entry.data)),
        label: escape_for_display(&entry.label),
        collection: None,
    };
    facts.meaning = match Meaning::from(entry) {
        Meaning::Erc721 { collection } => {
            facts.contract = Some(collection);
            "erc721"
        }
        Meaning::Erc1155 { collection, token_id } => {
            facts.contract = Some(collection);
            facts.token_id = Some(token_id.to_string());
            "erc1155"
        }
        Meaning::Subscription { collection, min_tier } => {
            facts.contract = Some(collection);
            facts.min_tier = Some(min_tier.into());
            "subscription"
        }
        Meaning::Erc20 { token, min_balance } => {
            facts.contract = Some(token);
            facts.min_balance = Some(min_balance.to_string());
            "erc20"
        }
        Meaning::Trait { collection, .. } => {
            facts.contract = Some(collection);
            "trait"
        }
        Meaning::Attestation { .. } => "attestation",
        Meaning::AccessProof { verifier } => {
            facts.contract = Some(verifier);
            "access_proof"
        }
        Meaning::Merkle { .. } => "merkle",
        Meaning::DenyAll => "deny_all",
        Meaning::Unread => "unread",
        Meaning::Undecodable => "undecodable",
        _ => "unknown",
    }
    .to_owned();
    facts.collection = facts.contract.and_then(|contract| collections.get(&contract).cloned());
    facts
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{B256, Bytes, FixedBytes, U256};
    use alloy_sol_types::SolValue;
    use toolcrib_core::registry::RequirementKind;

    use super::*;

    const CONTRACT: Address = Address::repeat_byte(0xc0);
    const PREDICATE: Address = Address::repeat_byte(0x9e);

    fn entry(kind: RequirementKind, data: Vec<u8>) -> Requirement {
        Requirement { kind: kind.id().into(), data: data.into(), label: "any \u{202e}token".to_owned() }
    }

    fn nft() -> Requirement {
        entry(RequirementKind::Erc721Holding, CONTRACT.abi_encode())
    }

    fn coin() -> Requirement {
        entry(RequirementKind::Erc20Balance, (CONTRACT, U256::from(5)).abi_encode())
    }

    fn deny() -> Requirement {
        entry(RequirementKind::DenyAll, Vec::new())
    }

    fn facts(logic: Logic, entries: Vec<Requirement>) -> PredicateFacts {
        PredicateFacts {
            address: PREDICATE,
            code_hash: Some(B256::repeat_byte(1)),
            proxy: None,
            erc165: Erc165::Predicate,
            name: Some("Gate\u{1b}[2J".to_owned()),
            version: None,
            requirements: Requirements::Listed { logic, entries },
            contracts: Vec::new(),
        }
    }

    fn of(entries: Vec<Requirement>) -> AccessFacts {
        let reads = ChainReads {
            registry_code_hash: None,
            config: Vec::new(),
            predicate: Some(facts(Logic::And, entries)),
            registration: None,
        };
        access(Some(PREDICATE), Some(&reads), &BTreeMap::new())
    }

    #[test]
    fn the_kind_is_that_of_the_chain() {
        assert_eq!(access(None, None, &BTreeMap::new()).kind, AccessKind::Open);
        assert_eq!(access(Some(PREDICATE), None, &BTreeMap::new()).kind, AccessKind::Gated);
        assert_eq!(of(Vec::new()).kind, AccessKind::Gated, "it does not say what it asks for");
        let token = entry(RequirementKind::Erc1155Holding, (CONTRACT, U256::from(7)).abi_encode());
        assert_eq!(of(vec![nft(), token.clone()]).kind, AccessKind::NftGated);
        assert_eq!(of(vec![coin()]).kind, AccessKind::TokenGated);
        assert_eq!(of(vec![nft(), coin()]).kind, AccessKind::Gated);
        let member = entry(RequirementKind::Subscription, (CONTRACT, U256::from(2)).abi_encode());
        assert_eq!(of(vec![member.clone()]).kind, AccessKind::Subscription);
        assert_eq!(of(vec![member]).requirements[0].min_tier, Some(2));
        assert_eq!(of(vec![token]).requirements[0].token_id.as_deref(), Some("7"));
        assert_eq!(of(vec![coin()]).requirements[0].min_balance.as_deref(), Some("5"));
        let strange = Requirement { kind: FixedBytes([1, 2, 3, 4]), data: Bytes::from(vec![7; 4_096]), label: String::new() };
        let shown = of(vec![strange]);
        assert_eq!((shown.kind, shown.requirements[0].meaning.as_str()), (AccessKind::Gated, "unknown"));
        assert_eq!(shown.requirements[0].data.len(), 2 + 2 * MAX_DATA_SHOWN);
    }

    #[test]
    fn foreign_words_are_escaped() {
        let facts = of(vec![nft()]);
        assert_eq!(facts.predicate_name.as_deref(), Some("Gate\\u{1b}[2J"));
        assert_eq!(facts.requirements[0].label, "any \\u{202e}token");
        assert_eq!((facts.predicate_is_proxy, facts.is_advertised), (Some(false), Some(true)));
    }

    #[test]
    fn nobody_may_is_told_from_some_may_not() {
        assert!(is_always_deny(&facts(Logic::And, vec![deny()])));
        assert!(is_always_deny(&facts(Logic::And, vec![nft(), deny()])), "all are asked for, and one cannot be had");
        assert!(!is_always_deny(&facts(Logic::Or, vec![nft(), deny()])), "one is enough");
        assert!(is_always_deny(&facts(Logic::Or, vec![deny()])));
        assert!(!is_always_deny(&facts(Logic::Or, Vec::new())));
    }
}
