//! Toolcrib's client against Toolcrib's gate, with money on a chain.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolValue;
use async_trait::async_trait;
use rustls::ServerConfig;
use serde_json::{Value as Json, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use toolcrib_chain::predicate::Erc721Predicate;
use toolcrib_chain::registry::AccessResult;
use toolcrib_client::ledger::State;
use toolcrib_client::{CallError, CallOptions, Resolution};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::finding::{Finding, Mode};
use toolcrib_core::tool::ToolManifest;
use toolcrib_devchain::Devchain;
use toolcrib_gate::{
    Context, Due, EndpointRecipient, Found, Gate, IdentityGate, Journal, LocalSettlement, Outcome, PaidGate, Rates, Record,
    Server, Settle, Tool, ToolError, Tools, Verdict,
};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::Offer;

use crate::denied::artifact;
use toolcrib_testkit::servers;
use toolcrib_testkit::tools::{
    CALLER, CREATOR, Counting, PRICE, RECIPIENT, STRANGER, World, code, hash_of, input, manifest, priced, settle, transact, usual,
};

/// Settles on the chain; the first ones as it is told.
#[derive(Debug)]
struct Local {
    devchain: Arc<Devchain>,
    script: Mutex<VecDeque<Trouble>>,
    settled: AtomicUsize,
    last: Mutex<Option<B256>>,
    /// Whether the node can be asked what came of a payment.
    node_is_up: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It settles, and the response is lost.
    Unheard,
    /// It does not settle.
    Refused,
}

#[async_trait]
impl Settle for Local {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Good { from_block: None }
    }

    async fn settle(&self, due: Due<'_>, _: Option<u64>, _: &dyn Journal) -> Outcome {
        self.settled.fetch_add(1, Ordering::SeqCst);
        let trouble = self.script.lock().unwrap().pop_front();
        if let Some(Trouble::Refused) = trouble {
            return Outcome::Refused { reason: "insufficient_funds".to_owned() };
        }
        let Some(transaction) = settle(&self.devchain, due.payment) else {
            return Outcome::Refused { reason: "the_token_refuses".to_owned() };
        };
        *self.last.lock().unwrap() = Some(transaction);
        match trouble {
            Some(Trouble::Unheard) => Outcome::Unknown { transaction: None, detail: "timeout".to_owned() },
            _ => Outcome::Settled { transaction },
        }
    }

    async fn look_up(&self, _: Due<'_>, _: &Record) -> Found {
        match *self.last.lock().unwrap() {
            _ if !self.node_is_up.load(Ordering::SeqCst) => Found::Unclear { detail: "the node is down".to_owned() },
            Some(transaction) => Found::Settled { transaction },
            None => Found::Open,
        }
    }
}

/// An input for which the handler takes longer than the client waits.
const SLOW: &str = "take your time";

/// A tool behind our gate and TLS.
struct Served {
    reference: ToolRef,
    server: Server,
    runs: Arc<AtomicUsize>,
    settle: Arc<Local>,
}

impl Served {
    /// Returns how often the handler ran, and how often a settlement was requested.
    fn counts(&self) -> (usize, usize) {
        (self.runs.load(Ordering::SeqCst), self.settle.settled.load(Ordering::SeqCst))
    }
}

