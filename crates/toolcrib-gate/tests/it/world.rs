//! A server on a free port, a client that says exactly what it is told, and a chain with a registry, a predicate and a token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_chain::network::Network;
use toolcrib_chain::predicate::Erc721Predicate;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::sign::{Domain, TransferAuthorization, TransferKind};
use toolcrib_core::canon::Sealed;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::money::Amount;
use toolcrib_core::tool::{ToolBuilder, ToolManifest};
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_gate::{Caller, Context, Gate, Handler, PredicateGate, Tool, ToolError, Tools};
use toolcrib_x402::{Authorization, Challenge, Payment, Signature, Version, asset, read_body, read_header};

pub(crate) const ORIGIN: &str = "https://tools.example.com";
pub(crate) const NOW: i64 = 1_800_000_000;

pub(crate) fn creator() -> Address {
    dev_signers()[0].address()
}

pub(crate) fn holder() -> &'static PrivateKeySigner {
    &dev_signers()[1]
}

pub(crate) fn stranger() -> &'static PrivateKeySigner {
    &dev_signers()[2]
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Input {
    pub(crate) text: String,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Output {
    words: usize,
    caller: Option<String>,
}

impl Output {
    pub(crate) fn new(text: &str, caller: Option<&Caller>) -> Self {
        let caller = caller.map(|caller| caller.account.to_checksum(None));
        Self { words: text.split_whitespace().count(), caller }
    }

    /// Makes it so many words long.
    pub(crate) fn pad(&mut self, words: usize) {
        self.caller = Some("word ".repeat(words));
    }
}

/// A manifest of a tool at `/<name>`.
pub(crate) fn manifest(name: &str) -> Sealed<ToolManifest> {
    manifest_at(&format!("{ORIGIN}/{name}"), name)
}

fn manifest_at(endpoint: &str, name: &str) -> Sealed<ToolManifest> {
    let builder = ToolBuilder::new(name, "Counts the words of a text.", endpoint, creator());
    builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest
}

/// How often handlers ran.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A tool that counts words, and its calls.
pub(crate) fn counting(name: &str, gate: impl Into<Gate>, runs: &Runs) -> Tool<Handler> {
    counting_at(&format!("{ORIGIN}/{name}"), name, gate, runs)
}

/// The same at another endpoint.
pub(crate) fn counting_at(endpoint: &str, name: &str, gate: impl Into<Gate>, runs: &Runs) -> Tool<Handler> {
    let runs = runs.clone();
    Tool::new(manifest_at(endpoint, name)).gate(gate).handler(move |input: Input, context: Context| {
        runs.add();
        async move { Ok::<_, ToolError>(Output::new(&input.text, context.caller())) }
    })
}

/// Tools on a free port. They stop with the test's runtime.
pub(crate) async fn serve(tools: Tools) -> SocketAddr {
    let server = tools.clock(FixedClock(UnixTime::from_seconds(NOW))).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(server.serve(listener, std::future::pending()));
    address
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code.
    #[track_caller]
    pub(crate) fn verdict(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    /// The challenge in both versions, read by the readers that clients use.
    #[track_caller]
    pub(crate) fn challenges(&self) -> [Challenge; 2] {
        let one = read_body(&self.body);
        let two = read_header(self.header("payment-required").expect("version 2 is in a header"));
        [one, two].map(|reading| {
            assert!(reading.findings.is_empty(), "{:?}", reading.findings);
            reading.challenge.expect("a challenge")
        })
    }
}

/// Sends a request to the letter and reads until the server closes.
pub(crate) async fn send(to: SocketAddr, method: &str, path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> HttpResponse {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n").into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    let mut stream = TcpStream::connect(to).await.expect("the server listens");
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(&request).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status").parse().expect("a number");
    let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned()));
    HttpResponse { status, headers: headers.collect(), body: bytes[end + 4..].to_vec() }
}

/// Calls a tool with JSON.
pub(crate) async fn post(to: SocketAddr, path: &str, headers: &[(&str, &str)], input: &Value) -> HttpResponse {
    let mut all: Vec<(&str, &[u8])> = vec![("Content-Type", b"application/json")];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
    send(to, "POST", path, &all, input.to_string().as_bytes()).await
}

/// The chain of the tests.
pub(crate) struct World {
    pub(crate) devchain: Devchain,
    pub(crate) registry: Registry,
    pub(crate) predicate: Address,
    pub(crate) token: Address,
}

impl World {
    pub(crate) async fn start() -> Self {
        let mut devchain = Devchain::builder(FixedClock(UnixTime::from_seconds(NOW)));
        devchain = devchain.deploy(code("ToolRegistry", &[]));
        let devchain = devchain.spawn().await.expect("a chain");
        let network = Network::by_id(devchain.chain_id()).cloned().unwrap_or_else(|| Network::unlisted(devchain.chain_id()));
        let node = NodeUrl::parse(&devchain.http_url()).expect("a URL");
        let chain = Chain::connect(ChainConfig::new(&network, vec![node]).expect("a node")).await.expect("the node answers");
        let registry = Registry::new(chain, devchain.deployed()[0]);
        let predicate = deploy(&devchain, code("ERC721OwnerPredicate", &registry.address().abi_encode()));
        let token = deploy(&devchain, code("TestERC721", &("Test", "T").abi_encode_params()));
        Self { devchain, registry, predicate, token }
    }

    /// Registers a tool for holders of the token, of which [`holder`] has one.
    pub(crate) async fn tool_for_holders(&self) -> U256 {
        let id = self.register(Some(self.predicate)).await;
        let gate = Erc721Predicate::new(self.registry.chain().clone(), self.predicate);
        self.transact(&gate.set_collections(id, vec![self.token]).data, self.predicate);
        let mint = [&keccak256("mint(address,uint256)")[..4], &(holder().address(), id).abi_encode()].concat();
        self.transact(&mint.into(), self.token);
        id
    }

    pub(crate) async fn register(&self, predicate: Option<Address>) -> U256 {
        self.register_as("word-count", manifest("word-count").hash(), predicate).await
    }

    pub(crate) async fn register_as(&self, slug: &str, hash: B256, predicate: Option<Address>) -> U256 {
        let call = self.registry.register(&format!("{ORIGIN}/.well-known/ai-tool/{slug}.json"), hash, predicate);
        self.transact(&call.data, self.registry.address());
        self.registry.tool_count().await.expect("an answer")
    }

    fn transact(&self, data: &Bytes, to: Address) {
        transact(&self.devchain, Some(to), data);
    }

    pub(crate) fn gate(&self, id: U256) -> PredicateGate {
        Gate::predicate(self.registry.clone(), id)
    }
}

fn transact(devchain: &Devchain, to: Option<Address>, data: &Bytes) -> Option<Address> {
    transact_as(devchain, creator(), to, data)
}

/// Sends a transaction of an account of the development chain.
pub(crate) fn transact_as(devchain: &Devchain, from: Address, to: Option<Address>, data: &Bytes) -> Option<Address> {
    let mut request = json!({ "from": from, "data": data, "gas": "0xf00000" });
    if let Some(to) = to {
        request["to"] = json!(to);
    }
    let hash = devchain.request("eth_sendTransaction", json!([request])).expect("sent");
    let receipt = devchain.receipt(serde_json::from_value(hash).expect("a hash")).expect("mined at once");
    assert!(receipt.status(), "the transaction failed");
    receipt.contract_address
}

pub(crate) fn deploy(devchain: &Devchain, code: Bytes) -> Address {
    transact(devchain, None, &code).expect("a contract")
}

/// Init code from the committed artifacts.
pub(crate) fn code(name: &str, arguments: &[u8]) -> Bytes {
    toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)
}

