//! A chain with registry and test USDC, tools behind TLS with scripted behaviour, and a wallet that counts its signatures.
#![expect(clippy::unwrap_used, reason = "in what tests are made of an unwrap is an assertion")]

pub mod sign_in;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};
use alloy_sol_types::SolValue;
use async_trait::async_trait;
use serde_json::{Value as Json, json};
use toolcrib_chain::deploy;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::sign::{Domain, StrictSignature, TransferAuthorization, TransferKind};
use toolcrib_chain::wallet::{Cleared, DEV_ACCOUNTS, LocalWallet, Secret, Wallet, WalletError};
use toolcrib_client::ledger::{Entry, State};
use toolcrib_client::{
    ApprovalRequest, Approver, CallError, CallOptions, Called, Client, ClientBuilder, Ledger, SpendPolicy, Usdc,
};
use toolcrib_core::caip::{ChainId, ToolRef};
use toolcrib_core::clock::Clock;
use toolcrib_core::finding::Mode;
use toolcrib_core::money::Amount;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_devchain::Devchain;
use toolcrib_store::{Database, Location};
use toolcrib_verify::Verifier;
use toolcrib_x402::asset::{self, Token};
use toolcrib_x402::{Challenge, Offer, Payment, Resource, SettleResponse, Version, check_payment, read_payment_headers};

use crate::clock::MovingClock;
use crate::registry::{RegistryChain, tool_count};
use crate::servers::{self, NOW, Request, Server, answer, ok};

/// The chain of the tests.
pub const CHAIN: u64 = 31_337;
/// The account that publishes tools.
pub const CREATOR: Address = DEV_ACCOUNTS[0];
/// The account that calls them.
pub const CALLER: Address = address!("9858EfFD232B4033E47d90003D41EC34EcaEda94");
/// The recipient of payments.
pub const RECIPIENT: Address = DEV_ACCOUNTS[3];
/// An unrelated account.
pub const STRANGER: Address = DEV_ACCOUNTS[4];
/// The price of a call: 0.01.
pub const PRICE: u64 = 10_000;

/// Returns the caller's wallet: not a development account, since some offers are on public networks, where those may not sign.
pub fn caller() -> LocalWallet {
    let phrase = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
    LocalWallet::from_mnemonic(&Secret::new(phrase.to_owned()), None).expect("a phrase")
}

/// A wallet that counts its signatures.
#[derive(Debug)]
pub struct Counting {
    inner: LocalWallet,
    count: AtomicUsize,
    refuses: bool,
}

impl Counting {
    /// Returns the wallet of the caller.
    pub fn new() -> Arc<Self> {
        Self::of(caller(), false)
    }

    /// Returns another wallet, or one that refuses to sign.
    pub fn of(inner: LocalWallet, refuses: bool) -> Arc<Self> {
        Arc::new(Self { inner, count: AtomicUsize::new(0), refuses })
    }

