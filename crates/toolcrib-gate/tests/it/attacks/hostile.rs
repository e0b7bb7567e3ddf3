//! Invalid payments: every one is refused before anything runs, is settled, or moves.

use alloy_primitives::{Address, U256};
use serde_json::{Value, json};
use toolcrib_chain::sign::Domain;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::money::Amount;
use toolcrib_gate::Gate;
use toolcrib_x402::{Authorization, Offer, Signature, Version, asset, header as coding};

use super::chain::{CHAIN, Node, PRICE, SystemClock, domain, recipient, token};
use super::http::{HttpResponse, send};
use super::payer::{BOTH, authorization, authorization_of, closed, header, opened, paid, payer, sign, stranger};
use super::shop::{PATH, Plan, Shop, own_key, stages, tool, two_words};

/// Asks for a table of refusals on every chain, and then for one payment that is good: a table that refused everything would prove
/// nothing.
async fn table(rows: impl AsyncFn(&Shop)) {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        rows(&shop).await;
        shop.assert_all(&node, 0, 0, 0).await;
        assert_eq!((shop.settle.verified(), shop.entries().await, node.sent_by(5).await), (0, 0, 0));
        good(&node, &shop, 1).await;
    }
}

async fn good(node: &Node, shop: &Shop, nth: u64) {
    let answer = shop.call(Version::V2, &shop.payment(Version::V2, authorization()), &[], &two_words()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    shop.assert_all(node, nth as usize, nth as usize, nth).await;
}

/// A refusal with a fresh, whole challenge, or of something that cannot be read.
#[track_caller]
fn refused(answer: &HttpResponse, status: u16, code: &str, what: &str) {
    assert_eq!(answer.verdict(), (status, code.to_owned()), "{what}: {answer:?}");
    assert!(!answer.has_output());
    if status == 402 {
        answer.challenges();
    }
}

/// Sends an authorization that is changed before it is rightly signed, in both versions.
async fn changed(shop: &Shop, code: &str, what: &str, change: impl Fn(&mut Authorization)) {
    for version in BOTH {
        let mut signed = authorization();
        change(&mut signed);
        let answer = shop.call(version, &shop.payment(version, signed), &[], &two_words()).await;
        refused(&answer, 402, code, &format!("{what}, {version}"));
    }
}

/// Sends a payment that is changed after it was signed.
async fn edited(shop: &Shop, versions: &[Version], status: u16, code: &str, change: impl Fn(&mut Value)) {
    for version in versions {
        let mut json = opened(&shop.payment(*version, authorization()));
        change(&mut json);
        let answer = shop.call(*version, &closed(&json), &[], &two_words()).await;
        refused(&answer, status, code, &json.to_string());
    }
}

fn amount(value: u64) -> Amount {
    Amount::new(U256::from(value))
}

// req: PAY-013, GATE-004
// attack: T5
#[tokio::test]
async fn t05_amounts_that_are_not_the_price() {
    table(async |shop| {
        for value in [1, PRICE - 1, PRICE + 1, 10 * PRICE, u64::MAX] {
            changed(shop, "payment.value_differs", "another amount", |signed| signed.value = amount(value)).await;
        }
        changed(shop, "payment.value_differs", "all there is", |signed| signed.value = Amount::new(U256::MAX)).await;
        let beyond = format!("{}0", U256::MAX);
        let spellings =
            ["", "0x2710", "1e4", "010000", " 10000", "10000 ", "+10000", "-1", "-10000", "10000.0", "10_000", "１００００"];
        for value in spellings.into_iter().chain([beyond.as_str()]) {
            for version in BOTH {
                let mut json = opened(&shop.payment(version, authorization()));
                json["payload"]["authorization"]["value"] = json!(value);
                let answer = shop.call(version, &closed(&json), &[], &two_words()).await;
                assert!(answer.status == 400 && answer.verdict().1.starts_with("amount."), "{value:?}: {answer:?}");
            }
        }
        for value in [json!(PRICE), json!(1e4), json!(null), json!(["10000"]), json!(true)] {
            edited(shop, &BOTH, 400, "payment.wrong_type", |json| json["payload"]["authorization"]["value"] = value.clone())
                .await;
        }
        let remove =
            |json: &mut Value| drop(json["payload"]["authorization"].as_object_mut().expect("an object").remove("value"));
        edited(shop, &BOTH, 400, "payment.field_missing", remove).await;
    })
    .await;
}

// attack: T5
#[tokio::test]
async fn t05_a_price_that_has_changed_is_asked_for_anew() {
    for node in stages().await {
        let old = Plan::new(own_key(&node.chain, 5)).open().await;
        for price in [PRICE / 2, PRICE * 2] {
            let shop = Plan::new(own_key(&node.chain, 5)).price(price).open().await;
            for version in BOTH {
                let answer = shop.call(version, &old.payment(version, authorization()), &[], &two_words()).await;
                refused(&answer, 402, "payment.value_differs", "the price of before");
                for challenge in answer.challenges() {
                    assert_eq!(challenge.accepts[0].amount, amount(price));
                }
            }
            shop.assert_all(&node, 0, 0, 0).await;
        }
    }
}

// req: GATE-009
// attack: T6
#[tokio::test]
async fn t06_nothing_where_money_is_asked_and_money_where_nothing_is() {
    for node in stages().await {
        let free = Gate::identity().identity_chain(CHAIN).pay_to(recipient());
        let never = std::sync::Arc::new(|_| -> futures_util::future::BoxFuture<'static, _> { panic!("nobody may get here") });
        let plan = Plan::new(own_key(&node.chain, 5)).tool(tool("/free", 0, free, never));
        let shop = plan.open().await;
        changed(&shop, "payment.value_missing", "nothing", |signed| signed.value = amount(0)).await;
        // Real money, as the free tool's challenge would have it but for the amount.
        let challenges = super::http::post(shop.at, "/free", &[], &json!({})).await.challenges();
        for version in BOTH {
            for value in [1, PRICE] {
                let signed = Authorization { value: amount(value), ..authorization() };
                let answer = shop.call_at("/free", version, &paid(&challenges, version, signed), &[], &two_words()).await;
                refused(&answer, 402, "payment.value_not_zero", "money");
            }
        }
        shop.assert_all(&node, 0, 0, 0).await;
        assert_eq!((shop.entries().await, node.sent_by(5).await), (0, 0), "an operator has nothing to cash");
        good(&node, &shop, 1).await;
    }
}

// req: PAY-015, GATE-004
// attack: T7
#[tokio::test]
async fn t07_another_payee_another_payer_another_offer() {
    table(async |shop| {
        changed(shop, "payment.pay_to_differs", "to somebody else", |signed| signed.to = stranger().address()).await;
        changed(shop, "payment.pay_to_differs", "to himself", |signed| signed.to = payer().address()).await;
        changed(shop, "payment.pay_to_differs", "to nobody", |signed| signed.to = Address::ZERO).await;
        let from_somebody = |signed: &mut Authorization| signed.from = stranger().address();
        changed(shop, "chain.signature_wrong_signer", "of somebody else", from_somebody).await;
        for version in BOTH {
            let signed = authorization_of(Address::ZERO);
            let answer = shop.call(version, &shop.payment(version, signed), &[], &two_words()).await;
            refused(&answer, 400, "payment.from_zero_address", "of nobody");
            // All that is signed is right; the key is another's.
            let signed = authorization();
            let by = sign(stranger(), &signed, &domain());
            let answer = shop.call(version, &header(&shop.challenges, version, signed, by), &[], &two_words()).await;
            refused(&answer, 402, "chain.signature_wrong_signer", "signed by somebody else");
        }
        // What version 2 repeats of the offer is not signed, and must be right all the same.
        let other = stranger().address().to_checksum(None);
        for (key, value, code) in [
            ("payTo", json!(other), "payment.pay_to_differs"),
            ("asset", json!(other), "payment.asset_differs"),
            ("amount", json!("1"), "payment.value_differs"),
            ("amount", json!("0"), "payment.value_differs"),
            ("network", json!("eip155:8453"), "payment.network_differs"),
            ("maxTimeoutSeconds", json!(9_999), "payment.timeout_differs"),
            ("extra", json!({"name": "USDC", "version": "1"}), "payment.extra_differs"),
            ("extra", json!({}), "payment.extra_differs"),
        ] {
            edited(shop, &[Version::V2], 402, code, |json| json["accepted"][key] = value.clone()).await;
        }
        edited(shop, &[Version::V2], 400, "payment.scheme", |json| json["accepted"]["scheme"] = json!("upto")).await;
        let permit = |json: &mut Value| json["accepted"]["extra"]["assetTransferMethod"] = json!("permit2");
        edited(shop, &[Version::V2], 400, "payment.method", permit).await;
        edited(shop, &[Version::V1], 400, "payment.scheme", |json| json["scheme"] = json!("upto")).await;
        edited(shop, &[Version::V1], 402, "payment.network_differs", |json| json["network"] = json!("base")).await;
    })
    .await;
}

// req: PAY-011
// attack: T8
#[tokio::test]
async fn t08_another_domain_another_token() {
    table(async |shop| {
        let usdc = token();
        let mine = Domain::new("USDC", "2", U256::from(CHAIN), stranger().address());
        let domains = [
            ("another chain", Domain::new(usdc.name, usdc.version, U256::from(8453), usdc.address)),
            ("the local chain", Domain::new(usdc.name, usdc.version, U256::from(31_337), usdc.address)),
            ("no chain", Domain::new(usdc.name, usdc.version, U256::ZERO, usdc.address)),
            ("another token", mine.clone()),
            ("another name", Domain::new("USD Coin", usdc.version, U256::from(CHAIN), usdc.address)),
            ("another version", Domain::new(usdc.name, "1", U256::from(CHAIN), usdc.address)),
        ];
        for (what, domain) in domains {
            for version in BOTH {
                let signed = authorization();
                let by = sign(payer(), &signed, &domain);
                let answer = shop.call(version, &header(&shop.challenges, version, signed, by), &[], &two_words()).await;
                refused(&answer, 402, "chain.signature_wrong_signer", what);
            }
        }
        // A token of one's own, named in the offer and rightly signed for.
        let mut challenges = shop.challenges.clone();
        challenges[1].accepts[0].asset = toolcrib_x402::ChainAddress::evm(stranger().address());
        let signed = authorization();
        let value = header(&challenges, Version::V2, signed, sign(payer(), &signed, &mine));
        refused(&shop.call(Version::V2, &value, &[], &two_words()).await, 402, "payment.asset_differs", "a token of one's own");
        // The real token of another chain, rightly signed for.
        let base = asset::usdc(8453).expect("listed");
        let elsewhere = Offer::exact(&base, amount(PRICE), recipient(), 300).expect("an offer");
        for challenge in &mut challenges {
            challenge.accepts = vec![elsewhere.clone()];
        }
        for version in BOTH {
            let signed = authorization();
            let by = sign(payer(), &signed, &Domain::new(base.name, base.version, U256::from(8453), base.address));
            let answer = shop.call(version, &header(&challenges, version, signed, by), &[], &two_words()).await;
            refused(&answer, 402, "payment.network_differs", "the token of another chain");
        }
    })
    .await;
}

// req: PAY-015
// attack: T9
#[tokio::test]
async fn t09_times() {
    table(async |shop| {
        let at = |seconds: i64| (SystemClock.now().seconds() + seconds) as u64;
        let year_2100 = 4_102_444_800;
        // Clocks go on while rows are sent, so no row is within two seconds of its limit.
        for (after, before, code) in [
            (0, 0, "payment.window_empty"),
            (0, 1, "payment.expired"),
            (0, at(-3_600), "payment.expired"),
            (0, at(0), "payment.expired"),
            (0, at(5), "payment.expired"),
            (0, at(970), "payment.too_long_valid"),
            (0, at(86_400), "payment.too_long_valid"),
            (0, year_2100, "payment.too_long_valid"),
            (0, u64::MAX, "payment.too_long_valid"),
            (at(30), at(300), "payment.not_yet"),
            (at(600), at(700), "payment.not_yet"),
            (at(300), at(300), "payment.window_empty"),
            (at(300), at(200), "payment.window_empty"),
            (u64::MAX, u64::MAX, "payment.window_empty"),
        ] {
            let what = format!("from {after} to {before}");
            changed(shop, code, &what, |signed| (signed.valid_after, signed.valid_before) = (after, before)).await;
        }
        for key in ["validAfter", "validBefore"] {
            for text in ["", "-1", "0x10", "1e9", " 5", "05", "18446744073709551616", &U256::MAX.to_string()] {
                edited(shop, &BOTH, 400, "payment.time", |json| json["payload"]["authorization"][key] = json!(text)).await;
            }
            edited(shop, &BOTH, 400, "payment.wrong_type", |json| json["payload"]["authorization"][key] = json!(at(300))).await;
            let remove =
                |json: &mut Value| drop(json["payload"]["authorization"].as_object_mut().expect("an object").remove(key));
            edited(shop, &BOTH, 400, "payment.field_missing", remove).await;
        }
    })
    .await;
}

// req: GATE-003
// attack: T10
#[tokio::test]
async fn t10_signatures() {
    table(async |shop| {
        let order =
            U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).expect("a number");
        for version in BOTH {
            let signed = authorization();
            let by = sign(payer(), &signed, &domain());
            let with = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut bytes = by.as_bytes().to_vec();
                change(&mut bytes);
                format!("0x{}", alloy_primitives::hex::encode(bytes))
            };
            // The other signature that the curve allows for the same message.
            let high = |bytes: &mut Vec<u8>| {
                let other = order - U256::from_be_slice(&bytes[32..64]);
                bytes[32..64].copy_from_slice(&other.to_be_bytes::<32>());
                bytes[64] = 55 - bytes[64];
            };
            let wrapped = |bytes: &mut Vec<u8>| {
                let inner = bytes.clone();
                bytes.clear();
                bytes.extend_from_slice(&[&[0; 96][..], &inner, &[0; 31], &[0x64, 0x92].repeat(16)].concat());
            };
            let plain = with(&|_| ());
            for (what, text, status, code) in [
                ("high s", with(&high), 402, "chain.signature_high_s"),
                ("v is 2", with(&|bytes| bytes[64] = 2), 402, "chain.signature_v"),
                ("v is 26", with(&|bytes| bytes[64] = 26), 402, "chain.signature_v"),
                ("v is 29", with(&|bytes| bytes[64] = 29), 402, "chain.signature_v"),
                ("v is 37", with(&|bytes| bytes[64] = 37), 402, "chain.signature_v"),
                ("v of the chain", with(&|bytes| bytes[64] = 255), 402, "chain.signature_v"),
                ("r is 0", with(&|bytes| bytes[..32].fill(0)), 402, "chain.signature_range"),
                ("s is 0", with(&|bytes| bytes[32..64].fill(0)), 402, "chain.signature_range"),
                (
                    "r is the order",
                    with(&|bytes| bytes[..32].copy_from_slice(&order.to_be_bytes::<32>())),
                    402,
                    "chain.signature_range",
                ),
                ("64 bytes", with(&|bytes| bytes.truncate(64)), 400, "payment.signature"),
                ("66 bytes", with(&|bytes| bytes.push(0)), 402, "chain.signature_length"),
                ("twice", with(&|bytes| bytes.extend_from_within(..)), 402, "chain.signature_length"),
                ("not deployed", with(&wrapped), 402, "chain.signature_erc6492"),
                ("empty", "0x".to_owned(), 400, "payment.signature"),
                ("nothing", String::new(), 400, "payment.signature"),
                ("without 0x", plain[2..].to_owned(), 400, "payment.signature"),
                ("0X", format!("0X{}", &plain[2..]), 400, "payment.signature"),
                ("half a byte more", format!("{plain}0"), 400, "payment.signature"),
                ("too long", format!("0x{}", "1b".repeat(2_049)), 400, "payment.signature"),
            ] {
                let mut json = opened(&shop.payment(version, signed));
                json["payload"]["signature"] = json!(text);
                let answer = shop.call(version, &closed(&json), &[], &two_words()).await;
                refused(&answer, status, code, what);
                assert!(!answer.text().contains(&plain[4..60]), "{what}: a signature is worth money");
            }
            let mut json = opened(&shop.payment(version, signed));
            json["payload"]["signature"] = json!(format!("0x{}", "1b".repeat(500_000)));
            let answer = shop.call(version, &closed(&json), &[], &two_words()).await;
            assert!([400, 431].contains(&answer.status), "{}", answer.status);
        }
    })
    .await;
}

