//! A chain that passes for Base Sepolia, with USDC where everybody expects it, a registry, a predicate, and our tools at their gates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};
use alloy_sol_types::SolValue;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_chain::network::Network;
use toolcrib_chain::predicate::Erc721Predicate;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::sign::{Domain, check_domain};
use toolcrib_core::canon::Sealed;
use toolcrib_core::tool::{ToolBuilder, ToolManifest};
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::{DEV_KEYS, dev_signers};
use toolcrib_gate::{Context, Gate, Rates, Settle, SystemClock, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::asset;

/// Base Sepolia: the packages of version 1 know only chains of a list.
pub(crate) const CHAIN_ID: u64 = 84_532;
/// USDC there. Clients of version 2 refuse other tokens unless told otherwise.
pub(crate) const USDC: Address = address!("036CbD53842c5426634e7929541eC2318f3dCF7e");
/// A cent.
pub(crate) const PRICE: u64 = 10_000;
/// What payers have at the start.
const FUNDS: u64 = 1_000_000;
/// Slots of the token that its constructor writes.
const CONSTRUCTED_SLOTS: u64 = 12;
pub(crate) const ORIGIN: &str = "https://tools.example.com";

/// Registers tools and is named in their manifests. Signatures of free calls are made out to it.
pub(crate) const CREATOR: usize = 0;
/// Has money and the token that the predicate asks for.
pub(crate) const HOLDER: usize = 1;
/// Has money.
pub(crate) const STRANGER: usize = 2;
/// Gets the money.
pub(crate) const PAYEE: usize = 3;
/// Has nothing.
pub(crate) const PAUPER: usize = 4;
/// Pays the gas of settlements.
pub(crate) const SETTLER: usize = 5;

pub(crate) fn account(index: usize) -> Address {
    dev_signers()[index].address()
}

pub(crate) fn key(index: usize) -> B256 {
    DEV_KEYS[index]
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Input {
    text: String,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Output {
    words: usize,
    caller: Option<String>,
}

/// The chain and what is on it.
pub(crate) struct World {
    pub(crate) devchain: Devchain,
    pub(crate) chain: Chain,
    registry: Registry,
    /// The tool that both gates with a predicate ask for.
    tool: U256,
}

/// Our server: `/paid`, `/free` for holders, and `/members` for holders who pay.
pub(crate) struct Served {
    at: SocketAddr,
    runs: Arc<AtomicUsize>,
}

/// Everything that a call may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) payer: U256,
    pub(crate) payee: U256,
    pub(crate) blocks: u64,
    pub(crate) runs: usize,
}

impl World {
    pub(crate) async fn start() -> Self {
        let builder = Devchain::builder(SystemClock).chain_id(CHAIN_ID).deploy(code("ToolRegistry", &[]));
        let devchain = builder.spawn().await.expect("a chain");
        let network = Network::by_id(CHAIN_ID).expect("listed");
        let node = NodeUrl::parse(&devchain.http_url()).expect("a URL");
        let chain = Chain::connect(ChainConfig::new(network, vec![node]).expect("a node")).await.expect("the node answers");
        put_usdc(&devchain);
        let token = asset::find(CHAIN_ID, USDC).expect("listed");
        let domain = Domain::new(token.name, token.version, U256::from(CHAIN_ID), USDC);
        check_domain(&chain, &domain).await.expect("the real token's signing domain");
        for payer in [HOLDER, STRANGER] {
            transact(&devchain, Some(USDC), &call("mint(address,uint256)", &(account(payer), U256::from(FUNDS)).abi_encode()));
        }
        let registry = Registry::new(chain.clone(), devchain.deployed()[0]);
        let tool = register_for_holders(&devchain, &registry).await;
        Self { devchain, chain, registry, tool }
    }

    /// Serves our tools, whose payments `settle` settles.
    pub(crate) async fn serve(&self, settle: impl Settle + 'static) -> Served {
        let runs = Arc::new(AtomicUsize::new(0));
        let predicate = || Gate::predicate(self.registry.clone(), self.tool);
        let settle: Arc<dyn Settle> = Arc::new(settle);
        let paid = || toolcrib_gate::PaidGate::new(settle.clone());
        let tools = Tools::new(ORIGIN)
            .store(MemoryReplay::new(Limits::default()))
            .rates(Rates { per_address: None, ..Rates::default() })
            .tool(counting("paid", true, paid().into(), &runs))
            .tool(counting("free", false, predicate().into(), &runs))
            .tool(counting("members", true, paid().predicate(predicate()).into(), &runs));
        let server = tools.build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        tokio::spawn(server.serve(listener, std::future::pending()));
        Served { at, runs }
    }

    /// Serves a tool that contract wallets of this chain can pay for, deployed or not.
    pub(crate) async fn serve_wallets(&self, settle: impl Settle + 'static) -> Served {
        let runs = Arc::new(AtomicUsize::new(0));
        let gate = Gate::paid(settle).contract_accounts(vec![self.chain.clone()]);
        let tools = Tools::new(ORIGIN)
            .store(MemoryReplay::new(Limits::default()))
            .rates(Rates { per_address: None, ..Rates::default() })
            .tool(counting("paid", true, gate.into(), &runs));
        let server = tools.build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        tokio::spawn(server.serve(listener, std::future::pending()));
        Served { at, runs }
    }

    /// Serves a tool whose callers say who they are, on this chain.
    pub(crate) async fn serve_identity(&self) -> Served {
        let runs = Arc::new(AtomicUsize::new(0));
        let gate = Gate::identity().identity_chain(CHAIN_ID).siwe();
        let predicate = Gate::predicate(self.registry.clone(), self.tool).siwe();
        let tools = Tools::new(ORIGIN)
            .rates(Rates { per_address: None, ..Rates::default() })
            .tool(counting("who", false, gate.into(), &runs))
            .tool(counting("free", false, predicate.into(), &runs));
        let server = tools.build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        tokio::spawn(server.serve(listener, std::future::pending()));
        Served { at, runs }
    }

    pub(crate) fn state(&self, served: &Served, payer: usize) -> State {
        State {
            payer: self.balance(account(payer)),
            payee: self.balance(account(PAYEE)),
            blocks: self.devchain.block_number(),
            runs: served.runs.load(Ordering::SeqCst),
        }
    }

    pub(crate) fn balance(&self, of: Address) -> U256 {
        let request = json!({ "to": USDC, "data": call("balanceOf(address)", &of.abi_encode()) });
        let answer = self.devchain.request("eth_call", json!([request, "latest"])).expect("an answer");
        serde_json::from_value(answer).expect("a number")
    }
}

impl Served {
    /// How often tools ran.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Where the server listens, as an address.
    pub(crate) const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Where the server listens.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Where a tool is called in fact; its manifest and challenges name another place.
    pub(crate) fn url(&self, tool: &str) -> String {
        format!("http://{}/{tool}", self.at)
    }
}

/// A tool that counts words, and its calls.
fn counting(name: &str, is_paid: bool, gate: Gate, runs: &Arc<AtomicUsize>) -> Tool<toolcrib_gate::Handler> {
    let runs = runs.clone();
    Tool::new(manifest(name, is_paid)).gate(gate).handler(move |input: Input, context: Context| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            let caller = context.caller().map(|caller| caller.account.to_checksum(None));
            Ok::<_, ToolError>(Output { words: input.text.split_whitespace().count(), caller })
        }
    })
}

