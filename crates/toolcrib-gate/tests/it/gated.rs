//! Tools for holders of a token: the proof that callers need, and the resources that a call uses.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::json;
use toolcrib_chain::sign::Domain;
use toolcrib_core::money::Amount;
use toolcrib_gate::{Gate, PredicateGate, Rate, Rates, Tools, X_TOOL_ACCESS_DATA};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore, SqlReplay};
use toolcrib_store::{Database, Location};
use toolcrib_x402::nonce::{BoundCall, BoundNonce};
use toolcrib_x402::{Authorization, Challenge, Method, ProbeAnswer, ProbeState, Signature, Subject, Version, asset, judge_probe};

use crate::world::{
    HttpResponse, NOW, ORIGIN, Runs, World, authorization, base_domain, counting, creator, fresh, header, holder, post, serve,
    sign, stranger,
};

/// A server with one gated tool, and what is needed to call it.
struct Gated {
    world: World,
    id: U256,
    at: std::net::SocketAddr,
    runs: Runs,
    replay: Arc<MemoryReplay>,
    challenges: [Challenge; 2],
}

impl Gated {
    async fn start() -> Self {
        Self::with(|gate| gate, 100).await
    }

    async fn with(change: impl Fn(PredicateGate) -> PredicateGate, most: u64) -> Self {
        let world = World::start().await;
        let id = world.tool_for_holders().await;
        let (runs, replay) = (Runs::default(), memory(most));
        let tools = Tools::new(ORIGIN).shared_store(replay.clone()).rates(Rates { per_address: None, ..Rates::default() });
        let at = serve(tools.tool(counting("word-count", change(world.gate(id)), &runs))).await;
        let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
        Self { world, id, at, runs, replay, challenges }
    }

    async fn pay(&self, version: Version, authorization: Authorization, by: Signature) -> HttpResponse {
        let value = header(&self.challenges, version, authorization, by);
        post(self.at, "/word-count", &[(version.payment_header(), &value)], &json!({"text": "one two"})).await
    }

    /// Calls with a changed authorization that is signed rightly.
    async fn changed(&self, change: impl Fn(&mut Authorization)) -> HttpResponse {
        let mut changed = authorization(holder(), fresh());
        change(&mut changed);
        self.pay(Version::V1, changed, sign(holder(), &changed, &base_domain())).await
    }
}

fn memory(entries: u64) -> Arc<MemoryReplay> {
    Arc::new(MemoryReplay::new(Limits { entries, ..Limits::default() }))
}

/// How many signatures a store holds.
async fn remembered(store: &MemoryReplay) -> u64 {
    store.counts().await.expect("memory answers").entries()
}

