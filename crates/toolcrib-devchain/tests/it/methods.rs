//! Additional methods that wallets and tools use.

use alloy_primitives::{Address, B256, Signature, U256, b256};
use serde_json::{Value, json};

use crate::support::*;

/// The example of EIP-712, with its expected digest.
pub(crate) fn mail() -> (Value, B256) {
    let data = json!({
        "types": {
            "EIP712Domain": [
                {"name": "name", "type": "string"}, {"name": "version", "type": "string"},
                {"name": "chainId", "type": "uint256"}, {"name": "verifyingContract", "type": "address"},
            ],
            "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
            "Mail": [{"name": "from", "type": "Person"}, {"name": "to", "type": "Person"}, {"name": "contents", "type": "string"}],
        },
        "primaryType": "Mail",
        "domain": {
            "name": "Ether Mail", "version": "1", "chainId": 1,
            "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
        },
        "message": {
            "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
            "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
            "contents": "Hello, Bob!",
        },
    });
    (data, b256!("be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"))
}

#[tokio::test]
async fn typed_data_is_signed_as_object_and_as_text() {
    let chain = chain().await;
    let (data, digest) = mail();
    for given in [data.clone(), Value::String(data.to_string())] {
        let signature = rpc(&chain, "eth_signTypedData_v4", json!([account(0), given])).await.unwrap();
        let signature: Signature = signature.as_str().unwrap().parse().unwrap();
        assert_eq!(signature.recover_address_from_prehash(&digest).unwrap(), account(0));
    }
    let error = rpc(&chain, "eth_signTypedData_v4", json!([Address::repeat_byte(1), data])).await.unwrap_err();
    assert_eq!(error["code"], -32000, "{error}");
    let error = rpc(&chain, "eth_signTypedData_v4", json!([account(0), {"types": {}}])).await.unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
}

#[tokio::test]
async fn a_call_sees_the_block_that_is_given() {
    let chain = chain().await;
    let address = Address::repeat_byte(0x44);
    let code = json!({ address.to_string(): {"code": WHEN} });
    let call = async |block: Value| rpc(&chain, "eth_call", json!([{"to": address}, "latest", code, block])).await;
    let seen = call(json!({"time": "0x7b", "number": "0x5"})).await.unwrap();
    assert_eq!(seen, format!("0x{:064x}{:064x}", 0x7b, 5));
    let usual = call(Value::Null).await.unwrap();
    assert_eq!(usual, format!("0x{START:064x}{:064x}", 0));
    let error = call(json!({"blockHash": {"0x1": B256::ZERO}})).await.unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    let gas = json!([{"to": address}, "latest", code, {"difficulty": "0x1"}]);
    assert_eq!(rpc(&chain, "eth_estimateGas", gas).await.unwrap_err()["code"], -32602);
}

#[tokio::test]
async fn an_access_list_has_what_is_touched() {
    let chain = chain().await;
    let address = Address::repeat_byte(0x45);
    chain.set_code(address, LOGGER);
    let answer = rpc(&chain, "eth_createAccessList", json!([{"from": account(0), "to": address}, "latest"])).await.unwrap();
    assert_eq!(answer["accessList"], json!([{"address": address, "storageKeys": [B256::ZERO]}]));
    assert!(answer.get("error").is_none());
    let gas: U256 = answer["gasUsed"].as_str().unwrap().parse().unwrap();
    // A transfer, one address and one slot in the list, and the contract itself.
    assert!((U256::from(21_000 + 2_400 + 1_900)..U256::from(27_000)).contains(&gas), "{gas}");
    chain.set_code(address, REVERTER);
    let answer = rpc(&chain, "eth_createAccessList", json!([{"to": address}])).await.unwrap();
    assert_eq!((&answer["accessList"], &answer["error"]), (&json!([]), &json!("execution reverted")));
}

#[tokio::test]
async fn what_waits_is_listed_by_sender_and_nonce() {
    let chain = chain().await;
    rpc(&chain, "evm_setAutomine", json!([false])).await.unwrap();
    for nonce in ["0x0", "0x2"] {
        let request = json!([{"from": account(1), "to": account(2), "value": "0x1", "nonce": nonce}]);
        rpc(&chain, "eth_sendTransaction", request).await.unwrap();
    }
    let content = rpc(&chain, "txpool_content", json!([])).await.unwrap();
    let from = account(1).to_string();
    assert_eq!(content["pending"][&from]["0"]["nonce"], "0x0");
    assert_eq!(content["queued"][&from]["2"]["nonce"], "0x2");
    assert_eq!(content["pending"][&from].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_not_supported_says_so_and_is_in_the_readme() {
    let chain = chain().await;
    let readme = include_str!("../../README.md");
    for method in ["eth_getProof", "eth_simulateV1", "anvil_impersonateAccount", "hardhat_stopImpersonatingAccount"] {
        assert_eq!(rpc(&chain, method, json!([])).await.unwrap_err()["code"], -32004, "{method}");
        assert!(readme.contains(method), "{method}");
    }
}
