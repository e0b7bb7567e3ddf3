//! A paid tool on a real chain, from the challenge to the settlement.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::B256;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_gate::{Context, Facilitator, Gate, Settle, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::{Payment, Version, read_header, read_receipt};

use super::scripted::{Reply, Scripted};
use super::stage::{LOCAL, PRICE, Stage, authorization, other, payer, recipient, signed};
use crate::world::{HttpResponse, Input, ORIGIN, Output, creator, post};

/// What else happens while the handler runs.
type Meanwhile = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

struct Shop {
    at: SocketAddr,
    runs: Arc<AtomicUsize>,
}

impl Shop {
    async fn open(stage: &Stage, settle: impl Settle + 'static, meanwhile: Meanwhile) -> Self {
        let runs = Arc::<AtomicUsize>::default();
        let counted = runs.clone();
        let builder = ToolBuilder::new("word-count", "Counts the words of a text.", &format!("{ORIGIN}/word-count"), creator());
        let asset = format!("eip155:{LOCAL}/erc20:{:#x}", stage.token.address);
        let builder = builder.price(&PRICE.to_string(), &asset, &format!("eip155:{LOCAL}:{:#x}", recipient()), "x402");
        let manifest = builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest;
        let tool = Tool::new(manifest).gate(Gate::paid(settle)).handler(move |input: Input, context: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            let meanwhile = meanwhile.clone();
            async move {
                meanwhile().await;
                Ok::<_, ToolError>(Output::new(&input.text, context.caller()))
            }
        });
        let store = MemoryReplay::new(Limits::default());
        let server = Tools::new(ORIGIN).store(store).tool(tool).build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        tokio::spawn(server.serve(listener, std::future::pending()));
        Self { at, runs }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// A payment as the server's challenge asks for it.
    async fn payment(&self, stage: &Stage) -> Payment {
        let answer = post(self.at, "/word-count", &[], &json!({})).await;
        assert_eq!(answer.status, 402, "{answer:?}");
        let reading = read_header(answer.header("payment-required").expect("version 2 is in a header"));
        let challenge = reading.challenge.expect("a challenge");
        signed(&challenge.accepts[0], &stage.token, authorization(payer().address()), payer())
    }

    async fn call(&self, payment: &Payment) -> HttpResponse {
        let header = payment.to_header().expect("a header");
        post(self.at, "/word-count", &[(Version::V2.payment_header(), &header)], &json!({ "text": "one two" })).await
    }
}

/// The transaction of the receipt.
#[track_caller]
fn receipt(answer: &HttpResponse) -> B256 {
    let reading = read_receipt(answer.header("payment-response").expect("a receipt"));
    reading.response.and_then(|response| response.transaction_hash()).expect("a transaction")
}

fn nothing() -> Meanwhile {
    Arc::new(|| Box::pin(async {}))
}

// req: GATE-007
// attack: T1, T6
#[tokio::test]
async fn a_call_is_paid_for_once() {
    for stage in Stage::each().await {
        let shop = Shop::open(&stage, stage.settlement(), nothing()).await;
        let payment = shop.payment(&stage).await;
        let answer = shop.call(&payment).await;
        assert_eq!((answer.status, answer.json()["words"].as_u64()), (200, Some(2)), "{answer:?}");
        let mined = stage.chain.receipt(receipt(&answer)).await.expect("an answer").expect("mined");
        assert!(mined.status());
        let again = shop.call(&payment).await;
        assert_eq!(again.verdict(), (409, "payment.replayed".to_owned()));
        assert_eq!((shop.runs(), stage.settled().await), (1, 1));
        stage.assert_paid(1).await;
    }
}

// attack: T15
#[tokio::test]
async fn a_transfer_that_another_transaction_made_buys_nothing_here() {
    for stage in Stage::each().await {
        let stage = Arc::new(stage);
        let payment = Arc::new(stage.payment());
        let meanwhile: Meanwhile = {
            let (stage, payment) = (stage.clone(), payment.clone());
            Arc::new(move || {
                let (stage, payment) = (stage.clone(), payment.clone());
                Box::pin(async move {
                    stage.send(&other(), stage.token.address, stage.transfer(&payment)).await;
                })
            })
        };
        let shop = Shop::open(&stage, stage.settlement(), meanwhile).await;
        let asked = shop.payment(&stage).await;
        let payment = Payment { accepted: asked.accepted, ..(*payment).clone() };
        let answer = shop.call(&payment).await;
        assert_eq!(answer.verdict(), (409, "payment.replayed".to_owned()), "{answer:?}");
        let again = shop.call(&payment).await;
        assert_eq!(again.verdict(), (409, "payment.replayed".to_owned()), "the check finds the used nonce");
        assert_eq!((shop.runs(), stage.settled().await), (1, 0));
        stage.assert_paid(1).await;
    }
}

// attack: T14
#[tokio::test]
async fn an_authorization_that_is_taken_back_meanwhile_buys_nothing() {
    for stage in Stage::each().await {
        let stage = Arc::new(stage);
        let payment = Arc::new(stage.payment());
        let meanwhile: Meanwhile = {
            let (stage, payment) = (stage.clone(), payment.clone());
            Arc::new(move || {
                let (stage, payment) = (stage.clone(), payment.clone());
                Box::pin(async move { stage.cancel(&payment).await })
            })
        };
        let shop = Shop::open(&stage, stage.settlement(), meanwhile).await;
        let asked = shop.payment(&stage).await;
        let payment = Payment { accepted: asked.accepted, ..(*payment).clone() };
        let answer = shop.call(&payment).await;
        assert_eq!(answer.verdict(), (409, "payment.replayed".to_owned()));
        assert!(answer.json().get("words").is_none(), "{answer:?}");
        assert_eq!((shop.runs(), stage.settled().await), (1, 0));
        stage.assert_paid(0).await;
    }
}

// attack: T13
#[tokio::test]
async fn a_facilitator_that_lies_about_success_gets_nobody_an_output() {
    for stage in Stage::each().await {
        let success = format!(
            r#"{{"success":true,"transaction":"{}","network":"eip155:{LOCAL}","payer":"{}"}}"#,
            B256::repeat_byte(0xab),
            payer().address()
        );
        let replies = [Reply::Answer(200, r#"{"isValid":true}"#.to_owned()), Reply::Answer(200, success)];
        let server = Scripted::start(replies).await;
        let facilitator = Facilitator::from_setting(&server.url()).expect("a URL").confirm_with([stage.chain.clone()]);
        let facilitator = facilitator.confirm_time(std::time::Duration::from_millis(200));
        let shop = Shop::open(&stage, facilitator, nothing()).await;
        let payment = shop.payment(&stage).await;
        let answer = shop.call(&payment).await;
        assert_eq!(answer.verdict(), (502, "settlement.unknown".to_owned()));
        assert_eq!((shop.runs(), server.requests().len()), (1, 2));
        stage.assert_paid(0).await;
    }
}