/// A refusal with a new challenge in both versions.
#[track_caller]
fn refused(answer: &HttpResponse, code: &str) {
    assert_eq!(answer.verdict(), (402, code.to_owned()));
    answer.challenges();
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

// req: GATE-002, PAY-010, PRED-018
#[tokio::test]
async fn without_a_proof_there_is_a_challenge_in_both_versions() {
    let gated = Gated::start().await;
    // Whatever the body is, and whoever is named in it.
    for input in [json!({}), json!({"text": "a"}), json!({"account": holder().address()})] {
        let answer = post(gated.at, "/word-count", &[("X-Forwarded-Host", "evil.example")], &input).await;
        assert_eq!(answer.status, 402);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(answer.header("access-control-expose-headers").is_some_and(|all| all.contains("PAYMENT-REQUIRED")));
        let [one, two] = answer.challenges();
        assert_eq!((one.version, two.version), (Version::V1, Version::V2));
        for challenge in [&one, &two] {
            let [offer] = &challenge.accepts[..] else { panic!("one offer") };
            assert!(offer.amount.is_zero());
            assert_eq!(offer.pay_to.evm_address(), Some(creator()));
            assert_eq!(offer.token(), asset::find(8453, offer.asset.evm_address().expect("a token")));
        }
        let url = format!("{ORIGIN}/word-count");
        assert_eq!(two.resource.expect("a resource").url, Some(url.clone()));
        assert_eq!(one.accepts[0].resource.clone().expect("a resource").url, Some(url), "never made from the request");
    }
    assert_eq!(gated.runs.count(), 0);
}

// req: GATE-002, GATE-010
/// Clients that send head and body one after the other (Python's `http.client` does) pay over the connection of the challenge.
#[tokio::test]
async fn a_body_that_comes_after_the_challenge_does_not_cost_the_connection() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let gated = Gated::start().await;
    let head = "POST /word-count HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n";
    let mut caller = tokio::net::TcpStream::connect(gated.at).await.expect("it listens");
    for round in 0..3 {
        caller.write_all(head.as_bytes()).await.expect("sent");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        caller.write_all(b"{\"text\": \"one\"}").await.expect("sent");
        let mut answer = Vec::new();
        let length = |answer: &[u8]| {
            let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
            let (head, _) = text.split_once("\r\n\r\n")?;
            let length: usize = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
            Some(head.len() + 4 + length)
        };
        while length(&answer).is_none_or(|whole| answer.len() < whole) {
            let read = caller.read_buf(&mut answer).await.expect("an answer");
            assert_ne!(read, 0, "closed in round {round}: {}", String::from_utf8_lossy(&answer));
        }
        assert!(answer.starts_with(b"HTTP/1.1 402"), "{}", String::from_utf8_lossy(&answer));
    }
}

#[tokio::test]
async fn a_probe_has_nothing_to_say_about_either_gate() {
    let gated = Gated::start().await;
    let open = serve(Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &Runs::default()))).await;
    for (at, is_gated, state) in [(gated.at, true, ProbeState::Challenges), (open, false, ProbeState::Refuses)] {
        let answer = post(at, "/word-count", &[], &json!({})).await;
        let answer = ProbeAnswer { method: Method::Post, status: answer.status, headers: answer.headers, body: answer.body };
        let report = judge_probe(&[answer], &Subject { pricing: &[], is_gated, creator: Some(creator()) });
        assert_eq!(report.state, state);
        assert!(report.is_good(), "{:?}", report.findings);
    }
}

#[tokio::test]
async fn the_recipient_and_the_chain_of_identity_can_be_chosen() {
    let operator = Address::repeat_byte(0x42);
    let gated = Gated::with(|gate| gate.pay_to(operator).identity_chain(137), 10).await;
    let two = post(gated.at, "/word-count", &[], &json!({})).await;
    let reading = toolcrib_x402::read_header(two.header("payment-required").expect("version 2"));
    let offer = &reading.challenge.expect("a challenge").accepts[0];
    assert_eq!((offer.pay_to.evm_address(), offer.network.evm_id()), (Some(operator), Some(137)));

    for gate in [gated.world.gate(gated.id).identity_chain(360), gated.world.gate(gated.id).pay_to(Address::ZERO)] {
        let errors = Tools::new(ORIGIN).tool(counting("word-count", gate, &Runs::default())).build().expect_err("no challenge");
        assert_eq!(errors.0[0].code().id(), "gate.challenge");
    }
}

// req: GATE-003, GATE-005, GATE-006, GATE-009, PAY-005
#[tokio::test]
async fn a_holder_is_let_in_once_with_each_signature() {
    let gated = Gated::start().await;
    for (version, nonce) in [(Version::V1, 1), (Version::V2, 2)] {
        let signed = authorization(holder(), B256::repeat_byte(nonce));
        let by = sign(holder(), &signed, &base_domain());
        let answer = gated.pay(version, signed, by.clone()).await;
        assert_eq!((answer.status, answer.json()["words"].as_u64()), (200, Some(2)), "{answer:?}");
        assert_eq!(answer.json()["caller"], json!(holder().address().to_checksum(None)));
        assert_eq!(answer.header("cache-control"), Some("private, no-store"));
        // In either version, since what was signed is the same.
        for again in [Version::V1, Version::V2] {
            assert_eq!(gated.pay(again, signed, by.clone()).await.verdict(), (409, "payment.replayed".to_owned()));
        }
    }
    assert_eq!((gated.runs.count(), remembered(&gated.replay).await), (2, 2));
}

