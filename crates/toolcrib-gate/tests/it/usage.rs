//! Usage reports, as a directory on loopback receives them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_fetch::ConfiguredUrl;
use toolcrib_gate::{Gate, Outcome, PaidGate, Rates, Tools, USAGE_TIME, Usage};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::usage::read_report;
use toolcrib_x402::{Version, header as base64};
use tower::ServiceExt;

use crate::till::{TRANSACTION, USDC_ON_BASE, of_the_price, priced, till};
use crate::world::{
    HttpResponse, NOW, ORIGIN, Runs, World, authorization, base_domain, counting, creator, fresh, header, holder, post, serve,
    sign, stranger,
};

const KEY: &str = "k3y-of-the-directory";
const TOOL: &str = "eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/42";

fn tool() -> ToolRef {
    ToolRef::parse(TOOL).expect("a reference")
}

/// What a directory does with a request that it has read.
#[derive(Clone, Copy, Debug)]
enum DirectoryBehaviour {
    /// Answers with a status after a while.
    Answers(u16, Duration),
    Hangs,
    Closes,
}

/// A directory that keeps every request, head and body.
#[derive(Clone)]
struct Directory {
    at: SocketAddr,
    requests: Arc<Mutex<Vec<(String, String)>>>,
    answered: Arc<Mutex<usize>>,
}

impl Directory {
    async fn open(manner: DirectoryBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let directory = Self { at: listener.local_addr().expect("bound"), requests: Arc::default(), answered: Arc::default() };
        let kept = directory.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(kept.clone().receive(stream, manner));
            }
        });
        directory
    }

    async fn receive(self, mut stream: tokio::net::TcpStream, manner: DirectoryBehaviour) {
        let mut bytes = Vec::new();
        let (head, body) = loop {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
            let text = String::from_utf8(bytes.clone()).expect("text");
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() == length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        };
        self.requests.lock().expect("no panic").push((head, body));
        match manner {
            DirectoryBehaviour::Answers(status, after) => {
                tokio::time::sleep(after).await;
                *self.answered.lock().expect("no panic") += 1;
                let _ = stream.write_all(format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes()).await;
            }
            DirectoryBehaviour::Hangs => std::future::pending().await,
            DirectoryBehaviour::Closes => {}
        }
    }

    fn usage(&self) -> Usage {
        usage(self.at)
    }

    fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn usage(at: SocketAddr) -> Usage {
    let url = ConfiguredUrl::from_setting(&format!("http://{at}/api/v2/tools/usage?s3cret")).expect("a URL");
    Usage::new(url, KEY).expect("a key")
}

fn fine() -> DirectoryBehaviour {
    DirectoryBehaviour::Answers(200, Duration::ZERO)
}

/// Tools whose faults are kept.
fn tools(usage: Usage) -> (Tools, Arc<Mutex<Vec<String>>>) {
    let faults = Arc::<Mutex<Vec<String>>>::default();
    let told = faults.clone();
    let tools = Tools::new(ORIGIN)
        .store(MemoryReplay::new(Limits::default()))
        .rates(Rates { per_address: None, ..Rates::default() })
        .usage(usage)
        .on_fault(move |fault| told.lock().expect("no panic").push(format!("{} {}", fault.code.id(), fault.detail)));
    (tools, faults)
}

async fn call(at: SocketAddr, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
    post(at, path, headers, &json!({"text": "one two"})).await
}

/// The number in a body, so that the rest can be compared to the byte.
#[track_caller]
fn latency(body: &str) -> u64 {
    serde_json::from_str::<Value>(body).expect("JSON")["latency_ms"].as_u64().expect("a number")
}

// req: USAGE-001, USAGE-005, USAGE-006, USAGE-007
// attack: T24
#[tokio::test]
async fn a_free_call_is_reported_with_the_callers_own_signature() {
    let directory = Directory::open(fine()).await;
    let (tools, faults) = tools(directory.usage());
    let at = serve(tools.tool(counting("word-count", Gate::identity().tool(tool()), &Runs::default()))).await;
    let challenges = call(at, "/word-count", &[]).await.challenges();
    let signed = authorization(holder(), fresh());
    let by = sign(holder(), &signed, &base_domain());
    // Digits in upper case: another spelling than ours of the same bytes.
    let shouted = format!("0x{}", by.to_string()[2..].to_uppercase());
    let value = header(&challenges, Version::V1, signed, by.clone());
    let text = String::from_utf8(base64::decode(&value).expect("base64")).expect("text");
    let value = base64::encode(text.replace(&by.to_string(), &shouted).as_bytes());
    assert_eq!(call(at, "/word-count", &[("X-PAYMENT", &value)]).await.status, 200);

    let requests = directory.requests();
    let [(head, body)] = &requests[..] else { panic!("one report: {requests:?}") };
    assert!(head.starts_with("POST /api/v2/tools/usage?s3cret HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nx-api-key: {KEY}")), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json"), "{head}");
    let expected = format!(
        concat!(
            r#"{{"verification_type":"eip3009_authorization","tool_chain_id":8453,"#,
            r#""tool_registry_address":"0x265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1","tool_onchain_id":"42","latency_ms":{},"#,
            r#""eip3009":{{"caller_address":"{from}","signature":"{}","from":"{from}","to":"{}","value":"0","valid_after":"0","#,
            r#""valid_before":"{}","nonce":"{}"}}}}"#
        ),
        latency(body),
        shouted,
        creator().to_checksum(None),
        NOW + 300,
        signed.nonce,
        from = holder().address().to_checksum(None),
    );
    assert_eq!(*body, expected);
    assert!(read_report(body.as_bytes()).1.is_empty(), "our own reader takes it");
    assert!(faults.lock().expect("no panic").is_empty());
}