fn manifest(name: &str, is_paid: bool) -> Sealed<ToolManifest> {
    let endpoint = format!("{ORIGIN}/{name}");
    let mut builder = ToolBuilder::new(name, "Counts the words of a text.", &endpoint, account(CREATOR));
    if is_paid {
        let (token, payee) = (USDC.to_checksum(None), account(PAYEE).to_checksum(None));
        let asset = format!("eip155:{CHAIN_ID}/erc20:{token}");
        builder = builder.price(&PRICE.to_string(), &asset, &format!("eip155:{CHAIN_ID}:{payee}"), "x402");
    }
    builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest
}

/// Puts the test USDC at the address of the real one. Its signing domain follows the address; its names have to be copied.
fn put_usdc(devchain: &Devchain) {
    let made = transact(devchain, None, &code("TestUSDC", &("USDC", "2").abi_encode_params())).expect("a contract");
    devchain.set_code(USDC, devchain.code(made));
    for slot in 0..CONSTRUCTED_SLOTS {
        let value = devchain.request("eth_getStorageAt", json!([made, format!("{slot:#x}"), "latest"])).expect("an answer");
        let value: B256 = serde_json::from_value(value).expect("32 bytes");
        devchain.set_storage_at(USDC, U256::from(slot), value.into());
    }
}

/// Registers a tool for holders of a token, of which [`HOLDER`] has one.
async fn register_for_holders(devchain: &Devchain, registry: &Registry) -> U256 {
    let predicate =
        transact(devchain, None, &code("ERC721OwnerPredicate", &registry.address().abi_encode())).expect("a contract");
    let token = transact(devchain, None, &code("TestERC721", &("Test", "T").abi_encode_params())).expect("a contract");
    let register =
        registry.register(&format!("{ORIGIN}/.well-known/ai-tool/free.json"), manifest("free", false).hash(), Some(predicate));
    transact(devchain, Some(registry.address()), &register.data);
    let tool = registry.tool_count().await.expect("an answer");
    let gate = Erc721Predicate::new(registry.chain().clone(), predicate);
    transact(devchain, Some(predicate), &gate.set_collections(tool, vec![token]).data);
    transact(devchain, Some(token), &call("mint(address,uint256)", &(account(HOLDER), tool).abi_encode()));
    tool
}

pub(crate) fn call(signature: &str, arguments: &[u8]) -> Bytes {
    [&keccak256(signature)[..4], arguments].concat().into()
}

pub(crate) fn transact(devchain: &Devchain, to: Option<Address>, data: &Bytes) -> Option<Address> {
    let mut request = json!({ "from": account(CREATOR), "data": data, "gas": "0xf00000" });
    if let Some(to) = to {
        request["to"] = json!(to);
    }
    let hash = devchain.request("eth_sendTransaction", json!([request])).expect("sent");
    let receipt = devchain.receipt(serde_json::from_value(hash).expect("a hash")).expect("mined at once");
    assert!(receipt.status(), "the transaction failed");
    receipt.contract_address
}

/// Init code from the committed artifacts.
pub(crate) fn code(name: &str, arguments: &[u8]) -> Bytes {
    toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)
}
