//! An index in a database.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::Address;
use tokio::sync::RwLock;
use toolcrib_core::caip::ToolRef;
use toolcrib_store::Database;
use toolcrib_store::database::Module;

use crate::agents::AgentTokens;
use crate::model::{RegistryId, ToolKey};
use crate::objects::EvidenceObjects;
use crate::unreadable::Unreadable;
use crate::work::{expiry, jobs_table, kept};
use crate::{Error, agents, bazaar, feed, follow, lease, moderation, objects, registries, replicas, tools, usage};

/// An index in a database. Cheap to clone. Any number of processes may open the same one.
#[derive(Clone, Debug)]
pub struct Index {
    database: Database,
    /// Registries are added and never removed or renumbered, so they are read once.
    known: Arc<RwLock<HashMap<RegistryId, (u64, Address)>>>,
    numbering: Arc<feed::Numbering>,
    /// Names of agents are added and never removed, so they are cached as well.
    agents: Arc<AgentTokens>,
    unreadable: Arc<Unreadable>,
    objects: Option<Arc<EvidenceObjects>>,
    /// A replica is read-only: rows without a number get none here.
    is_replica: bool,
}

/// The tables of an index.
pub(crate) const MODULES: &[Module<'static>] = &[
    ("index.registries", registries::MIGRATIONS),
    ("index.tools", tools::MIGRATIONS),
    ("index.feed", feed::MIGRATIONS),
    ("index.follow", follow::tables::MIGRATIONS),
    ("index.completeness", follow::completeness::MIGRATIONS),
    ("index.jobs", jobs_table::MIGRATIONS),
    ("index.work", kept::MIGRATIONS),
    ("index.expiry", expiry::MIGRATIONS),
    ("index.moderation", moderation::MIGRATIONS),
    ("index.usage", usage::MIGRATIONS),
    ("index.agents", agents::MIGRATIONS),
    ("index.replication", replicas::MIGRATIONS),
    ("index.lease", lease::MIGRATIONS),
    ("index.objects", objects::MIGRATIONS),
    ("index.bazaar", bazaar::MIGRATIONS),
];

impl Index {
    /// Opens the index in a database, and creates its tables if they do not exist.
    pub async fn open(database: Database) -> Result<Self, Error> {
        database.migrate_all(MODULES).await?;
        Ok(Self {
            database,
            known: Arc::default(),
            numbering: Arc::default(),
            agents: Arc::default(),
            unreadable: Arc::default(),
            objects: None,
            is_replica: false,
        })
    }

    /// Returns the same index on a replica. It sends no query and writes nothing.
    pub(crate) fn on_replica(&self, replica: Database) -> Self {
        Self { database: replica, numbering: Arc::default(), is_replica: true, ..self.clone() }
    }

    /// Whether it reads from a replica.
    pub(crate) const fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// Creates the database indexes that readers need, if they do not exist: for lists, creators and histories.
    ///
    /// A registry's backfill runs without them, since building an index over many rows costs a third of adding the rows one by one; until
    /// then queries return the same results, only slower. Followers call this after the backfill, or after some seconds; a program that
    /// fills an index in another way calls it too. Writers are not blocked meanwhile. Returns `false` when another process builds them.
    pub async fn prepare_reading(&self) -> Result<bool, Error> {
        // Events before tools, in the order in which followers write them.
        let modules = [("index.follow.indexes", follow::tables::INDEXES), ("index.tools.indexes", tools::INDEXES)];
        Ok(self.database.build_indexes(&modules).await?)
    }

    pub(crate) fn agent_tokens(&self) -> &AgentTokens {
        &self.agents
    }

    /// Returns the database.
    pub const fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn numbering(&self) -> &feed::Numbering {
        &self.numbering
    }

    /// Returns how many unreadable rows were skipped since the start. Each is logged once.
    pub fn unreadable_rows(&self) -> u64 {
        self.unreadable.count()
    }

    pub(crate) fn with_evidence(self, objects: EvidenceObjects) -> Self {
        Self { objects: Some(Arc::new(objects)), ..self }
    }

    pub(crate) fn evidence_objects(&self) -> Option<&EvidenceObjects> {
        self.objects.as_deref()
    }

    pub(crate) fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    /// Returns the number of a registry in this database.
    pub async fn registry_of(&self, chain: u64, address: Address) -> Result<Option<RegistryId>, Error> {
        let find = |known: &HashMap<RegistryId, (u64, Address)>| {
            known.iter().find(|(_, place)| **place == (chain, address)).map(|(id, _)| *id)
        };
        if let Some(id) = find(&*self.known.read().await) {
            return Ok(Some(id));
        }
        self.look_again().await?;
        Ok(find(&*self.known.read().await))
    }

    /// Returns the public reference of a tool.
    pub async fn reference(&self, key: ToolKey) -> Result<ToolRef, Error> {
        if let Some((chain, registry)) = self.known.read().await.get(&key.registry) {
            return Ok(tools::reference(*chain, *registry, key.id));
        }
        self.look_again().await?;
        let known = self.known.read().await;
        let (chain, registry) = known.get(&key.registry).ok_or(Error::Corrupt { what: "registry of a tool" })?;
        Ok(tools::reference(*chain, *registry, key.id))
    }

    /// Returns the key of a tool, if its registry is in the index.
    pub async fn key_of(&self, tool: &ToolRef) -> Result<Option<ToolKey>, Error> {
        Ok(self.registry_of(tool.chain, tool.registry).await?.map(|registry| ToolKey { registry, id: tool.id }))
    }

    /// Reads the registries again.
    pub(crate) async fn look_again(&self) -> Result<(), Error> {
        let rows = self.registries().await?;
        let mut known = self.known.write().await;
        known.extend(rows.into_iter().map(|row| (row.id, (row.chain, row.address))));
        Ok(())
    }
}