// attack: T10
#[tokio::test]
async fn t10_a_signature_that_wallets_spell_otherwise_is_used_once_in_all_spellings() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        let signed = authorization();
        let mut bytes = sign(payer(), &signed, &domain()).as_bytes().to_vec();
        bytes[64] -= 27;
        let by = Signature::new(bytes).expect("65 bytes");
        let answer = shop.call(Version::V1, &header(&shop.challenges, Version::V1, signed, by), &[], &two_words()).await;
        assert_eq!(answer.status, 200, "v of 0 or 1 is written anew before it is sent in");
        let mut json = opened(&shop.payment(Version::V1, signed));
        for other in [false, true] {
            if other {
                for (key, is_upper) in [("from", false), ("to", false), ("nonce", true)] {
                    let text = json["payload"]["authorization"][key].as_str().expect("text")[2..].to_owned();
                    let text = if is_upper { text.to_uppercase() } else { text.to_lowercase() };
                    json["payload"]["authorization"][key] = json!(format!("0x{text}"));
                }
            }
            let answer = shop.call(Version::V1, &closed(&json), &[], &two_words()).await;
            assert_eq!((answer.verdict(), answer.has_output()), ((409, "payment.replayed".to_owned()), false));
        }
        shop.assert_all(&node, 1, 1, 1).await;
    }
}

