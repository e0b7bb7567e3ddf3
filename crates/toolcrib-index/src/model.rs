//! The data model of the index: keys of tools, their registration on the chain, the result of their verification, and their usage.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Fields, FromRow};

use crate::Error;
use crate::listing::Listing;
use crate::moderation::{Moderation, Restriction};

/// A registry in this index: a small number for a chain and an address that never changes in one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RegistryId(pub i64);

/// A tool in this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolKey {
    /// Its registry.
    pub registry: RegistryId,
    /// Its id there.
    pub id: U256,
}

impl RegistryId {
    /// The registry number of agents in the change feed: registries are numbered from 1, and the id is the token id of the name.
    pub const AGENTS: Self = Self(0);

    /// The registry number of Bazaar resources in the change feed and in search: above all registries, and the id is the number of the
    /// resource. An index never has that many registries, and the number still takes few bits in columns of the search index.
    pub const BAZAAR: Self = Self(1 << 20);
}

impl<'r> FromRow<'r> for ToolKey {
    const COLUMNS: &'static str = "registry, tool";
    const NAMES: &'static [&'static str] = &["registry", "tool"];

    fn from_fields(fields: &mut Fields<'r, '_>) -> Result<Self, toolcrib_store::Error> {
        let (registry, id) = (fields.read()?, fields.read::<&[u8]>()?);
        let id = IdBytes::read(id).ok_or(toolcrib_store::Error::Corrupt { what: "tool id" })?;
        Ok(Self { registry: RegistryId(registry), id })
    }
}

impl ToolKey {
    /// Whether it is the name of an agent instead of a tool.
    pub const fn is_agent(&self) -> bool {
        self.registry.0 == RegistryId::AGENTS.0
    }

    /// Whether it is a tool of a registry.
    pub fn is_tool(&self) -> bool {
        !self.is_agent() && self.registry != RegistryId::BAZAAR
    }

    /// Returns the number of a Bazaar resource; `None` for a tool of a registry and for an agent.
    pub fn resource(&self) -> Option<i64> {
        (self.registry == RegistryId::BAZAAR).then(|| i64::try_from(self.id).ok()).flatten()
    }

    /// Returns the id as the database stores it.
    pub fn id_bytes(&self) -> IdBytes {
        IdBytes::of(self.id)
    }

    /// Parses an id as the database stores it.
    pub fn from_columns(registry: i64, id: &[u8]) -> Result<Self, Error> {
        let id = IdBytes::read(id).ok_or(Error::Corrupt { what: "tool id" })?;
        Ok(Self { registry: RegistryId(registry), id })
    }
}

/// An id as the database stores it: its length, and then its bytes, most significant first. Bytes then sort as numbers do, and a key that
/// is part of every table and of most indexes has few bytes: ids are small numbers, since registries count their tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdBytes {
    bytes: [u8; 33],
    length: u8,
}

impl IdBytes {
    /// Encodes an id.
    pub fn of(id: U256) -> Self {
        let length = id.byte_len();
        let mut bytes = [0; 33];
        bytes[0] = length as u8;
        bytes[1..=length].copy_from_slice(&id.to_be_bytes::<32>()[32 - length..]);
        Self { bytes, length: length as u8 + 1 }
    }

    /// Decodes an id. `None` for an invalid encoding.
    fn read(bytes: &[u8]) -> Option<U256> {
        let (length, digits) = bytes.split_first()?;
        let is_one = usize::from(*length) == digits.len() && digits.first() != Some(&0);
        is_one.then(|| U256::try_from_be_slice(digits)).flatten()
    }
}

impl std::ops::Deref for IdBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for IdBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", alloy_primitives::hex::encode(&**self))
    }
}

