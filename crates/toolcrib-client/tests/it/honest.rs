//! Calls that go well, and what they leave behind.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use serde_json::json;
use toolcrib_client::ledger::State;
use toolcrib_client::{Asked, CallMethod, CallOptions, Consent, Terms, UrlPolicy, Usdc};
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::nonce::{Binding, BoundCall, read_salt, verify};
use toolcrib_x402::{Version, asset};

use toolcrib_testkit::servers::{answer, ok};
use toolcrib_testkit::tools::{
    CALLER, CHAIN, CREATOR, Counting, PRICE, RECIPIENT, STRANGER, Says, Speaks, World, challenge, check, code, entry, input,
    offer, offer_of, payment_of, priced, result, roomy, served, settle, shop, usdc, usual,
};

// req: PAY-001, PAY-002, PAY-009, PAY-011, PAY-012, PAY-013, PAY-014, PAY-015
#[tokio::test]
async fn a_paid_call_of_each_version() {
    let world = World::start().await;
    let sepolia = asset::find(84_532, asset::usdc(84_532).unwrap().address).unwrap();
    for (speaks, token, version) in
        [(Speaks::V2, usdc(), Version::V2), (Speaks::Both, sepolia, Version::V2), (Speaks::V1, sepolia, Version::V1)]
    {
        let (client, wallet) = world.client();
        let reply = shop(&world.devchain, speaks, offer_of(token, PRICE, RECIPIENT));
        let pricing = json!([entry("x402", token.chain, token.address, PRICE, RECIPIENT)]);
        let tool = world.tool(|manifest| manifest["pricing"] = pricing, reply).await;
        let before = world.balance(RECIPIENT);
        let called = client.call(tool.reference, &input(), &usual()).await.unwrap();
        assert_eq!(called.output, Some(json!({"words": 3})), "{speaks:?}");
        assert_eq!(called.findings, []);
        let paid = called.paid.unwrap();
        assert_eq!((paid.state, paid.terms.amount.get()), (State::Settled, U256::from(PRICE)));
        assert_eq!((wallet.signatures(), paid.payer), (1, CALLER));
        if token.chain == CHAIN {
            assert_eq!(world.balance(RECIPIENT) - before, U256::from(PRICE), "the money moved");
            assert!(world.devchain.receipt(paid.transaction.unwrap()).unwrap().status());
        }
        let entry = world.ledger.entry(paid.id).await.unwrap();
        assert_eq!((entry.state, entry.transaction), (State::Settled, paid.transaction));
        assert_eq!(entry.spend.tool, Some(tool.reference));

        // Two requests with the same body: the first without any credential, the second with a nonce that is bound to it.
        let calls = tool.calls();
        let [first, second] = calls.as_slice() else { panic!("{} requests", calls.len()) };
        for name in ["x-payment", "payment-signature", "x-tool-nonce-salt", "x-tool-reference", "authorization"] {
            assert_eq!(first.header(name), None, "{name}");
        }
        assert_eq!((first.method(), &first.body), ("POST", &second.body));
        assert_eq!(second.header("x-tool-reference"), Some(tool.reference.to_string().as_str()));
        let payment = payment_of(second).unwrap();
        assert_eq!(payment.version, version);
        let salt = read_salt(second.header("x-tool-nonce-salt").map(str::as_bytes)).unwrap();
        let call = BoundCall { tool: tool.reference, method: "POST", target: &tool.endpoint, body: &second.body };
        assert_eq!(verify(payment.authorization.nonce, salt, &call), Ok(Binding::Bound));
    }
}

// req: PRICE-013, PRICE-014, PAY-010
#[tokio::test]
async fn free_calls_ask_nobody_and_leave_no_entry() {
    let world = World::start().await;
    for (pricing, to) in [(None, CREATOR), (Some(json!([entry("x402", CHAIN, usdc().address, 0, RECIPIENT)])), RECIPIENT)] {
        let (client, wallet) = world.client();
        let reply = shop(&world.devchain, Speaks::V2, offer_of(usdc(), 0, to));
        let change = |manifest: &mut serde_json::Value| {
            if let Some(pricing) = pricing {
                manifest["pricing"] = pricing;
            }
        };
        let tool = world.tool(change, reply).await;
        let called = client.call(tool.reference, &input(), &usual()).await.unwrap();
        assert_eq!((called.paid, called.identity, wallet.signatures()), (None, Some(CALLER), 1));
    }
    assert_eq!(world.count().await, 0, "nothing was spent");
    // An open tool serves at once, and needs no wallet.
    let tool = world.tool(|_| {}, Arc::new(|_| ok(result()))).await;
    let called = world.builder().build().call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!((called.identity, tool.calls().len()), (None, 1));
}

