//! Our client calls other people's servers of both versions: it pays once, to the unit, what its policy allows, and keeps the receipt.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use alloy_primitives::{B256, U256};
use async_trait::async_trait;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_client::ledger::State;
use toolcrib_client::{CallError, CallMethod, Called, Client, Ledger, UrlPolicy, Usdc};
use toolcrib_core::caip::ChainId;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Connect, Resolve, ResolveError, Untrusted};
use toolcrib_gate::SystemClock;
use toolcrib_store::{Database, Location};
use toolcrib_verify::Verifier;

use super::world::{CHAIN_ID, CREATOR, HOLDER, PAUPER, PAYEE, PRICE, SETTLER, World, account, key};
use toolcrib_testkit::x402_peers::{Peers, Server};

pub(crate) const HOST: &str = "shop.example.com";

/// Names are at a public address, and every address is the server of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here(pub(crate) SocketAddr);

#[async_trait]
impl Resolve for Here {
    async fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Ok(vec![Ipv4Addr::new(93, 184, 215, 14).into()])
    }
}

#[async_trait]
impl Connect for Here {
    async fn connect(&self, _: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(self.0).await
    }
}

/// A server of other people, and what it takes to call it.
struct Shop<'s> {
    name: &'static str,
    world: &'s World,
    facilitator: &'s Server,
    door: Untrusted,
    folder: TempDir,
    _server: Server,
}

/// What a call may change: the payer's money, the payee's, settlements, runs of the handler.
type Counts = (U256, U256, u64, u64);

// req: PAY-011, PAY-012, PAY-013
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_pays_stock_servers() {
    let Some(peers) = Peers::find() else { return };
    let world = World::start().await;
    let facilitator = peers.facilitator(&world.devchain.http_url(), key(SETTLER)).await;
    for (name, script, version) in [
        ("x402-express", "v1/server.mjs", "1"),
        ("@x402/express", "v2/server.mjs", "2"),
        ("x402-hono", "v1/hono.mjs", "1"),
        ("@x402/hono", "v2/hono.mjs", "2"),
        ("x402-next", "next/server.mjs", "1"),
        ("@x402/next", "next/server.mjs", "2"),
    ] {
        let shop = Shop::open(&peers, name, (script, version), &world, &facilitator).await;
        for method in [CallMethod::Post, CallMethod::Get] {
            shop.paid(method).await;
            shop.free(method).await;
        }
        shop.not_agreed().await;
        shop.without_funds().await;
    }
}

/// A server that declares `payment-identifier` gets an id with every payment, and the same payment again when it is resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_names_its_payments_where_a_stock_server_asks_for_it() {
    let Some(peers) = Peers::find() else { return };
    let world = World::start().await;
    let facilitator = peers.facilitator(&world.devchain.http_url(), key(SETTLER)).await;
    let script = ("v2/identifier-server.mjs", "2");
    let shop = Shop::open(&peers, "@x402/express with identifiers", script, &world, &facilitator).await;
    let client = shop.client(HOLDER).await;
    let before = shop.counts(&client).await;
    let called = shop.call(&client, "paid", CallMethod::Post, &policy(PRICE)).await.expect("a result");
    assert_eq!(called.output, Some(output(CallMethod::Post)));
    let paid = called.paid.expect("it cost something");
    let again = client.resume(paid.id).await.expect("the same result");
    assert_eq!((again.output, again.paid.and_then(|again| again.transaction)), (called.output, paid.transaction));
    shop.call(&client, "paid", CallMethod::Post, &policy(PRICE)).await.expect("another call");
    let stats =
        shop.call(&client, "stats", CallMethod::Get, &UrlPolicy::default()).await.expect("an answer").output.expect("JSON");
    let payments = stats["payments"].as_array().expect("payments");
    assert!(payments.len() == 3 && payments.iter().all(|payment| payment["valid"] == true), "{stats}");
    assert!(payments[0] == payments[1] && payments[1] != payments[2], "{stats}");
    let price = U256::from(2 * PRICE);
    assert_eq!(
        shop.counts(&client).await,
        (before.0 - price, before.1 + price, before.2 + 2, before.3 + 2),
        "two calls, two payments"
    );
}