/// The registration of a tool: the result of folding its events. A tool that was deregistered keeps its last configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRow {
    /// The tool.
    pub key: ToolKey,
    /// The account that registered it.
    pub creator: Address,
    /// The URI of its manifest. Untrusted text.
    pub metadata_uri: String,
    /// The hash of its manifest.
    pub manifest_hash: B256,
    /// Its access predicate; `None` for open access.
    pub predicate: Option<Address>,
    /// When it was registered.
    pub registered: At,
    /// When it was last changed; the registration if it never changed.
    pub updated: At,
    /// When its creator deregistered it.
    pub deregistered: Option<At>,
    /// The number of events folded into this row.
    pub events: u64,
}

impl ToolRow {
    /// Whether it is registered now.
    pub const fn is_active(&self) -> bool {
        self.deregistered.is_none()
    }
}

/// A block and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The number of the block.
    pub block: u64,
    /// The time of the block.
    pub time: UnixTime,
}

/// The proven usage of a tool. Reports without proof are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// Paid calls: settled authorizations to the tool's recipient, each counted once.
    pub paid_calls: u64,
    /// Distinct accounts that paid.
    pub payers: u64,
    /// Distinct accounts that paid, without the creator and the recipients: the number that ranking uses.
    pub ranking_payers: u64,
    /// Distinct accounts that paid any tool of its creator, without the creator and the recipients of its tools.
    #[serde(default)]
    pub creator_payers: u64,
    /// The amount paid in micro-dollars (millionths of a dollar), only for tokens of the pinned table.
    pub volume: u64,
    /// Signatures without a payment: they name no tool and cost nothing, so they never affect ranking.
    pub signed_calls: u64,
    /// The last proven use.
    pub last_at: Option<UnixTime>,
}

/// Everything that is known about a tool.
#[derive(Clone, Debug)]
pub struct ToolView {
    /// Its public reference.
    pub tool: ToolRef,
    /// Its registration on the chain.
    pub row: ToolRow,
    /// The result of its last verification; `None` before the first one.
    pub listing: Option<Listing>,
    /// Its proven usage.
    pub usage: UsageTotals,
    /// The operator's restriction, if any.
    pub moderation: Option<Moderation>,
}

impl ToolView {
    /// Whether a notice replaces its content.
    pub fn is_blocked(&self) -> bool {
        self.moderation.as_ref().is_some_and(|moderation| moderation.action == Restriction::Block)
    }

    /// Whether agents see it: registered, not moderated, and verified and conformant for the current configuration on the chain.
    pub fn is_listed(&self) -> bool {
        self.moderation.is_none() && self.is_verified()
    }

    /// Whether it is registered, and verified and conformant for the current configuration on the chain.
    pub fn is_verified(&self) -> bool {
        self.row.is_active() && self.listing.as_ref().is_some_and(|listing| listing.is_good_for(&self.row))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_sort_as_numbers_and_come_back(a: [u8; 32], b: [u8; 32], (left, right) in (0_usize..256, 0_usize..256)) {
            let (a, b) = (U256::from_be_bytes(a) >> left, U256::from_be_bytes(b) >> right);
            let key = |id| ToolKey { registry: RegistryId(1), id };
            prop_assert_eq!(key(a).id_bytes().cmp(&key(b).id_bytes()), a.cmp(&b));
            prop_assert_eq!(ToolKey::from_columns(1, &key(a).id_bytes()).ok(), Some(key(a)));
        }
    }

    #[test]
    fn what_no_id_looks_like_is_refused() {
        assert_eq!(*IdBytes::of(U256::ZERO), [0]);
        assert_eq!(*IdBytes::of(U256::from(0x0102)), [2, 1, 2]);
        let mut long = [0xff; 34];
        long[0] = 33;
        for bytes in [&[][..], &[1], &[0, 1], &[1, 0], &[2, 0, 1], &[1, 1, 1], &[0; 32], &long] {
            assert!(ToolKey::from_columns(1, bytes).is_err(), "{bytes:?}");
        }
        assert!(ToolKey::from_columns(1, &IdBytes::of(U256::MAX)).is_ok());
    }
}