// req: PAY-013
// attack: T11
#[tokio::test]
async fn t11_headers() {
    table(async |shop| {
        let [one, two] = BOTH.map(|version| shop.payment(version, authorization()));
        let ask =
            async |headers: &[(&str, &[u8])]| send(shop.at, "POST", PATH, headers, two_words().to_string().as_bytes()).await;
        let answer = ask(&[("X-PAYMENT", one.as_bytes()), ("PAYMENT-SIGNATURE", two.as_bytes())]).await;
        refused(&answer, 400, "payment.both_headers", "both");
        for version in BOTH {
            let name = version.payment_header();
            let good = if version == Version::V1 { &one } else { &two };
            let answer = ask(&[(name, good.as_bytes()), (&name.to_lowercase(), good.as_bytes())]).await;
            refused(&answer, 400, "payment.header_twice", "twice");
            let json = String::from_utf8(coding::decode(good).expect("base64")).expect("text");
            let encode = |text: &str| coding::encode(text.as_bytes()).into_bytes();
            let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
            let number = version.number().to_string();
            let versioned = |value: &str| {
                encode(&json.replacen(&format!("\"x402Version\":{number}"), &format!("\"x402Version\":{value}"), 1))
            };
            let with_key =
                |key: &str, member: &str| encode(&json.replacen(&format!("\"{key}\":"), &format!("{member},\"{key}\":"), 1));
            let unpadded = good.trim_end_matches('=').to_owned();
            // The text is made longer until its last group of digits is not whole.
            let padded =
                (0..3_usize).map(|more| format!("{json}{}", " ".repeat(more))).map(|text| coding::encode(text.as_bytes()));
            let padded = padded.rev().find(|text| text.ends_with('=')).expect("one of three");
            let rows: Vec<(&str, Vec<u8>, &str)> = vec![
                ("joined by a comma", format!("{good}, {good}").into_bytes(), "payment.base64"),
                ("URL-safe", format!("-_{}", &good[2..]).into_bytes(), "payment.base64"),
                ("no padding", padded.trim_end_matches('=').to_owned().into_bytes(), "payment.base64"),
                ("more padding", format!("{unpadded}====").into_bytes(), "payment.base64"),
                ("a blank within", format!("{} {}", &good[..20], &good[20..]).into_bytes(), "payment.base64"),
                ("a tab within", format!("{}\t{}", &good[..20], &good[20..]).into_bytes(), "payment.base64"),
                ("not text", b"\xff\xfe\xfd".to_vec(), "payment.base64"),
                ("plain JSON", json.clone().into_bytes(), "payment.base64"),
                ("nothing", Vec::new(), "payment.base64"),
                ("16 KiB and more", "A".repeat(coding::MAX_BYTES + 4).into_bytes(), "payment.header_too_long"),
                ("not JSON", encode("once upon a time"), "payment.not_json"),
                ("two texts", encode(&format!("{json}{json}")), "payment.not_json"),
                ("an array", encode(&format!("[{json}]")), "payment.not_an_object"),
                ("null", encode("null"), "payment.not_an_object"),
                ("deep", encode(&format!("{{\"x\":{deep}}}")), "payment.too_deep"),
                ("a key twice", with_key("payload", "\"x402Version\":1"), "payment.duplicate_key"),
                ("a value twice", with_key("validAfter", "\"value\":\"1\""), "payment.duplicate_key"),
                ("the version as text", versioned(&format!("\"{number}\"")), "payment.version"),
                ("the version as a fraction", versioned(&format!("{number}.0")), "payment.version"),
                ("the version as a power", versioned(&format!("{number}e0")), "payment.version"),
                ("version 3", versioned("3"), "payment.version"),
                ("version 0", versioned("0"), "payment.version"),
                ("the other version", versioned(if version == Version::V1 { "2" } else { "1" }), "payment.version"),
                ("no version", encode(&json.replacen("x402Version", "y402Version", 1)), "payment.field_missing"),
                ("no payload", encode(&json.replacen("\"payload\"", "\"payloud\"", 1)), "payment.field_missing"),
            ];
            for (what, value, code) in rows {
                refused(&ask(&[(name, &value)]).await, 400, code, &format!("{what}, {version}"));
            }
            // A line break ends a header, and what follows is another one.
            let answer = ask(&[(name, format!("{}\r\n {}", &good[..20], &good[20..]).as_bytes())]).await;
            assert_eq!(answer.status, 400, "{answer:?}");
        }
    })
    .await;
}

// attack: T11
#[tokio::test]
async fn t11_fields_that_nobody_knows_change_nothing_and_go_nowhere() {
    for node in stages().await {
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        for (at, version) in BOTH.into_iter().enumerate() {
            let mut json = opened(&shop.payment(version, authorization()));
            json["more"] = json!({"payTo": stranger().address()});
            json["payload"]["more"] = json!("x");
            json["payload"]["authorization"]["Value"] = json!("1");
            let answer = shop.call(version, &closed(&json), &[], &two_words()).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            shop.assert_all(&node, at + 1, at + 1, at as u64 + 1).await;
        }
    }
}
