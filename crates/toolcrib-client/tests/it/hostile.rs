//! Servers that cheat, fail or babble: for each, how often the wallet signed, what the ledger says and what was sent.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256, address};
use async_trait::async_trait;
use serde_json::json;
use toolcrib_chain::sign::StrictSignature;
use toolcrib_chain::wallet::{Cleared, Wallet, WalletError};
use toolcrib_client::ledger::State;
use toolcrib_client::{CallOptions, Consent, Terms};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::money::Amount;
use toolcrib_x402::{ChainAddress, Offer, SettleResponse, asset, header};

use toolcrib_testkit::servers::{answer, ok};
use toolcrib_testkit::tools::{
    CALLER, CHAIN, CREATOR, PRICE, RECIPIENT, Reply, SETTLED, STRANGER, Says, Speaks, UNKNOWN, World, caller, challenge, code,
    entry, input, offer, offer_of, payment_of, priced, result, roomy, served, shop, usdc, usual,
};

/// What a call against one server must come to.
struct Row {
    name: &'static str,
    reply: Reply,
    code: &'static str,
    signatures: usize,
    /// Requests to the endpoint.
    requests: usize,
    state: Option<State>,
}

impl Row {
    /// Refused before anything is signed.
    fn unsigned(name: &'static str, code: &'static str, reply: Reply) -> Self {
        Self { name, reply, code, signatures: 0, requests: 1, state: None }
    }

    /// Signed once, whatever the server does afterwards.
    fn signed(name: &'static str, code: &'static str, state: Option<State>, reply: Reply) -> Self {
        Self { name, reply, code, signatures: 1, requests: 2, state }
    }

    async fn check(self, world: &World, change: impl FnOnce(&mut serde_json::Value)) {
        let Self { name, reply, code: expected, signatures, requests, state } = self;
        let (client, wallet) = world.client();
        let tool = world.tool(change, reply).await;
        let (count, spent) = (world.count().await, world.ledger.test_totals(toolcrib_testkit::servers::NOW).await.unwrap().day);
        let looked_up = world.net.recorder.lookups().len();
        let result = client.call(tool.reference, &input(), &usual()).await;
        assert_eq!(code(&result), expected, "{name}: {result:?}");
        let hosts = world.net.recorder.lookups().split_off(looked_up);
        assert!(hosts.iter().all(|host| tool.endpoint.contains(host)), "{name}: nobody else is visited: {hosts:?}");
        assert_eq!(wallet.signatures(), signatures, "{name}: signatures");
        assert_eq!(tool.calls().len(), requests, "{name}: requests");
        let entry = if world.count().await > count { newest_of(world, tool.reference).await } else { None };
        assert_eq!(entry.as_ref().map(|entry| entry.state), state, "{name}: ledger");
        let now = world.ledger.test_totals(toolcrib_testkit::servers::NOW).await.unwrap().day;
        let counted = if state.is_some() { PRICE } else { 0 };
        assert_eq!(now.get() - spent.get(), counted, "{name}: what is signed counts as spent");
        if let (Err(error), Some(entry)) = (&result, &entry) {
            assert_eq!(error.payment(), Some(entry.id), "{name}: the error names the payment");
        }
        for (at, request) in tool.calls().iter().enumerate() {
            let has_payment = payment_of(request).is_some();
            assert_eq!(has_payment, at == 1, "{name}: request {at}");
        }
    }
}

/// The newest payment for a tool.
async fn newest_of(world: &World, tool: toolcrib_core::caip::ToolRef) -> Option<toolcrib_client::ledger::Entry> {
    world.ledger.newest(1_000).await.unwrap().into_iter().find(|entry| entry.spend.tool == Some(tool))
}

/// Always the same challenge.
fn asks(offers: Vec<Offer>) -> Reply {
    Arc::new(move |_| challenge(Speaks::V2, offers.clone()))
}

/// The usual offer with something changed.
fn asks_for(change: impl FnOnce(&mut Offer)) -> Reply {
    let mut offer = offer();
    change(&mut offer);
    asks(vec![offer])
}

/// Challenges as it should, and answers payments so.
fn then(paid: impl Fn(&toolcrib_testkit::servers::Request) -> Vec<u8> + Send + Sync + 'static) -> Reply {
    Arc::new(move |request| match payment_of(request) {
        None => challenge(Speaks::V2, vec![offer()]),
        Some(_) => paid(request),
    })
}

