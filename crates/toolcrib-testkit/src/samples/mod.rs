//! Tools that are written directly into the tables of an index, as followers and workers write them.

pub mod crowd;
pub mod quality;

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};
use toolcrib_core::clock::UnixTime;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::listing::{
    AccessFacts, AccessKind, Claims, CollectionFacts, Health, Life, Listing, ManifestFacts, Price, RequirementFacts, Verdict,
};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::{Index, text_key};
use toolcrib_store::database::{Bulk, Column};

/// The start time of tests.
pub const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// A tool.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The ID of the registration.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The names of its input fields.
    pub fields: Vec<String>,
    /// Its input schema.
    pub inputs: Option<Value>,
    /// The origin of its manifest and endpoint.
    pub origin: String,
    /// The account that registered it.
    pub creator: Address,
    /// The time of the registration.
    pub registered: i64,
    /// The time of the last change; `None` if the registration was never changed.
    pub updated: Option<i64>,
    /// Number of accounts that paid it.
    pub payers: u64,
    /// Number of accounts that paid any tool of the creator; the highest number among the creator's samples counts.
    pub creator_payers: u64,
    /// Whether it passed verification.
    pub is_verified: bool,
    /// Its verifiability tier.
    pub tier: String,
    /// The access rule.
    pub access: AccessKind,
    /// The collection whose tokens grant access.
    pub collection: Option<Address>,
    /// The collection's own name.
    pub collection_name: Option<String>,
    /// The price in millionths of a dollar; 0 is free.
    pub price: u64,
    /// Verifications, and how many of them its server answered.
    pub health: (u32, u32),
    /// Whether the registration is active.
    pub life: Life,
}

impl Sample {
    /// Returns a verified, open, free tool.
    pub fn new(id: u64, name: &str, description: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            description: description.to_owned(),
            tags: Vec::new(),
            fields: Vec::new(),
            inputs: None,
            origin: "https://tools.example".to_owned(),
            creator: Address::repeat_byte(0xc1),
            registered: NOW.seconds() - 1_000_000 + i64::try_from(id).expect("small"),
            updated: None,
            payers: 0,
            creator_payers: 0,
            is_verified: true,
            tier: "self-attested".to_owned(),
            access: AccessKind::Open,
            collection: None,
            collection_name: None,
            price: 0,
            health: (0, 0),
            life: Life::Active,
        }
    }

    /// Returns its key in an index.
    pub fn key(&self, registry: RegistryId) -> ToolKey {
        ToolKey { registry, id: U256::from(self.id) }
    }

    fn uri(&self) -> String {
        format!("{}/.well-known/ai-tool/{}.json", self.origin, self.id)
    }

    fn listing(&self) -> Listing {
        let price = (self.price > 0).then(|| Price {
            amount: self.price.to_string(),
            asset: "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913".to_owned(),
            recipient: "eip155:8453:0xabcdef0123456789abcdef0123456789abcdef01".to_owned(),
            protocol: "x402".to_owned(),
            chain: Some(8453),
            token: None,
            symbol: Some("USDC".to_owned()),
            decimals: Some(6),
            micro_usd: Some(self.price),
        });
        let manifest = ManifestFacts {
            name: self.name.clone(),
            description: self.description.clone(),
            tags: self.tags.clone(),
            endpoint: format!("{}/call/{}", self.origin, self.id),
            origin: self.origin.clone(),
            slug: self.id.to_string(),
            version: None,
            image: None,
            featured_image: None,
            inputs: self.inputs.clone(),
            outputs: None,
            fields: self.fields.clone(),
            prices: price.into_iter().collect(),
            max_age: None,
        };
        let requirement = |contract: Address| RequirementFacts {
            kind: "0x00000000".to_owned(),
            meaning: "erc721".to_owned(),
            contract: Some(contract),
            token_id: None,
            min_tier: None,
            min_balance: None,
            data: "0x".to_owned(),
            label: String::new(),
            collection: self.collection_name.clone().map(named),
        };
        let claims = Claims { name: Some(self.name.clone()), endpoint: None };
        Listing {
            checked_at: NOW,
            expires_at: NOW,
            manifest_hash: B256::ZERO,
            metadata_uri: self.uri(),
            verdict: if self.is_verified { Verdict::Verified } else { Verdict::Refused },
            verified: self.is_verified,
            conformant: self.is_verified,
            checks: ["passed", "passed", "passed", if self.is_verified { "passed" } else { "failed" }].map(str::to_owned),
            failed: None,
            findings: Vec::new(),
            manifest: self.is_verified.then_some(manifest),
            claims: (!self.is_verified).then_some(claims),
            tier: self.tier.clone(),
            access: AccessFacts {
                kind: self.access.clone(),
                predicate: None,
                predicate_is_proxy: None,
                predicate_name: None,
                predicate_code: None,
                is_advertised: None,
                any: false,
                requirements: self.collection.map(requirement).into_iter().collect(),
            },
            same_uri: Vec::new(),
            same_endpoint: Vec::new(),
            life: self.life.clone(),
            health: Health { looks: self.health.0, answered: self.health.1, latency_ms: None, last_answer: None },
            dev: false,
        }
    }
}

fn named(name: String) -> CollectionFacts {
    CollectionFacts { name: Some(name), symbol: None, image: None, floor_price: None }
}