// req: PAY-005
#[tokio::test]
async fn of_many_calls_at_once_one_is_served() {
    let gated = Gated::start().await;
    let signed = authorization(holder(), B256::repeat_byte(1));
    let by = sign(holder(), &signed, &base_domain());
    let answers = futures_util::future::join_all((0..20).map(|_| gated.pay(Version::V1, signed, by.clone()))).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(200), count(409), gated.runs.count()), (1, 19, 1));
}

// req: PAY-005
#[tokio::test]
async fn tools_with_one_recipient_share_what_was_used() {
    let world = World::start().await;
    let (id, runs) = (world.tool_for_holders().await, Runs::default());
    let tools = Tools::new(ORIGIN).tool(counting("one", world.gate(id), &runs)).tool(counting("two", world.gate(id), &runs));
    let at = serve(tools).await;
    let challenges = post(at, "/one", &[], &json!({})).await.challenges();
    let signed = authorization(holder(), B256::repeat_byte(1));
    let value = header(&challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));
    let call = async |path: &str| post(at, path, &[("X-PAYMENT", value.as_str())], &json!({"text": ""})).await.status;
    assert_eq!((call("/one").await, call("/two").await, runs.count()), (200, 409, 1));
}

// req: GATE-003, GATE-004, GATE-009, PAY-015
#[tokio::test]
async fn a_proof_that_is_not_good_gets_a_new_challenge_and_a_reason() {
    let gated = Gated::start().await;
    let now = NOW as u64;
    refused(&gated.changed(|signed| signed.to = Address::repeat_byte(9)).await, "payment.pay_to_differs");
    refused(&gated.changed(|signed| signed.to = Address::ZERO).await, "payment.pay_to_differs");
    refused(&gated.changed(|signed| signed.value = Amount::new(U256::from(1))).await, "payment.value_not_zero");
    refused(&gated.changed(|signed| signed.valid_before = now).await, "payment.expired");
    refused(&gated.changed(|signed| signed.valid_before = now + 961).await, "payment.too_long_valid");
    refused(&gated.changed(|signed| signed.valid_after = now + 61).await, "payment.not_yet");
    refused(&gated.changed(|signed| signed.from = stranger().address()).await, "chain.signature_wrong_signer");
    assert_eq!(gated.changed(|signed| signed.valid_before = now + 960).await.status, 200, "the limit itself");
    assert_eq!(gated.changed(|signed| signed.valid_before = now + 1).await.status, 200, "the limit itself");

    let signed = authorization(holder(), B256::repeat_byte(1));
    let token = asset::usdc(8453).expect("listed");
    let domains = [
        ("another chain", Domain::new(token.name, token.version, U256::from(84_532), token.address)),
        ("another token", Domain::new(token.name, token.version, U256::from(8453), Address::repeat_byte(1))),
        ("another name", Domain::new("USDC", token.version, U256::from(8453), token.address)),
        ("another version", Domain::new(token.name, "1", U256::from(8453), token.address)),
    ];
    for (what, domain) in domains {
        for version in [Version::V1, Version::V2] {
            let answer = gated.pay(version, signed, sign(holder(), &signed, &domain)).await;
            assert_eq!(answer.verdict(), (402, "chain.signature_wrong_signer".to_owned()), "{what}");
        }
    }
    // An offer on another chain, signed for rightly.
    let mut elsewhere = gated.challenges.clone();
    let other = asset::usdc(84_532).expect("listed");
    for challenge in &mut elsewhere {
        let offer = toolcrib_x402::Offer::exact(&other, Amount::new(U256::ZERO), creator(), 300).expect("an offer");
        challenge.accepts = vec![offer];
    }
    let domain = Domain::new(other.name, other.version, U256::from(other.chain), other.address);
    for version in [Version::V1, Version::V2] {
        let value = header(&elsewhere, version, signed, sign(holder(), &signed, &domain));
        let answer = post(gated.at, "/word-count", &[(version.payment_header(), &value)], &json!({"text": ""})).await;
        refused(&answer, "payment.network_differs");
    }
    // The other signature that the curve allows for the same message.
    let by = sign(holder(), &signed, &base_domain());
    let mut bytes = by.as_bytes().to_vec();
    let order = U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).expect("a number");
    let high = order - U256::from_be_slice(&bytes[32..64]);
    bytes[32..64].copy_from_slice(&high.to_be_bytes::<32>());
    bytes[64] = 55 - bytes[64];
    let answer = gated.pay(Version::V1, signed, Signature::new(bytes).expect("65 bytes")).await;
    refused(&answer, "chain.signature_high_s");
    assert_eq!((gated.runs.count(), remembered(&gated.replay).await), (2, 2), "nothing that was refused is remembered");
}

