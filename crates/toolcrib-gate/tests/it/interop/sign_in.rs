//! Signing in with other people's programs: stock clients at our gate, and our client at stock servers.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_chain::wallet::{LocalWallet, Secret, Wallet as _};
use toolcrib_client::{CallError, CallMethod, Client, Ledger, UrlPolicy};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::Untrusted;
use toolcrib_gate::SystemClock;
use toolcrib_store::{Database, Location};
use toolcrib_verify::Verifier;

use super::servers::{HOST, Here};
use super::world::{CHAIN_ID, HOLDER, ORIGIN, STRANGER, World, account, key};
use toolcrib_testkit::x402_peers::{Peers, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_clients_sign_in_at_our_gate() {
    let Some(peers) = Peers::find() else { return };
    let world = World::start().await;
    let served = world.serve_identity().await;
    let ways = [("v2/siwx-client.mjs", "fetch"), ("v2/siwx-client.mjs", "hook"), ("v2/siwe-client.mjs", "")];
    for (round, (script, mode)) in ways.into_iter().enumerate() {
        let call = async |tool: &str, caller: usize, chain: u64| {
            let settings = [
                ("PRIVATE_KEY", key(caller).to_string()),
                ("BODY", json!({"text": "one two"}).to_string()),
                ("VIA", served.base()),
                ("MODE", mode.to_owned()),
                ("CHAIN_ID", chain.to_string()),
            ];
            peers.run(script, &format!("{ORIGIN}/{tool}"), &settings).await
        };
        for caller in [HOLDER, STRANGER] {
            let line = call("who", caller, CHAIN_ID).await;
            assert_eq!(line["status"], 200, "{script} {mode}: {line}");
            assert_eq!(line["body"], json!({"words": 2, "caller": account(caller).to_checksum(None)}), "{script} {mode}");
            assert_eq!(line["again"], 402, "{script} {mode}: once");
        }
        // Who may call is for the predicate to say.
        let (holder, stranger) = (call("free", HOLDER, CHAIN_ID).await, call("free", STRANGER, CHAIN_ID).await);
        assert_eq!((&holder["status"], &stranger["status"]), (&json!(200), &json!(403)), "{script} {mode}: {holder} {stranger}");
        assert_eq!(served.runs(), 3 * (round + 1), "{script} {mode}");
    }
    // A message for another chain, by the client that chooses it.
    let settings = [
        ("PRIVATE_KEY", key(HOLDER).to_string()),
        ("BODY", json!({"text": "one"}).to_string()),
        ("VIA", served.base()),
        ("CHAIN_ID", "1".to_owned()),
    ];
    let line = peers.run("v2/siwe-client.mjs", &format!("{ORIGIN}/who"), &settings).await;
    assert_eq!((&line["status"], &line["body"]["code"]), (&json!(402), &json!("sign_in.chain")), "{line}");
}

/// A server of other people behind TLS, and a client of ours that reaches it.
struct Site {
    client: Client,
    _server: Server,
    _folder: TempDir,
}

impl Site {
    async fn open(
        peers: &Peers,
        script: &str,
        settings: &[(&str, String)],
        only_chain: Option<u64>,
        wallet: LocalWallet,
    ) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![HOST.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        let mut all = vec![("TLS_CERT", certificate.pem()), ("TLS_KEY", key.serialize_pem())];
        all.extend(settings.iter().cloned());
        let server = peers.start(script, &all).await;
        let here = Here(server.at);
        let door = Untrusted::builder(SystemClock).resolver(here).connector(here).authorities(vec![certificate.der().clone()]);
        let (door, folder) = (door.build().expect("sound settings"), TempDir::new().expect("a folder"));
        let location = Location::file(folder.path().join("ledger.db"));
        let ledger = Ledger::open(Database::open(&location).await.expect("a file")).await.expect("a ledger");
        let verifier = Verifier::new(door.clone(), Arc::new(SystemClock), "tests");
        let mut builder = Client::builder(verifier, door, ledger, Arc::new(SystemClock)).wallet(Arc::new(wallet));
        if let Some(chain) = only_chain {
            builder = builder.only_chain(chain);
        }
        Self { client: builder.build(), _server: server, _folder: folder }
    }

    /// What the server has counted.
    async fn stats(&self) -> Value {
        let url = HttpsUrl::parse(&format!("https://{HOST}/stats")).expect("a URL");
        let called = self.client.call_url(&url, CallMethod::Get, b"", &UrlPolicy::default()).await;
        called.expect("an answer").output.expect("JSON")
    }

    async fn call(&self, path: &str, sign_in: bool) -> Result<toolcrib_client::Called, CallError> {
        let url = HttpsUrl::parse(&format!("https://{HOST}/{path}")).expect("a URL");
        let policy = UrlPolicy { sign_in, ..UrlPolicy::default() };
        self.client.call_url(&url, CallMethod::Post, br#"{"text":"one two three"}"#, &policy).await
    }
}

/// One whose key is not published: at these servers identity is signed for on public networks.
fn own_wallet() -> LocalWallet {
    let phrase = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
    LocalWallet::from_mnemonic(&Secret::new(phrase.to_owned()), None).expect("a phrase")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_signs_in_at_a_stock_server() {
    let Some(peers) = Peers::find() else { return };
    let origin = |origin: &str| ("ORIGIN", origin.to_owned());
    let site = Site::open(&peers, "v2/siwx-server.mjs", &[origin(&format!("https://{HOST}"))], None, own_wallet()).await;
    assert!(matches!(site.call("signed", false).await, Err(CallError::SignInNotApproved { .. })));
    for handled in 1..=2 {
        let called = site.call("signed", true).await.unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!((called.output, called.identity), (Some(json!({"words": 3, "method": "POST"})), Some(own_wallet().address())));
        assert!(called.paid.is_none());
        assert_eq!(site.stats().await["handled"], handled);
    }
    let events = site.stats().await["events"].clone();
    assert_eq!(events[0]["type"], "access_granted", "{events}");
    assert_eq!(events[0]["address"], json!(own_wallet().address().to_checksum(None)), "{events}");
    // With an end that is near, and on the chain that was named.
    let seconds = ("SECONDS_GOOD", "300".to_owned());
    let limited =
        Site::open(&peers, "v2/siwx-server.mjs", &[origin(&format!("https://{HOST}")), seconds], Some(8453), own_wallet()).await;
    assert!(limited.call("signed", true).await.is_ok());

    // A server that is configured for another origin, or for a day, gets nothing.
    let elsewhere = Site::open(&peers, "v2/siwx-server.mjs", &[origin("https://bank.example.com")], None, own_wallet()).await;
    let day = ("SECONDS_GOOD", "86400".to_owned());
    let long = Site::open(&peers, "v2/siwx-server.mjs", &[origin(&format!("https://{HOST}")), day], None, own_wallet()).await;
    let other = Site::open(&peers, "v2/siwx-server.mjs", &[origin(&format!("https://{HOST}"))], Some(10), own_wallet()).await;
    for (site, code) in [(elsewhere, "sign_in.domain"), (long, "sign_in.lifetime"), (other, "call.other_network")] {
        let error = site.call("signed", true).await.expect_err("not signed");
        assert_eq!(error.code().id(), code);
        assert_eq!(site.stats().await["handled"], 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_signs_in_at_a_gate_older_than_x402() {
    let Some(peers) = Peers::find() else { return };
    let world = World::start().await;
    let settings = |host: &str| [("HOST", host.to_owned()), ("RPC_URL", world.devchain.http_url())];
    let site = Site::open(&peers, "v2/siwe-server.mjs", &settings(HOST), Some(CHAIN_ID), own_wallet()).await;
    assert!(matches!(site.call("gated", false).await, Err(CallError::SignInNotApproved { .. })));
    let called = site.call("gated", true).await.unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!((called.output, called.identity), (Some(json!({"words": 3, "method": "POST"})), Some(own_wallet().address())));
    let caller = json!({ "address": own_wallet().address().to_checksum(None), "chainId": CHAIN_ID, "uri": format!("https://{HOST}/gated") });
    assert_eq!(site.stats().await["callers"], json!([caller]));
    // A gate that calls itself by another name does not take it, and is not asked a third time.
    let elsewhere = Site::open(&peers, "v2/siwe-server.mjs", &settings("bank.example.com"), None, own_wallet()).await;
    assert!(matches!(elsewhere.call("gated", true).await, Err(CallError::SignInRefused { .. })));
}