impl<'s> Shop<'s> {
    async fn open(
        peers: &Peers,
        name: &'static str,
        (script, version): (&str, &str),
        world: &'s World,
        facilitator: &'s Server,
    ) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate =
            CertificateParams::new(vec![HOST.to_owned()]).expect("a name").self_signed(&key).expect("a certificate");
        let settings = [
            ("FACILITATOR_URL", facilitator.url()),
            ("PAY_TO", account(PAYEE).to_checksum(None)),
            ("TLS_CERT", certificate.pem()),
            ("TLS_KEY", key.serialize_pem()),
            ("VERSION", version.to_owned()),
        ];
        let server = peers.start(script, &settings).await;
        let here = Here(server.at);
        let door = Untrusted::builder(SystemClock).resolver(here).connector(here).authorities(vec![certificate.der().clone()]);
        let (door, folder) = (door.build().expect("sound settings"), TempDir::new().expect("a folder"));
        Self { name, world, facilitator, door, folder, _server: server }
    }

    /// The price moves once, and the receipt and the ledger name the transaction that moved it.
    async fn paid(&self, method: CallMethod) {
        let (name, client) = (self.name, self.client(HOLDER).await);
        let before = self.counts(&client).await;
        let called = self.call(&client, "paid", method, &policy(PRICE)).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(called.output, Some(output(method)), "{name}");
        let paid = called.paid.expect("it cost something");
        assert_eq!(
            (paid.terms.amount.get(), paid.payer, paid.state),
            (U256::from(PRICE), account(HOLDER), State::Settled),
            "{name}"
        );
        let receipt = paid.receipt.expect("a receipt");
        let (chain, payer) =
            (receipt.network.as_ref().and_then(ChainId::evm_id), receipt.payer.and_then(|payer| payer.evm_address()));
        assert_eq!((receipt.success, chain, payer), (true, Some(CHAIN_ID), Some(account(HOLDER))), "{name}");
        let hash: B256 = paid.transaction.expect("a transaction");
        assert!(self.world.devchain.receipt(hash).expect("it is on the chain").status(), "{name}");
        let entry = client.ledger().entry(paid.id).await.expect("it is in the ledger");
        assert_eq!((entry.state, entry.transaction), (State::Settled, Some(hash)), "{name}");
        let price = U256::from(PRICE);
        let moved = (before.0 - price, before.1 + price, before.2 + 1, before.3 + 1);
        assert_eq!(self.counts(&client).await, moved, "{name}");
    }

    /// Who calls is shown to whom the user named, and no money moves. That they send transfers of nothing to the chain is their affair.
    async fn free(&self, method: CallMethod) {
        let (name, client) = (self.name, self.client(PAUPER).await);
        let before = self.counts(&client).await;
        let policy = UrlPolicy::identity(account(PAYEE));
        let called = self.call(&client, "free", method, &policy).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!((called.output, called.identity), (Some(output(method)), Some(account(PAUPER))), "{name}");
        assert!(called.paid.is_none(), "{name}");
        let after = self.counts(&client).await;
        assert_eq!((after.0, after.1, after.3), (before.0, before.1, before.3 + 1), "{name}");
    }

    /// Too dear by the smallest unit, to somebody else, or not agreed to at all: nothing is signed.
    async fn not_agreed(&self) {
        let (name, client) = (self.name, self.client(HOLDER).await);
        let before = self.counts(&client).await;
        let elsewhere = UrlPolicy { recipients: vec![account(CREATOR)], ..policy(PRICE) };
        for policy in [policy(PRICE - 1), elsewhere, UrlPolicy::default()] {
            let error = self.call(&client, "paid", CallMethod::Post, &policy).await.expect_err("not agreed to");
            assert!(matches!(error, CallError::NotConsented { .. }), "{name}: {error:?}");
        }
        assert_eq!(self.counts(&client).await, before, "{name}");
    }

    /// What an account does not have is not signed for.
    async fn without_funds(&self) {
        let (name, client) = (self.name, self.client(PAUPER).await);
        let before = self.counts(&client).await;
        let error = self.call(&client, "paid", CallMethod::Post, &policy(PRICE)).await.expect_err("nothing to pay with");
        assert_eq!(error.payment(), None, "{name}: {error:?}");
        assert_eq!(self.counts(&client).await, before, "{name}");
    }

    /// Our client, with a development account and the ledger of this shop.
    async fn client(&self, payer: usize) -> Client {
        let location = Location::file(self.folder.path().join("ledger.db"));
        let ledger = Ledger::open(Database::open(&location).await.expect("a database")).await.expect("a ledger");
        let clock = Arc::new(SystemClock);
        let verifier = Verifier::new(self.door.clone(), clock.clone(), "interop");
        let wallet = LocalWallet::development(u32::try_from(payer).expect("small")).expect("a development account");
        Client::builder(verifier, self.door.clone(), ledger, clock)
            .wallet(Arc::new(wallet))
            .chain(self.world.chain.clone())
            .build()
    }

    async fn call(&self, client: &Client, path: &str, method: CallMethod, policy: &UrlPolicy) -> Result<Called, CallError> {
        let query = if method == CallMethod::Get { "?text=one%20two%20three" } else { "" };
        let url = HttpsUrl::parse(&format!("https://{HOST}/{path}{query}")).expect("a URL");
        client.call_url(&url, method, json!({ "text": "one two three" }).to_string().as_bytes(), policy).await
    }

    async fn counts(&self, client: &Client) -> Counts {
        let stats = self.call(client, "stats", CallMethod::Get, &UrlPolicy::default()).await.expect("an answer").output;
        let handled = stats.expect("JSON")["handled"].as_u64().expect("a count");
        let settled = self.facilitator.stats().await["settled"].as_u64().expect("a count");
        (self.world.balance(account(HOLDER)), self.world.balance(account(PAYEE)), settled, handled)
    }
}

fn policy(max_amount: u64) -> UrlPolicy {
    UrlPolicy { max_amount: Usdc::micro(max_amount), recipients: vec![account(PAYEE)], ..UrlPolicy::default() }
}

fn output(method: CallMethod) -> Value {
    json!({ "words": 3, "method": if method == CallMethod::Post { "POST" } else { "GET" } })
}
