//! A caller has its answer before the receipt is in the store, and the server does not end before it is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::finding::Finding;
use toolcrib_gate::{Due, Found, Journal, Outcome, PaidGate, Record, Settle, Tools, Verdict};
use toolcrib_store::database::Transaction;
use toolcrib_store::replay::{Limits, ReplayStore, SqlReplay, State};
use toolcrib_store::{Database, Location};
use toolcrib_x402::{Offer, ReplayKey, Version};

use crate::till::{TRANSACTION, USDC_ON_BASE, of_the_price, priced};
use crate::world::{NOW, ORIGIN, Runs, authorization, base_domain, fresh, header, holder, post, sign};

/// Settles everything, and keeps the database from writing from then on.
#[derive(Debug)]
struct Locking {
    database: Database,
    lock: Mutex<Option<Transaction>>,
    key: Mutex<Option<ReplayKey>>,
}

#[async_trait]
impl Settle for Locking {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Good { from_block: None }
    }

    async fn settle(&self, due: Due<'_>, _: Option<u64>, _: &dyn Journal) -> Outcome {
        let lock = self.database.begin().await.expect("a transaction");
        *self.lock.lock().expect("no panic") = Some(lock);
        *self.key.lock().expect("no panic") = ReplayKey::of(&due.payment.authorization, due.offer);
        Outcome::Settled { transaction: TRANSACTION }
    }

    async fn look_up(&self, _: Due<'_>, _: &Record) -> Found {
        Found::Open
    }
}

// req: GATE-007
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_does_not_wait_for_the_receipt_and_the_server_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::file(folder.path().join("gate.db"));
    let open = async || Database::open(&location).await.expect("a database");
    let store = Arc::new(SqlReplay::open(open().await, Limits::default()).await.expect("a store"));
    let settle = Arc::new(Locking { database: open().await, lock: Mutex::default(), key: Mutex::default() });
    let tool = priced("word-count", USDC_ON_BASE, PaidGate::new(settle.clone()), &Runs::default());
    let tools = Tools::new(ORIGIN).shared_store(store.clone()).clock(FixedClock(UnixTime::from_seconds(NOW))).tool(tool);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tools.build().expect("sound settings");
    let serving = tokio::spawn(server.serve(listener, async move { stopped.await.unwrap_or_default() }));

    let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
    let signed = of_the_price(authorization(holder(), fresh()));
    let payment = header(&challenges, Version::V2, signed, sign(holder(), &signed, &base_domain()));
    let answer = post(at, "/word-count", &[(Version::V2.payment_header(), &payment)], &json!({"text": "a b"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let key = settle.key.lock().expect("no panic").expect("it was asked to settle");
    let state = async || store.entry(&key).await.expect("readable").expect("there").state;
    assert_eq!(state().await, State::Settling, "nothing can be written");

    stop.send(()).expect("the server waits for it");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!serving.is_finished(), "a receipt is not written yet");
    drop(settle.lock.lock().expect("no panic").take());
    serving.await.expect("no panic").expect("no error");
    assert_eq!(state().await, State::Settled);
}