    /// Returns the number of its signatures.
    pub fn signatures(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Wallet for Counting {
    fn address(&self) -> Address {
        self.inner.address()
    }

    fn description(&self) -> String {
        self.inner.description()
    }

    async fn sign_digest(&self, digest: B256, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        if self.refuses {
            return Err(WalletError::Refused { reason: "not today".to_owned() });
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        self.inner.sign_digest(digest, cleared).await
    }
}

/// An approver with a fixed answer that records its questions.
#[derive(Debug, Default)]
pub struct Says {
    /// The answer to every question.
    pub yes: bool,
    /// The questions so far.
    pub asked: Mutex<Vec<String>>,
    /// Advances before the answer, since a person takes time.
    pub meanwhile: Option<MovingClock>,
}

#[async_trait]
impl Approver for Says {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> bool {
        self.asked.lock().unwrap().push(match question {
            ApprovalRequest::Spend { .. } => "spend".to_owned(),
            ApprovalRequest::Differs { asked, .. } => format!("differs {}", asked.amount),
            ApprovalRequest::Fixed { values, .. } => format!("fixed {}", values.len()),
            ApprovalRequest::Unchecked { parts, .. } => format!("unchecked {}", parts.len()),
            ApprovalRequest::Identity { tool, terms, account } => format!("identity {account} for {tool} to {}", terms.pay_to),
            ApprovalRequest::SignIn { terms, .. } => {
                format!("sign in {} at {} for {} on {}", terms.account, terms.domain, terms.uri, terms.chain)
            }
            _ => "something else".to_owned(),
        });
        if let Some(clock) = &self.meanwhile {
            clock.advance(60);
        }
        self.yes
    }
}

/// A chain with the registry and test USDC, the servers of tools, and the parts of a client.
#[derive(Debug)]
pub struct World {
    /// The servers.
    pub net: servers::World,
    /// The chain.
    pub devchain: Arc<Devchain>,
    /// A client of the registry on it.
    pub registry: Registry,
    /// The clients' clock.
    pub clock: MovingClock,
    /// The clients' spend ledger.
    pub ledger: Ledger,
    /// The folder of the ledger.
    pub folder: tempfile::TempDir,
    next: AtomicUsize,
}

/// A registered and served tool.
#[derive(Debug)]
pub struct Tool {
    /// Its registration.
    pub reference: ToolRef,
    /// Its server.
    pub server: Server,
    /// The URL of its endpoint.
    pub endpoint: String,
    /// The served manifest; may be changed.
    pub manifest: Arc<Mutex<Vec<u8>>>,
}

impl Tool {
    /// Returns requests to the endpoint, without those for the manifest.
    pub fn calls(&self) -> Vec<Request> {
        self.server.requests().into_iter().filter(|request| !request.path().starts_with("/.well-known/")).collect()
    }
}

/// A tool's response to a request.
pub type Reply = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

impl World {
    /// Starts the chain and opens the ledger.
    pub async fn start() -> Self {
        let RegistryChain { devchain, registry, .. } = RegistryChain::start().await;
        deploy::deploy_test_assets(registry.chain(), &LocalWallet::development(0).unwrap()).await.expect("test assets");
        let folder = tempfile::tempdir().unwrap();
        let location = Location::parse(&format!("sqlite:{}", folder.path().join("spend.db").display())).unwrap();
        let ledger = Ledger::open(Database::open(&location).await.unwrap()).await.unwrap();
        let clock = MovingClock::at(NOW);
        let world = Self { net: servers::World::new(), devchain, registry, clock, ledger, folder, next: AtomicUsize::new(1) };
        world.mint(CALLER, 100_000_000);
        world
    }

    /// Returns settings of a client in this environment.
    pub fn builder(&self) -> ClientBuilder {
        let door = self.net.fetch();
        let clock: Arc<dyn Clock + Send + Sync> = Arc::new(self.clock.clone());
        let verifier = Verifier::new(door.clone(), clock.clone(), "tests");
        let mut limits = servers::quick();
        limits.body = toolcrib_client::MAX_OUTPUT_BYTES;
        Client::builder(verifier, door, self.ledger.clone(), clock)
            .chain(self.registry.chain().clone())
            .policy(roomy())
            .limits(limits, limits)
    }

    /// Returns a client with a counting wallet.
    pub fn client(&self) -> (Client, Arc<Counting>) {
        let wallet = Counting::new();
        (self.builder().wallet(wallet.clone()).build(), wallet)
    }

    /// Registers and serves a tool. `change` edits the manifest; `reply` responds at the endpoint.
    pub async fn tool(&self, change: impl FnOnce(&mut Json), reply: Reply) -> Tool {
        let host = format!("tool{}.example.com", self.next.fetch_add(1, Ordering::SeqCst));
        let endpoint = format!("https://{host}/call");
        let mut manifest = manifest(&endpoint);
        change(&mut manifest);
        let bytes = manifest.to_string().into_bytes();
        let uri = format!("https://{host}/.well-known/ai-tool/word-count.json");
        let id = self.register(&uri, hash_of(&bytes), None);
        let manifest = Arc::new(Mutex::new(bytes));
        let served = manifest.clone();
        let server = self
            .net
            .honest(&host, move |request| {
                if request.path().starts_with("/.well-known/") { ok(served.lock().unwrap().clone()) } else { reply(request) }
            })
            .await;
        Tool { reference: self.registry.reference(id), server, endpoint, manifest }
    }

    /// Registers a manifest by its hash.
    pub fn register(&self, uri: &str, hash: B256, predicate: Option<Address>) -> U256 {
        let call = self.registry.register(uri, hash, predicate);
        self.send(CREATOR, call.to, &call.data);
        tool_count(&self.devchain, call.to)
    }

    /// Sends a transaction of a development account, which must succeed.
    pub fn send(&self, from: Address, to: Address, data: &Bytes) -> B256 {
        transact(&self.devchain, from, Some(to), data).expect("the transaction succeeds").0
    }

    /// Mints test USDC for an account.
    pub fn mint(&self, to: Address, amount: u64) {
        let data = [&keccak256("mint(address,uint256)")[..4], &(to, U256::from(amount)).abi_encode()].concat();
        self.send(CREATOR, usdc().address, &data.into());
    }

    /// Returns an account's balance of test USDC.
    pub fn balance(&self, account: Address) -> U256 {
        let data: Bytes = [&keccak256("balanceOf(address)")[..4], &account.abi_encode()].concat().into();
        let request = json!([{ "to": usdc().address, "data": data }, "latest"]);
        let answer = self.devchain.request("eth_call", request).expect("an answer");
        U256::from_be_slice(&serde_json::from_value::<Bytes>(answer).expect("bytes"))
    }

    /// Returns the newest payment of the ledger.
    pub async fn newest(&self) -> Option<Entry> {
        self.ledger.newest(1).await.unwrap().into_iter().next()
    }

    /// Returns the number of payments in the ledger.
    pub async fn count(&self) -> usize {
        self.ledger.newest(1_000).await.unwrap().len()
    }
}

/// Returns a client of a node.
pub async fn connect(url: &str) -> Chain {
    let network = Network::by_id(CHAIN).expect("listed").clone();
    let node = NodeUrl::parse(url).expect("a URL");
    Chain::connect(ChainConfig::new(&network, vec![node]).expect("a node")).await.expect("the node answers")
}

/// Returns high limits, for tests of other things.
pub fn roomy() -> SpendPolicy {
    let mut policy = SpendPolicy::default();
    let much = Usdc::micro(50_000_000);
    (policy.per_hour, policy.per_day, policy.per_recipient_day) = (much, much, much);
    (policy.per_tool_day, policy.per_asset_day) = (much, much);
    policy
}

/// Sends a transaction of a development account; returns the hash, and the address of a deployed contract.
pub fn transact(devchain: &Devchain, from: Address, to: Option<Address>, data: &Bytes) -> Option<(B256, Option<Address>)> {
    let mut request = json!({ "from": from, "data": data, "gas": "0xf00000" });
    if let Some(to) = to {
        request["to"] = json!(to);
    }
    let hash: B256 = serde_json::from_value(devchain.request("eth_sendTransaction", json!([request])).ok()?).ok()?;
    let receipt = devchain.receipt(hash).expect("mined at once");
    receipt.status().then_some((hash, receipt.contract_address))
}

/// Returns test USDC.
pub fn usdc() -> &'static Token {
    let token = asset::usdc(CHAIN).expect("listed");
    asset::find(CHAIN, token.address).expect("listed")
}

/// Returns an honest manifest of a tool.
pub fn manifest(endpoint: &str) -> Json {
    json!({
        "type": TYPE_V1,
        "name": "word-count",
        "description": "Counts the words of a text.",
        "endpoint": endpoint,
        "inputs": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "outputs": {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]},
        "creatorAddress": format!("{CREATOR:#x}"),
    })
}

/// Returns an entry of `pricing`.
pub fn entry(protocol: &str, chain: u64, token: Address, amount: u64, to: Address) -> Json {
    json!({
        "amount": amount.to_string(),
        "asset": format!("eip155:{chain}/erc20:{token:#x}"),
        "recipient": format!("eip155:{chain}:{to:#x}"),
        "protocol": protocol,
    })
}

/// Adds the usual price to a manifest.
pub fn priced(manifest: &mut Json) {
    manifest["pricing"] = json!([entry("x402", CHAIN, usdc().address, PRICE, RECIPIENT)]);
}

/// Returns the hash of a manifest.
pub fn hash_of(bytes: &[u8]) -> B256 {
    ToolManifest::parse(bytes, Mode::Consumer).canonical().expect("a manifest").hash()
}

/// Returns the input of all tests.
pub fn input() -> Json {
    json!({"text": "three small words"})
}

/// Returns the output of the tool.
pub fn result() -> Vec<u8> {
    br#"{"words": 3}"#.to_vec()
}

/// Returns the usual offer.
pub fn offer() -> Offer {
    offer_of(usdc(), PRICE, RECIPIENT)
}

/// Returns an offer with this price.
pub fn offer_of(token: &Token, amount: u64, to: Address) -> Offer {
    Offer::exact(token, Amount::new(U256::from(amount)), to, 300).expect("an EVM chain")
}

/// The x402 versions of a tool's challenges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// x402 version 1.
    V1,
    /// x402 version 2.
    V2,
    /// Both versions at once.
    Both,
}

