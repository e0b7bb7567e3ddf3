//! The words of the index: which tool, what the chain says about it, what was derived, and what was used.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;

use crate::Error;
use crate::listing::Listing;

/// A registry in this index: a small number for a chain and an address, the same for as long as the database lives.
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

impl ToolKey {
    /// The id as the database has it: 32 bytes, most significant first, so that bytes sort as numbers.
    pub const fn id_bytes(&self) -> [u8; 32] {
        self.id.to_be_bytes()
    }

    /// Reads an id as the database has it.
    pub fn from_columns(registry: i64, id: &[u8]) -> Result<Self, Error> {
        let id = <[u8; 32]>::try_from(id).map_err(|_| Error::Corrupt { what: "tool id" })?;
        Ok(Self { registry: RegistryId(registry), id: U256::from_be_bytes(id) })
    }
}

/// What the registry says about a tool: the fold over its events. A tool that was deregistered keeps its last configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRow {
    /// Which tool.
    pub key: ToolKey,
    /// Who registered it.
    pub creator: Address,
    /// Where its manifest is. Foreign text.
    pub metadata_uri: String,
    /// The hash of its manifest.
    pub manifest_hash: B256,
    /// Who may use it; `None` for everybody.
    pub predicate: Option<Address>,
    /// When it was registered.
    pub registered: At,
    /// When it was last changed; the registration if it never was.
    pub updated: At,
    /// When its creator removed it.
    pub deregistered: Option<At>,
    /// How many events were folded into this row.
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

/// What was proven about the use of a tool. Reports that prove nothing are not here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// Paid calls: settled authorizations to the tool's recipient, each counted once.
    pub paid_calls: u64,
    /// Different accounts that paid.
    pub payers: u64,
    /// Different accounts that paid, without the creator and the recipients: what ranking goes by.
    pub ranking_payers: u64,
    /// What was paid, in millionths of a dollar, for tokens of the pinned table alone.
    pub volume: u64,
    /// Signatures over nothing: they name no tool and cost nothing, so they never rank.
    pub signed_calls: u64,
    /// The last proven use.
    pub last_at: Option<UnixTime>,
}

/// Everything that is known about a tool.
#[derive(Clone, Debug)]
pub struct ToolView {
    /// How it is named outside.
    pub tool: ToolRef,
    /// What the chain says.
    pub row: ToolRow,
    /// What was derived when it was last looked at; `None` before the first look.
    pub listing: Option<Listing>,
    /// What was proven about its use.
    pub usage: UsageTotals,
}

impl ToolView {
    /// Whether it is shown to agents: registered, and verified and conformant for the configuration that the chain has now.
    pub fn is_listed(&self) -> bool {
        self.row.is_active() && self.listing.as_ref().is_some_and(|listing| listing.is_good_for(&self.row))
    }
}