#[tokio::test]
async fn both_headers_or_one_twice_is_no_proof() {
    let gated = Gated::start().await;
    let signed = authorization(holder(), B256::repeat_byte(1));
    let by = sign(holder(), &signed, &base_domain());
    let [one, two] = [Version::V1, Version::V2].map(|version| header(&gated.challenges, version, signed, by.clone()));
    let input = json!({"text": ""});
    let answer = post(gated.at, "/word-count", &[("X-PAYMENT", &one), ("PAYMENT-SIGNATURE", &two)], &input).await;
    assert_eq!(answer.verdict(), (400, "payment.both_headers".to_owned()));
    let answer = post(gated.at, "/word-count", &[("X-PAYMENT", &one), ("x-payment", &one)], &input).await;
    assert_eq!(answer.verdict(), (400, "payment.header_twice".to_owned()));
    assert_eq!(post(gated.at, "/word-count", &[("X-PAYMENT", &one)], &input).await.status, 200);
}

// req: GATE-005, GATE-006, PRED-018, PRED-030
#[tokio::test]
async fn a_stranger_is_denied_and_keeps_the_signature() {
    let gated = Gated::start().await;
    let signed = authorization(stranger(), B256::repeat_byte(1));
    let by = sign(stranger(), &signed, &base_domain());
    for _ in 0..2 {
        let answer = gated.pay(Version::V2, signed, by.clone()).await;
        assert_eq!(answer.verdict(), (403, "access.denied".to_owned()));
        let body = answer.json();
        assert_eq!(body["predicate"], json!(gated.world.predicate.to_checksum(None)));
        assert_eq!(body["account"], json!(stranger().address().to_checksum(None)));
        assert_eq!(body["tool"], json!(gated.world.registry.reference(gated.id).to_string()));
        assert_eq!(body["requirements"]["count"], json!(1), "{body}");
        let data = body["requirements"]["entries"][0]["data"].as_str().expect("data").to_owned();
        assert!(data.contains(&format!("{:x}", gated.world.token)), "{body}");
        assert_eq!(remembered(&gated.replay).await, 0, "given back");
    }
    assert_eq!(gated.runs.count(), 0);
}

