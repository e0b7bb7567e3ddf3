//! The state that a follower keeps between transactions. All of it can be read from the database again.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::registry::{ChainEvent, ChainLog, RegistryEvent};
use toolcrib_store::Database;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};

use super::fold;
use crate::Error;
use crate::model::{RegistryId, ToolKey};

/// The maximum number of predicates whose upgrades are followed. Each is an address in the log filter; later ones are ignored.
const MAX_PREDICATES: usize = 2_000;

row! {
    struct Columns {
        checkpoint: i64,
        checkpoint_hash: Option<B256>,
        finalized: i64,
        first_block: u64,
    }
}

const STATE: &str = sql!("SELECT ", Columns::COLUMNS, " FROM index_registry WHERE id = $1");
const HIGHEST: &str = "SELECT tool FROM index_tool WHERE registry = $1 ORDER BY tool DESC LIMIT 1";

row! {
    struct PredicateRow {
        predicate: Address,
        first_block: u64,
        first_log: u64,
    }
}

const PREDICATES: &str = sql!(
    "SELECT ",
    PredicateRow::COLUMNS,
    " FROM index_predicate WHERE registry = $1
    ORDER BY first_block, first_log LIMIT $2"
);

/// The progress of following a registry, and the state that the next transaction needs.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) checkpoint: i64,
    pub(super) checkpoint_hash: Option<B256>,
    pub(super) finalized: i64,
    pub(super) first_block: u64,
    /// The highest tool id in the index.
    pub(super) highest: Option<U256>,
    pub(super) predicates: Predicates,
}

impl State {
    pub(super) async fn load(database: &Database, registry: RegistryId) -> Result<Self, Error> {
        let number = Value::Integer(registry.0);
        let row = database.fetch_optional(STATE, &[number]).await?.ok_or(Error::Corrupt { what: "registry" })?;
        let row = Columns::from_row(&row)?;
        let highest = database.fetch_optional(HIGHEST, &[number]).await?;
        let highest = match &highest {
            Some(row) => Some(ToolKey::from_columns(registry.0, row.scalar()?)?.id),
            None => None,
        };
        let mut predicates = Predicates::default();
        let rows = database.fetch(PREDICATES, &[number, Value::Integer(MAX_PREDICATES as i64)]).await?;
        for row in PredicateRow::from_rows(&rows) {
            let row = row?;
            predicates.add(row.predicate, (row.first_block, row.first_log));
        }
        Ok(Self {
            checkpoint: row.checkpoint,
            checkpoint_hash: row.checkpoint_hash,
            finalized: row.finalized,
            first_block: row.first_block,
            highest,
            predicates,
        })
    }

    /// Returns the first block that is not indexed.
    pub(super) fn next(&self) -> u64 {
        u64::try_from(self.checkpoint + 1).unwrap_or_default()
    }

    /// Whether any block was indexed yet.
    pub(super) fn has_begun(&self) -> bool {
        self.next() > self.first_block
    }
}

/// Head and last final block of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// The chain head.
    pub(super) head: u64,
    /// The last finalized block; -1 when there is none yet.
    pub(super) finalized: i64,
}

/// The predicates that tools have or had, in the order of their first use.
#[derive(Clone, Debug, Default)]
pub(super) struct Predicates {
    all: Vec<Address>,
    first: HashMap<Address, (u64, u64)>,
}

impl Predicates {
    pub(super) fn all(&self) -> &[Address] {
        &self.all
    }

    pub(super) fn has(&self, predicate: &Address) -> bool {
        self.first.contains_key(predicate)
    }

    fn add(&mut self, predicate: Address, place: (u64, u64)) -> bool {
        if self.all.len() >= MAX_PREDICATES || self.has(&predicate) {
            return false;
        }
        self.first.insert(predicate, place);
        self.all.push(predicate);
        true
    }

    /// Adds the predicates that these logs name, and returns the new ones.
    pub(super) fn learn(&mut self, logs: &[ChainLog]) -> Vec<(Address, (u64, u64))> {
        let mut fresh = Vec::new();
        for log in logs {
            let place = (log.block, log.log_index);
            if let Some(predicate) = named(log)
                && self.add(predicate, place)
            {
                fresh.push((predicate, place));
            }
        }
        fresh
    }

    /// Adds the predicates that these logs name, also those whose first known use was later, and returns each with its new first position
    /// and the previous one.
    pub(super) fn learn_earlier(&mut self, logs: &[ChainLog]) -> Vec<NamedEarlier> {
        let mut earlier: Vec<NamedEarlier> = Vec::new();
        for log in logs {
            let place = (log.block, log.log_index);
            let Some(predicate) = named(log) else { continue };
            let had = self.first.get(&predicate).copied();
            if had.is_some_and(|had| place < had) {
                self.first.insert(predicate, place);
                earlier.push(NamedEarlier { predicate, place, had });
            } else if had.is_none() && self.add(predicate, place) {
                earlier.push(NamedEarlier { predicate, place, had });
            }
        }
        earlier
    }

    /// Whether an event counts: an upgrade counts from the first use of its predicate on, so that the result does not depend on how blocks
    /// were split into ranges.
    pub(super) fn counts(&self, log: &ChainLog) -> bool {
        match &log.event {
            ChainEvent::Registry(_) => true,
            ChainEvent::Upgraded { predicate, .. } => {
                self.first.get(predicate).is_some_and(|first| *first < (log.block, log.log_index))
            }
        }
    }
}

/// A predicate whose first use is earlier than was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedEarlier {
    pub(super) predicate: Address,
    /// The position of its first use.
    pub(super) place: (u64, u64),
    /// Its first position as known before.
    pub(super) had: Option<(u64, u64)>,
}

/// Returns the predicate that a log names.
fn named(log: &ChainLog) -> Option<Address> {
    match &log.event {
        ChainEvent::Registry(RegistryEvent::Registered { predicate, .. } | RegistryEvent::PredicateUpdated { predicate, .. }) => {
            fold::some(*predicate)
        }
        _ => None,
    }
}

pub(super) fn unsigned(number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Corrupt { what: "number of a block" })
}