/// Returns a schema whose fields a text describes.
pub fn described(text: &str) -> Value {
    json!({"type": "object", "properties": {"value": {"type": "string", "description": text}}})
}

const TOOL: Bulk = Bulk {
    table: "index_tool",
    columns: &[
        "registry",
        "tool",
        "creator",
        "uri",
        "uri_key",
        "hash",
        "registered_block",
        "registered_at",
        "updated_block",
        "updated_at",
        "events",
        "listed",
        "access",
    ],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET creator = excluded.creator, uri = excluded.uri, uri_key = excluded.uri_key,
        registered_at = excluded.registered_at, updated_at = excluded.updated_at, listed = excluded.listed, access = excluded.access",
};
const LISTING: Bulk = Bulk {
    table: "index_listing",
    columns: &["registry", "tool", "checked_at", "document"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET checked_at = excluded.checked_at, document = excluded.document",
};
const USAGE: Bulk = Bulk {
    table: "index_usage_total",
    columns: &["registry", "tool", "paid_calls", "payers", "ranking_payers", "volume", "signed_calls"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET paid_calls = excluded.paid_calls, payers = excluded.payers,
        ranking_payers = excluded.ranking_payers",
};
const CREATOR: Bulk = Bulk {
    table: "index_creator_total",
    columns: &["creator", "payers"],
    conflict: "ON CONFLICT (creator) DO UPDATE SET payers = excluded.payers",
};

/// Writes tools in one transaction, and records the changes.
pub async fn put(index: &Index, registry: RegistryId, samples: &[Sample]) {
    let count = samples.len();
    let registries = vec![registry.0; count];
    let ids: Vec<_> = samples.iter().map(|sample| sample.key(registry).id_bytes()).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let creators: Vec<&[u8]> = samples.iter().map(|sample| sample.creator.as_slice()).collect();
    let uris: Vec<String> = samples.iter().map(Sample::uri).collect();
    let uri_keys: Vec<i64> = uris.iter().map(|uri| text_key(uri)).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let hashes: Vec<&[u8]> = vec![&[0; 32]; count];
    let times: Vec<i64> = samples.iter().map(|sample| sample.registered).collect();
    let updates: Vec<i64> = samples.iter().map(|sample| sample.updated.unwrap_or(sample.registered)).collect();
    let zeros = vec![0; count];
    let ones = vec![1; count];
    let listed: Vec<bool> = samples.iter().map(|sample| sample.is_verified).collect();
    let access: Vec<&str> = samples.iter().map(|sample| sample.access.as_str()).collect();
    let documents: Vec<String> = samples.iter().map(|sample| serde_json::to_string(&sample.listing()).expect("JSON")).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let payers: Vec<i64> = samples.iter().map(|sample| i64::try_from(sample.payers).expect("small")).collect();
    let mut transaction = index.database().begin().await.expect("a transaction");
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&ids),
        Column::Bytes(&creators),
        Column::Texts(&uris),
        Column::Integers(&uri_keys),
        Column::Bytes(&hashes),
        Column::Integers(&zeros),
        Column::Integers(&times),
        Column::Integers(&zeros),
        Column::Integers(&updates),
        Column::Integers(&ones),
        Column::Booleans(&listed),
        Column::Texts(&access),
    ];
    transaction.insert_many(&TOOL, &columns).await.expect("tools");
    let columns = [Column::Integers(&registries), Column::Bytes(&ids), Column::Integers(&ones), Column::Texts(&documents)];
    transaction.insert_many(&LISTING, &columns).await.expect("listings");
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&ids),
        Column::Integers(&payers),
        Column::Integers(&payers),
        Column::Integers(&payers),
        Column::Integers(&zeros),
        Column::Integers(&zeros),
    ];
    transaction.insert_many(&USAGE, &columns).await.expect("usage");
    let mut paid = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.creator_payers > 0) {
        let most: &mut i64 = paid.entry(sample.creator).or_default();
        *most = (*most).max(i64::try_from(sample.creator_payers).expect("small"));
    }
    let (creators, payers): (Vec<&[u8]>, Vec<i64>) = paid.iter().map(|(creator, payers)| (creator.as_slice(), *payers)).unzip();
    transaction.insert_many(&CREATOR, &[Column::Bytes(&creators), Column::Integers(&payers)]).await.expect("creators");
    let changes: Vec<_> = samples.iter().map(|sample| (sample.key(registry), Kinds::REGISTERED)).collect();
    feed::record(&mut transaction, &changes, NOW).await.expect("recorded");
    transaction.commit().await.expect("committed");
}

/// Removes a tool as a reorg does, and records the change.
pub async fn remove(index: &Index, key: ToolKey) {
    let id = key.id_bytes();
    let values = [toolcrib_store::database::Value::Integer(key.registry.0), toolcrib_store::database::Value::Bytes(&id)];
    let mut transaction = index.database().begin().await.expect("a transaction");
    transaction.execute("DELETE FROM index_tool WHERE registry = $1 AND tool = $2", &values).await.expect("deleted");
    feed::record(&mut transaction, &[(key, Kinds::REORGANISED)], NOW).await.expect("recorded");
    transaction.commit().await.expect("committed");
}
