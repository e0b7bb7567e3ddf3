//! JSON-RPC itself, and clients that violate it.

use alloy_network::TransactionBuilder;
use alloy_primitives::{Address, U256};
use alloy_provider::Provider;
use serde_json::{Value, json};
use toolcrib_devchain::limits::{MAX_BATCH, MAX_REQUEST_BYTES};

use crate::support::*;

#[tokio::test]
async fn broken_requests_get_the_right_code() {
    let chain = chain().await;
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("nonsense", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("1", -32600),
        ("\"eth_chainId\"", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance"}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":{}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x12"]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["newest",false]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x"]}"#, -32000),
        (r#"{"jsonrpc":"2.0","id":1,"method":"anvil_mine","params":["0xffffffffff"]}"#, -32005),
        (r#"{"jsonrpc":"2.0","id":1,"method":"evm_setCode","params":[]}"#, -32601),
    ] {
        let (status, answer) = post(&chain, body).await;
        assert_eq!((status, &answer["error"]["code"]), (200, &json!(code)), "{body}: {answer}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(post(&chain, deep).await.1["error"]["code"], -32700);
}

#[tokio::test]
async fn batches_answer_in_order_and_within_bounds() {
    let chain = chain().await;
    let request = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_blockNumber", "params": [] });
    let batch = json!([request(1), { "jsonrpc": "2.0", "method": "evm_mine" }, 5, request(2)]);
    let (_, answers) = post(&chain, batch.to_string()).await;
    assert_eq!(answers[0], json!({ "jsonrpc": "2.0", "id": 1, "result": "0x0" }));
    assert_eq!(answers[1]["error"]["code"], -32600);
    assert_eq!(answers[2], json!({ "jsonrpc": "2.0", "id": 2, "result": "0x1" }));
    assert_eq!(answers.as_array().unwrap().len(), 3, "the notification has no answer");

    let full: Vec<Value> = (0..MAX_BATCH).map(request).collect();
    assert_eq!(post(&chain, json!(full).to_string()).await.1.as_array().unwrap().len(), MAX_BATCH);
    let over: Vec<Value> = (0..=MAX_BATCH).map(request).collect();
    assert_eq!(post(&chain, json!(over).to_string()).await.1["error"]["code"], -32600);
    assert_eq!(post(&chain, r#"{"jsonrpc":"2.0","method":"evm_mine"}"#).await.0, 204);
}

#[tokio::test]
async fn bodies_are_capped() {
    let chain = chain().await;
    let padded = |length: usize| {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
        format!("{request}{}", " ".repeat(length - request.len()))
    };
    assert_eq!(post(&chain, padded(MAX_REQUEST_BYTES)).await.1["result"], "0x7a69");
    let (status, answer) = post(&chain, padded(MAX_REQUEST_BYTES + 1)).await;
    assert_eq!((status, &answer["error"]["code"]), (413, &json!(-32600)));
}

#[tokio::test]
async fn the_small_methods_answer() {
    let chain = chain().await;
    for (method, params, expected) in [
        ("net_version", json!([]), json!("31337")),
        ("eth_chainId", json!([]), json!("0x7a69")),
        ("eth_syncing", json!([]), json!(false)),
        ("eth_maxPriorityFeePerGas", json!([]), json!("0x3b9aca00")),
        ("eth_gasPrice", json!([]), json!("0x77359400")),
        ("eth_getTransactionCount", json!([account(0), "pending"]), json!("0x0")),
        ("eth_getCode", json!([account(0), "latest"]), json!("0x")),
        ("eth_getBlockTransactionCountByNumber", json!(["0x0"]), json!("0x0")),
        ("eth_getUncleCountByBlockNumber", json!(["0x0"]), json!("0x0")),
        ("web3_sha3", json!(["0x"]), json!("0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")),
        ("eth_getStorageAt", json!([account(0), "0x0", "latest"]), json!(format!("0x{}", "0".repeat(64)))),
    ] {
        assert_eq!(rpc(&chain, method, params).await.unwrap(), expected, "{method}");
    }
}

#[tokio::test]
async fn state_is_set_by_hand_under_both_names() {
    let chain = chain().await;
    let client = client(&chain);
    let address = Address::repeat_byte(0x66);
    for family in ["anvil", "hardhat"] {
        let call = async |name: &str, params: Value| rpc(&chain, &format!("{family}_{name}"), params).await.unwrap();
        call("setBalance", json!([address, "0x5"])).await;
        call("setNonce", json!([address, "0x7"])).await;
        call("setCode", json!([address, LOGGER])).await;
        call("setStorageAt", json!([address, "0x0", format!("0x{:064x}", 9)])).await;
        assert_eq!(client.get_balance(address).await.unwrap(), U256::from(5));
        assert_eq!(client.get_transaction_count(address).await.unwrap(), 7);
        assert_eq!(client.call(from(0).with_to(address)).await.unwrap(), word(9));
        chain.set_code(address, Vec::new());
        assert!(client.get_code_at(address).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn pages_of_this_machine_may_ask_and_others_may_not() {
    let chain = chain().await;
    let http = reqwest::Client::new();
    let ask = async |headers: &[(&str, &str)]| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"anvil_mine","params":[]}"#;
        // A page can send this without a CORS preflight.
        let request = http.post(chain.http_url()).header("content-type", "text/plain").body(body);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
    };
    let response = ask(&[("origin", "http://localhost:3000")]).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["access-control-allow-origin"], "http://localhost:3000");
    let mined = chain.block_number();
    for headers in [&[("origin", "https://evil.example")][..], &[("host", "evil.example")], &[("origin", "null")]] {
        let response = ask(headers).await;
        assert_eq!((response.status().as_u16(), chain.block_number()), (403, mined), "{headers:?}");
        assert!(response.headers().get("access-control-allow-origin").is_none());
    }
    assert_eq!(ask(&[]).await.status(), 200, "programs have no origin");
    let asked = http.request(reqwest::Method::OPTIONS, chain.http_url()).header("origin", "https://evil.example");
    assert_eq!(asked.send().await.unwrap().status(), 403);
    assert_eq!(http.delete(chain.http_url()).send().await.unwrap().status(), 405);
    // A page could open a WebSocket too.
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
    let knock = upgrade.iter().fold(http.get(chain.http_url()), |request, (name, value)| request.header(*name, *value));
    let knock = knock.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==").header("origin", "https://evil.example");
    assert_eq!(knock.send().await.unwrap().status(), 403);
    let open = builder().allow_origin("https://evil.example").spawn().await.unwrap();
    let response = http.post(open.http_url()).header("origin", "https://evil.example").body("{}").send().await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_dropped_chain_stops_listening() {
    let chain = chain().await;
    let (url, client) = (chain.http_url(), ws_client(&chain).await);
    assert_eq!(client.get_block_number().await.unwrap(), 0);
    drop(chain);
    for _ in 0..100 {
        if reqwest::get(&url).await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("still listening");
}
