//! Verifying tools: real servers on loopback, a chain in this process, and both stores.

mod checks;
mod collections;
mod expiry;
mod facts;
mod fairness;
mod hostile;
mod intake;
mod leases;
mod objects;
mod polite;
mod processes;
mod scripted;
mod time;

use std::ops::Deref;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, keccak256};
use serde_json::{Value as Json, json};
use toolcrib_chain::registry::ToolState;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_fetch::Limits;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::listing::Listing;
use toolcrib_index::model::{RegistryId, ToolKey, ToolView};
use toolcrib_index::objects::KeeperOptions;
use toolcrib_index::work::{Live, Queue, Round, WorkOptions, Worker};
use toolcrib_index::{Chains, Index, text_key};
use toolcrib_judge::Policy;
use toolcrib_store::database::Value;
use toolcrib_store::objects::Objects;
use toolcrib_verify::Verifier;

use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::registry::RegistryChain;
use toolcrib_testkit::servers::{self, NOW, Server, ok};

/// A chain with a registry, and a network of hosts.
pub(crate) struct World {
    pub(crate) net: servers::World,
    chain: RegistryChain,
    pub(crate) clock: MovingClock,
}

impl Deref for World {
    type Target = RegistryChain;

    fn deref(&self) -> &RegistryChain {
        &self.chain
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self { net: servers::World::new(), chain: RegistryChain::start().await, clock: MovingClock::new() }
    }

    /// A host that serves a manifest, registered.
    pub(crate) async fn tool(&self, host: &str, change: impl FnOnce(&mut Json)) -> (U256, Server) {
        self.gated(host, None, change).await
    }

    /// The same, behind a predicate.
    pub(crate) async fn gated(&self, host: &str, predicate: Option<Address>, change: impl FnOnce(&mut Json)) -> (U256, Server) {
        let mut document = manifest(host);
        change(&mut document);
        let bytes = document.to_string().into_bytes();
        let hash = hash_of(&bytes);
        let server = self.net.honest(host, move |_| ok(&bytes)).await;
        (self.register(0, &uri(host), hash, predicate), server)
    }

    pub(crate) fn live(&self) -> Live {
        self.live_with(servers::quick())
    }

    pub(crate) fn live_with(&self, limits: Limits) -> Live {
        let verifier = Verifier::new(self.net.fetch(), Arc::new(self.clock.clone()), "test").limits(limits);
        Live::new(verifier, Chains::from_iter([self.registry.chain().clone()]), Policy::default())
    }

    /// An empty index on each engine.
    pub(crate) async fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::new();
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let row = index.add_registry(self.devchain.chain_id(), self.registry.address(), 0).await.expect("a registry");
            stages.push(Stage {
                queue: Queue::new(index.clone()).with_clock(self.clock.clone()),
                index,
                registry: row.id,
                clock: self.clock.clone(),
                _place: place,
            });
        }
        assert!(!stages.is_empty());
        stages
    }
}

/// An index on one engine.
pub(crate) struct Stage {
    pub(crate) index: Index,
    pub(crate) queue: Queue,
    pub(crate) registry: RegistryId,
    pub(crate) clock: MovingClock,
    _place: TestStore,
}

const PUT: &str = "INSERT INTO index_tool (registry, tool, creator, uri, uri_key, hash, predicate, registered_block, registered_at,
    updated_block, updated_at, deregistered_block, deregistered_at, events) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, 1, $9, $10, $11, 1)
    ON CONFLICT (registry, tool) DO UPDATE SET uri = excluded.uri, uri_key = excluded.uri_key, hash = excluded.hash,
    predicate = excluded.predicate, updated_at = excluded.updated_at, deregistered_block = excluded.deregistered_block,
    deregistered_at = excluded.deregistered_at, events = index_tool.events + 1, listed = FALSE";

/// The registration that a follower writes.
pub(crate) struct Followed<'a> {
    pub(crate) creator: Address,
    pub(crate) uri: &'a str,
    pub(crate) hash: B256,
    pub(crate) predicate: Option<Address>,
    pub(crate) registered_at: UnixTime,
    pub(crate) updated_at: UnixTime,
    pub(crate) deregistered_at: Option<UnixTime>,
}