// req: GATE-005
#[tokio::test]
async fn a_predicate_that_does_not_work_is_nobodys_denial() {
    let gated = Gated::start().await;
    // INVALID, whatever is asked.
    gated.world.devchain.set_code(gated.world.predicate, vec![0xfe]);
    let signed = authorization(holder(), B256::repeat_byte(1));
    let by = sign(holder(), &signed, &base_domain());
    let answer = gated.pay(Version::V1, signed, by.clone()).await;
    assert_eq!(answer.verdict(), (502, "access.predicate_malfunction".to_owned()));
    assert_eq!(remembered(&gated.replay).await, 0);

    // No such tool at the registry, as after a removal.
    let runs = Runs::default();
    let replay = memory(10);
    let tools = Tools::new(ORIGIN).shared_store(replay.clone());
    let at = serve(tools.tool(counting("word-count", gated.world.gate(U256::from(99)), &runs))).await;
    let value = header(&gated.challenges, Version::V1, signed, by.clone());
    let answer = post(at, "/word-count", &[("X-PAYMENT", &value)], &json!({"text": ""})).await;
    assert_eq!(answer.verdict(), (502, "access.unavailable".to_owned()));

    // Nobody to ask.
    let Gated { world, at, replay, challenges, runs: gated_runs, .. } = gated;
    let url = world.devchain.http_url();
    world.devchain.shutdown().expect("it stops");
    let value = header(&challenges, Version::V1, signed, by);
    let answer = post(at, "/word-count", &[("X-PAYMENT", &value)], &json!({"text": ""})).await;
    assert_eq!(answer.verdict(), (502, "access.unavailable".to_owned()));
    assert!(!String::from_utf8_lossy(&answer.body).contains(&url), "where the node is, is nobody's business");
    assert_eq!(remembered(&replay).await, 0);
    assert_eq!((runs.count(), gated_runs.count()), (0, 0));
}

#[tokio::test]
async fn input_that_does_not_fit_costs_no_signature() {
    let gated = Gated::start().await;
    let signed = authorization(holder(), B256::repeat_byte(1));
    let value = header(&gated.challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));
    let answer = post(gated.at, "/word-count", &[("X-PAYMENT", &value)], &json!({"text": 1})).await;
    assert_eq!(answer.verdict(), (400, "gate.input_invalid".to_owned()));
    assert_eq!(remembered(&gated.replay).await, 0);
}

#[tokio::test]
async fn a_full_store_accepts_nothing() {
    let gated = Gated::with(|gate| gate, 1).await;
    assert_eq!(gated.changed(|_| ()).await.status, 200);
    let answer = gated.changed(|_| ()).await;
    assert_eq!(answer.verdict(), (503, "store.full".to_owned()));
    assert!(answer.header("retry-after").is_some());
    assert_eq!((gated.runs.count(), remembered(&gated.replay).await), (1, 1));
}

#[tokio::test]
async fn accounts_have_a_rate_of_their_own() {
    let world = World::start().await;
    let (id, runs, replay) = (world.tool_for_holders().await, Runs::default(), memory(10));
    let rates = Rates { per_account: Rate::new(1, 0.01), ..Rates::default() };
    let tools = Tools::new(ORIGIN).rates(rates).shared_store(replay.clone());
    let at = serve(tools.tool(counting("word-count", world.gate(id), &runs))).await;
    let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
    for (nonce, status) in [(1, 200), (2, 429)] {
        let signed = authorization(holder(), B256::repeat_byte(nonce));
        let value = header(&challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));
        assert_eq!(post(at, "/word-count", &[("X-PAYMENT", &value)], &json!({"text": ""})).await.status, status);
    }
    assert_eq!(remembered(&replay).await, 1, "limits come before the store");
}

