//! An index with tools in it, and a directory over it.

use std::net::{IpAddr, SocketAddr};

use alloy_primitives::{Address, B256, U256, keccak256};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value as Json;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_directory::{Directory, Options};
use toolcrib_fetch::Untrusted;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::listing::{
    AccessFacts, AccessKind, Claims, CollectionFacts, Failure, FindingNote, Health, Life, Listing, ManifestFacts, Price,
    RequirementFacts, Verdict,
};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::replicas::{ReplicaLimits, Replicas};
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index, text_key};
use toolcrib_store::Location;
use toolcrib_store::database::Value;
use tower::ServiceExt as _;

use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::databases::{Backend, TestStore};

pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const CHAIN: u64 = 8453;
pub(crate) const REGISTRY: Address = Address::repeat_byte(0x82);
pub(crate) const COLLECTION: Address = Address::repeat_byte(0xc0);
pub(crate) const USDC: &str = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";

/// A directory, and everything below it.
pub(crate) struct Shelf {
    _place: TestStore,
    pub(crate) index: Index,
    pub(crate) directory: Directory,
    pub(crate) router: Router,
    pub(crate) clock: MovingClock,
    pub(crate) registry: RegistryId,
}

/// Limits that no test reaches by accident.
pub(crate) fn open() -> Options {
    Options { anonymous_reads: None, ..Options::default() }
}

impl Shelf {
    /// One on each engine.
    pub(crate) async fn each(options: Options) -> Vec<Self> {
        let mut all = Vec::new();
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            all.push(Self::over(place, options.clone(), Chains::default()).await);
        }
        all
    }

    /// One on SQLite, for what no engine has a part in.
    pub(crate) async fn one(options: Options) -> Self {
        Self::over(TestStore::new(Backend::SqliteFile).await.expect("a place"), options, Chains::default()).await
    }

    /// One that fetches images with this client.
    pub(crate) async fn with_images(options: Options, client: Untrusted) -> Self {
        let place = TestStore::new(Backend::SqliteFile).await.expect("a place");
        Self::built(place, options, Chains::default(), Some(client), SearchOptions::default(), None).await
    }

    /// One whose words are in a folder.
    pub(crate) async fn with_words(place: TestStore, folder: &std::path::Path) -> Self {
        let search = SearchOptions { folder: Some(folder.to_owned()), ..SearchOptions::default() };
        // More keys than one burst allows fill the last page of their table.
        let options = Options { keys_in_all: toolcrib_directory::Rate::per_hour(256 * 3_600), ..open() };
        Self::built(place, options, Chains::default(), None, search, None).await
    }

    pub(crate) async fn over(place: TestStore, options: Options, chains: Chains) -> Self {
        Self::built(place, options, chains, None, SearchOptions::default(), None).await
    }

    /// One that reads from replicas.
    pub(crate) async fn reading(place: TestStore, replicas: &[Location], limits: ReplicaLimits) -> Self {
        let (chains, search) = (Chains::default(), SearchOptions::default());
        Self::built(place, open(), chains, None, search, Some((replicas, limits))).await
    }

    async fn built(
        place: TestStore,
        options: Options,
        chains: Chains,
        client: Option<Untrusted>,
        search: SearchOptions,
        replicas: Option<(&[Location], ReplicaLimits)>,
    ) -> Self {
        let index = Index::open(place.database().await).await.expect("an index");
        index.prepare_reading().await.expect("indexes");
        let registry = index.add_registry(CHAIN, REGISTRY, 1).await.expect("a registry").id;
        let search = Search::open(index.clone(), search).await.expect("search");
        let clock = MovingClock::new();
        let queue = Queue::new(index.clone());
        let builder = Directory::builder(index.clone(), search, queue, chains, clock.clone());
        let builder = match client {
            Some(client) => builder.images(client),
            None => builder,
        };
        let builder = match replicas {
            Some((places, limits)) => builder.replicas(Replicas::open(index.clone(), places, limits).await.expect("replicas")),
            None => builder,
        };
        let directory = builder.options(options).build().await.expect("a directory");
        let router = directory.router();
        Self { _place: place, index, directory, router, clock, registry }
    }

    pub(crate) const fn key(&self, id: u64) -> ToolKey {
        ToolKey { registry: self.registry, id: U256::from_limbs([id, 0, 0, 0]) }
    }

    /// Puts a tool on the shelf, or another one in its place, and lets the directory see it.
    pub(crate) async fn put(&self, stock: &Stock) {
        self.put_all(std::slice::from_ref(stock)).await;
    }

    pub(crate) async fn put_all(&self, all: &[Stock]) {
        self.write_all(all).await;
        self.directory.refresh().await.expect("seen");
    }

    /// Writes tools as another process does: the directory is not told.
    pub(crate) async fn write_all(&self, all: &[Stock]) {
        let mut transaction = self.index.database().begin().await.expect("a transaction");
        for stock in all {
            let id = self.key(stock.id).id_bytes();
            let at = stock.registered_at();
            let listing = &stock.listing;
            for sql in [
                "DELETE FROM index_tool WHERE registry = $1 AND tool = $2",
                "DELETE FROM index_listing WHERE registry = $1 AND tool = $2",
                "DELETE FROM index_usage_total WHERE registry = $1 AND tool = $2",
            ] {
                transaction.execute(sql, &[Value::Integer(self.registry.0), Value::Bytes(&id)]).await.expect("deleted");
            }
            let listed = stock.is_active && listing.as_ref().is_some_and(|listing| listing.verified && listing.conformant);
            let access = listing.as_ref().map_or("", |listing| listing.access.kind.as_str());
            let values = [
                Value::Integer(self.registry.0),
                Value::Bytes(&id),
                Value::Bytes(stock.creator.as_slice()),
                Value::Text(&stock.uri),
                Value::Integer(text_key(&stock.uri)),
                Value::Bytes(stock.hash.as_slice()),
                Value::OptionalBytes(stock.predicate.as_ref().map(|predicate| predicate.as_slice())),
                Value::Integer(at),
                Value::OptionalInteger((!stock.is_active).then_some(at + 5)),
                Value::Boolean(listed),
                Value::Text(access),
            ];
            let sql =
                "INSERT INTO index_tool (registry, tool, creator, uri, uri_key, hash, predicate, registered_block, registered_at,
                updated_block, updated_at, deregistered_block, deregistered_at, events, listed, access)
                VALUES ($1, $2, $3, $4, $5, $6, $7, 10, $8, 10, $8, $9, $9, 1, $10, $11)";
            transaction.execute(sql, &values).await.expect("a tool");
            if let Some(listing) = listing {
                let document = serde_json::to_string(listing).expect("JSON");
                let endpoint = listing.manifest.as_ref().map(|manifest| text_key(&manifest.endpoint));
                let values = [
                    Value::Integer(self.registry.0),
                    Value::Bytes(&id),
                    Value::Integer(listing.checked_at.seconds()),
                    Value::OptionalInteger(endpoint),
                    Value::Text(&document),
                ];
                let sql =
                    "INSERT INTO index_listing (registry, tool, checked_at, endpoint_key, document) VALUES ($1, $2, $3, $4, $5)";
                transaction.execute(sql, &values).await.expect("a listing");
            }
            if stock.payers > 0 {
                let sql = "INSERT INTO index_usage_total (registry, tool, paid_calls, payers, ranking_payers, volume, signed_calls, last_at)
                    VALUES ($1, $2, $3, $3, $3, 1500000, 4, NULL)";
                let values = [Value::Integer(self.registry.0), Value::Bytes(&id), Value::Integer(stock.payers)];
                transaction.execute(sql, &values).await.expect("use");
            }
        }
        let changes: Vec<_> = all.iter().map(|stock| (self.key(stock.id), Kinds::REGISTERED)).collect();
        feed::record(&mut transaction, &changes, self.clock.now()).await.expect("recorded");
        transaction.commit().await.expect("committed");
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        Ask::get(path).of(&self.router).await
    }

    /// The ids of a list or a search, in their order.
    pub(crate) async fn ids(&self, path: &str) -> Vec<u64> {
        let reply = self.get(path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text());
        let json = reply.json();
        let tools = json.get("tools").or_else(|| json.get("results")).expect("tools").as_array().expect("a list").clone();
        tools.iter().map(|tool| tool["tool_id"].as_str().expect("an id").parse().expect("a number")).collect()
    }
}