#[tokio::test]
async fn a_proof_of_identity_is_asked_about_where_the_policy_says_so() {
    let world = World::start().await;
    let tool = world.tool(|_| {}, shop(&world.devchain, Speaks::V2, offer_of(usdc(), 0, CREATOR))).await;
    for (yes, asks, expected) in [
        (true, Some(true), "ok"),
        (false, Some(true), "call.identity_not_approved"),
        (false, Some(false), "ok"),
        (false, None, "ok"),
    ] {
        let (wallet, says) = (Counting::new(), Arc::new(Says { yes, ..Says::default() }));
        let mut policy = roomy();
        policy.ask_identity = asks;
        let client = world.builder().wallet(wallet.clone()).policy(policy).approver(says.clone()).build();
        assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), expected);
        assert_eq!(wallet.signatures(), usize::from(expected == "ok"), "{asks:?}");
        let question = format!("identity {CALLER} for {} to {CREATOR}", tool.reference);
        let expected: &[String] = if asks == Some(true) { &[question] } else { &[] };
        assert_eq!(*says.asked.lock().unwrap(), expected);
        // Consent beforehand is an answer.
        if asks == Some(true) {
            for consent in
                [Consent { yes: true, ..Consent::default() }, Consent { max_price: Some(Usdc::micro(1)), ..Consent::default() }]
            {
                client.call(tool.reference, &input(), &CallOptions { consent, ..usual() }).await.unwrap();
            }
            assert_eq!(says.asked.lock().unwrap().len(), 1);
        }
    }
    assert_eq!(world.count().await, 0, "nothing was spent");
}

/// The five fields of the invocation guide, and nothing else: what the public SDK's servers send.
// req: PAY-010
#[tokio::test]
async fn the_shortest_challenge_of_version_1() {
    let world = World::start().await;
    let sepolia = asset::find(84_532, asset::usdc(84_532).unwrap().address).unwrap();
    for (amount, pricing) in [(0, None), (PRICE, Some(json!([entry("x402", 84_532, sepolia.address, PRICE, CREATOR)])))] {
        let body = json!({"accepts": [{
            "scheme": "exact",
            "network": "base-sepolia",
            "payTo": CREATOR.to_checksum(None),
            "maxAmountRequired": amount.to_string(),
            "asset": sepolia.address.to_checksum(None),
        }]});
        let reply: toolcrib_testkit::tools::Reply = Arc::new(move |request| match payment_of(request) {
            None => answer("402 Payment Required", "Content-Type: application/json\r\n", body.to_string().as_bytes()),
            Some(payment) => {
                let expected = offer_of(sepolia, amount, CREATOR);
                check(&payment, &expected);
                assert_eq!(payment.version, Version::V1);
                served(&payment, alloy_primitives::B256::repeat_byte(1), &result())
            }
        });
        let change = |manifest: &mut serde_json::Value| {
            if let Some(pricing) = pricing {
                manifest["pricing"] = pricing;
            }
        };
        let tool = world.tool(change, reply).await;
        let (client, wallet) = world.client();
        let called = client.call(tool.reference, &input(), &usual()).await.unwrap();
        assert_eq!((called.paid.is_some(), wallet.signatures()), (amount > 0, 1));
    }
}

