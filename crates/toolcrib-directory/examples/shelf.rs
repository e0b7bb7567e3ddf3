//! A directory over made-up tools, for trying clients and for measuring.
//!
//!     cargo run --release -p toolcrib-directory --example shelf -- sqlite:/tmp/shelf.db 16000 8257
//!
//! The arguments are where the database is, how many tools it has at least, and the port on this machine; 0 takes a free one. Limits are
//! off. Models find it at `/mcp`. With `unready` as a fourth argument the words of search are never built.

use std::io::Write as _;

use alloy_primitives::{Address, U256, keccak256};
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_core::clock::Clock as _;
use toolcrib_directory::{Directory, Options, Rate, serve};
use toolcrib_fetch::SystemClock;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index, text_key};
use toolcrib_store::database::{Bulk, Column};
use toolcrib_store::{Database, Location};

type Failure = Box<dyn std::error::Error>;

/// As many as the rates of a day that nobody exceeds.
const MANY: Rate = Rate::per_hour(u32::MAX);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let location = Location::parse(&arguments.next().unwrap_or_else(|| "memory".to_owned()))?;
    let tools: u64 = arguments.next().unwrap_or_else(|| "100".to_owned()).parse()?;
    let port: u16 = arguments.next().unwrap_or_else(|| "8257".to_owned()).parse()?;
    let is_ready = arguments.next().is_none_or(|word| word != "unready");
    let index = Index::open(Database::open(&location).await?).await?;
    let registry = index.add_registry(8453, Address::repeat_byte(0x82), 1).await?.id;
    fill(&index, registry, tools).await?;
    index.prepare_reading().await?;
    let search = Search::open(index.clone(), SearchOptions::default()).await?;
    let options = Options {
        anonymous_reads: None,
        anonymous_writes: MANY,
        keys_per_address: MANY,
        keys_in_all: MANY,
        looks_per_origin: MANY,
        ..Options::default()
    };
    let queue = Queue::new(index.clone());
    let directory = Directory::builder(index, search, queue, Chains::default(), SystemClock).options(options).build().await?;
    if is_ready {
        directory.refresh().await?;
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let port = listener.local_addr()?.port();
    let directory = directory.with_mcp(["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}")).to_vec(), Vec::new())?;
    writeln!(std::io::stdout(), "{{\"port\":{port}}}")?;
    let running = directory.clone();
    if is_ready {
        tokio::spawn(async move { running.run(std::future::pending()).await });
    }
    serve(listener, directory.router(), std::future::pending()).await?;
    Ok(())
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
    conflict: "",
};
const LISTING: Bulk =
    Bulk { table: "index_listing", columns: &["registry", "tool", "checked_at", "endpoint_key", "document"], conflict: "" };

/// What made-up tools do, and to what.
const VERBS: [&str; 8] = ["Find", "Translate", "Summarise", "Price", "Draw", "Verify", "Convert", "Watch"];
const NOUNS: [&str; 10] =
    ["weather", "documents", "tokens", "images", "contracts", "news", "flights", "recipes", "maps", "collections"];

/// Puts in what is missing.
async fn fill(index: &Index, registry: RegistryId, tools: u64) -> Result<(), Failure> {
    let there = index.database().fetch("SELECT COUNT(*) FROM index_tool", &[]).await?;
    let mut next = u64::try_from(there.first().map(|row| row.scalar::<i64>()).transpose()?.unwrap_or_default())? + 1;
    while next <= tools {
        let ids: Vec<u64> = (next..=tools).take(1_000).collect();
        add(index, registry, &ids).await?;
        next += ids.len() as u64;
    }
    Ok(())
}

async fn add(index: &Index, registry: RegistryId, ids: &[u64]) -> Result<(), Failure> {
    let keys: Vec<ToolKey> = ids.iter().map(|id| ToolKey { registry, id: U256::from(*id) }).collect();
    let bytes: Vec<_> = keys.iter().map(ToolKey::id_bytes).collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(|id| &**id).collect();
    let uris: Vec<String> =
        ids.iter().map(|id| format!("https://t{}.example/.well-known/ai-tool/tool-{id}.json", id % 500)).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let uri_keys: Vec<i64> = uris.iter().map(|uri| text_key(uri)).collect();
    let hashes: Vec<_> = ids.iter().map(|id| keccak256(id.to_be_bytes())).collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_slice()).collect();
    let creators: Vec<Address> = ids.iter().map(|id| Address::repeat_byte((id % 200) as u8)).collect();
    let creators: Vec<&[u8]> = creators.iter().map(|creator| creator.as_slice()).collect();
    let registries = vec![registry.0; ids.len()];
    let times: Vec<i64> = ids.iter().map(|id| 1_780_000_000 + *id as i64).collect();
    let ones = vec![1_i64; ids.len()];
    let listed = vec![true; ids.len()];
    let access = vec!["open"; ids.len()];
    let mut documents = Vec::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        let (verb, noun) = (VERBS[(*id % 8) as usize], NOUNS[(*id / 8 % 10) as usize]);
        let name = format!("{verb} {noun} {id}");
        let host = format!("https://t{}.example", id % 500);
        let prices = json!([{
            "amount": "10000", "asset": "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", "protocol": "x402", "chain": 8453,
            "recipient": "eip155:8453:0x7777777777777777777777777777777777777777", "symbol": "USDC", "decimals": 6, "micro_usd": 10_000,
            "token": "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
        }]);
        let inputs =
            json!({ "type": "object", "properties": { "question": { "type": "string" }, "limit": { "type": "integer" } } });
        let manifest = json!({
            "name": name, "description": format!("{verb} {noun} for agents: ask it about {noun} and it answers in JSON, with sources."),
            "tags": [noun, "data"], "endpoint": format!("{host}/api/tool-{id}"), "origin": host, "slug": format!("tool-{id}"),
            "version": "1.0.0", "inputs": inputs, "outputs": { "type": "object" }, "fields": ["question", "limit"], "prices": prices,
        });
        let access = json!({ "kind": "open", "any": false, "requirements": [] });
        let mut listing = json!({
            "checked_at": times[at], "expires_at": times[at] + 86_400, "manifest_hash": keccak256(id.to_be_bytes()),
            "metadata_uri": uris[at], "verdict": "verified", "verified": true, "conformant": true, "checks": ["passed", "passed", "passed", "passed"],
            "findings": [], "tier": "self-attested", "same_uri": [], "same_endpoint": [], "life": { "state": "active" }, "dev": false,
        });
        listing["health"] = json!({ "looks": 10, "answered": 10, "latency_ms": 80 });
        listing["manifest"] = manifest;
        listing["access"] = access;
        documents.push(listing.to_string());
    }
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let mut transaction = index.database().begin().await?;
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&bytes),
        Column::Bytes(&creators),
        Column::Texts(&uris),
        Column::Integers(&uri_keys),
        Column::Bytes(&hashes),
        Column::Integers(&ones),
        Column::Integers(&times),
        Column::Integers(&ones),
        Column::Integers(&times),
        Column::Integers(&ones),
        Column::Booleans(&listed),
        Column::Texts(&access),
    ];
    transaction.insert_many(&TOOL, &columns).await?;
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&bytes),
        Column::Integers(&times),
        Column::Integers(&uri_keys),
        Column::Texts(&documents),
    ];
    transaction.insert_many(&LISTING, &columns).await?;
    let changes: Vec<_> = keys.iter().map(|key| (*key, Kinds::REGISTERED)).collect();
    feed::record(&mut transaction, &changes, SystemClock.now()).await?;
    transaction.commit().await?;
    Ok(())
}
