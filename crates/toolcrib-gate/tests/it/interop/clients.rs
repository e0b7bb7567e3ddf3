//! Stock clients of both versions call our tools: they pay once, the exact amount, and get their result and a receipt that they can read.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use serde_json::{Value, json};
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_gate::{Facilitator, LocalSettlement};

use super::world::{HOLDER, ORIGIN, PAUPER, PAYEE, PRICE, SETTLER, STRANGER, Served, State, World, account, key};
use toolcrib_testkit::x402_peers::{Called, Client, Peers, Server, part};

/// What each client is called with and against: the parts of one scene.
struct Scene {
    world: World,
    served: Served,
    /// Whose counts must agree, where it settles.
    facilitator: Option<Server>,
}

/// A call, and everything that it changed.
struct Observation {
    called: Called,
    before: State,
    after: State,
    /// Requests that the facilitator got: to verify, to settle.
    asked: (u64, u64),
}

// req: GATE-006, GATE-007, GATE-008, GATE-009, PAY-010
// attack: T12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_clients_pay_through_a_foreign_facilitator() {
    let Some(peers) = Peers::find() else { return };
    let scene = Scene::with_foreign_facilitator(&peers).await;
    for client in peers.clients() {
        scene.everything(&client).await;
    }
}

// req: GATE-006, GATE-007, GATE-008, GATE-009, PAY-010
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_rust_client_pays_through_a_foreign_facilitator() {
    let (Some(peers), Some(client)) = (Peers::find(), Peers::rust_client()) else { return };
    Scene::with_foreign_facilitator(&peers).await.everything(&client).await;
}

// req: GATE-006, GATE-008, GATE-009, PAY-010
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_clients_pay_and_we_settle() {
    let Some(peers) = Peers::find() else { return };
    let scene = Scene::with_local_settlement().await;
    for client in peers.clients() {
        scene.everything(&client).await;
    }
}

// req: GATE-006, GATE-008, GATE-009, PAY-010
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_rust_client_pays_and_we_settle() {
    let Some(client) = Peers::rust_client() else { return };
    Scene::with_local_settlement().await.everything(&client).await;
}

impl Scene {
    async fn with_foreign_facilitator(peers: &Peers) -> Self {
        let world = World::start().await;
        let facilitator = peers.facilitator(&world.devchain.http_url(), key(SETTLER)).await;
        let settle = Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([world.chain.clone()]);
        let served = world.serve(settle).await;
        Self { world, served, facilitator: Some(facilitator) }
    }

    async fn with_local_settlement() -> Self {
        let world = World::start().await;
        let wallet = Arc::new(LocalWallet::development(u32::try_from(SETTLER).expect("small")).expect("a development account"));
        let settle = LocalSettlement::new(wallet, [world.chain.clone()]).recipients([account(PAYEE)]);
        let served = world.serve(settle).await;
        Self { world, served, facilitator: None }
    }

    async fn everything(&self, client: &Client) {
        for tool in ["paid", "members"] {
            self.paid(client, tool).await;
        }
        self.free(client).await;
        self.without_funds(client).await;
        for tool in ["free", "members"] {
            self.denied(client, tool).await;
        }
    }

    /// The price moves once, and the receipt names the transaction that moved it.
    async fn paid(&self, client: &Client, tool: &str) {
        let seen = self.call(client, tool, HOLDER).await;
        let Observation { called, before, after, asked } = &seen;
        seen.answered(client, 200);
        let name = if client.version == 1 { "x-payment-response" } else { "payment-response" };
        assert_eq!(called.header.as_deref(), Some(name), "{client}");
        let network = if client.version == 1 { "base-sepolia" } else { "eip155:84532" };
        let receipt = json!({ "success": true, "network": network, "payer": account(HOLDER).to_checksum(None) });
        assert_eq!(part(&called.receipt, &["success", "network", "payer"]), receipt, "{client}");
        let hash: B256 = serde_json::from_value(called.receipt["transaction"].clone()).expect("a transaction");
        let mined = self.world.devchain.receipt(hash).expect("it is on the chain");
        assert!(mined.status() && mined.block_number == Some(after.blocks), "{client}");
        assert_eq!(mined.from, account(SETTLER), "{client}");
        let price = U256::from(PRICE);
        let moved =
            State { payer: before.payer - price, payee: before.payee + price, blocks: before.blocks + 1, runs: before.runs + 1 };
        assert_eq!(*after, moved, "{client}");
        assert_eq!(*asked, if self.facilitator.is_some() { (1, 1) } else { (0, 0) }, "{client}");
        self.listed(client, tool).await;
    }