#[tokio::test]
async fn get_tools_take_a_query() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let tool = world.tool(priced, shop(&world.devchain, Speaks::V2, offer())).await;
    let options = CallOptions { method: CallMethod::Get, ..usual() };
    client.call(tool.reference, &input(), &options).await.unwrap();
    let calls = tool.calls();
    let paths: Vec<_> = calls.iter().map(|request| (request.method(), request.path())).collect();
    assert_eq!(paths, [("GET", "/call?text=three%20small%20words"); 2]);
    let payment = payment_of(&calls[1]).unwrap();
    let salt = read_salt(calls[1].header("x-tool-nonce-salt").map(str::as_bytes)).unwrap();
    let target = format!("{}?text=three%20small%20words", tool.endpoint);
    let call = BoundCall { tool: tool.reference, method: "GET", target: &target, body: b"" };
    assert_eq!(verify(payment.authorization.nonce, salt, &call), Ok(Binding::Bound));
    assert_eq!(wallet.signatures(), 1);
}

// req: PRICE-011, PRICE-012
#[tokio::test]
async fn the_offer_is_chosen_by_order_policy_and_balance() {
    let world = World::start().await;
    let sepolia = asset::find(84_532, asset::usdc(84_532).unwrap().address).unwrap();
    let pricing = json!([
        entry("mpp", CHAIN, usdc().address, 1, RECIPIENT),
        entry("x402", CHAIN, usdc().address, PRICE, RECIPIENT),
        entry("x402", 84_532, sepolia.address, PRICE, RECIPIENT),
    ]);
    // The server prefers the other one.
    let offers = vec![offer_of(sepolia, PRICE, RECIPIENT), offer()];
    let reply: toolcrib_testkit::tools::Reply = Arc::new(move |request| match payment_of(request) {
        None => challenge(Speaks::V2, offers.clone()),
        Some(payment) => {
            let met = offers.iter().find(|offer| offer.network == payment.network).unwrap();
            check(&payment, met);
            served(&payment, alloy_primitives::B256::repeat_byte(1), &result())
        }
    });
    let tool = world.tool(|manifest| manifest["pricing"] = pricing, reply).await;
    let chain_of = async |client: &toolcrib_client::Client| {
        client.call(tool.reference, &input(), &usual()).await.unwrap().paid.unwrap().terms.chain
    };
    assert_eq!(chain_of(&world.client().0).await, CHAIN, "the creator's order");
    let mut policy = roomy();
    policy.chains = Some(vec![84_532]);
    assert_eq!(chain_of(&world.builder().wallet(Counting::new()).policy(policy).build()).await, 84_532, "the policy");
    let poor = Counting::of(toolcrib_chain::wallet::LocalWallet::random().unwrap(), false);
    assert_eq!(chain_of(&world.builder().wallet(poor).build()).await, 84_532, "the balance");
}