#[tokio::test]
async fn a_bound_nonce_is_good_for_its_call_only() {
    let gated = Gated::with(PredicateGate::bound_only, 10).await;
    refused(&gated.changed(|_| ()).await, "payment.nonce_unbound");
    let input = json!({"text": "one"});
    let bound = |path: &str, salt: u8| {
        let body = input.to_string();
        let target = format!("{ORIGIN}{path}");
        let tool = gated.world.registry.reference(gated.id);
        BoundNonce::make(&BoundCall { tool, method: "POST", target: &target, body: body.as_bytes() }, B256::repeat_byte(salt))
    };
    let call = async |nonce: &BoundNonce, salt: Option<String>, path: &str, input: &serde_json::Value| {
        let signed = authorization(holder(), nonce.nonce);
        let value = header(&gated.challenges, Version::V2, signed, sign(holder(), &signed, &base_domain()));
        let mut headers = vec![("PAYMENT-SIGNATURE", value.as_str())];
        headers.extend(salt.as_deref().map(|salt| ("X-Tool-Nonce-Salt", salt)));
        post(gated.at, path, &headers, input).await
    };
    let nonce = bound("/word-count?q=1", 7);
    let salt = Some(nonce.salt_header());
    refused(&call(&nonce, None, "/word-count?q=1", &input).await, "payment.salt_missing");
    refused(&call(&nonce, salt.clone(), "/word-count", &input).await, "payment.nonce_other_call");
    refused(&call(&nonce, salt.clone(), "/word-count?q=1", &json!({"text": "two"})).await, "payment.nonce_other_call");
    let answer = call(&nonce, Some("0x12".to_owned()), "/word-count?q=1", &input).await;
    assert_eq!(answer.verdict(), (400, "payment.salt".to_owned()));
    assert_eq!(gated.runs.count(), 0);
    assert_eq!(call(&nonce, salt, "/word-count?q=1", &input).await.status, 200);
}

// req: PRED-025, PRED-030
#[tokio::test]
async fn predicates_get_the_data_that_callers_send() {
    let world = World::start().await;
    // Grants when the registry's call carries the byte 0x5a as the first of `data`, and says that it is a predicate.
    // calldata: selector, toolId, account, offset, length, data at 4 + 4 * 32.
    let code = alloy_primitives::hex!("60843560f81c605a1460005260206000f3");
    let predicate = Address::repeat_byte(0x77);
    let id = world.register(Some(predicate)).await;
    world.devchain.set_code(predicate, code.to_vec());
    let runs = Runs::default();
    let at = serve(Tools::new(ORIGIN).tool(counting("word-count", world.gate(id), &runs))).await;
    let preset = Gate::from(world.gate(id).data(Bytes::from_static(&[0x5a])));
    let preset = serve(Tools::new(ORIGIN).tool(counting("word-count", preset, &runs))).await;
    let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
    let long = format!("0x5a{}", "00".repeat(4095));
    let too_long = format!("{long}00");
    let cases: [(std::net::SocketAddr, &[&str], u16, &str); 10] = [
        (at, &[], 403, "access.denied"),
        (at, &["0x5a"], 200, ""),
        (at, &["0x5b"], 403, "access.denied"),
        (at, &[&long], 200, ""),
        (at, &[&too_long], 400, "access.data"),
        (at, &["5a"], 400, "access.data"),
        (at, &["0x5"], 400, "access.data"),
        (at, &["0x5a", "0x5a"], 400, "access.data"),
        (preset, &[], 200, ""),
        (preset, &["0x"], 403, "access.denied"),
    ];
    for (at, data, status, code) in cases {
        let signed = authorization(holder(), fresh());
        let value = header(&challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));
        let mut headers = vec![("X-PAYMENT", value.as_str())];
        headers.extend(data.iter().map(|data| (X_TOOL_ACCESS_DATA, *data)));
        let answer = post(at, "/word-count", &headers, &json!({"text": ""})).await;
        assert_eq!(answer.verdict(), (status, code.to_owned()), "{data:?}");
    }
    let signed = authorization(holder(), fresh());
    let value = header(&challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));
    let secret = alloy_primitives::hex::encode_prefixed("Authorization: Bearer x");
    let headers = [("X-PAYMENT", value.as_str()), (X_TOOL_ACCESS_DATA, secret.as_str())];
    let answer = post(at, "/word-count", &headers, &json!({"text": ""})).await;
    assert_eq!(answer.verdict(), (400, "predicate.data_secret".to_owned()));
}