    /// The facilitator's catalogue can list the tool by what came with a payment of version 2, whatever the client repeated of it.
    async fn listed(&self, client: &Client, tool: &str) {
        let Some(facilitator) = &self.facilitator else { return };
        let stats = facilitator.stats().await;
        let listed = stats["listed"].as_array().and_then(|listed| listed.last()).expect("the last settlement");
        if client.version == 1 {
            assert_eq!(*listed, Value::Null, "{client}: version 1 has no extensions");
            return;
        }
        let expected = json!({
            "resourceUrl": format!("{ORIGIN}/{tool}"),
            "method": "POST",
            "description": "Counts the words of a text.",
            "mimeType": "application/json",
            "serviceName": tool,
            "x402Version": 2,
        });
        let keys: Vec<_> = expected.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(part(listed, &keys), expected, "{client}");
        let input = json!({ "type": "http", "method": "POST", "bodyType": "json", "body": { "text": "x" } });
        assert_eq!(listed["discoveryInfo"]["input"], input, "{client}: {listed}");
    }

    /// Nothing moves, nobody is asked to move it, and nothing says that it did.
    async fn free(&self, client: &Client) {
        let seen = self.call(client, "free", HOLDER).await;
        seen.answered(client, 200);
        assert_eq!((&seen.called.header, &seen.called.receipt), (&None, &Value::Null), "{client}");
        seen.nothing_but(1);
        assert_eq!(seen.asked, (0, 0), "{client}");
    }

    /// No output, no handler, no money; a new challenge instead.
    async fn without_funds(&self, client: &Client) {
        let seen = self.call(client, "paid", PAUPER).await;
        assert_eq!((seen.called.status, &seen.called.error), (402, &None), "{client}: {:?}", seen.called);
        assert_eq!(seen.called.body["code"], "settlement.refused", "{client}");
        assert_eq!(seen.called.body["accepts"][0]["maxAmountRequired"], PRICE.to_string(), "{client}");
        seen.nothing_but(0);
        assert_eq!(seen.asked.1, 0, "{client}");
    }

    /// Whoever may not call is told before any money moves.
    async fn denied(&self, client: &Client, tool: &str) {
        let seen = self.call(client, tool, STRANGER).await;
        assert_eq!((seen.called.status, &seen.called.error), (403, &None), "{client}: {:?}", seen.called);
        assert_eq!(seen.called.body["code"], "access.denied", "{client}");
        assert_eq!(seen.called.header, None, "{client}");
        seen.nothing_but(0);
        assert_eq!(seen.asked.1, 0, "{client}");
    }

    async fn call(&self, client: &Client, tool: &str, payer: usize) -> Observation {
        let (asked, before) = (self.asked().await, self.world.state(&self.served, payer));
        let called = client.call(self.served.url(tool), key(payer), json!({ "text": "one two three" })).await;
        let (now, after) = (self.asked().await, self.world.state(&self.served, payer));
        Observation { called, before, after, asked: (now.0 - asked.0, now.1 - asked.1) }
    }

    async fn asked(&self) -> (u64, u64) {
        let Some(facilitator) = &self.facilitator else { return (0, 0) };
        let stats = facilitator.stats().await;
        (stats["verify"].as_u64().expect("a count"), stats["settle"].as_u64().expect("a count"))
    }
}

impl Observation {
    #[track_caller]
    fn answered(&self, client: &Client, status: u64) {
        let Called { status: got, body, error, .. } = &self.called;
        let output = json!({ "words": 3, "caller": account(HOLDER).to_checksum(None) });
        assert_eq!((*got, body, error), (status, &output, &None), "{client}");
    }

    #[track_caller]
    fn nothing_but(&self, runs: usize) {
        assert_eq!(self.after, State { runs: self.before.runs + runs, ..self.before });
    }
}