// req: HARDEN-010, HARDEN-011, HARDEN-012
#[tokio::test]
async fn fixed_values_need_a_word() {
    let world = World::start().await;
    let (client, _) = world.client();
    let fixed = |manifest: &mut serde_json::Value| {
        manifest["inputs"]["properties"]["to"] = json!({"const": "0xfeed"});
        manifest["inputs"]["properties"]["n"] = json!({"type": "integer", "default": 7});
    };
    let tool = world.tool(fixed, Arc::new(|_| ok(result()))).await;
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.fixed_values");
    assert_eq!(tool.calls().len(), 0, "nothing was sent");
    let plan = client.plan(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!(plan.prefilled.len(), 2, "both are shown");
    assert_eq!(plan.refusal.unwrap().code().id(), "call.fixed_values");
    let consent = Consent { ack_const: true, ..Consent::default() };
    let called = client.call(tool.reference, &input(), &CallOptions { consent, ..usual() }).await.unwrap();
    assert_eq!(called.prefilled.len(), 2);
    assert_eq!(tool.calls()[0].body, input().to_string().as_bytes(), "nothing is filled in");
    let says = Arc::new(Says { yes: true, ..Says::default() });
    world.builder().approver(says.clone()).build().call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!(*says.asked.lock().unwrap(), ["fixed 1"]);
}

#[tokio::test]
async fn what_cannot_be_checked_needs_consent() {
    let world = World::start().await;
    let (client, _) = world.client();
    // A lookahead, which no linear matcher has, and a reference that leads out: such tools are listed, and verify.
    let unchecked = |manifest: &mut serde_json::Value| {
        manifest["inputs"]["properties"]["code"] = json!({"type": "string", "pattern": "^(?=.*[0-9]).+$"});
        manifest["outputs"] = json!({"$ref": "https://schemas.example.com/result.json"});
    };
    let tool = world.tool(unchecked, Arc::new(|_| ok(result()))).await;
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.schema_unusable");
    assert_eq!(tool.calls().len(), 0, "nothing was sent");
    let plan = client.plan(tool.reference, &input(), &usual()).await.unwrap();
    let parts: Vec<_> = plan.unchecked.iter().map(|part| (part.which, part.findings[0].code.id())).collect();
    assert_eq!(parts, [("inputs", "schema.pattern_not_linear"), ("outputs", "schema.remote_ref")]);
    assert_eq!(plan.refusal.unwrap().code().id(), "call.schema_unusable");
    let consent = Consent { unchecked: true, ..Consent::default() };
    client.call(tool.reference, &input(), &CallOptions { consent, ..usual() }).await.unwrap();
    let says = Arc::new(Says { yes: true, ..Says::default() });
    world.builder().approver(says.clone()).build().call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!(*says.asked.lock().unwrap(), ["unchecked 2"]);
}

#[tokio::test]
async fn above_the_threshold_somebody_is_asked() {
    let world = World::start().await;
    let price = 30_000;
    let reply = shop(&world.devchain, Speaks::V2, offer_of(usdc(), price, RECIPIENT));
    let pricing = json!([entry("x402", CHAIN, usdc().address, price, RECIPIENT)]);
    let tool = world.tool(|manifest| manifest["pricing"] = pricing, reply).await;
    let options = |consent| CallOptions { consent, ..usual() };
    let max = |micro| Consent { max_price: Some(Usdc::micro(micro)), ..Consent::default() };
    let (client, wallet) = world.client();
    let plan = client.plan(tool.reference, &input(), &usual()).await.unwrap();
    assert!(plan.asks && plan.refusal.is_none());
    assert_eq!(plan.terms.unwrap().amount.get(), U256::from(price));
    assert_eq!(tool.calls().len(), 0, "a plan sends nothing to the tool");
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.not_approved");
    assert_eq!(code(&client.call(tool.reference, &input(), &options(max(29_999))).await), "call.above_max_price");
    assert_eq!((wallet.signatures(), world.count().await), (0, 0));
    client.call(tool.reference, &input(), &options(max(30_000))).await.unwrap();
    client.call(tool.reference, &input(), &options(Consent { yes: true, ..Consent::default() })).await.unwrap();
    let says = Arc::new(Says { yes: true, ..Says::default() });
    let asking = world.builder().wallet(wallet.clone()).approver(says.clone()).build();
    asking.call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!((says.asked.lock().unwrap().as_slice(), wallet.signatures()), (&["spend".to_owned()][..], 3));
    // Consent does not lift the cap of a call.
    let mut policy = roomy();
    policy.per_call = Usdc::micro(29_999);
    let capped = world.builder().wallet(wallet.clone()).policy(policy).build();
    let yes = options(Consent { yes: true, ..Consent::default() });
    assert_eq!(code(&capped.call(tool.reference, &input(), &yes).await), "spend.per_call");
    assert_eq!(wallet.signatures(), 3);
}

// req: PAY-001, PAY-002, PAY-004, VERIFY-008, VERIFY-014
#[tokio::test]
async fn a_slow_approval_is_verified_again() {
    let world = World::start().await;
    let price = 30_000;
    let pricing = json!([entry("x402", CHAIN, usdc().address, price, RECIPIENT)]);
    let reply = shop(&world.devchain, Speaks::V2, offer_of(usdc(), price, RECIPIENT));
    let tool = world.tool(|manifest| manifest["pricing"] = pricing, reply).await;
    let wallet = Counting::new();
    let says = || Arc::new(Says { yes: true, meanwhile: Some(world.clock.clone()), ..Says::default() });
    let client = world.builder().wallet(wallet.clone()).approver(says()).build();
    let fetched = || tool.server.requests().len() - tool.calls().len();
    client.call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!((fetched(), wallet.signatures()), (2, 1), "verified before and after");

    // Meanwhile the creator publishes something else.
    let Asked::Quoted(quote) = client.ask(tool.reference, &input(), &usual()).await.unwrap() else { panic!("it asks") };
    let changed = String::from_utf8(tool.manifest.lock().unwrap().clone()).unwrap().replace("Counts the words", "Counts words");
    let call = world.registry.update(
        tool.reference.id,
        &tool.endpoint.replace("/call", "/.well-known/ai-tool/word-count.json"),
        toolcrib_testkit::tools::hash_of(changed.as_bytes()),
    );
    world.send(CREATOR, call.to, &call.data);
    *tool.manifest.lock().unwrap() = changed.into_bytes();
    let error = client.approve(*quote, &Consent::default()).await.unwrap_err();
    assert_eq!((error.code().id(), wallet.signatures()), ("call.changed_meanwhile", 1));
    assert_eq!(world.count().await, 1, "nothing was set aside");

    // And now serves what is not registered.
    let Asked::Quoted(quote) = client.ask(tool.reference, &input(), &usual()).await.unwrap() else { panic!("it asks") };
    tool.manifest.lock().unwrap().push(b' ');
    *tool.manifest.lock().unwrap() = br#"{"type": "something else"}"#.to_vec();
    let error = client.approve(*quote, &Consent::default()).await.unwrap_err();
    assert_eq!((error.code().id(), wallet.signatures()), ("call.not_verified", 1));
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.not_verified");
}

#[tokio::test]
async fn what_is_withdrawn_or_not_signed_comes_back() {
    let world = World::start().await;
    let tool = world.tool(priced, shop(&world.devchain, Speaks::V2, offer())).await;
    let (client, wallet) = world.client();
    let Asked::Quoted(quote) = client.ask(tool.reference, &input(), &usual()).await.unwrap() else { panic!("it asks") };
    assert_eq!(quote.terms().count(), 1);
    let approved = client.approve(*quote, &Consent::default()).await.unwrap();
    assert_eq!(world.newest().await.unwrap().state, State::Reserved);
    assert_eq!(world.ledger.test_totals(toolcrib_testkit::servers::NOW).await.unwrap().day, Usdc::micro(PRICE));
    client.withdraw(approved).await.unwrap();
    assert_eq!(world.newest().await.unwrap().state, State::Released);
    let refusing = Counting::of(toolcrib_testkit::tools::caller(), true);
    let refused = world.builder().wallet(refusing).build();
    assert_eq!(code(&refused.call(tool.reference, &input(), &usual()).await), "wallet.refused");
    let entries = world.ledger.newest(10).await.unwrap();
    assert!(entries.len() == 2 && entries.iter().all(|entry| entry.state == State::Released), "{entries:?}");
    assert_eq!(world.ledger.test_totals(toolcrib_testkit::servers::NOW).await.unwrap().day, Usdc::ZERO);
    assert_eq!((wallet.signatures(), tool.calls().len()), (0, 2));
    assert_eq!(code(&world.builder().build().call(tool.reference, &input(), &usual()).await), "call.no_wallet");
}

/// A server that answers with another network gets nothing: neither where the caller named one, nor where a test would cost money.
#[tokio::test]
async fn the_network_limits_what_is_signed() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let base = offer_of(asset::find(8453, asset::usdc(8453).unwrap().address).unwrap(), PRICE, RECIPIENT);
    let answering = |offers: Vec<toolcrib_x402::Offer>| -> toolcrib_testkit::tools::Reply {
        std::sync::Arc::new(move |_| toolcrib_testkit::tools::challenge(Speaks::V2, offers.clone()))
    };
    let policy = UrlPolicy { max_amount: Usdc::micro(PRICE), recipients: vec![RECIPIENT], yes: true, ..UrlPolicy::default() };
    let call = async |client: &toolcrib_client::Client, tool: &toolcrib_testkit::tools::Tool, policy: &UrlPolicy| {
        let url = HttpsUrl::parse(&tool.endpoint).unwrap();
        code(&client.call_url(&url, CallMethod::Post, b"{}", policy).await)
    };
    let real = world.tool(|_| {}, answering(vec![base.clone()])).await;
    let only = world.builder().wallet(wallet.clone()).only_chain(31_337).build();
    assert_eq!(call(&only, &real, &policy).await, "call.other_network", "real money, though the local network was named");
    let both = world.tool(|_| {}, answering(vec![base.clone(), offer()])).await;
    assert_eq!(call(&client, &both, &policy).await, "call.mixed_networks");
    let identity = world
        .tool(|_| {}, answering(vec![offer_of(asset::find(8453, asset::usdc(8453).unwrap().address).unwrap(), 0, RECIPIENT)]))
        .await;
    assert_eq!(call(&only, &identity, &policy).await, "call.other_network", "nor a proof of identity");
    // A tool on a test network whose manifest states real money.
    let usdc = asset::usdc(8453).unwrap().address;
    let price = move |manifest: &mut serde_json::Value| {
        manifest["pricing"] = serde_json::json!([toolcrib_testkit::tools::entry("x402", 8453, usdc, PRICE, RECIPIENT)]);
    };
    let tool = world.tool(price, answering(vec![base])).await;
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.other_network");
    assert_eq!((wallet.signatures(), world.count().await), (0, 0));
}