/// The path of a tool.
pub(crate) fn path(id: u64) -> String {
    format!("/api/v2/tools/{CHAIN}/{REGISTRY:#x}/{id}")
}

/// A request.
pub(crate) struct Ask {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    from: Option<IpAddr>,
}

impl Ask {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: Method::GET, path: path.to_owned(), headers: Vec::new(), body: Vec::new(), from: None }
    }

    pub(crate) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { method: Method::POST, body: body.into(), ..Self::get(path) }
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn from(mut self, address: &str) -> Self {
        self.from = Some(address.parse().expect("an address"));
        self
    }

    pub(crate) async fn send(self, router: &Router) -> axum::response::Response {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(self.body)).expect("a request");
        if let Some(from) = self.from {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(from, 4000)));
        }
        router.clone().oneshot(request).await.expect("an answer")
    }

    pub(crate) async fn of(self, router: &Router) -> Reply {
        let (parts, body) = self.send(router).await.into_parts();
        let body = to_bytes(body, 64 << 20).await.expect("a body").to_vec();
        Reply { status: parts.status, headers: parts.headers, body }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }
}

/// A tool to put on the shelf.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    pub(crate) id: u64,
    pub(crate) creator: Address,
    pub(crate) uri: String,
    pub(crate) hash: B256,
    pub(crate) predicate: Option<Address>,
    pub(crate) is_active: bool,
    pub(crate) payers: i64,
    pub(crate) listing: Option<Listing>,
}

