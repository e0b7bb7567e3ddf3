//! A server with paid tools, and counters on everything that matters.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::Address;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_gate::{
    Context, Due, Found, Gate, Handler, Journal, LocalSettlement, Outcome, PaidGate, Rate, Rates, Record, Server, Settle, Tool,
    ToolError, Tools, Usage, Verdict,
};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore};
use toolcrib_x402::{Authorization, Challenge, Offer, Version};

use super::chain::{CHAIN, FUNDS, Node, PRICE, SystemClock, recipient, token, wallet};
use super::http::{HttpResponse, post};
use super::payer::{paid, payer};

pub(crate) const ORIGIN: &str = "https://tools.example.com";

/// The tool that most tests call.
pub(crate) const PATH: &str = "/word-count";

/// Another one with the same price and recipient.
pub(crate) const OTHER_PATH: &str = "/other-count";

/// How long handlers may run, which is a part of a reservation's lease.
pub(crate) const HANDLER_SECONDS: i64 = 5;

/// Seconds after which whatever a dead process has held is free.
pub(crate) const LEASE_OVER: i64 = toolcrib_gate::SETTLEMENT_SECONDS + HANDLER_SECONDS + 5;

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Input {
    pub(crate) text: String,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Output {
    words: usize,
    text: String,
}

pub(crate) fn two_words() -> Value {
    json!({"text": "one two"})
}

/// What a handler does before it answers.
pub(crate) type Hook = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync>;

/// A tool that counts words for money.
pub(crate) fn tool(path: &str, price: u64, gate: impl Into<Gate>, hook: Hook) -> Tool<Handler> {
    let name = path.trim_start_matches('/');
    let builder = ToolBuilder::new(name, "Counts the words of a text.", &format!("{ORIGIN}{path}"), creator());
    let (asset, account) = (format!("eip155:{CHAIN}/erc20:{:#x}", token().address), format!("eip155:{CHAIN}:{:#x}", recipient()));
    let builder = if price > 0 { builder.price(&price.to_string(), &asset, &account, "x402") } else { builder };
    let manifest = builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest;
    let time = Duration::from_secs(HANDLER_SECONDS as u64);
    Tool::new(manifest).gate(gate).time_limit(time).handler(move |input: Input, _: Context| {
        let hooked = hook(input.text.clone());
        async move {
            hooked.await?;
            Ok(Output { words: input.text.split_whitespace().count(), text: input.text })
        }
    })
}

pub(crate) fn creator() -> Address {
    dev_signers()[0].address()
}

/// Returns rate limits that no test reaches.
pub(crate) fn rates() -> Rates {
    Rates { global: Rate::new(u32::MAX, 1e9), per_address: None, per_account: Rate::new(u32::MAX, 1e9) }
}

pub(crate) fn memory() -> Arc<dyn ReplayStore> {
    Arc::new(MemoryReplay::new(Limits::default()))
}

/// Settlement with a development account's key.
pub(crate) fn own_key(chain: &Chain, number: u32) -> LocalSettlement {
    LocalSettlement::new(Arc::new(wallet(number)), [chain.clone()]).recipients([recipient()])
}

/// The machine's clock, moved.
#[derive(Clone, Default)]
pub(crate) struct Moving(Arc<AtomicI64>);

impl Moving {
    pub(crate) fn later(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Moving {
    fn now(&self) -> UnixTime {
        SystemClock.now().plus(self.0.load(Ordering::SeqCst))
    }
}

/// A settlement with counters.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: Arc<dyn Settle>,
    verified: AtomicUsize,
    settled: AtomicUsize,
}

impl Counted {
    pub(crate) fn verified(&self) -> usize {
        self.verified.load(Ordering::SeqCst)
    }

    pub(crate) fn settled(&self) -> usize {
        self.settled.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Settle for Counted {
    async fn check(&self, offers: &[Offer]) -> Vec<Finding> {
        self.inner.check(offers).await
    }

    fn clock_skews(&self) -> Vec<(u64, i64)> {
        self.inner.clock_skews()
    }

    fn finds_settlements(&self, offer: &Offer) -> bool {
        self.inner.finds_settlements(offer)
    }

    async fn verify(&self, due: Due<'_>) -> Verdict {
        self.verified.fetch_add(1, Ordering::SeqCst);
        self.inner.verify(due).await
    }

    async fn settle(&self, due: Due<'_>, from_block: Option<u64>, journal: &dyn Journal) -> Outcome {
        self.settled.fetch_add(1, Ordering::SeqCst);
        self.inner.settle(due, from_block, journal).await
    }

    async fn look_up(&self, due: Due<'_>, record: &Record) -> Found {
        self.inner.look_up(due, record).await
    }
}

/// How a shop is set up.
pub(crate) struct Plan {
    pub(crate) settle: Arc<dyn Settle>,
    pub(crate) store: Arc<dyn ReplayStore>,
    pub(crate) gate: Box<dyn Fn(PaidGate) -> PaidGate>,
    pub(crate) hook: Hook,
    pub(crate) price: u64,
    pub(crate) rates: Rates,
    pub(crate) usage: Option<Usage>,
    /// Tools beside the paid ones.
    pub(crate) more: Vec<Tool<Handler>>,
}

impl Plan {
    pub(crate) fn new(settle: impl Settle + 'static) -> Self {
        Self {
            settle: Arc::new(settle),
            store: memory(),
            gate: Box::new(|gate| gate),
            hook: Arc::new(|_| Box::pin(async { Ok(()) })),
            price: PRICE,
            rates: rates(),
            usage: None,
            more: Vec::new(),
        }
    }

    pub(crate) fn store(mut self, store: Arc<dyn ReplayStore>) -> Self {
        self.store = store;
        self
    }

    pub(crate) fn gate(mut self, change: impl Fn(PaidGate) -> PaidGate + 'static) -> Self {
        self.gate = Box::new(change);
        self
    }

    pub(crate) fn hook<F: Future<Output = Result<(), ToolError>> + Send + 'static>(
        mut self,
        hook: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self {
        self.hook = Arc::new(move |text| Box::pin(hook(text)));
        self
    }

    pub(crate) const fn price(mut self, price: u64) -> Self {
        self.price = price;
        self
    }

    pub(crate) fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    pub(crate) const fn rates(mut self, rates: Rates) -> Self {
        self.rates = rates;
        self
    }

    pub(crate) fn tool(mut self, tool: Tool<Handler>) -> Self {
        self.more.push(tool);
        self
    }

    pub(crate) async fn open(self) -> Shop {
        let Self { settle, store, gate, hook, price, rates, usage, more } = self;
        let settle = Arc::new(Counted { inner: settle, verified: AtomicUsize::new(0), settled: AtomicUsize::new(0) });
        let (runs, clock, faults) = (Arc::new(AtomicUsize::new(0)), Moving::default(), Arc::<Mutex<Vec<String>>>::default());
        let told = faults.clone();
        let counted: Hook = {
            let runs = runs.clone();
            Arc::new(move |text| {
                runs.fetch_add(1, Ordering::SeqCst);
                hook(text)
            })
        };
        let mut tools = Tools::new(ORIGIN)
            .shared_store(store.clone())
            .clock(clock.clone())
            .rates(rates)
            .on_fault(move |fault| told.lock().expect("no panic").push(format!("{} {}", fault.code, fault.detail)));
        if let Some(usage) = usage {
            tools = tools.usage(usage);
        }
        for path in [PATH, OTHER_PATH] {
            tools = tools.tool(tool(path, price, gate(PaidGate::new(settle.clone())), counted.clone()));
        }
        for tool in more {
            tools = tools.tool(tool);
        }
        let server = tools.build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        tokio::spawn(server.clone().serve(listener, std::future::pending()));
        let challenges = post(at, PATH, &[], &json!({})).await.challenges();
        Shop { at, server, store, settle, runs, clock, faults, challenges }
    }
}

/// A server with two paid tools.
pub(crate) struct Shop {
    pub(crate) at: SocketAddr,
    pub(crate) server: Server,
    pub(crate) store: Arc<dyn ReplayStore>,
    pub(crate) settle: Arc<Counted>,
    runs: Arc<AtomicUsize>,
    pub(crate) clock: Moving,
    pub(crate) faults: Arc<Mutex<Vec<String>>>,
    pub(crate) challenges: [Challenge; 2],
}

impl Shop {
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn payment(&self, version: Version, authorization: Authorization) -> String {
        paid(&self.challenges, version, authorization)
    }

    pub(crate) async fn call(&self, version: Version, payment: &str, more: &[(&str, &str)], input: &Value) -> HttpResponse {
        self.call_at(PATH, version, payment, more, input).await
    }

    pub(crate) async fn call_at(
        &self,
        path: &str,
        version: Version,
        payment: &str,
        more: &[(&str, &str)],
        input: &Value,
    ) -> HttpResponse {
        let mut headers = vec![(version.payment_header(), payment)];
        headers.extend_from_slice(more);
        post(self.at, path, &headers, input).await
    }

    /// The three numbers: handler runs, requests to settle, payments whose money moved. And what is left in the store.
    #[track_caller]
    pub(crate) fn assert_all<'a>(
        &'a self,
        node: &'a Node,
        runs: usize,
        settles: usize,
        charged: u64,
    ) -> impl Future<Output = ()> + 'a {
        let at = std::panic::Location::caller();
        async move {
            let money = (node.balance(recipient()).await, node.balance(payer().address()).await);
            let have = (self.runs(), self.settle.settled(), money);
            let faults = self.faults.lock().expect("no panic").clone();
            assert_eq!(have, (runs, settles, (charged * PRICE, FUNDS - charged * PRICE)), "{at} {faults:?}");
        }
    }

    pub(crate) async fn entries(&self) -> u64 {
        self.store.counts().await.expect("the store answers").entries()
    }

    /// Moves the server's clock and the chain's together.
    pub(crate) async fn later(&self, node: &Node, seconds: i64) {
        self.clock.later(seconds);
        node.later(seconds).await;
    }
}

/// A node of each kind with a payer who has money.
pub(crate) async fn stages() -> Vec<Node> {
    let nodes = Node::each().await;
    for node in &nodes {
        node.mint(payer().address(), FUNDS).await;
    }
    nodes
}
