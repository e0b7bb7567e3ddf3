//! Servers that ask for a signed message: what is signed for them, and what is not.

use std::sync::Arc;

use toolcrib_client::{Asked, CallMethod, CallOptions, Consent, UrlPolicy};
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::sign_in::siwx::{HEADER, Proposal};

use toolcrib_testkit::servers::{Request, answer, ok};
use toolcrib_testkit::tools::sign_in::{HINT, at, challenge, endpoint, old_gate, proposal, site};
use toolcrib_testkit::tools::{CALLER, CHAIN, Reply, Says, Tool, World, code, input, offer, usual};

fn agreed() -> CallOptions {
    CallOptions { consent: Consent { sign_in: true, ..Consent::default() }, ..usual() }
}

#[tokio::test]
async fn a_message_is_signed_for_whoever_agrees() {
    let world = World::start().await;
    for (reply, chain) in [(site(|_| {}), CHAIN), (old_gate(HINT), CHAIN), (site(|offered| offered.chains = vec![8453]), 8453)] {
        let tool = world.tool(|_| {}, reply).await;
        let (client, wallet) = world.client();
        assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "sign_in.not_approved", "nobody is asked");
        assert_eq!(wallet.signatures(), 0);
        let called = client.call(tool.reference, &input(), &agreed()).await.unwrap();
        assert_eq!((called.output.unwrap()["words"].as_u64(), called.identity), (Some(3), Some(CALLER)));
        assert!(called.paid.is_none());
        assert_eq!((wallet.signatures(), called.exchanges.len()), (1, 2));
        // The question contains what is signed, by which account, for which site and on which chain.
        for yes in [false, true] {
            let asker = Arc::new(Says { yes, ..Says::default() });
            let client = world.builder().wallet(wallet.clone()).approver(asker.clone()).build();
            let called = client.call(tool.reference, &input(), &usual()).await;
            assert_eq!(code(&called), if yes { "ok" } else { "sign_in.not_approved" });
            let domain = tool.endpoint.strip_prefix("https://").unwrap().split('/').next().unwrap();
            let expected = format!("sign in {CALLER} at {domain} for {} on {chain}", tool.endpoint);
            assert_eq!(*asker.asked.lock().unwrap(), [expected]);
        }
        assert_eq!(wallet.signatures(), 2);
    }
    assert_eq!(world.count().await, 0, "nothing of it is in the ledger");
}

#[tokio::test]
async fn urls_take_sign_ins_too() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let tool = world.tool(|_| {}, site(|_| {})).await;
    let url = HttpsUrl::parse(&tool.endpoint).unwrap();
    let body = input().to_string();
    let call = async |policy: &UrlPolicy| client.call_url(&url, CallMethod::Post, body.as_bytes(), policy).await;
    assert_eq!(code(&call(&UrlPolicy::default()).await), "sign_in.not_approved");
    let policy = UrlPolicy { sign_in: true, ..UrlPolicy::default() };
    assert_eq!(call(&policy).await.unwrap().identity, Some(CALLER));
    assert_eq!(wallet.signatures(), 1);
    // A network that was named limits what is signed.
    let only = world.builder().wallet(wallet.clone()).only_chain(10).build();
    let called = only.call_url(&url, CallMethod::Post, body.as_bytes(), &policy).await;
    assert_eq!((code(&called), wallet.signatures()), ("call.other_network", 1));
    let only = world.builder().wallet(wallet.clone()).only_chain(8453).build();
    assert_eq!(code(&only.call_url(&url, CallMethod::Post, body.as_bytes(), &policy).await), "ok");
    assert_eq!(wallet.signatures(), 2);
}

// attack: T21
#[tokio::test]
async fn messages_that_are_not_about_this_call_are_not_signed() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    type Change = fn(&mut Proposal);
    let changes: [(&str, Change, &str); 14] = [
        ("another site", |offered| offered.domain = "bank.example.com".to_owned(), "sign_in.domain"),
        ("a site that looks like it", |offered| offered.domain = format!("x@{}", offered.domain), "sign_in.message"),
        ("another port", |offered| offered.domain += ":8443", "sign_in.domain"),
        ("another origin", |offered| offered.uri = "https://bank.example.com/call".to_owned(), "sign_in.uri"),
        ("plain http", |offered| offered.uri = offered.uri.replace("https", "http"), "sign_in.uri"),
        ("another text", |offered| offered.statement = Some("A\n\nURI: https://bank.example.com".to_owned()), "sign_in.message"),
        ("hidden text", |offered| offered.statement = Some("A\u{202e}B".to_owned()), "sign_in.message"),
        ("a short nonce", |offered| offered.nonce = "1".to_owned(), "sign_in.message"),
        ("yesterday", |offered| offered.issued_at = at(-301), "sign_in.expired"),
        ("tomorrow", |offered| offered.issued_at = at(61), "sign_in.not_yet"),
        ("over", |offered| offered.expiration_time = Some(at(-1)), "sign_in.expired"),
        ("not yet", |offered| offered.not_before = Some(at(61)), "sign_in.not_yet"),
        ("for a day", |offered| offered.expiration_time = Some(at(86_400)), "sign_in.lifetime"),
        ("no chain", |offered| offered.chains.clear(), "sign_in.chain"),
    ];
    for (what, change, expected) in changes {
        let tool = world.tool(|_| {}, site(change)).await;
        assert_eq!(code(&client.call(tool.reference, &input(), &agreed()).await), expected, "{what}");
        assert_eq!(tool.calls().len(), 1, "{what}: nothing was sent");
    }
    assert_eq!(wallet.signatures(), 0);
    // Without a wallet nothing is signed either.
    let tool = world.tool(|_| {}, site(|_| {})).await;
    assert_eq!(code(&world.builder().build().call(tool.reference, &input(), &agreed()).await), "call.no_wallet");
}