impl Stock {
    /// A tool that is verified, open and free.
    pub(crate) fn good(id: u64, name: &str) -> Self {
        let uri = format!("https://tool{id}.example/.well-known/ai-tool/tool-{id}.json");
        let hash = keccak256(id.to_be_bytes());
        let manifest = ManifestFacts {
            name: name.to_owned(),
            description: format!("{name} does something useful"),
            tags: vec!["data".to_owned()],
            endpoint: format!("https://tool{id}.example/api/tool-{id}"),
            origin: format!("https://tool{id}.example"),
            slug: format!("tool-{id}"),
            version: Some("1.0.0".to_owned()),
            image: None,
            featured_image: None,
            inputs: Some(serde_json::json!({ "type": "object", "properties": { "city": { "type": "string" } } })),
            outputs: None,
            fields: vec!["city".to_owned()],
            prices: Vec::new(),
            max_age: None,
        };
        let listing = Listing {
            checked_at: UnixTime::from_seconds(NOW - 3600),
            expires_at: UnixTime::from_seconds(NOW + 86_400),
            manifest_hash: hash,
            metadata_uri: uri.clone(),
            verdict: Verdict::Verified,
            verified: true,
            conformant: true,
            checks: ["passed", "passed", "passed", "passed"].map(str::to_owned),
            failed: None,
            findings: Vec::new(),
            manifest: Some(manifest),
            claims: None,
            tier: "self-attested".to_owned(),
            access: AccessFacts {
                kind: AccessKind::Open,
                predicate: None,
                predicate_is_proxy: None,
                predicate_name: None,
                predicate_code: None,
                is_advertised: None,
                any: false,
                requirements: Vec::new(),
            },
            same_uri: Vec::new(),
            same_endpoint: Vec::new(),
            life: Life::Active,
            health: Health { looks: 10, answered: 10, latency_ms: Some(120), last_answer: None },
            dev: false,
        };
        Self {
            id,
            creator: Address::repeat_byte(0x11),
            uri,
            hash,
            predicate: None,
            is_active: true,
            payers: 0,
            listing: Some(listing),
        }
    }

    /// A tool whose manifest has another hash.
    pub(crate) fn bad(id: u64) -> Self {
        let mut stock = Self::good(id, "");
        if let Some(listing) = &mut stock.listing {
            listing.manifest = None;
            listing.claims = Some(Claims { name: Some(format!("Claimed {id}")), endpoint: None });
            (listing.verified, listing.conformant, listing.verdict) = (false, false, Verdict::Refused);
            listing.checks = ["passed", "passed", "failed", "not_reached"].map(str::to_owned);
            let code = "verify.hash_mismatch".to_owned();
            listing.failed = Some(Failure { check: Some(3), step: "hash".to_owned(), code: code.clone() });
            listing.findings = vec![FindingNote { code, severity: "error".to_owned(), title: "another hash".to_owned() }];
        }
        stock
    }

    const fn registered_at(&self) -> i64 {
        NOW - 100_000 + self.id as i64
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self, &mut Listing)) -> Self {
        let mut listing = self.listing.take().expect("a listing");
        change(&mut self, &mut listing);
        self.listing = Some(listing);
        self
    }

    pub(crate) fn manifest(self, change: impl FnOnce(&mut ManifestFacts)) -> Self {
        self.with(|_, listing| change(listing.manifest.as_mut().expect("a manifest")))
    }

    /// The same with a price in millionths of a dollar.
    pub(crate) fn priced(self, micro: u64) -> Self {
        self.manifest(|manifest| manifest.prices = vec![price(micro)])
    }

    /// The same for owners of the collection alone.
    pub(crate) fn gated(self) -> Self {
        self.with(|stock, listing| {
            let predicate = Address::repeat_byte(0x99);
            stock.predicate = Some(predicate);
            listing.access = AccessFacts {
                kind: AccessKind::NftGated,
                predicate: Some(predicate),
                predicate_is_proxy: Some(true),
                predicate_name: Some("Owners".to_owned()),
                predicate_code: None,
                is_advertised: Some(false),
                any: true,
                requirements: vec![RequirementFacts {
                    kind: "0xbdf8c428".to_owned(),
                    meaning: "erc721".to_owned(),
                    contract: Some(COLLECTION),
                    token_id: None,
                    min_tier: None,
                    min_balance: None,
                    data: "0x".to_owned(),
                    label: "an owner".to_owned(),
                    collection: Some(CollectionFacts {
                        name: Some("Fine Apes".to_owned()),
                        symbol: Some("APE".to_owned()),
                        image: None,
                        floor_price: None,
                    }),
                }],
            };
        })
    }
}

pub(crate) fn price(micro: u64) -> Price {
    Price {
        amount: micro.to_string(),
        asset: USDC.to_owned(),
        recipient: format!("eip155:8453:{:#x}", Address::repeat_byte(0x77)),
        protocol: "x402".to_owned(),
        chain: Some(CHAIN),
        token: USDC.rsplit(':').next().and_then(|token| token.parse().ok()),
        symbol: Some("USDC".to_owned()),
        decimals: Some(6),
        micro_usd: Some(micro),
    }
}

impl Shelf {
    pub(crate) fn now(&self) -> UnixTime {
        self.clock.now()
    }
}