/// Returns the 402 response.
pub fn challenge(speaks: Speaks, offers: Vec<Offer>) -> Vec<u8> {
    let resource = Resource {
        url: Some("https://tools.example.com/call".to_owned()),
        description: Some("Counts words.".to_owned()),
        mime_type: Some("application/json".to_owned()),
        other: Vec::new(),
    };
    let two = Challenge { version: Version::V2, error: None, resource: Some(resource), accepts: offers, extensions: Vec::new() };
    let mut head = "Content-Type: application/json\r\nCache-Control: no-store\r\n".to_owned();
    if speaks != Speaks::V1 {
        head.push_str(&format!("PAYMENT-REQUIRED: {}\r\n", two.to_header().expect("it fits")));
    }
    let one = two.to_v1();
    let body = if speaks == Speaks::V2 || one.accepts.is_empty() { "{}".to_owned() } else { one.to_json() };
    answer("402 Payment Required", &head, body.as_bytes())
}

/// Returns the payment of a request.
pub fn payment_of(request: &Request) -> Option<Payment> {
    let headers: Vec<_> = request.head.lines().skip(1).filter_map(|line| line.split_once(':')).collect();
    let pairs = headers.iter().map(|(name, value)| (name.trim(), value.trim().as_bytes()));
    Some(read_payment_headers(pairs)?.into_result().expect("a payment that can be read"))
}