#[tokio::test]
async fn urls_without_a_manifest() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let paid = world.tool(|_| {}, shop(&world.devchain, Speaks::V2, offer())).await;
    let free = world.tool(|_| {}, shop(&world.devchain, Speaks::V2, offer_of(usdc(), 0, RECIPIENT))).await;
    let url = |tool: &toolcrib_testkit::tools::Tool| HttpsUrl::parse(&tool.endpoint).unwrap();
    let call = async |tool: &toolcrib_testkit::tools::Tool, policy: UrlPolicy| {
        client.call_url(&url(tool), CallMethod::Post, b"{}", &policy).await
    };
    let allow = |micro, to: Address| UrlPolicy { max_amount: Usdc::micro(micro), recipients: vec![to], ..UrlPolicy::default() };
    for policy in [UrlPolicy::default(), allow(PRICE - 1, RECIPIENT), allow(PRICE, STRANGER), UrlPolicy::identity(RECIPIENT)] {
        assert_eq!(code(&call(&paid, policy).await), "call.not_consented");
    }
    for policy in [UrlPolicy::default(), allow(PRICE, STRANGER)] {
        assert_eq!(code(&call(&free, policy).await), "call.not_consented");
    }
    let other = Terms { amount: toolcrib_core::money::Amount::ZERO, ..Terms::of(&offer()).unwrap() };
    let terms = |terms| UrlPolicy { terms: Some(terms), ..UrlPolicy::default() };
    assert_eq!(code(&call(&paid, terms(other)).await), "call.not_consented");
    assert_eq!((wallet.signatures(), world.count().await), (0, 0));

    let before = world.balance(RECIPIENT);
    let called = call(&paid, allow(PRICE, RECIPIENT)).await.unwrap();
    assert_eq!((called.output, called.tool), (Some(json!({"words": 3})), None));
    call(&paid, terms(Terms::of(&offer()).unwrap())).await.unwrap();
    assert_eq!(world.balance(RECIPIENT) - before, U256::from(2 * PRICE));
    let known = client.authenticate(&url(&free), CallMethod::Post, b"{}", RECIPIENT).await.unwrap();
    assert_eq!((known.paid, known.identity, wallet.signatures()), (None, Some(CALLER), 3));
    let [_, second] = &paid.calls()[paid.calls().len() - 2..] else { panic!("two requests") };
    assert_eq!(second.header("x-tool-nonce-salt"), None, "there is no tool to bind to");
}