pub(crate) async fn put(index: &Index, key: ToolKey, tool: &Followed<'_>, kinds: Kinds) {
    let id = key.id_bytes();
    let (registry, tool_id) = (Value::Integer(key.registry.0), Value::Bytes(&id));
    let values = [
        registry,
        tool_id,
        Value::Bytes(tool.creator.as_slice()),
        Value::Text(tool.uri),
        Value::Integer(text_key(tool.uri)),
        Value::Bytes(tool.hash.as_slice()),
        Value::OptionalBytes(tool.predicate.as_ref().map(|address| address.as_slice())),
        Value::Integer(tool.registered_at.seconds()),
        Value::Integer(tool.updated_at.seconds()),
        Value::OptionalInteger(tool.deregistered_at.map(|_| 9)),
        Value::OptionalInteger(tool.deregistered_at.map(UnixTime::seconds)),
    ];
    let mut transaction = index.database().begin().await.expect("a transaction");
    transaction.execute(PUT, &values).await.expect("a tool");
    feed::record(&mut transaction, &[(key, kinds)], tool.updated_at).await.expect("recorded");
    transaction.commit().await.expect("committed");
}

impl Stage {
    /// The same with an object store for evidence.
    pub(crate) async fn with_objects(self, objects: Objects) -> Self {
        let index = self.index.clone().with_objects(objects, KeeperOptions::default()).await.expect("an identity");
        Self { queue: Queue::new(index.clone()).with_clock(self.clock.clone()), index, ..self }
    }

    pub(crate) fn key(&self, id: U256) -> ToolKey {
        ToolKey { registry: self.registry, id }
    }

    /// Writes the registration of a tool, as a follower does.
    pub(crate) async fn follow(&self, world: &World, id: U256) {
        self.follow_at(world, id, NOW, self.clock.now()).await;
    }

    pub(crate) async fn follow_at(&self, world: &World, id: U256, registered_at: UnixTime, updated_at: UnixTime) {
        let key = self.key(id);
        let before = self.index.tools(&[key]).await.expect("tools").pop();
        let kinds = if before.is_some() { Kinds::METADATA } else { Kinds::REGISTERED };
        match world.registry.tool(id).await.expect("an answer") {
            ToolState::Present(config) => {
                let tool = Followed {
                    creator: config.creator,
                    uri: &config.metadata_uri,
                    hash: config.manifest_hash,
                    predicate: config.access_predicate,
                    registered_at,
                    updated_at,
                    deregistered_at: None,
                };
                put(&self.index, key, &tool, kinds).await;
            }
            ToolState::Deregistered => {
                let row = before.expect("it was there").row;
                let tool = Followed {
                    creator: row.creator,
                    uri: &row.metadata_uri,
                    hash: row.manifest_hash,
                    predicate: row.predicate,
                    registered_at,
                    updated_at,
                    deregistered_at: Some(updated_at),
                };
                put(&self.index, key, &tool, kinds).await;
            }
            ToolState::NotFound => panic!("no such tool"),
        }
    }

    /// Processes what is due.
    pub(crate) async fn work(&self, world: &World) -> Round {
        self.worker(world).round().await.expect("a round")
    }

    pub(crate) fn worker(&self, world: &World) -> Worker<Live> {
        Worker::new(self.queue.clone(), world.live(), Arc::new(self.clock.clone()), WorkOptions::default())
    }

    pub(crate) async fn view(&self, id: U256) -> ToolView {
        self.index.tools(&[self.key(id)]).await.expect("tools").pop().expect("a tool")
    }

    pub(crate) async fn listing(&self, id: U256) -> Listing {
        self.view(id).await.listing.expect("it was looked at")
    }

    /// Returns the ids in the default list.
    pub(crate) async fn listed(&self) -> Vec<U256> {
        let list = toolcrib_index::List { limit: 100, ..toolcrib_index::List::default() };
        let page = self.index.list(&list).await.expect("a page");
        assert!(page.tools.iter().all(ToolView::is_listed), "the column and the listing agree");
        page.tools.iter().map(|view| view.row.key.id).collect()
    }
}

pub(crate) fn uri(host: &str) -> String {
    format!("https://{host}/.well-known/ai-tool/word-count.json")
}

/// Returns a valid manifest of a tool at `host`, by development account 0.
pub(crate) fn manifest(host: &str) -> Json {
    json!({
        "type": TYPE_V1,
        "name": "word-count",
        "description": "Counts the words of a text.",
        "endpoint": format!("https://{host}/count"),
        "inputs": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "outputs": {"type": "object", "properties": {"words": {"type": "integer"}}},
        "creatorAddress": format!("{:#x}", DEV_ACCOUNTS[0]),
    })
}

/// Returns the hash of a manifest, or some hash for bytes that have none.
pub(crate) fn hash_of(bytes: &[u8]) -> B256 {
    ToolManifest::parse(bytes, Mode::Consumer).canonical().map_or_else(|| keccak256(bytes), |canonical| canonical.hash())
}