fn raw(head: String, body: Vec<u8>) -> Reply {
    Arc::new(move |_| answer("402 Payment Required", &head, &body))
}

const JSON: &str = "Content-Type: application/json\r\n";

// attack: T22, T5, T7, T8
// req: PAY-003, PAY-007, PRICE-007
#[tokio::test]
async fn challenges_that_are_not_what_the_manifest_says() {
    let world = World::start().await;
    let base = asset::find(8453, asset::usdc(8453).unwrap().address).unwrap();
    let amount = |amount: u64| Amount::new(U256::from(amount));
    let differs = "call.terms_differ";
    let rows = [
        Row::unsigned("higher", differs, asks_for(|offer| offer.amount = amount(PRICE + 1))),
        Row::unsigned("lower", differs, asks_for(|offer| offer.amount = amount(PRICE - 1))),
        Row::unsigned("nothing", differs, asks_for(|offer| offer.amount = Amount::ZERO)),
        Row::unsigned("all that there is", differs, asks_for(|offer| offer.amount = Amount::new(U256::MAX))),
        Row::unsigned("other recipient", differs, asks_for(|offer| offer.pay_to = ChainAddress::evm(STRANGER))),
        Row::unsigned(
            "the creator instead of the recipient",
            differs,
            asks_for(|offer| offer.pay_to = ChainAddress::evm(CREATOR)),
        ),
        Row::unsigned("other network", differs, asks(vec![offer_of(base, PRICE, RECIPIENT)])),
        Row::unsigned("both wrong", differs, asks(vec![offer_of(base, PRICE, RECIPIENT), offer_of(usdc(), 1, STRANGER)])),
        Row::unsigned("other token", "call.no_payable_offer", asks_for(|offer| offer.asset = ChainAddress::evm(STRANGER))),
        Row::unsigned("zero address", "call.challenge", asks_for(|offer| offer.pay_to = ChainAddress::evm(Address::ZERO))),
        Row::unsigned(
            "burn address",
            "call.challenge",
            asks_for(|offer| offer.pay_to = ChainAddress::evm(address!("000000000000000000000000000000000000dEaD"))),
        ),
        Row::unsigned(
            "other domain name",
            "call.challenge",
            asks_for(|offer| offer.extra.as_mut().unwrap().name = Some("Evil Coin".to_owned())),
        ),
        Row::unsigned("a year", "call.no_payable_offer", asks_for(|offer| offer.max_timeout_seconds = Some(31_536_000))),
        Row::unsigned("other scheme", "call.no_payable_offer", asks_for(|offer| offer.scheme = "upto".to_owned())),
        Row::unsigned(
            "permit2",
            "call.no_payable_offer",
            asks_for(|offer| offer.extra.as_mut().unwrap().transfer_method = Some("permit2".to_owned())),
        ),
        Row::unsigned(
            "escrow",
            "call.no_payable_offer",
            asks_for(|offer| offer.extra.as_mut().unwrap().payment_flow = Some("escrow".to_owned())),
        ),
    ];
    for row in rows {
        row.check(&world, priced).await;
    }
    // The right offer among wrong ones is found, and nothing but it is paid.
    let offers = vec![offer_of(usdc(), PRICE, STRANGER), offer_of(base, PRICE, STRANGER), offer()];
    let (client, wallet) = world.client();
    let reply: Reply = Arc::new(move |request| match payment_of(request) {
        None => challenge(Speaks::V2, offers.clone()),
        Some(payment) => {
            assert_eq!(payment.authorization.to, RECIPIENT);
            served(&payment, B256::repeat_byte(1), &result())
        }
    });
    let tool = world.tool(priced, reply).await;
    client.call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!(wallet.signatures(), 1);
}