// req: USAGE-005, USAGE-008
// attack: T24
#[tokio::test]
async fn a_paid_call_is_reported_with_its_transaction_and_no_signature() {
    for first in [false, true] {
        let directory = Directory::open(fine()).await;
        let (tools, _) = tools(directory.usage());
        let mut gate = PaidGate::new(till()).tool(tool());
        if first {
            gate = gate.settle_first();
        }
        let at = serve(tools.tool(priced("word-count", USDC_ON_BASE, gate, &Runs::default()))).await;
        let challenges = call(at, "/word-count", &[]).await.challenges();
        let signed = of_the_price(authorization(holder(), fresh()));
        let value = header(&challenges, Version::V2, signed, sign(holder(), &signed, &base_domain()));
        let answer = call(at, "/word-count", &[("PAYMENT-SIGNATURE", &value)]).await;
        assert_eq!(answer.status, 200);
        let requests = directory.requests();
        let [(_, body)] = &requests[..] else { panic!("one report: {requests:?}") };
        let expected = format!(
            concat!(
                r#"{{"verification_type":"x402_settlement","tool_chain_id":8453,"#,
                r#""tool_registry_address":"0x265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1","tool_onchain_id":"42","latency_ms":{},"#,
                r#""x402":{{"caller_address":"{}","tx_hash":"{}","chain_id":8453}}}}"#
            ),
            latency(body),
            holder().address().to_checksum(None),
            TRANSACTION,
        );
        assert_eq!(*body, expected);
        assert!(!body.contains("eip3009") && !body.contains(&sign(holder(), &signed, &base_domain()).to_string()[2..]));
        // The result again: the call was reported before.
        let token = answer.header("x-tool-retry-token").expect("a token").to_owned();
        let again = call(at, "/word-count", &[("PAYMENT-SIGNATURE", &value), ("X-Tool-Retry-Token", &token)]).await;
        assert_eq!((again.status, directory.requests().len()), (200, 1));
    }
}

// req: USAGE-002
#[tokio::test]
async fn the_reply_waits_for_the_report() {
    let directory = Directory::open(DirectoryBehaviour::Answers(202, Duration::from_millis(300))).await;
    let (tools, faults) = tools(directory.usage());
    let at = serve(tools.tool(counting("word-count", Gate::identity().tool(tool()), &Runs::default()))).await;
    let challenges = call(at, "/word-count", &[]).await.challenges();
    let signed = authorization(holder(), fresh());
    let value = header(&challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));
    assert_eq!(call(at, "/word-count", &[("X-PAYMENT", &value)]).await.status, 200);
    assert_eq!(*directory.answered.lock().expect("no panic"), 1, "answered before the caller was");
    // The wait for the directory is no part of what is reported.
    assert!(latency(&directory.requests()[0].1) < 300);
    assert!(faults.lock().expect("no panic").is_empty());
}