#[tokio::test]
async fn an_impersonated_chain_takes_development_keys_only() {
    use toolcrib_chain::wallet::{LocalWallet, Wallet as _};
    let world = World::start().await;
    let local = toolcrib_devchain::Devchain::builder(toolcrib_core::clock::FixedClock(toolcrib_testkit::servers::NOW))
        .chain_id(8453)
        .spawn()
        .await
        .unwrap();
    let node = toolcrib_chain::rpc::NodeUrl::parse(&local.http_url()).unwrap();
    let network = toolcrib_chain::network::Network::by_id(8453).unwrap();
    let chain = toolcrib_chain::rpc::Chain::connect(toolcrib_chain::rpc::ChainConfig::new(network, vec![node]).unwrap());
    let chain = chain.await.unwrap();
    let base = asset::find(8453, asset::usdc(8453).unwrap().address).unwrap();
    let tool = world.tool(|_| {}, shop(&world.devchain, Speaks::V2, offer_of(base, 0, CREATOR))).await;
    let real = Counting::of(LocalWallet::random().unwrap(), false);
    let client = world.builder().wallet(real.clone()).chain(chain.clone()).build();
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "wallet.dev_chain");
    assert_eq!((real.signatures(), tool.calls().len()), (0, 1), "{}", real.address());
    let client = world.builder().wallet(Counting::of(LocalWallet::development(1).unwrap(), false)).chain(chain).build();
    client.call(tool.reference, &input(), &usual()).await.unwrap();
}

