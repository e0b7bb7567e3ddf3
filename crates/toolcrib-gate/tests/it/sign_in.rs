//! Callers who sign in with a message: by the x402 extension `sign-in-with-x`, or in `Authorization: SIWE`.

use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue;
use serde_json::json;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_gate::{Gate, Rates, SetupError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore, SqlReplay};
use toolcrib_x402::erc6492::wrap;
use toolcrib_x402::sign_in::siwe::{self, SignedMessage};
use toolcrib_x402::sign_in::siwx::{HEADER, Proposal, SignedIn};
use toolcrib_x402::sign_in::{Fields, Message, Timestamp};
use toolcrib_x402::{Signature, read_header};

use crate::till::{USDC_ON_BASE, priced, till};
use crate::world::{
    HttpResponse, NOW, ORIGIN, Runs, World, authorization, base_domain, code, counting, creator, fresh, header, holder, post,
    serve, sign, stranger, transact_as,
};

const BASE: u64 = 8453;

fn tools() -> Tools {
    Tools::new(ORIGIN).rates(Rates { per_address: None, ..Rates::default() })
}

async fn proposal(at: SocketAddr, path: &str) -> Option<Proposal> {
    let answer = post(at, path, &[], &json!({})).await;
    let reading = read_header(answer.header("payment-required").expect("version 2"));
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    let challenge = reading.challenge.expect("a challenge");
    Proposal::announced(&challenge.extensions).map(|read| read.expect("well-formed"))
}

fn signed(signer: &PrivateKeySigner, message: Message) -> SignedIn {
    let signature = signer.sign_message_sync(message.text().as_bytes()).expect("a key signs");
    SignedIn { signature: Signature::new(signature.as_bytes().to_vec()).expect("65 bytes"), message }
}

async fn call(at: SocketAddr, path: &str, answer: &SignedIn) -> HttpResponse {
    post(at, path, &[(HEADER, &answer.to_header().expect("short"))], &json!({"text": "one two"})).await
}

fn refused(code: &str) -> (u16, String) {
    (402, code.to_owned())
}

fn of(signer: &PrivateKeySigner) -> serde_json::Value {
    json!(signer.address().to_checksum(None))
}

#[tokio::test]
async fn a_message_lets_its_signer_in_once() {
    let runs = Runs::default();
    let at =
        serve(tools().tool(counting("word-count", Gate::identity(), &runs)).tool(counting("other", Gate::identity(), &runs)))
            .await;
    let offered = proposal(at, "/word-count").await.expect("offered");
    assert_eq!((offered.domain.as_str(), offered.uri.as_str()), ("tools.example.com", "https://tools.example.com/word-count"));
    assert_eq!((offered.chains.as_slice(), offered.nonce.len()), (&[BASE][..], 64));
    let answer = signed(holder(), offered.message(holder().address(), BASE).expect("sound"));
    let served = call(at, "/word-count", &answer).await;
    assert_eq!((served.status, &served.json()["caller"]), (200, &of(holder())), "{served:?}");
    assert_eq!(served.header("cache-control"), Some("private, no-store"));
    // A party that has intercepted it comes too late.
    assert_eq!(call(at, "/word-count", &answer).await.verdict(), refused("sign_in.replayed"));
    // The challenge may be answered by another account: the nonce is not a secret.
    let other = signed(stranger(), offered.message(stranger().address(), BASE).expect("sound"));
    assert_eq!(call(at, "/word-count", &other).await.status, 200);
    assert_eq!(runs.count(), 2);
    // At another tool of the same site it is worth nothing.
    let answer =
        signed(holder(), proposal(at, "/word-count").await.expect("offered").message(holder().address(), BASE).expect("sound"));
    assert_eq!(call(at, "/other", &answer).await.verdict(), refused("sign_in.uri"));
    assert_eq!(call(at, "/word-count", &answer).await.status, 200, "and is not used up by that");
}