#[tokio::test]
async fn a_gate_with_the_number_of_another_tool_is_found_out() {
    let world = World::start().await;
    let right = world.tool_for_holders().await;
    let open = world.register(None).await;
    let other = world.register_as("other", B256::repeat_byte(1), Some(world.predicate)).await;
    let cases: [(U256, &[&str]); 4] = [
        (right, &[]),
        (open, &["gate.no_predicate"]),
        (other, &["gate.other_hash", "gate.other_uri"]),
        (U256::from(99), &["chain.tool_not_found"]),
    ];
    for (id, codes) in cases {
        let tools = Tools::new(ORIGIN).tool(counting("word-count", world.gate(id), &Runs::default()));
        let found = tools.build().expect("sound settings").check().await;
        assert_eq!(found.iter().map(|discord| discord.code().id()).collect::<Vec<_>>(), codes, "{found:?}");
    }
    let tools = Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &Runs::default()));
    assert!(tools.build().expect("sound settings").check().await.is_empty(), "nobody is asked about open tools");
}

// req: PAY-005
#[tokio::test]
async fn what_was_used_is_known_to_replicas_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::file(folder.path().join("replay.db"));
    let open = async || {
        let database = Database::open(&location).await.expect("a database");
        SqlReplay::open(database, Limits { entries: 2, ..Limits::default() }).await.expect("a store")
    };
    let world = World::start().await;
    let (id, runs) = (world.tool_for_holders().await, Runs::default());
    let replica =
        async || serve(Tools::new(ORIGIN).store(open().await).tool(counting("word-count", world.gate(id), &runs))).await;
    let (one, two) = (replica().await, replica().await);
    let challenges = post(one, "/word-count", &[], &json!({})).await.challenges();
    let call = async |at, signed: Authorization, by: &'static _| {
        let value = header(&challenges, Version::V1, signed, sign(by, &signed, &base_domain()));
        let answer = post(at, "/word-count", &[("X-PAYMENT", &value)], &json!({"text": ""})).await;
        (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    let signed = authorization(holder(), fresh());
    let calls = (0..20).map(|at| call(if at % 2 == 0 { one } else { two }, signed, holder()));
    let answers = futures_util::future::join_all(calls).await;
    let count = |status| answers.iter().filter(|(answered, _)| *answered == status).count();
    assert_eq!((count(200), count(409), runs.count()), (1, 19, 1));
    let restarted = replica().await;
    assert_eq!(call(restarted, signed, holder()).await, (409, "payment.replayed".to_owned()));

    // What is denied is given back, in the file too.
    let denied = authorization(stranger(), fresh());
    for at in [one, two, restarted] {
        assert_eq!(call(at, denied, stranger()).await, (403, "access.denied".to_owned()));
    }
    assert_eq!(call(two, authorization(holder(), fresh()), holder()).await.0, 200);
    assert_eq!(call(one, authorization(holder(), fresh()), holder()).await, (503, "store.full".to_owned()));
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_gate_may_ask_for_nothing_but_a_name() {
    let runs = Runs::default();
    let at = serve(Tools::new(ORIGIN).tool(counting("word-count", Gate::identity(), &runs))).await;
    let answer = post(at, "/word-count", &[], &json!({"text": "a"})).await;
    assert_eq!(answer.status, 402);
    let challenges = answer.challenges();
    let signed = authorization(stranger(), fresh());
    let value = header(&challenges, Version::V2, signed, sign(stranger(), &signed, &base_domain()));
    for status in [200, 409] {
        let answer = post(at, "/word-count", &[("PAYMENT-SIGNATURE", &value)], &json!({"text": "a"})).await;
        assert_eq!(answer.status, status);
        if status == 200 {
            assert_eq!(answer.json()["caller"], json!(stranger().address().to_checksum(None)));
        }
    }
    assert_eq!(runs.count(), 1);
}