// attack: T22
#[tokio::test]
async fn challenges_that_cannot_be_relied_on() {
    let world = World::start().await;
    let json = |accepts: String| format!(r#"{{"x402Version":1,"error":"","accepts":[{accepts}]}}"#).into_bytes();
    let one = r#"{"scheme":"exact","network":"base","maxAmountRequired":"10000","resource":"https://a.example","description":"","mimeType":"application/json","payTo":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","maxTimeoutSeconds":60,"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","extra":{"name":"USD Coin","version":"2"}}"#;
    let many = |count: usize| json(vec![one; count].join(","));
    let header = |value: String| format!("{JSON}PAYMENT-REQUIRED: {value}\r\n");
    let good = challenge(Speaks::V2, vec![offer()]);
    let good = String::from_utf8(good).unwrap();
    let good = good.lines().find_map(|line| line.strip_prefix("PAYMENT-REQUIRED: ")).unwrap().to_owned();
    let rows = [
        Row::unsigned("nothing", "call.challenge", raw(JSON.to_owned(), b"{}".to_vec())),
        Row::unsigned("a page", "call.challenge", raw("Content-Type: text/html\r\n".to_owned(), b"<html>pay</html>".to_vec())),
        Row::unsigned("33 offers", "call.challenge", raw(JSON.to_owned(), many(33))),
        Row::unsigned("1,000 offers", "call.challenge", raw(JSON.to_owned(), many(1_000))),
        // 4 MiB of offers: the body is bounded, and so is reading it.
        Row::unsigned("10,000 offers", "call.challenge", raw(JSON.to_owned(), many(10_000))),
        Row::unsigned("a header of 16 KiB and one", "call.challenge", raw(header("A".repeat(16 * 1024 + 1)), b"{}".to_vec())),
        Row::unsigned("a header of 1 MiB", "fetch.headers_too_large", raw(header("A".repeat(1 << 20)), b"{}".to_vec())),
        Row::unsigned(
            "twice",
            "call.challenge",
            raw(format!("{0}PAYMENT-REQUIRED: {good}\r\n", header(good.clone())), b"{}".to_vec()),
        ),
        Row::unsigned(
            "plain JSON in the header",
            "call.challenge",
            raw(header("{\"x402Version\":2}".to_owned()), b"{}".to_vec()),
        ),
        Row::unsigned("versions that disagree", "call.challenge", raw(header(good.clone()), json(one.to_owned()))),
        Row::unsigned(
            "duplicate keys",
            "call.challenge",
            raw(
                JSON.to_owned(),
                json(one.replace(
                    "\"scheme\":\"exact\"",
                    "\"scheme\":\"exact\",\"payTo\":\"0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65\"",
                )),
            ),
        ),
        Row::unsigned("deep", "call.challenge", raw(JSON.to_owned(), [b"{\"accepts\":".to_vec(), vec![b'['; 100_000]].concat())),
        Row::unsigned("number for an amount", "call.challenge", raw(JSON.to_owned(), json(one.replace("\"10000\"", "10000")))),
        Row::unsigned("hexadecimal amount", "call.challenge", raw(JSON.to_owned(), json(one.replace("\"10000\"", "\"0x2710\"")))),
        Row::unsigned(
            "redirect",
            "call.redirected",
            Arc::new(|_| answer("307 Temporary Redirect", "Location: https://tool1.example.com/call\r\n", b"")),
        ),
        Row::unsigned(
            "teapot",
            "call.refused",
            Arc::new(|_| answer("418 I'm a teapot", JSON, br#"{"code": "tea", "message": "short\u001b[2J"}"#)),
        ),
        Row::unsigned("500", "call.refused", Arc::new(|_| answer("500 Oops", JSON, b"{}"))),
        Row::unsigned("challenge with another status", "call.refused", Arc::new(|_| answer("401 Unauthorized", JSON, b"{}"))),
        Row::unsigned("garbage", "fetch.not_http", Arc::new(|_| b"\0\0\0 nonsense\r\n\r\n".to_vec())),
    ];
    for row in rows {
        row.check(&world, priced).await;
    }
}

/// A wallet that signs something else than it is asked to.
#[derive(Debug)]
struct SignsOther;

#[async_trait]
impl Wallet for SignsOther {
    fn address(&self) -> Address {
        CALLER
    }

    fn description(&self) -> String {
        "a wallet that signs something else".to_owned()
    }

    async fn sign_digest(&self, _: B256, cleared: Cleared) -> Result<StrictSignature, WalletError> {
        caller().sign_digest(B256::repeat_byte(9), cleared).await
    }
}

#[tokio::test]
async fn what_a_wallet_signs_is_checked_before_it_is_sent() {
    let world = World::start().await;
    let tool = world.tool(priced, shop(&world.devchain, Speaks::V2, offer())).await;
    let client = world.builder().wallet(Arc::new(SignsOther)).policy(roomy()).build();
    assert_ne!(code(&client.call(tool.reference, &input(), &usual()).await), "ok");
    let calls = tool.calls();
    assert!(calls.len() == 1 && payment_of(&calls[0]).is_none(), "the signature did not leave");
}

#[tokio::test]
async fn a_signature_is_good_for_ten_minutes_at_most() {
    let world = World::start().await;
    let longest = toolcrib_client::MAX_LIFETIME_SECONDS;
    for (asked, good_for) in [(Some(60), 60), (Some(longest), longest), (Some(3_600), longest), (None, 300)] {
        let mut offer = offer();
        offer.max_timeout_seconds = asked;
        let tool = world.tool(priced, asks(vec![offer])).await;
        let (client, _) = world.client();
        let _ = client.call(tool.reference, &input(), &usual()).await;
        let payment = tool.calls().iter().find_map(payment_of).expect("a payment");
        let now = u64::try_from(world.clock.now().seconds()).unwrap();
        assert_eq!(payment.authorization.valid_before, now + good_for, "{asked:?}");
    }
}

// attack: T13, T16, T22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_misbehave_once_they_are_paid() {
    let world = World::start().await;
    let devchain = world.devchain.clone();
    let refused = |request: &toolcrib_testkit::servers::Request| {
        let payment = payment_of(request).unwrap();
        let receipt = SettleResponse::failed(&payment, "insufficient_funds").to_header(payment.version);
        let body = br#"{"code": "payment.signature", "message": "no"}"#;
        let two = String::from_utf8(challenge(Speaks::V2, vec![offer()])).unwrap();
        let two = two.lines().find(|line| line.starts_with("PAYMENT-REQUIRED")).unwrap().to_owned();
        answer("402 Payment Required", &format!("{JSON}{two}\r\nPAYMENT-RESPONSE: {receipt}\r\n"), body)
    };
    let status = |line: &'static str| then(move |_| answer(line, JSON, br#"{"code": "settlement.unknown"}"#));
    let settled = move |body: &'static [u8]| {
        let devchain = devchain.clone();
        then(move |request| {
            let payment = payment_of(request).unwrap();
            served(&payment, toolcrib_testkit::tools::settle(&devchain, &payment).unwrap(), body)
        })
    };
    let with_receipt = |value: fn(&toolcrib_x402::Payment) -> String| {
        then(move |request| {
            let receipt = value(&payment_of(request).unwrap());
            answer("200 OK", &format!("{JSON}PAYMENT-RESPONSE: {receipt}\r\n"), &result())
        })
    };
    let rows = [
        Row::signed("honest", "ok", SETTLED, settled(br#"{"words": 3}"#)),
        Row::signed("402 again", "call.payment_refused", UNKNOWN, then(refused)),
        Row::signed("the same challenge for ever", "call.payment_refused", UNKNOWN, asks(vec![offer()])),
        Row::signed(
            "redirect with the payment",
            "call.redirected",
            UNKNOWN,
            then(|_| answer("308 Permanent Redirect", "Location: https://tool1.example.com/call\r\n", b"")),
        ),
        Row::signed("500", "call.indeterminate", UNKNOWN, status("500 Oops")),
        Row::signed("502", "call.indeterminate", UNKNOWN, status("502 Bad Gateway")),
        Row::signed("503", "call.indeterminate", UNKNOWN, status("503 Busy")),
        Row::signed("409", "call.indeterminate", UNKNOWN, status("409 Conflict")),
        Row::signed("400", "call.refused", UNKNOWN, status("400 Bad Request")),
        Row::signed("no answer", "call.indeterminate", UNKNOWN, then(|_| Vec::new())),
        Row::signed(
            "half an answer",
            "call.indeterminate",
            UNKNOWN,
            then(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"wo".to_vec()),
        ),
        Row::signed("garbage", "call.indeterminate", UNKNOWN, then(|_| b"\0\0 nonsense\r\n\r\n".to_vec())),
        Row::signed(
            "too late",
            "call.indeterminate",
            UNKNOWN,
            then(|_| {
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(2_500)));
                ok(result())
            }),
        ),
        Row::signed("output that does not fit", "call.output", SETTLED, settled(br#"{"words": "many"}"#)),
        Row::signed("output that is no JSON", "call.output_not_json", SETTLED, settled(b"three")),
        Row::signed("no receipt", "ok", UNKNOWN, then(|_| ok(result()))),
        Row::signed("garbage for a receipt", "ok", UNKNOWN, with_receipt(|_| "%%%".to_owned())),
        Row::signed(
            "a receipt that says no",
            "ok",
            UNKNOWN,
            with_receipt(|payment| SettleResponse::failed(payment, "no").to_header(payment.version)),
        ),
        Row::signed(
            "a receipt of somebody else",
            "ok",
            UNKNOWN,
            with_receipt(|payment| {
                let mut receipt = SettleResponse::settled(payment, B256::repeat_byte(1));
                receipt.payer = Some(ChainAddress::evm(STRANGER));
                receipt.to_header(payment.version)
            }),
        ),
        Row::signed(
            "a receipt without a transaction",
            "ok",
            UNKNOWN,
            with_receipt(|payment| SettleResponse::settled(payment, B256::ZERO).to_header(payment.version)),
        ),
    ];
    for row in rows {
        row.check(&world, priced).await;
    }
    // The server's own words reach the caller, and nothing else of it.
    let (client, _) = world.client();
    let tool = world.tool(priced, then(refused)).await;
    let error = client.call(tool.reference, &input(), &usual()).await.unwrap_err();
    let toolcrib_client::CallError::PaymentRefused { words, .. } = &error else { panic!("{error:?}") };
    assert_eq!((words.status, words.code.as_deref()), (402, Some("payment.signature")));
    let entry = newest_of(&world, tool.reference).await.unwrap();
    assert!(entry.note.contains("payment.signature") && entry.note.contains("insufficient_funds"), "{}", entry.note);
    assert!(!format!("{error:?} {entry:?}").contains("0x5b7966ca"), "no nonce or payment is printed");
}

// attack: T21
// req: PRICE-013, PRICE-014
#[tokio::test]
async fn free_tools_that_want_something() {
    let world = World::start().await;
    let zero = |to| asks(vec![offer_of(usdc(), 0, to)]);
    Row::unsigned("another operator's challenge", "call.operator_unknown", zero(STRANGER)).check(&world, |_| {}).await;
    Row::unsigned("money", "call.free_asks_money", asks(vec![offer()])).check(&world, |_| {}).await;
    Row::unsigned("money for the creator", "call.free_asks_money", asks(vec![offer_of(usdc(), 1, CREATOR)]))
        .check(&world, |_| {})
        .await;
    let free = |manifest: &mut serde_json::Value| {
        manifest["pricing"] = json!([entry("x402", CHAIN, usdc().address, 0, RECIPIENT)]);
    };
    Row::unsigned("price 0 and another operator", "call.operator_unknown", zero(STRANGER)).check(&world, free).await;
    Row::unsigned("price 0 and money", "call.free_asks_money", asks(vec![offer()])).check(&world, free).await;

    // An operator that is pinned for this tool, by the settings or for one call, and for no other tool.
    let reply = shop(&world.devchain, Speaks::V2, offer_of(usdc(), 0, STRANGER));
    let (tool, other) = (world.tool(|_| {}, reply.clone()).await, world.tool(|_| {}, reply).await);
    let wallet = toolcrib_testkit::tools::Counting::new();
    let client = world.builder().wallet(wallet.clone()).operator(tool.reference, STRANGER).build();
    client.call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!(code(&client.call(other.reference, &input(), &usual()).await), "call.operator_unknown");
    let consent = Consent { operator: Some(STRANGER), ..Consent::default() };
    client.call(other.reference, &input(), &CallOptions { consent, ..usual() }).await.unwrap();
    // Consent to terms is consent to money, not to a proof of identity.
    let terms = Terms::of(&offer_of(usdc(), 0, STRANGER));
    let consent = Consent { terms, ..Consent::default() };
    let options = CallOptions { consent, ..usual() };
    assert_eq!(code(&client.call(other.reference, &input(), &options).await), "call.operator_unknown");
    assert_eq!((wallet.signatures(), world.count().await), (2, 0));
}

// req: PRICE-012, PAY-008
#[tokio::test]
async fn prices_by_other_protocols_are_unknown() {
    let world = World::start().await;
    for protocol in ["erc20-transfer", "native-transfer", "mpp", "barter"] {
        let change = |manifest: &mut serde_json::Value| {
            manifest["pricing"] = json!([entry(protocol, CHAIN, usdc().address, PRICE, RECIPIENT)]);
        };
        // Not even asked: an endpoint that serves would be taken for a free one.
        let row = Row::unsigned(protocol, "call.pricing_unknown", Arc::new(|_| ok(result())));
        Row { requests: 0, ..row }.check(&world, change).await;
    }
    let change = |manifest: &mut serde_json::Value| {
        manifest["pricing"] = json!([entry("x402", CHAIN, STRANGER, PRICE, RECIPIENT)]);
    };
    let row = Row::unsigned("unknown token", "call.pricing_unknown", asks(vec![offer()]));
    Row { requests: 0, ..row }.check(&world, change).await;
}

// req: PAY-003
#[tokio::test]
async fn consent_is_to_exact_terms() {
    let world = World::start().await;
    let asked = offer_of(usdc(), PRICE + 2_000, STRANGER);
    let terms = Terms::of(&asked).unwrap();
    let tool = world.tool(priced, shop(&world.devchain, Speaks::V2, asked)).await;
    let (client, wallet) = world.client();
    let options = |terms| CallOptions { consent: Consent { terms: Some(terms), ..Consent::default() }, ..usual() };
    for other in [
        Terms { amount: Amount::new(U256::from(PRICE + 2_001)), ..terms },
        Terms { amount: Amount::new(U256::from(PRICE + 1_999)), ..terms },
        Terms { pay_to: RECIPIENT, ..terms },
        Terms { chain: 8453, ..terms },
    ] {
        assert_eq!(code(&client.call(tool.reference, &input(), &options(other)).await), "call.terms_differ", "{other}");
    }
    assert_eq!(wallet.signatures(), 0);
    let error = client.call(tool.reference, &input(), &usual()).await.unwrap_err();
    let toolcrib_client::CallError::TermsDiffer { asked, findings } = error else { panic!("{error:?}") };
    assert_eq!(asked, [terms], "the error names what to consent to");
    assert!(findings.iter().any(|finding| finding.code.id() == "probe.price_differs"), "{findings:?}");
    client.call(tool.reference, &input(), &options(Terms::parse(&terms.to_string()).unwrap())).await.unwrap();
    // Or the approver is asked.
    for (yes, expected) in [(false, "call.terms_differ"), (true, "ok")] {
        let says = Arc::new(Says { yes, ..Says::default() });
        let client = world.builder().wallet(wallet.clone()).approver(says.clone()).build();
        assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), expected);
        assert_eq!(*says.asked.lock().unwrap(), ["differs 12000"]);
    }
    assert_eq!(wallet.signatures(), 2);
    assert_eq!(world.balance(STRANGER), U256::from(2 * (PRICE + 2_000)));
}

#[tokio::test]
async fn a_wallet_without_money_signs_nothing() {
    let world = World::start().await;
    let tool = world.tool(priced, asks(vec![offer()])).await;
    let wallet = toolcrib_testkit::tools::Counting::of(toolcrib_chain::wallet::LocalWallet::development(5).unwrap(), false);
    let client = world.builder().wallet(wallet.clone()).build();
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.funds");
    assert_eq!((wallet.signatures(), world.count().await), (0, 0));
}

/// A challenge of version 2 has parts that have to be sent back; one whose echo fits into no header is found out before anything is
/// signed.
#[tokio::test]
async fn what_cannot_be_sent_back_is_not_signed() {
    let world = World::start().await;
    let mut large = offer();
    large.other.push(("x".to_owned(), toolcrib_x402::Raw::parse(&format!("\"{}\"", "y".repeat(11_800))).unwrap()));
    assert!(challenge(Speaks::V2, vec![large.clone()]).len() < 17_000 && header::MAX_BYTES == 16_384);
    Row::unsigned("large", "call.no_payable_offer", asks(vec![large])).check(&world, priced).await;
}