// attack: T10
#[tokio::test]
async fn other_messages_are_refused_by_name() {
    let runs = Runs::default();
    let at = serve(tools().tool(counting("word-count", Gate::identity(), &runs))).await;
    let offered = proposal(at, "/word-count").await.expect("offered");
    let good = offered.message(holder().address(), BASE).expect("sound");
    let fields = || good.fields().clone();
    let time = |after: i64| Timestamp::of(UnixTime::from_seconds(NOW + after)).expect("in range");
    for (what, fields, code) in [
        ("another site", Fields { domain: "evil.example".to_owned(), ..fields() }, "sign_in.domain"),
        ("another port", Fields { domain: "tools.example.com:8443".to_owned(), ..fields() }, "sign_in.domain"),
        ("another origin", Fields { uri: "https://evil.example/word-count".to_owned(), ..fields() }, "sign_in.uri"),
        ("http", Fields { uri: "http://tools.example.com/word-count".to_owned(), ..fields() }, "sign_in.uri"),
        ("a query", Fields { uri: format!("{ORIGIN}/word-count?x=1"), ..fields() }, "sign_in.nonce"),
        ("another chain", Fields { chain_id: 1, ..fields() }, "sign_in.chain"),
        ("an invented nonce", Fields { nonce: "ab".repeat(32), ..fields() }, "sign_in.nonce"),
        ("a short nonce", Fields { nonce: "abcdefgh".to_owned(), ..fields() }, "sign_in.nonce"),
        ("later", Fields { issued_at: time(30), ..fields() }, "sign_in.nonce"),
        ("earlier", Fields { issued_at: time(-30), ..fields() }, "sign_in.nonce"),
        ("too old", Fields { issued_at: time(-300), expiration_time: None, ..fields() }, "sign_in.expired"),
        ("in the future", Fields { issued_at: time(61), ..fields() }, "sign_in.not_yet"),
        ("over", Fields { expiration_time: Some(time(0)), ..fields() }, "sign_in.expired"),
        ("not yet", Fields { not_before: Some(time(61)), ..fields() }, "sign_in.not_yet"),
    ] {
        let message = Message::new(fields).expect("well-formed");
        assert_eq!(call(at, "/word-count", &signed(holder(), message)).await.verdict(), refused(code), "{what}");
    }
    // Signed by another key, over another text, or not at all.
    let mut forged = signed(stranger(), good.clone());
    assert_eq!(call(at, "/word-count", &forged).await.verdict(), refused("chain.signature_wrong_signer"));
    let statement = Some("I give my tokens away.".to_owned());
    forged.signature = signed(holder(), Message::new(Fields { statement, ..fields() }).expect("well-formed")).signature;
    assert_eq!(call(at, "/word-count", &forged).await.verdict(), refused("chain.signature_wrong_signer"));
    forged.signature = Signature::new(vec![7; 100]).expect("long enough");
    assert_eq!(call(at, "/word-count", &forged).await.verdict(), refused("chain.signature_length"));
    forged.signature = Signature::new(wrap(Address::ZERO, &[], &[7; 65])).expect("long enough");
    assert_eq!(call(at, "/word-count", &forged).await.verdict(), refused("chain.signature_erc6492"), "without a node");
    // Headers that are none.
    let value = signed(holder(), good.clone()).to_header().expect("short");
    for headers in [vec![""], vec!["%%"], vec!["e30="], vec!["bnVsbA=="], vec![&value, &value]] {
        let headers: Vec<_> = headers.into_iter().map(|value| (HEADER, value)).collect();
        let answer = post(at, "/word-count", &headers, &json!({"text": "one"})).await;
        assert_eq!(answer.status, 402, "{answer:?}");
        assert!(answer.verdict().1.starts_with("sign_in."), "{answer:?}");
    }
    assert_eq!(runs.count(), 0);
    assert_eq!(call(at, "/word-count", &signed(holder(), good)).await.status, 200, "none of it used up the nonce");
}

#[tokio::test]
async fn a_payment_header_goes_first_and_other_gates_offer_nothing() {
    let runs = Runs::default();
    let bound = Gate::identity().bound_only();
    let without = Gate::identity().without_sign_in_with_x();
    let tools = tools()
        .store(MemoryReplay::new(Limits::default()))
        .tool(counting("word-count", Gate::identity(), &runs))
        .tool(counting("bound", bound, &runs))
        .tool(counting("without", without, &runs))
        .tool(counting("open", Gate::Open, &runs))
        .tool(priced("paid", USDC_ON_BASE, toolcrib_gate::PaidGate::new(till()), &runs));
    let at = serve(tools).await;
    let offered = proposal(at, "/word-count").await.expect("offered");
    for path in ["/bound", "/without", "/paid"] {
        assert_eq!(proposal(at, path).await, None, "{path}");
        let message = Message::new(Fields {
            uri: format!("{ORIGIN}{path}"),
            ..offered.message(holder().address(), BASE).expect("sound").fields().clone()
        });
        let answer = call(at, path, &signed(holder(), message.expect("sound"))).await;
        assert_eq!(answer.status, 402, "{path}");
    }
    assert_eq!(runs.count(), 0);
    // Both headers: the payment counts, and the message is not used up.
    let answer = signed(holder(), offered.message(holder().address(), BASE).expect("sound"));
    let by = authorization(stranger(), fresh());
    let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
    let payment = header(&challenges, toolcrib_x402::Version::V2, by, sign(stranger(), &by, &base_domain()));
    let headers = [("PAYMENT-SIGNATURE", payment.as_str()), (HEADER, &answer.to_header().expect("short"))];
    let served = post(at, "/word-count", &headers, &json!({"text": "one"})).await;
    assert_eq!((served.status, &served.json()["caller"]), (200, &of(stranger())));
    assert_eq!(call(at, "/word-count", &answer).await.status, 200);
}