// req: USAGE-003, USAGE-004
// attack: T24
#[tokio::test]
async fn a_directory_in_trouble_changes_nothing_but_the_operators_log() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let rows = [
        ("500", Directory::open(DirectoryBehaviour::Answers(500, Duration::ZERO)).await.at),
        ("redirect", Directory::open(DirectoryBehaviour::Answers(302, Duration::ZERO)).await.at),
        ("closes", Directory::open(DirectoryBehaviour::Closes).await.at),
        ("refuses", gone),
        ("hangs", Directory::open(DirectoryBehaviour::Hangs).await.at),
    ];
    let mut replies = Vec::new();
    for (what, directory) in rows {
        let (tools, faults) = tools(usage(directory));
        let tools = tools.clock(FixedClock(UnixTime::from_seconds(NOW)));
        let router = tools.tool(counting("word-count", Gate::identity().tool(tool()), &Runs::default())).build();
        let router = router.expect("sound settings").router();
        let send = |value: Option<String>| {
            let mut request = Request::post("/word-count");
            if let Some(value) = value {
                request = request.header("X-PAYMENT", value);
            }
            router.clone().oneshot(request.body(Body::from(r#"{"text":"one two"}"#)).expect("a request"))
        };
        let challenge = send(None).await.expect("an answer");
        let two = toolcrib_x402::read_header(challenge.headers()["payment-required"].to_str().expect("text"));
        let two = two.challenge.expect("a challenge");
        let one = two.to_v1();
        let signed = authorization(holder(), fresh());
        let value = header(&[one, two], Version::V1, signed, sign(holder(), &signed, &base_domain()));
        if what == "hangs" {
            tokio::time::pause();
        }
        let began = Instant::now();
        let answer = send(Some(value)).await.expect("an answer");
        // Time stands still but for the waiting that is measured; elsewhere a busy machine may take longer.
        let most = if what == "hangs" { USAGE_TIME + Duration::from_millis(50) } else { toolcrib_testkit::HUNG };
        assert!(began.elapsed() <= most, "{what}: {:?}", began.elapsed());
        let (head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, 1 << 16).await.expect("a body");
        replies.push((head.status, format!("{:?}", head.headers), body));
        let faults = faults.lock().expect("no panic").clone();
        let [fault] = &faults[..] else { panic!("{what}: {faults:?}") };
        assert!(fault.starts_with("usage.not_reported http://127.0.0.1:"), "{what}: {fault}");
        for secret in [KEY, "s3cret", "/api/v2"] {
            assert!(!fault.contains(secret), "{what}: {fault}");
        }
    }
    replies.dedup();
    assert_eq!(replies.len(), 1, "one reply, whatever the directory does: {replies:?}");
    assert_eq!(replies[0].0, 200);
}

// req: USAGE-001
// attack: T24
#[tokio::test]
async fn what_was_not_served_is_not_reported() {
    let directory = Directory::open(fine()).await;
    let (set, _) = tools(directory.usage());
    let world = World::start().await;
    let id = world.tool_for_holders().await;
    let (runs, till) = (Runs::default(), till());
    let at = serve(
        set.tool(counting("gated", world.gate(id), &runs))
            .tool(priced("paid", USDC_ON_BASE, PaidGate::new(till.clone()).tool(tool()), &runs))
            .tool(counting("nameless", Gate::identity(), &runs))
            .tool(counting("open", Gate::Open, &runs)),
    )
    .await;
    let challenges = [call(at, "/gated", &[]).await.challenges(), call(at, "/paid", &[]).await.challenges()];
    let free = |who| {
        let signed = authorization(who, fresh());
        header(&challenges[0], Version::V1, signed, sign(who, &signed, &base_domain()))
    };
    let paid = || {
        let signed = of_the_price(authorization(holder(), fresh()));
        header(&challenges[1], Version::V1, signed, sign(holder(), &signed, &base_domain()))
    };
    let used = free(holder());
    assert_eq!(call(at, "/gated", &[("X-PAYMENT", &used)]).await.status, 200);
    assert_eq!(directory.requests().len(), 1, "the only call of a known tool that is served");
    assert_eq!(call(at, "/gated", &[("X-PAYMENT", &used)]).await.status, 409);
    assert_eq!(call(at, "/gated", &[("X-PAYMENT", &free(stranger()))]).await.status, 403);
    assert_eq!(call(at, "/gated", &[("X-PAYMENT", "{}")]).await.status, 400);
    assert_eq!(post(at, "/gated", &[("X-PAYMENT", &free(holder()))], &json!({})).await.status, 400);
    assert_eq!(post(at, "/paid", &[("X-PAYMENT", &paid())], &json!({"text": "fail"})).await.status, 503);
    till.next(Outcome::Refused { reason: "insufficient_funds".to_owned() });
    assert_eq!(call(at, "/paid", &[("X-PAYMENT", &paid())]).await.status, 402);
    till.next(Outcome::Unknown { transaction: Some(TRANSACTION), detail: String::new() });
    assert_eq!(call(at, "/paid", &[("X-PAYMENT", &paid())]).await.status, 502);
    // Served, but nobody knows which tool it is, or who called.
    assert_eq!(call(at, "/nameless", &[("X-PAYMENT", &free(holder()))]).await.status, 200);
    assert_eq!(call(at, "/open", &[]).await.status, 200);
    assert_eq!(directory.requests().len(), 1);
}

#[test]
fn the_key_is_shown_nowhere() {
    let usage = usage("127.0.0.1:9".parse().expect("an address"));
    let shown = format!("{usage:?} {:?} {:?}", usage, Tools::new(ORIGIN).usage(usage.clone()));
    for secret in [KEY, "s3cret", "/api/v2"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let url = ConfiguredUrl::from_setting("http://127.0.0.1:9/").expect("a URL");
    let error = Usage::new(url, "k3y\r\nHost: evil.example").expect_err("no header can hold it");
    assert!(!error.to_string().contains("k3y"), "{error}");
}