#[tokio::test]
async fn one_signature_and_one_request_with_it() {
    let world = World::start().await;
    let again = |reply: fn(&Request) -> Vec<u8>| -> Reply {
        Arc::new(move |request| match request.header(HEADER) {
            None => challenge(&proposal(&endpoint(request)), Vec::new()),
            Some(_) => reply(request),
        })
    };
    let replies: [(&str, Reply, &str); 6] = [
        ("again", again(|request| challenge(&proposal(&endpoint(request)), Vec::new())), "call.sign_in_refused"),
        (
            "then money",
            again(|_| toolcrib_testkit::tools::challenge(toolcrib_testkit::tools::Speaks::V2, vec![offer()])),
            "call.sign_in_refused",
        ),
        ("elsewhere", again(|_| answer("302 Found", "Location: https://bank.example.com/\r\n", b"")), "call.redirected"),
        ("unauthorized", again(|_| answer("401 Unauthorized", "", b"{}")), "call.sign_in_refused"),
        ("broken", again(|_| answer("500 Internal Server Error", "", b"{}")), "call.refused"),
        ("another output", again(|_| ok(br#"{"words": "many"}"#)), "call.output"),
    ];
    for (what, reply, expected) in replies {
        let tool: Tool = world.tool(|_| {}, reply).await;
        let (client, wallet) = world.client();
        assert_eq!(code(&client.call(tool.reference, &input(), &agreed()).await), expected, "{what}");
        assert_eq!((wallet.signatures(), tool.calls().len()), (1, 2), "{what}");
    }
    // If there is an offer as well, nothing is signed in: the offer is handled as usual.
    let both = world.tool(|_| {}, Arc::new(|request| challenge(&proposal(&endpoint(request)), vec![offer()]))).await;
    let (client, wallet) = world.client();
    assert_eq!(code(&client.call(both.reference, &input(), &agreed()).await), "call.free_asks_money");
    // A 401 that says nothing of SIWE is a refusal.
    let other = world.tool(|_| {}, old_gate("Include Authorization: Bearer")).await;
    assert_eq!(code(&client.call(other.reference, &input(), &agreed()).await), "call.refused");
    assert_eq!(wallet.signatures(), 0);
}

/// Agreeing takes a person a minute; the tool is verified again then, and not signed for if it changed.
#[tokio::test]
async fn a_tool_is_verified_again_after_a_question() {
    let world = World::start().await;
    let tool = world.tool(|_| {}, site(|_| {})).await;
    let (_, wallet) = world.client();
    let asker = || Arc::new(Says { yes: true, meanwhile: Some(world.clock.clone()), ..Says::default() });
    let client = world.builder().wallet(wallet.clone()).approver(asker()).build();
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "ok");
    assert_eq!(wallet.signatures(), 1);

    let served = Arc::new(std::sync::Mutex::new(None::<Arc<std::sync::Mutex<Vec<u8>>>>));
    let changes = served.clone();
    let changing: Reply = Arc::new(move |request| {
        if let Some(manifest) = &*changes.lock().unwrap() {
            *manifest.lock().unwrap() = b"{}".to_vec();
        }
        challenge(&proposal(&endpoint(request)), Vec::new())
    });
    let tool = world.tool(|_| {}, changing).await;
    *served.lock().unwrap() = Some(tool.manifest.clone());
    let client = world.builder().wallet(wallet.clone()).approver(asker()).build();
    assert_eq!(code(&client.call(tool.reference, &input(), &usual()).await), "call.not_verified");
    assert_eq!(wallet.signatures(), 1);
}

/// A caller that asks the user itself signs what it has shown, as long as that is good.
#[tokio::test]
async fn a_prepared_message_is_signed_as_it_was_shown_or_not_at_all() {
    let world = World::start().await;
    for (reply, is_good_for) in [(site(|offered| offered.expiration_time = Some(at(120))), 120), (old_gate(HINT), 300)] {
        let tool = world.tool(|_| {}, reply).await;
        let (client, wallet) = world.client();
        let prepare = async || match client.ask(tool.reference, &input(), &usual()).await.unwrap() {
            Asked::SignIn(request) => client.prepare_sign_in(*request).unwrap(),
            other => panic!("{other:?}"),
        };
        let prepared = prepare().await;
        let terms = prepared.terms().clone();
        assert_eq!((terms.account, &terms.uri, terms.chain), (CALLER, &tool.endpoint, CHAIN));
        assert_eq!(wallet.signatures(), 0, "preparing signs nothing");
        assert_eq!(client.complete_sign_in(prepared).await.unwrap().identity, Some(CALLER));
        assert_eq!((wallet.signatures(), tool.calls().len()), (1, 2));
        // The user took too long.
        let prepared = prepare().await;
        world.clock.advance(is_good_for);
        assert_eq!(code(&client.complete_sign_in(prepared).await), "sign_in.expired");
        assert_eq!((wallet.signatures(), tool.calls().len()), (1, 3), "nothing was signed or sent");
        world.clock.advance(-is_good_for);
    }
}