#[tokio::test]
async fn contract_wallets_sign_in_where_there_is_a_node() {
    let world = World::start().await;
    let (runs, chain) = (Runs::default(), world.registry.chain().clone());
    let gate = Gate::identity().identity_chain(31_337).contract_accounts(chain);
    let at = serve(tools().tool(counting("word-count", gate, &runs))).await;
    let owner = stranger().address();
    let wallet = crate::world::deploy(&world.devchain, code("TestSmartWallet", &owner.abi_encode()));
    let offered = proposal(at, "/word-count").await.expect("offered");
    assert_eq!(offered.chains, [31_337]);
    let message = offered.message(wallet, 31_337).expect("sound");
    let foreign = signed(holder(), message.clone());
    assert_eq!(call(at, "/word-count", &foreign).await.verdict(), refused("chain.contract_signature"));
    let served = call(at, "/word-count", &signed(stranger(), message)).await;
    assert_eq!((served.status, &served.json()["caller"]), (200, &json!(wallet.to_checksum(None))));
    // And one that is not deployed yet.
    let factory = crate::world::deploy(&world.devchain, code("TestWalletFactory", &[]));
    let salted = (owner, B256::ZERO).abi_encode();
    let function = |name: &str| [&alloy_primitives::keccak256(name)[..4], &salted].concat();
    let asked =
        json!([{ "to": factory, "data": alloy_primitives::Bytes::from(function("accountOf(address,bytes32)")) }, "latest"]);
    let word: B256 = serde_json::from_value(world.devchain.request("eth_call", asked).expect("an answer")).expect("a word");
    let account = Address::from_word(word);
    let offered = proposal(at, "/word-count").await.expect("offered");
    let mut answer = signed(stranger(), offered.message(account, 31_337).expect("sound"));
    let wrapped = wrap(factory, &function("createAccount(address,bytes32)"), answer.signature.as_bytes());
    answer.signature = Signature::new(wrapped).expect("not too long");
    let served = call(at, "/word-count", &answer).await;
    assert_eq!((served.status, &served.json()["caller"]), (200, &json!(account.to_checksum(None))), "{served:?}");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_predicate_is_asked_about_whoever_signed_in() {
    let world = World::start().await;
    let (id, runs) = (world.tool_for_holders().await, Runs::default());
    let at = serve(tools().tool(counting("word-count", world.gate(id), &runs))).await;
    let sign_in = async |signer: &PrivateKeySigner| {
        let offered = proposal(at, "/word-count").await.expect("offered");
        signed(signer, offered.message(signer.address(), BASE).expect("sound"))
    };
    let denied = sign_in(stranger()).await;
    assert_eq!(call(at, "/word-count", &denied).await.verdict(), (403, "access.denied".to_owned()));
    let mint = [
        &alloy_primitives::keccak256("mint(address,uint256)")[..4],
        &(stranger().address(), alloy_primitives::U256::from(9_000)).abi_encode(),
    ]
    .concat();
    transact_as(&world.devchain, creator(), Some(world.token), &mint.into());
    assert_eq!(call(at, "/word-count", &denied).await.status, 200, "a denial gives the message back");
    assert_eq!(call(at, "/word-count", &sign_in(holder()).await).await.status, 200);
    assert_eq!(runs.count(), 2);
}

/// Two servers that share a store and a secret are one; with another secret a challenge is not known.
#[tokio::test]
async fn servers_share_nonces_by_a_secret_and_uses_by_a_store() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let location =
        toolcrib_store::Location::parse(&format!("sqlite:{}", folder.path().join("used.db").display())).expect("a place");
    let database = toolcrib_store::Database::open(&location).await.expect("a file");
    let store: Arc<dyn ReplayStore> = Arc::new(SqlReplay::open(database, Limits::default()).await.expect("a store"));
    let runs = Runs::default();
    let server = |secret: &'static [u8]| {
        tools().shared_store(store.clone()).sign_in_key(secret).tool(counting("word-count", Gate::identity(), &runs))
    };
    let (one, two) = (serve(server(b"a secret of operators")).await, serve(server(b"a secret of operators")).await);
    let other = serve(server(b"another secret of them")).await;
    let offered = proposal(one, "/word-count").await.expect("offered");
    let answer = signed(holder(), offered.message(holder().address(), BASE).expect("sound"));
    assert_eq!(call(other, "/word-count", &answer).await.verdict(), refused("sign_in.nonce"));
    assert_eq!(call(two, "/word-count", &answer).await.status, 200);
    assert_eq!(call(one, "/word-count", &answer).await.verdict(), refused("sign_in.replayed"));
    assert_eq!(runs.count(), 1);
    let errors = server(b"short").build().expect_err("it could be guessed");
    assert!(matches!(errors.0[..], [SetupError::SignInKey]), "{errors:?}");
}

