//! The state of a tool in its registry and predicates, as plain data: read by a chain client, stored in evidence, judged.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, Bytes, FixedBytes};
use serde::{Deserialize, Serialize};

use super::{RequirementKind, UNREAD_KIND};
use crate::tool::{AccessRules, Logic};

/// A registry's state of an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToolState {
    /// The id was never registered.
    NotFound,
    /// Its creator deregistered it permanently.
    Deregistered,
    /// It is registered.
    Present(ToolConfig),
}

/// The data that a registry stores for a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolConfig {
    /// The account that registered it.
    pub creator: Address,
    /// The URL of its manifest. Untrusted text.
    pub metadata_uri: String,
    /// The hash of its manifest.
    pub manifest_hash: B256,
    /// The contract that decides about access; `None` for tools without access control.
    pub access_predicate: Option<Address>,
}

/// A contract's ERC-165 answer, as registries ask for before they accept a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Erc165 {
    /// It does not implement ERC-165. Registries accept it.
    NotAdvertised,
    /// It implements ERC-165, but is not a predicate. Registries reject it.
    Other,
    /// It claims to be an access predicate.
    Predicate,
}

/// How a contract delegates its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyKind {
    /// ERC-1967: the implementation is in a storage slot, which can change.
    Implementation,
    /// ERC-1967: a beacon returns the implementation.
    Beacon,
    /// ERC-1967: only the administrator slot is set.
    Admin,
    /// EIP-1167: the target is part of the code and cannot change.
    Minimal,
    /// EIP-7702: an account that delegates to code, and can change the delegation.
    Delegated,
}

/// A contract that delegates its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "ProxyRecord", from = "ProxyRecord")]
pub struct Proxy {
    /// How it delegates.
    pub kind: ProxyKind,
    /// The implementation, the beacon or, for [`ProxyKind::Admin`], the administrator.
    pub target: Address,
}

impl Proxy {
    /// Whether its code can be replaced.
    pub const fn is_mutable(&self) -> bool {
        !matches!(self.kind, ProxyKind::Minimal)
    }
}

/// The serialised form. `is_mutable` follows from the kind, and is ignored when it is parsed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyRecord {
    kind: ProxyKind,
    target: Address,
    is_mutable: bool,
}

impl From<Proxy> for ProxyRecord {
    fn from(proxy: Proxy) -> Self {
        Self { kind: proxy.kind, target: proxy.target, is_mutable: proxy.is_mutable() }
    }
}

impl From<ProxyRecord> for Proxy {
    fn from(record: ProxyRecord) -> Self {
        Self { kind: record.kind, target: record.target }
    }
}

/// The result of asking a predicate for its requirements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Requirements {
    /// There is no code to ask.
    NoCode,
    /// It reverted, ran out of gas, or returned bytes that cannot be decoded.
    Failed,
    /// It returned more than readers accept. This is not a denial.
    OverLimit,
    /// The predicate listed its requirements.
    Listed {
        /// How they combine. Serialised as: whether any of them suffices.
        #[serde(rename = "any", with = "any")]
        logic: Logic,
        /// The requirements.
        entries: Vec<Requirement>,
    },
}

impl Requirements {
    /// The requirements that a manifest declares.
    pub fn stated(access: AccessRules<'_>) -> Self {
        let entries = access.requirements().map(|entry| Requirement {
            kind: entry.kind().into(),
            data: entry.data().into(),
            label: entry.label().to_owned(),
        });
        Self::Listed { logic: access.logic(), entries: entries.collect() }
    }

    /// The listed requirements; empty if there is no list.
    pub fn entries(&self) -> &[Requirement] {
        match self {
            Self::Listed { entries, .. } => entries,
            Self::NoCode | Self::Failed | Self::OverLimit => &[],
        }
    }

    /// Whether a composite could not read a term, so that the list is incomplete.
    pub fn has_unread(&self) -> bool {
        self.entries().iter().any(|entry| entry.kind == UNREAD_KIND)
    }

    /// The token contracts in the requirements, without duplicates. They are on the predicate's chain.
    pub fn tokens(&self) -> BTreeSet<Address> {
        let names_token = |entry: &&Requirement| {
            RequirementKind::from_id(entry.kind.0).is_some_and(|kind| kind.names_token() && kind.fits(&entry.data))
        };
        self.entries().iter().filter(names_token).filter_map(|entry| entry.data.get(12..32).map(Address::from_slice)).collect()
    }
}

/// One requirement of a predicate. It is a hint: the access check itself decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The selector of the marker.
    pub kind: FixedBytes<4>,
    /// The returned bytes.
    pub data: Bytes,
    /// The predicate's description. Untrusted text.
    pub label: String,
}

/// A logic as the boolean of evidence files.
mod any {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::tool::Logic;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(logic: &Logic, serializer: S) -> Result<S::Ok, S::Error> {
        (*logic == Logic::Or).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Logic, D::Error> {
        Ok(if bool::deserialize(deserializer)? { Logic::Or } else { Logic::And })
    }
}
