//! What a server exposes and trusts: paths, methods, hosts, caches, and relayed challenges.

use alloy_primitives::U256;
use serde_json::{Value, json};
use toolcrib_core::money::Amount;
use toolcrib_gate::{Gate, PaidGate, Rate, Rates};
use toolcrib_x402::{Authorization, Version};

use super::chain::{CHAIN, FUNDS, recipient};
use super::http::{Connection, post, send};
use super::payer::{BOTH, Bound, REFERENCE, authorization, fresh, paid, payer};
use super::shop::{ORIGIN, PATH, Plan, own_key, rates, stages, tool, two_words};

// attack: T17
#[tokio::test]
async fn t17_no_cache_keeps_a_challenge_or_an_output() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        let check = |answer: &super::http::HttpResponse, status: u16| {
            assert_eq!(answer.status, status, "{answer:?}");
            let control = answer.header("cache-control").expect("a word to caches");
            assert!(control.contains("no-store"), "{status}: {control}");
            assert_eq!(control.contains("private"), status == 200, "{status}: {control}");
        };
        check(&post(shop.at, PATH, &[], &json!({})).await, 402);
        check(&post(shop.at, PATH, &[("X-PAYMENT", "?")], &two_words()).await, 400);
        for version in BOTH {
            let payment = shop.payment(version, authorization());
            let token = fresh().to_string();
            let token = [("X-Tool-Retry-Token", token.as_str())];
            check(&shop.call(version, &payment, &token, &two_words()).await, 200);
            check(&shop.call(version, &payment, &token, &two_words()).await, 200);
            check(&shop.call(version, &payment, &[], &two_words()).await, 409);
        }
        shop.assert_all(&node, 2, 2, 2).await;
    }
}

// attack: T18
#[tokio::test]
async fn t18_no_spelling_of_the_path_and_no_method_goes_past_the_gate() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        let paths = [
            "/word-count",
            "//word-count",
            "/word-count/",
            "/word-count//",
            "/WORD-COUNT",
            "/Word-Count",
            "/%77ord-count",
            "/word%2dcount",
            "/word%2Dcount",
            "/%2e/word-count",
            "/%2Fword-count",
            "/./word-count",
            "/x/../word-count",
            "/x/%2e%2e/word-count",
            "/word-count;a=b",
            "/word-count%",
            "/word-count%zz",
            "/word-count%00",
            "/word-count%3f",
            "/word-count%23",
            "/word-count?",
            "/word-count?x=1",
            "/word-count?%zz",
            "\\word-count",
            "/\\word-count",
            "http://tools.example.com/word-count",
            "http://127.0.0.1/word-count",
            "https://other.example/word-count",
            "*",
        ];
        let body = two_words().to_string();
        for path in paths {
            for method in ["POST", "GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "post", "POSTS"] {
                let answer = send(shop.at, method, path, &[("X-HTTP-Method-Override", b"POST")], body.as_bytes()).await;
                assert!(!answer.has_output(), "{method} {path}: {answer:?}");
                let is_word = method == "OPTIONS" && answer.status == 204;
                assert!(is_word || (400..500).contains(&answer.status), "{method} {path}: {answer:?}");
            }
        }
        shop.assert_all(&node, 0, 0, 0).await;
        assert_eq!(shop.settle.verified(), 0);
        // Two requests in one connection are two requests.
        let mut connection = Connection::open(shop.at).await;
        let payment = shop.payment(Version::V1, authorization());
        connection.write("POST", PATH, &[("X-PAYMENT", payment.as_bytes())], body.as_bytes()).await;
        connection.write("POST", PATH, &[], body.as_bytes()).await;
        assert_eq!(connection.read(false).await.expect("an answer").status, 200);
        assert_eq!(connection.read(false).await.expect("an answer").status, 402, "the second has not paid");
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

// req: PAY-010
// attack: T19
#[tokio::test]
async fn t19_what_a_request_says_about_hosts_is_not_believed() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        let usual = post(shop.at, PATH, &[], &json!({})).await;
        let [one, _] = usual.challenges();
        assert_eq!(one.accepts[0].pay_to.evm_address(), Some(recipient()));
        let liars: [&[(&str, &[u8])]; 8] = [
            &[("Host", b"evil.example")],
            &[("Host", b"tools.example.com.evil.example:443")],
            &[("X-Forwarded-Host", b"evil.example"), ("X-Forwarded-Proto", b"http")],
            &[("Forwarded", b"host=evil.example;proto=http;for=10.0.0.1")],
            &[("X-Original-URL", b"/other-count"), ("X-Rewrite-URL", b"/other-count")],
            &[("X-Forwarded-Prefix", b"/evil"), ("X-Forwarded-Port", b"80")],
            &[("X-Real-IP", b"10.0.0.1"), ("X-Forwarded-For", b"10.0.0.1")],
            &[("Origin", b"https://evil.example"), ("Referer", b"https://evil.example/")],
        ];
        for liar in liars {
            let answer = send(shop.at, "POST", PATH, liar, b"{}").await;
            assert_eq!((answer.status, &answer.body), (402, &usual.body), "{liar:?}");
            assert_eq!(answer.header("payment-required"), usual.header("payment-required"), "{liar:?}");
            assert!(!answer.text().contains("evil.example"));
        }
        // A bound payment commits to the public URL, so it is good whatever the host says, and one for another host is not.
        let good = Bound::to(PATH, &two_words());
        let evil = Bound::with("https://evil.example", REFERENCE, PATH, &two_words());
        for (bound, status) in [(&evil, 402), (&good, 200)] {
            let payment = shop.payment(Version::V2, Authorization { nonce: bound.nonce, ..authorization() });
            let mut headers = vec![("Host", "evil.example"), ("PAYMENT-SIGNATURE", payment.as_str())];
            headers.extend(bound.headers());
            assert_eq!(post(shop.at, PATH, &headers, &two_words()).await.status, status);
        }
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

