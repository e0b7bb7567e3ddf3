//! Directory responses that need a chain or an object store: evidence of a verified tool, and access checks, over REST and as processes.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256, hex, keccak256};
use serde_json::{Value as Json, json};
use toolcrib_chain::deploy;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_index::Index;
use toolcrib_index::work::Queue;
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::{Policy, judge};
use toolcrib_store::{Database, Location};

use crate::machines::stage::get;
use crate::publish::world::PublishSetup;

/// A directory that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts followers, a worker and a directory in one process, and returns its address.
fn start(place: &PublishSetup) -> (Running, SocketAddr) {
    let world = &place.world;
    let arguments = ["directory", "--with-index", "--network", "local", "--rpc-url", &world.url, "--dev-ca", "ca.pem", "--json"];
    let mut command = world.sandbox.command(&arguments);
    let mut child = command.args(["--listen", "127.0.0.1:0", "--store", "index.db"]).spawn().expect("the program starts");
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let running = Running(child);
    let told: Json = serde_json::from_str(&line).expect("JSON");
    let url = told["data"]["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a URL").to_owned();
    (running, url.parse().expect("an address"))
}

fn ask(directory: SocketAddr, path: &str) -> Json {
    let (status, body) = get(directory, "", path).expect("an answer");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

fn found(directory: SocketAddr, wallet: Address) -> (BTreeSet<String>, bool) {
    let page = ask(directory, &format!("/api/v2/tools/search?callable_by={wallet:#x}&limit=50"));
    let results = page["results"].as_array().expect("results").iter();
    (results.map(|tool| tool["tool_id"].as_str().expect("an id").to_owned()).collect(), page["partial"] == true)
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Sends a transaction of an account to a contract.
fn send(place: &PublishSetup, from: Address, to: Address, signature: &str, words: &[U256]) {
    let mut data = keccak256(signature)[..4].to_vec();
    words.iter().for_each(|word| data.extend(word.to_be_bytes::<32>()));
    let request = json!({ "from": from, "to": to, "data": hex::encode_prefixed(data), "gas": "0x80000" });
    place.world.ask("eth_sendTransaction", &request.to_string());
}

#[test]
fn evidence_is_served_and_the_chain_says_who_may_call() {
    let mut place = PublishSetup::new();
    let collection =
        deploy::test_assets().into_iter().flatten().find(|asset| asset.name == "TestERC721").expect("listed").address;
    place.write_and_serve("open-door", "one");
    place.publish("open-door", &[]).code(0);
    place.write_and_serve("club", "one");
    place.publish("club", &["--nft-gate", &collection.to_checksum(None)]).code(0);
    let [owner, stranger] = [DEV_ACCOUNTS[1], DEV_ACCOUNTS[2]];
    let word = |address: Address| U256::from_be_bytes(address.into_word().0);
    send(&place, DEV_ACCOUNTS[0], collection, "mint(address,uint256)", &[word(owner), U256::from(7)]);

    let (_directory, at) = start(&place);
    let begun = Instant::now();
    while ask(at, "/api/v2/tools")["tools"].as_array().expect("tools").len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "both tools are verified and listed");
        thread::sleep(Duration::from_millis(200));
    }
    let registry = ask(at, "/api/v2/registries")["registries"][0]["registry_addr"].as_str().expect("an address").to_owned();
    let path = |id: u64, part: &str| format!("/api/v2/tools/31337/{registry}/{id}/{part}");

    // The evidence is what the worker stored, and verifying it again gives the same result.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let location = Location::file(place.world.sandbox.path().join("index.db"));
    let queue = runtime.block_on(async {
        Queue::new(Index::open(Database::open(&location).await.expect("a database")).await.expect("an index"))
    });
    let views = runtime.block_on(queue.index().scan(None, 10)).expect("tools");
    for (view, id) in views.iter().zip(1..) {
        let (status, body) = get(at, "", &path(id, "evidence")).expect("an answer");
        assert_eq!(status, 200, "{body}");
        let kept = runtime.block_on(queue.evidence(view.row.key)).expect("read").expect("kept");
        assert_eq!(body.as_bytes(), kept, "byte for byte");
        let evidence: Evidence = serde_json::from_str(&body).expect("evidence");
        let report = judge(&evidence, &Policy::default(), evidence.gathered_at);
        assert!(report.verified && report.conformant, "{report:?}");
        assert_eq!(evidence.tool, Some(view.tool));
        assert_eq!(ask(at, &path(id, "report"))["verified"], true);
    }
    assert_eq!(views.len(), 2);

    // An owner of a token of the collection has access, and another account has not. Both can use the open tool.
    let can = |id: u64, wallet: Address| ask(at, &path(id, &format!("can_call?wallet={wallet:#x}")));
    for wallet in [owner, stranger] {
        assert_eq!(can(1, wallet)["can_call"], true);
    }
    let yes = can(2, owner);
    assert_eq!((&yes["can_call"], &yes["access"], &yes["reasons"]), (&json!(true), &json!("granted"), &json!([])), "{yes}");
    let no = can(2, stranger);
    assert_eq!((&no["can_call"], &no["access"]), (&json!(false), &json!("denied")), "{no}");
    assert_eq!(no["reasons"], json!(["the registry denies this account"]));
    assert_eq!(found(at, owner), (ids(&["1", "2"]), false));
    assert_eq!(found(at, stranger), (ids(&["1"]), false));

    // Selling the token transfers the access. Earlier answers are not cached.
    let words = [word(owner), word(stranger), U256::from(7)];
    send(&place, owner, collection, "transferFrom(address,address,uint256)", &words);
    assert_eq!((can(2, owner)["can_call"].clone(), can(2, stranger)["can_call"].clone()), (json!(false), json!(true)));
    assert_eq!(found(at, stranger), (ids(&["1", "2"]), false));

    // Without the node, the answer is "could not tell", within the time limit, and everything else still works.
    place.world.end();
    let asked = Instant::now();
    let unknown = can(2, stranger);
    assert_eq!((&unknown["can_call"], &unknown["access"]), (&Json::Null, &json!("unknown")), "{unknown}");
    assert_eq!(unknown["reasons"], json!(["the access check on the chain gave no result"]));
    assert_eq!(
        found(at, stranger),
        (ids(&["1"]), true),
        "what is not known is left out, and the answer says that it is not whole"
    );
    toolcrib_testkit::assert_not_hung(asked, "asking without a node");
    assert_eq!(can(1, stranger)["can_call"], true, "an open tool needs no chain");
    assert_eq!(get(at, "", &path(2, "evidence")).expect("an answer").0, 200);
    assert_eq!(ask(at, "/ready")["status"], "ok");
}
