//! Onchain records, with a scripted node.

use alloy_primitives::{B256, hex, keccak256};
use serde_json::{Value, json};
use toolcrib_agent::evidence::TxtLookup;
use toolcrib_agent::source::TxtSource as _;
use toolcrib_agent::txt::FnsSource;
use toolcrib_chain::fns::{FNS_CHAIN_ID as CHAIN_ID, FNS_REGISTRY as REGISTRY};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl, Retries};

use crate::json_sources::serve;
use crate::support::{POINTER, code, domain, records};

/// The contract's return data for a function, as hexadecimal digits; `None` reverts.
type Contract = fn(&str) -> Option<String>;

const EXISTS: &str = "exists(uint256)";
const ALL_KEYS: &str = "getAllKeys(uint256)";
const MANY_RECORDS: &str = "getManyRecords(string[],uint256)";

async fn ask(chain_id: u64, contract: Contract) -> TxtLookup {
    let node = serve(move |_, body| (200, answer(body, chain_id, contract))).await;
    let url = NodeUrl::parse(&format!("http://{node}")).expect("a URL");
    let network = Network::by_id(CHAIN_ID).expect("Polygon");
    let mut config = ChainConfig::new(network, vec![url]).expect("a node");
    config.retries = Retries { attempts: 1, ..Retries::default() };
    let chain = Chain::lazy(config).expect("a chain");
    FnsSource::new(chain, REGISTRY).lookup(&domain("exampleagent.agt")).await.outcome
}

fn answer(body: &[u8], chain_id: u64, contract: Contract) -> String {
    let request: Value = serde_json::from_slice(body).expect("JSON");
    let id = &request["id"];
    let result = match request["method"].as_str().expect("a method") {
        "eth_chainId" => json!(format!("{chain_id:#x}")),
        "eth_blockNumber" => json!("0x64"),
        "eth_getBlockByNumber" => {
            assert_eq!(request["params"][0], "0x62");
            json!({"number": "0x62", "hash": B256::repeat_byte(0x62)})
        }
        "eth_call" => {
            // Every call is pinned to the same block.
            assert_eq!(request["params"][1], json!({"blockHash": B256::repeat_byte(0x62), "requireCanonical": true}));
            assert_eq!(request["params"][0]["to"].as_str().map(str::to_lowercase), Some(format!("{REGISTRY:#x}")));
            let data = request["params"][0]["input"].as_str().expect("data");
            let selector = hex::decode(&data[2..10]).expect("a selector");
            let function = [EXISTS, ALL_KEYS, MANY_RECORDS].into_iter().find(|name| keccak256(name)[..4] == selector[..]);
            match contract(function.expect("a function of the interface")) {
                Some(digits) => json!(format!("0x{digits}")),
                None => {
                    let error = json!({"code": 3, "message": "execution reverted", "data": "0x"});
                    return json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                }
            }
        }
        other => panic!("{other}"),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn word(number: usize) -> String {
    format!("{number:064x}")
}

/// A list of strings in ABI encoding.
fn list(texts: &[&[u8]]) -> String {
    let mut heads = String::new();
    let mut tails = String::new();
    for text in texts {
        heads.push_str(&word(32 * texts.len() + tails.len() / 2));
        tails.push_str(&word(text.len()));
        let mut padded = text.to_vec();
        padded.resize(text.len().next_multiple_of(32), 0);
        tails.push_str(&hex::encode(padded));
    }
    [word(32), word(texts.len()), heads, tails].concat()
}

#[tokio::test]
async fn records_are_read_in_the_order_of_their_numbers() {
    let found = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        ALL_KEYS => Some(list(&[b"record.TXT.1", b"crypto.ETH.address", b"record.TXT.0", b"record.A.0"])),
        MANY_RECORDS => Some(list(&[POINTER.as_bytes(), b"agt-name=\xff"])),
        _ => None,
    })
    .await;
    assert_eq!(found, records(&[POINTER.as_bytes(), b"agt-name=\xff"]));
}

#[tokio::test]
async fn names_without_records_and_unknown_names_are_told_apart() {
    let none = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        ALL_KEYS => Some(list(&[b"crypto.ETH.address"])),
        _ => None,
    });
    assert_eq!(none.await, TxtLookup::NoRecords);
    let removed = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        ALL_KEYS => Some(list(&[b"record.TXT.0"])),
        MANY_RECORDS => Some(list(&[b""])),
        _ => None,
    });
    assert_eq!(removed.await, TxtLookup::NoRecords);
    assert_eq!(ask(CHAIN_ID, |_| Some(word(0))).await, TxtLookup::NotFound);
}

#[tokio::test]
async fn a_contract_that_does_not_answer_says_nothing_about_the_name() {
    assert_eq!(code(&ask(CHAIN_ID, |_| None).await), "agent.fns_records_malformed");
    assert_eq!(code(&ask(CHAIN_ID, |_| Some(String::new())).await), "agent.fns_records_malformed");
    assert_eq!(code(&ask(CHAIN_ID, |_| Some(word(2))).await), "agent.fns_records_malformed");
    let keys = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        _ => Some([word(32), word(9)].concat()),
    });
    assert_eq!(code(&keys.await), "agent.fns_records_malformed");
    let values = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        ALL_KEYS => Some(list(&[b"record.TXT.0", b"record.TXT.1"])),
        _ => Some(list(&[b"agt-version=1"])),
    });
    assert_eq!(code(&values.await), "agent.fns_records_malformed");
}

#[tokio::test]
async fn too_much_and_the_wrong_chain_are_failures() {
    let many = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        _ => Some([word(32), word(4_097)].concat()),
    });
    assert_eq!(code(&many.await), "agent.txt_too_much");
    let large = ask(CHAIN_ID, |function| match function {
        EXISTS => Some(word(1)),
        _ => Some(word(32).repeat(13_000)),
    });
    assert_eq!(code(&large.await), "agent.txt_too_much");
    assert_eq!(code(&ask(56, |_| Some(word(1))).await), "chain.wrong_chain");
}