// attack: T21
#[tokio::test]
async fn t21_a_relayed_challenge_gives_nothing_where_only_bound_payments_are_taken() {
    for node in stages().await {
        let free = Gate::identity().identity_chain(CHAIN).pay_to(recipient()).bound_only();
        let quiet = std::sync::Arc::new(|_| -> futures_util::future::BoxFuture<'static, _> { Box::pin(async { Ok(()) }) });
        let plan = Plan::new(own_key(&node.chain, 5)).gate(PaidGate::bound_only).tool(tool("/free", 0, free, quiet));
        let shop = plan.open().await;
        let challenges = post(shop.at, "/free", &[], &json!({})).await.challenges();
        let mut served = 0;
        for path in ["/free", PATH] {
            let is_free = path == "/free";
            let call = async |nonce, more: &[(&str, &str)], input: &Value| {
                let value = Amount::new(if is_free { U256::ZERO } else { authorization().value.get() });
                let signed = Authorization { nonce, value, ..authorization() };
                let challenges = if is_free { &challenges } else { &shop.challenges };
                shop.call_at(path, Version::V2, &paid(challenges, Version::V2, signed), more, input).await
            };
            let check = |answer: &super::http::HttpResponse, code: &str| {
                assert_eq!((answer.verdict(), answer.has_output()), ((402, code.to_owned()), false), "{path}");
            };
            // Whoever relays has a signature that the caller made for him.
            check(&call(fresh(), &[], &two_words()).await, "payment.nonce_unbound");
            let own = Bound::with("https://malicious.example", REFERENCE, "/tool", &two_words());
            check(&call(own.nonce, &own.headers(), &two_words()).await, "payment.nonce_other_call");
            check(&call(own.nonce, &[], &two_words()).await, "payment.salt_missing");
            let input = Bound::with(ORIGIN, REFERENCE, path, &json!({"text": "what the caller asked for"}));
            check(&call(input.nonce, &input.headers(), &two_words()).await, "payment.nonce_other_call");
            // Another tool at the same place.
            let other = REFERENCE.replace("/7", "/8");
            let elsewhere = Bound::with(ORIGIN, REFERENCE, path, &two_words());
            let lying = [elsewhere.headers()[0], ("X-Tool-Reference", other.as_str())];
            check(&call(elsewhere.nonce, &lying, &two_words()).await, "payment.nonce_other_call");
            shop.assert_all(&node, served, served, served as u64).await;
            let bound = Bound::with(ORIGIN, REFERENCE, path, &two_words());
            assert_eq!(call(bound.nonce, &bound.headers(), &two_words()).await.status, 200);
            served = usize::from(!is_free);
            shop.assert_all(&node, served, served, served as u64).await;
        }
    }
}

/// What is on the chain is everybody's to send again. It is refused, and its payer may call as often as before.
#[tokio::test]
async fn old_payments_of_others_do_not_use_up_what_an_account_may_call() {
    let node = super::chain::Node::ours().await;
    node.mint(payer().address(), FUNDS).await;
    let rates = Rates { per_account: Rate::new(3, 0.001), ..rates() };
    let shop = Plan::new(own_key(&node.chain, 5)).rates(rates).open().await;
    let old = shop.payment(Version::V2, authorization());
    assert_eq!(shop.call(Version::V2, &old, &[], &two_words()).await.status, 200);
    shop.later(&node, 400).await;
    let guess = fresh().to_string();
    for _ in 0..10 {
        let answer = shop.call(Version::V2, &old, &[("X-Tool-Retry-Token", &guess)], &two_words()).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
    }
    for status in [200, 200, 429] {
        let signed = Authorization { valid_before: authorization().valid_before + 400, ..authorization() };
        assert_eq!(shop.call(Version::V2, &shop.payment(Version::V2, signed), &[], &two_words()).await.status, status);
    }
    shop.assert_all(&node, 3, 3, 3).await;
}