fn own(signer: &PrivateKeySigner, path: &str, now: i64) -> SignedMessage {
    let url = HttpsUrl::parse(&format!("{ORIGIN}{path}")).expect("a URL");
    let nonce = alloy_primitives::hex::encode(&fresh()[..16]);
    let message = siwe::message(&url, signer.address(), BASE, nonce, UnixTime::from_seconds(now)).expect("sound");
    let SignedIn { message, signature } = signed(signer, message);
    SignedMessage { message, signature }
}

async fn authorize(at: SocketAddr, path: &str, value: &str) -> HttpResponse {
    post(at, path, &[("Authorization", value)], &json!({"text": "one two"})).await
}

#[tokio::test]
async fn old_clients_sign_in_with_a_message_of_their_own() {
    let runs = Runs::default();
    let tools = tools()
        .tool(counting("word-count", Gate::identity().siwe(), &runs))
        .tool(counting("plain", Gate::identity(), &runs))
        .tool(counting("other", Gate::identity().siwe(), &runs));
    let at = serve(tools).await;
    let good = own(holder(), "/word-count", NOW);
    assert_eq!(authorize(at, "/plain", &own(holder(), "/plain", NOW).to_header()).await.status, 402, "only where it is on");
    assert_eq!(authorize(at, "/other", &good.to_header()).await.verdict(), refused("sign_in.uri"));
    let served = authorize(at, "/word-count", &good.to_header()).await;
    assert_eq!((served.status, &served.json()["caller"]), (200, &of(holder())), "{served:?}");
    assert_eq!(authorize(at, "/word-count", &good.to_header()).await.verdict(), refused("sign_in.replayed"));
    // A query belongs to the same endpoint.
    assert_eq!(authorize(at, "/word-count", &own(holder(), "/word-count?x=1", NOW).to_header()).await.status, 200);
    for (what, now, code) in [("old", NOW - 300, "sign_in.expired"), ("early", NOW + 61, "sign_in.not_yet")] {
        let answer = authorize(at, "/word-count", &own(holder(), "/word-count", now).to_header()).await;
        assert_eq!(answer.verdict(), refused(code), "{what}");
    }
    let fields = || own(holder(), "/word-count", NOW).message.fields().clone();
    let far = Timestamp::of(UnixTime::from_seconds(NOW + 100_000)).expect("in range");
    let then = Timestamp::of(UnixTime::from_seconds(NOW - 900)).expect("in range");
    for (what, fields, code) in [
        ("another site", Fields { domain: "elsewhere.example".to_owned(), ..fields() }, "sign_in.domain"),
        ("another chain", Fields { chain_id: 1, ..fields() }, "sign_in.chain"),
        ("never ends", Fields { issued_at: then, expiration_time: Some(far), ..fields() }, "sign_in.expired"),
    ] {
        let SignedIn { message, signature } = signed(holder(), Message::new(fields).expect("well-formed"));
        let answer = authorize(at, "/word-count", &SignedMessage { message, signature }.to_header()).await;
        assert_eq!(answer.verdict(), refused(code), "{what}");
    }
    let mut forged = own(holder(), "/word-count", NOW);
    forged.signature = own(stranger(), "/word-count", NOW).signature;
    assert_eq!(authorize(at, "/word-count", &forged.to_header()).await.verdict(), refused("chain.signature_wrong_signer"));
    for value in ["SIWE ", "SIWE abc", "SIWE abc.0x00"] {
        assert_eq!(authorize(at, "/word-count", value).await.status, 402, "{value}");
    }
    assert_eq!(authorize(at, "/word-count", "Bearer abc").await.status, 402, "not for us");
    assert_eq!(runs.count(), 2);
    let errors = Tools::new(ORIGIN).tool(counting("word-count", Gate::identity().siwe().bound_only(), &runs)).build();
    let errors = errors.expect_err("a message commits to no call").0;
    let [SetupError::Challenge { findings, .. }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(findings[0].code.id(), "sign_in.bound_only");
}