/// Registers and serves a tool. The gate is made once the tool has its number.
async fn serve(
    world: &World,
    host: &str,
    change: impl FnOnce(&mut Json),
    predicate: Option<Address>,
    script: &[Trouble],
    gate: impl FnOnce(U256, Arc<Local>) -> Gate,
) -> Served {
    let (origin, endpoint) = (format!("https://{host}"), format!("https://{host}/call"));
    let mut document = manifest(&endpoint);
    change(&mut document);
    let bytes = document.to_string().into_bytes();
    let id = world.register(&format!("{origin}/.well-known/ai-tool/word-count.json"), hash_of(&bytes), predicate);
    let sealed = ToolManifest::parse(&bytes, Mode::Producer).into_result().expect("a manifest without errors");
    let settle = Arc::new(Local {
        devchain: world.devchain.clone(),
        script: Mutex::new(script.iter().copied().collect()),
        settled: AtomicUsize::new(0),
        last: Mutex::default(),
        node_is_up: AtomicBool::new(false),
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let ran = runs.clone();
    let tool = Tool::new(sealed).get().gate(gate(id, settle.clone())).handler(move |input: Json, _: Context| {
        ran.fetch_add(1, Ordering::SeqCst);
        let text = input["text"].as_str().unwrap_or_default().to_owned();
        async move {
            if text == SLOW {
                tokio::time::sleep(servers::quick().total + Duration::from_millis(500)).await;
            }
            Ok::<_, ToolError>(json!({ "words": text.split_whitespace().count() }))
        }
    });
    let server = Tools::new(&origin)
        .store(MemoryReplay::new(Limits::default()))
        .rates(Rates { per_address: None, ..Rates::default() })
        .clock(world.clock.clone())
        .tool(tool)
        .build()
        .expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let plain = listener.local_addr().expect("bound");
    tokio::spawn(server.clone().serve(listener, std::future::pending()));
    terminate_tls(world, host, plain).await;
    Served { reference: world.registry.reference(id), server, runs, settle }
}

/// TLS in front of a plain server, as a proxy does it.
async fn terminate_tls(world: &World, host: &str, plain: std::net::SocketAddr) {
    let leaf = world.net.authority.leaf(&[host]);
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(leaf.chain.clone(), leaf.key())
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = world.net.address();
    world.net.recorder.host(host, &[&address]);
    world.net.recorder.route(&address, listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outside) = acceptor.accept(stream).await else { return };
                let Ok(mut inside) = TcpStream::connect(plain).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
}

/// A predicate for holders of a token. [`CALLER`] has one once `hold` is called.
struct Holders {
    predicate: Address,
    token: Address,
}

impl Holders {
    fn deploy(world: &World) -> Self {
        let make = |code: Bytes| transact(&world.devchain, CREATOR, None, &code).and_then(|(_, at)| at).expect("a contract");
        let predicate = make(artifact("ERC721OwnerPredicate", &world.registry.address().abi_encode()));
        Self { predicate, token: make(artifact("TestERC721", &("Test", "T").abi_encode_params())) }
    }

    fn gate(&self, world: &World, id: U256) {
        let predicate = Erc721Predicate::new(world.registry.chain().clone(), self.predicate);
        let call = predicate.set_collections(id, vec![self.token]);
        world.send(CREATOR, call.to, &call.data);
    }

    fn hold(&self, world: &World, account: Address) {
        let data = [&keccak256("mint(address,uint256)")[..4], &(account, U256::ONE).abi_encode()].concat();
        world.send(CREATOR, self.token, &data.into());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_and_paid() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let open = serve(&world, "open.example.com", |_| {}, None, &[], |_, _| Gate::Open).await;
    let called = client.call(open.reference, &input(), &usual()).await.unwrap();
    assert_eq!((called.output, called.identity), (Some(json!({"words": 3})), None));
    let free = serve(&world, "free.example.com", |_| {}, None, &[], |_, _| IdentityGate::default().bound_only().into()).await;
    let called = client.call(free.reference, &input(), &usual()).await.unwrap();
    assert_eq!((called.identity, called.paid, free.counts()), (Some(CALLER), None, (1, 0)));
    assert_eq!((wallet.signatures(), world.count().await), (1, 0));

    let shop = serve(&world, "shop.example.com", priced, None, &[], |_, settle| PaidGate::new(settle).bound_only().into()).await;
    let before = (world.balance(CALLER), world.balance(RECIPIENT));
    for calls in 1..=2 {
        let called = client.call(shop.reference, &input(), &usual()).await.unwrap();
        let paid = called.paid.unwrap();
        assert_eq!((called.output, paid.state), (Some(json!({"words": 3})), State::Settled));
        assert_eq!(called.findings, []);
        assert_eq!(shop.counts(), (calls, calls));
        let moved = U256::from(calls as u64 * PRICE);
        assert_eq!((before.0 - world.balance(CALLER), world.balance(RECIPIENT) - before.1), (moved, moved));
        assert_eq!(client.resolve(paid.id).await.unwrap(), Resolution::Settled(paid.transaction));
    }
    // The same by GET: the nonce commits to the query.
    let get = CallOptions { method: toolcrib_client::CallMethod::Get, ..usual() };
    let called = client.call(shop.reference, &input(), &get).await.unwrap();
    assert_eq!((called.output, shop.counts()), (Some(json!({"words": 3})), (3, 3)));
    // A nonce that commits to nothing is not good enough for this gate, and there is no second try.
    let unbound = CallOptions { bound: false, ..usual() };
    assert_eq!(code(&client.call(shop.reference, &input(), &unbound).await), "call.payment_refused");
    assert_eq!((shop.counts(), wallet.signatures()), ((3, 3), 5));
}

// attack: T12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn predicates_before_money() {
    let world = World::start().await;
    let holders = Holders::deploy(&world);
    let predicate = Some(holders.predicate);
    let gated = serve(
        &world,
        "gated.example.com",
        |_| {},
        predicate,
        &[],
        |id, _| {
            holders.gate(&world, id);
            Gate::predicate(world.registry.clone(), id).into()
        },
    )
    .await;
    let both = serve(&world, "both.example.com", priced, predicate, &[], |id, settle| {
        holders.gate(&world, id);
        PaidGate::new(settle).predicate(Gate::predicate(world.registry.clone(), id)).into()
    })
    .await;
    let (client, wallet) = world.client();
    let before = (world.balance(CALLER), world.balance(RECIPIENT));
    for (tool, is_paid) in [(&gated, false), (&both, true)] {
        let error = client.call(tool.reference, &input(), &usual()).await.unwrap_err();
        let CallError::Denied(denial) = error else { panic!("{error:?}") };
        assert_eq!(denial.words.code.as_deref(), Some("access.denied"));
        assert_eq!((denial.access, denial.holdings[0].is_met()), (Some(AccessResult::Denied), Some(false)));
        assert_eq!((tool.counts(), denial.payment.is_some()), ((0, 0), is_paid));
    }
    assert_eq!((world.balance(CALLER), world.balance(RECIPIENT)), before, "nobody paid for a denial");
    let denied = world.newest().await.unwrap();
    assert_eq!(denied.state, State::Unknown, "the signature is out until it expires");

    holders.hold(&world, CALLER);
    let called = client.call(gated.reference, &input(), &usual()).await.unwrap();
    assert_eq!((called.identity, gated.counts()), (Some(CALLER), (1, 0)));
    let called = client.call(both.reference, &input(), &usual()).await.unwrap();
    assert_eq!((called.paid.map(|paid| paid.state), both.counts()), (Some(State::Settled), (1, 1)));
    assert_eq!(world.balance(RECIPIENT) - before.1, U256::from(PRICE));
    assert_eq!(wallet.signatures(), 4);
    let stranger = Counting::of(toolcrib_chain::wallet::LocalWallet::development(4).unwrap(), false);
    world.mint(STRANGER, PRICE);
    let other = world.builder().wallet(stranger).build();
    assert_eq!(code(&other.call(both.reference, &input(), &usual()).await), "call.denied");
    assert_eq!(world.balance(STRANGER), U256::from(PRICE));
}

// attack: T13, T16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_settlement_is_collected_once() {
    for bound in [true, false] {
        let world = World::start().await;
        let (client, wallet) = world.client();
        let script = [Trouble::Unheard];
        let shop = serve(&world, "shop.example.com", priced, None, &script, |_, settle| PaidGate::new(settle).into()).await;
        let options = CallOptions { bound, ..usual() };
        let error = client.call(shop.reference, &input(), &options).await.unwrap_err();
        let CallError::Indeterminate { payment: id, words: Some(words), .. } = error else { panic!("{error:?}") };
        assert_eq!(words.code.as_deref(), Some("settlement.unknown"));
        assert_eq!(code(&client.resume(id).await), "call.indeterminate", "the gate does not know yet");
        shop.settle.node_is_up.store(true, Ordering::SeqCst);
        world.clock.advance(toolcrib_gate::SETTLEMENT_SECONDS + 1);
        shop.server.reconcile().await;
        // Asking the chain keeps what redeems the result, and a result can be fetched again while the server has it.
        let resolved = client.resolve(id).await.unwrap();
        assert!(matches!(resolved, Resolution::Settled(Some(_))), "{resolved:?}");
        for _ in 0..2 {
            let called = client.resume(id).await.unwrap();
            assert_eq!(called.output, Some(json!({"words": 3})), "bound: {bound}");
            assert_eq!(called.paid.map(|paid| (paid.id, paid.state)), Some((id, State::Settled)));
        }
        assert_eq!((shop.counts(), wallet.signatures()), ((1, 1), 1), "one run, one settlement, one signature");
        assert_eq!(world.balance(RECIPIENT), U256::from(PRICE));
        // Once the gate has dropped it, there is no point in coming back.
        world.clock.advance(toolcrib_client::ledger::REDEEMABLE_SECONDS);
        let gone = client.resume(id).await.unwrap_err();
        let CallError::Refused { words, payment } = &gone else { panic!("{gone:?}") };
        assert_eq!((words.code.as_deref(), *payment), (Some("payment.replayed"), Some(id)));
    }
    // A settlement that fails leaves the money where it is, and says so.
    let world = World::start().await;
    let (client, wallet) = world.client();
    let script = [Trouble::Refused];
    let shop = serve(&world, "shop.example.com", priced, None, &script, |_, settle| PaidGate::new(settle).into()).await;
    assert_eq!(code(&client.call(shop.reference, &input(), &usual()).await), "call.payment_refused");
    assert_eq!((world.balance(RECIPIENT), wallet.signatures()), (U256::ZERO, 1));
    assert_eq!(world.newest().await.unwrap().state, State::Unknown);
}

/// The client gave up before the answer came, and has neither salt nor token: the identifier of its payment is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identifier_collects_what_a_lost_answer_held() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let shop = serve(&world, "shop.example.com", priced, None, &[], |_, settle| PaidGate::new(settle).into()).await;
    let options = CallOptions { bound: false, ..usual() };
    let error = client.call(shop.reference, &json!({ "text": SLOW }), &options).await.unwrap_err();
    let CallError::Indeterminate { payment: id, words: None, .. } = error else { panic!("{error:?}") };
    let began = Instant::now();
    let called = loop {
        match client.resume(id).await {
            Ok(called) => break called,
            Err(error) => assert_eq!(error.code().id(), "call.indeterminate", "{error}"),
        }
        toolcrib_testkit::assert_not_hung(began, "the result");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(called.output, Some(json!({"words": 3})));
    assert_eq!((shop.counts(), wallet.signatures()), ((1, 1), 1), "one run, one settlement, one signature");
    assert_eq!(world.balance(RECIPIENT), U256::from(PRICE));
}

/// Settled by the gate's own key, and with a recipient that is bound to the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_gates_own_settlement() {
    let world = World::start().await;
    let holders = Holders::deploy(&world);
    holders.hold(&world, CALLER);
    let chain = world.registry.chain().clone();
    let settlement = || {
        let wallet = Arc::new(toolcrib_chain::wallet::LocalWallet::development(8).unwrap());
        Arc::new(LocalSettlement::new(wallet, [chain.clone()]).recipients([RECIPIENT]))
    };
    let paid = serve(&world, "paid.example.com", priced, None, &[], |_, _| PaidGate::new(settlement()).into()).await;
    let both = serve(&world, "both.example.com", priced, Some(holders.predicate), &[], |id, _| {
        holders.gate(&world, id);
        PaidGate::new(settlement()).predicate(Gate::predicate(world.registry.clone(), id)).settle_first().into()
    })
    .await;
    let limits = toolcrib_fetch::Limits::default();
    let wallet = Counting::new();
    let client = world.builder().wallet(wallet.clone()).limits(limits, limits).build();
    let before = (world.balance(CALLER), world.balance(RECIPIENT));
    for (calls, tool) in (1..).zip([&paid, &both, &both]) {
        let called = client.call(tool.reference, &input(), &usual()).await.unwrap();
        let receipt = called.paid.unwrap();
        assert_eq!((called.output, receipt.state), (Some(json!({"words": 3})), State::Settled));
        assert!(world.devchain.receipt(receipt.transaction.unwrap()).unwrap().status());
        let moved = U256::from(calls * PRICE);
        assert_eq!((before.0 - world.balance(CALLER), world.balance(RECIPIENT) - before.1), (moved, moved));
    }
    assert_eq!(wallet.signatures(), 3);

    let bound = serve(
        &world,
        "bound.example.com",
        |_| {},
        Some(holders.predicate),
        &[],
        |id, _| {
            holders.gate(&world, id);
            Gate::predicate(world.registry.clone(), id).recipient(EndpointRecipient).into()
        },
    )
    .await;
    let called = client.call(bound.reference, &input(), &usual()).await.unwrap();
    assert_eq!((called.identity, bound.counts()), (Some(CALLER), (1, 0)));
}
