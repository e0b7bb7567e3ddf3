//! One sign-in message, used more than once: copies at the same time, to two servers that share a store, on every store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_signer::SignerSync;
use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_core::url::HttpsUrl;
use toolcrib_gate::{Gate, Rates, SystemClock, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, ReplayStore};
use toolcrib_x402::sign_in::siwe::{self, SignedMessage};
use toolcrib_x402::sign_in::siwx::{HEADER, Proposal, SignedIn};
use toolcrib_x402::{Signature, read_header};

use super::http::post;
use super::payer::{fresh, payer};
use toolcrib_testkit::databases::{Backend, TestStore};

const ORIGIN: &str = "https://tools.example.com";
const COPIES: usize = 24;

async fn serve(store: Arc<dyn ReplayStore>, runs: Arc<AtomicUsize>) -> std::net::SocketAddr {
    let builder = ToolBuilder::new("echo", "Says what it hears.", &format!("{ORIGIN}/echo"), payer().address());
    let manifest = builder.build().expect("a manifest").manifest;
    let tool = Tool::new(manifest).gate(Gate::identity().siwe()).handler(move |input: serde_json::Value, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, ToolError>(input) }
    });
    let rates = Rates { per_address: None, ..Rates::default() };
    let tools = Tools::new(ORIGIN).rates(rates).shared_store(store).sign_in_key(b"a secret of operators");
    let server = tools.tool(tool).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(server.serve(listener, std::future::pending()));
    address
}

fn sign(text: &str) -> Signature {
    let signature = payer().sign_message_sync(text.as_bytes()).expect("a key signs");
    Signature::new(signature.as_bytes().to_vec()).expect("65 bytes")
}

// attack: T1
#[tokio::test]
async fn parallel_copies_of_a_message_run_once() {
    for backend in [Backend::Memory, Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let (store, runs) = (place.store(Limits::default()).await, Arc::new(AtomicUsize::new(0)));
        let servers = [serve(store.clone(), runs.clone()).await, serve(store, runs.clone()).await];
        for round in 0..4 {
            let header = if round % 2 == 0 {
                let answer = post(servers[0], "/echo", &[], &json!({})).await;
                let challenge =
                    read_header(answer.header("payment-required").expect("version 2")).challenge.expect("a challenge");
                let offered = Proposal::announced(&challenge.extensions).expect("offered").expect("well-formed");
                let message = offered.message(payer().address(), offered.chains[0]).expect("sound");
                let signature = sign(message.text());
                (HEADER, SignedIn { message, signature }.to_header().expect("short"))
            } else {
                let url = HttpsUrl::parse(&format!("{ORIGIN}/echo")).expect("a URL");
                let nonce = alloy_primitives::hex::encode(fresh());
                let now = toolcrib_core::clock::Clock::now(&SystemClock);
                let message = siwe::message(&url, payer().address(), 8453, nonce, now).expect("sound");
                let signature = sign(message.text());
                ("Authorization", SignedMessage { message, signature }.to_header())
            };
            let input = json!({"text": "one"});
            let calls = (0..COPIES).map(|at| {
                let (to, header, input) = (servers[at % 2], (header.0, header.1.as_str()), &input);
                async move { post(to, "/echo", &[header], input).await }
            });
            let answers = join_all(calls).await;
            let count = |status| answers.iter().filter(|answer| answer.status == status).count();
            assert_eq!((count(200), count(402)), (1, COPIES - 1), "{backend:?}, round {round}");
            assert_eq!(runs.load(Ordering::SeqCst), round + 1, "{backend:?}");
        }
    }
}