/// Verifies a payment as an honest server does.
pub fn check(payment: &Payment, offer: &Offer) {
    let findings = check_payment(payment, offer, NOW, &Default::default());
    assert!(findings.is_empty(), "{findings:?}");
    let token = offer.token().expect("a pinned token");
    let domain = Domain::new(token.name, token.version, U256::from(token.chain), token.address);
    let digest = TransferAuthorization::from(&payment.authorization).digest(TransferKind::Transfer, &domain);
    let signature = StrictSignature::from_slice(payment.signature.as_bytes()).expect("a strict signature");
    signature.check(digest, payment.authorization.from).expect("the payer signed");
}

/// Settles a payment on the chain. `None` if the token refuses.
pub fn settle(devchain: &Devchain, payment: &Payment) -> Option<B256> {
    let signature = StrictSignature::from_slice(payment.signature.as_bytes()).expect("a strict signature");
    let authorization = payment.authorization;
    let selector = keccak256("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)");
    let arguments = (
        authorization.from,
        authorization.to,
        authorization.value.get(),
        U256::from(authorization.valid_after),
        U256::from(authorization.valid_before),
        authorization.nonce,
        U256::from(signature.v()),
        signature.r(),
        signature.s(),
    );
    let data: Bytes = [&selector[..4], &arguments.abi_encode_params()].concat().into();
    transact(devchain, DEV_ACCOUNTS[9], Some(usdc().address), &data).map(|(hash, _)| hash)
}

/// Returns a successful response with the receipt of its x402 version.
pub fn served(payment: &Payment, transaction: B256, body: &[u8]) -> Vec<u8> {
    let receipt = SettleResponse::settled(payment, transaction).to_header(payment.version);
    let head = format!("Content-Type: application/json\r\n{}: {receipt}\r\n", payment.version.receipt_header());
    answer("200 OK", &head, body)
}

/// Returns an honest tool: it challenges, verifies, settles on the chain and responds with a receipt.
pub fn shop(devchain: &Arc<Devchain>, speaks: Speaks, offer: Offer) -> Reply {
    let devchain = devchain.clone();
    Arc::new(move |request| {
        let Some(payment) = payment_of(request) else { return challenge(speaks, vec![offer.clone()]) };
        check(&payment, &offer);
        // Only the test chain has test USDC.
        let is_ours = offer.network == ChainId::parse("eip155:31337").unwrap() && !offer.amount.is_zero();
        let transaction = if is_ours { settle(&devchain, &payment).expect("it settles") } else { B256::repeat_byte(0xab) };
        served(&payment, transaction, &result())
    })
}

/// Summarises the result of a call for a table.
#[track_caller]
pub fn code(result: &Result<Called, CallError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => {
            assert!(!error.code().info().hint.is_empty());
            assert!(!error.to_string().is_empty());
            error.code().id()
        }
    }
}

/// Returns the options of a call without any.
pub fn usual() -> CallOptions {
    CallOptions::default()
}

/// The state of a payment that settled.
pub const SETTLED: Option<State> = Some(State::Settled);
/// The state of a payment with an unknown outcome.
pub const UNKNOWN: Option<State> = Some(State::Unknown);