/// An authorization that answers the challenge of the tests, and the domain that it is signed in.
pub(crate) fn authorization(signer: &PrivateKeySigner, nonce: B256) -> Authorization {
    Authorization {
        from: signer.address(),
        to: creator(),
        value: Amount::new(U256::ZERO),
        valid_after: 0,
        valid_before: NOW as u64 + 300,
        nonce,
    }
}

pub(crate) fn base_domain() -> Domain {
    let token = asset::usdc(8453).expect("listed");
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

pub(crate) fn sign(signer: &PrivateKeySigner, authorization: &Authorization, domain: &Domain) -> Signature {
    let digest = TransferAuthorization::from(authorization).digest(TransferKind::Transfer, domain);
    let signature = signer.sign_hash_sync(&digest).expect("a key signs");
    Signature::new(signature.as_bytes().to_vec()).expect("65 bytes")
}

/// The header that answers a challenge.
pub(crate) fn header(challenges: &[Challenge; 2], version: Version, authorization: Authorization, by: Signature) -> String {
    let challenge = &challenges[usize::from(version == Version::V2)];
    let (resource, extensions) = (challenge.resource.clone(), challenge.extensions.clone());
    let payment = Payment::new(version, &challenge.accepts[0], authorization, by, resource, extensions);
    payment.to_header().expect("a header")
}

/// A nonce that no test has used before.
pub(crate) fn fresh() -> B256 {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    keccak256(COUNT.fetch_add(1, Ordering::SeqCst).to_be_bytes())
}