#[tokio::test]
async fn inputs_are_checked_before_anything_is_sent() {
    let world = World::start().await;
    let (client, _) = world.client();
    let tool = world.tool(|_| {}, Arc::new(|_| answer("200 OK", "", b"{\"words\": 1}"))).await;
    for (wrong, expected) in [
        (json!({}), "call.input"),
        (json!({"text": 7}), "call.input"),
        (json!([]), "call.input"),
        (json!({"text": "a".repeat(1 << 20)}), "call.input_too_large"),
    ] {
        assert_eq!(code(&client.call(tool.reference, &wrong, &usual()).await), expected);
    }
    let get = CallOptions { method: CallMethod::Get, ..usual() };
    let listed = json!({"text": "a", "list": []});
    assert_eq!(code(&client.call(tool.reference, &listed, &get).await), "call.input_not_a_query");
    assert_eq!(tool.calls().len(), 0);
    let long = json!({"text": "a".repeat(9_000)});
    assert_eq!(code(&client.call(tool.reference, &long, &get).await), "call.setting");
    let shown = CallOptions { access_data: Some(vec![0; 9_000].into()), ..usual() };
    assert_eq!(code(&client.call(tool.reference, &input(), &shown).await), "call.setting");
    assert_eq!(tool.calls().len(), 0);
    let elsewhere = toolcrib_core::caip::ToolRef { chain: 10, ..tool.reference };
    assert_eq!(code(&client.call(elsewhere, &input(), &usual()).await), "call.no_chain");
}

// req: PAY-001, VERIFY-008
#[tokio::test]
async fn a_registry_with_other_code_than_the_pinned_one_is_not_believed() {
    use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
    let world = World::start().await;
    let tool = world.tool(priced, shop(&world.devchain, Speaks::V2, offer())).await;
    let chain = async |code: Option<alloy_primitives::B256>| {
        let mut network = toolcrib_chain::network::Network::by_id(CHAIN).unwrap().clone();
        (network.registry, network.registry_code) = (Some(world.registry.address()), code);
        let node = NodeUrl::parse(&world.devchain.http_url()).unwrap();
        Chain::connect(ChainConfig::new(&network, vec![node]).unwrap()).await.unwrap()
    };
    let right = alloy_primitives::keccak256(world.devchain.code(world.registry.address()));
    for (pinned, expected) in [(alloy_primitives::B256::repeat_byte(7), "call.not_verified"), (right, "ok")] {
        let wallet = Counting::new();
        let client = world.builder().wallet(wallet.clone()).chain(chain(Some(pinned)).await).build();
        assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), expected);
        assert_eq!(wallet.signatures(), usize::from(expected == "ok"));
    }
}

/// The reply of an honest shop that is used by tests of other files too must really move money.
#[tokio::test]
async fn a_payment_settles_once() {
    let world = World::start().await;
    let (client, _) = world.client();
    let tool = world.tool(priced, shop(&world.devchain, Speaks::V2, offer())).await;
    client.call(tool.reference, &input(), &usual()).await.unwrap();
    let payment = payment_of(&tool.calls()[1]).unwrap();
    assert_eq!(settle(&world.devchain, &payment), None, "the token takes a nonce once");
}
