//! A chain, clients for it, and minimal test contracts.

use std::time::Duration;

use alloy_network::{EthereumWallet, TransactionBuilder};
use alloy_primitives::{Address, B256, Bytes, U256, bytes};
use alloy_provider::{DynProvider, Provider, ProviderBuilder};
use alloy_rpc_client::WsConnect;
use alloy_rpc_types_eth::{TransactionReceipt, TransactionRequest};
use serde_json::{Value, json};
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_devchain::accounts::{dev_accounts, dev_signers};
use toolcrib_devchain::{Builder, Devchain};

/// The start time of every test chain.
pub(crate) const START: u64 = 1_800_000_000;

/// Without calldata returns slot 0; otherwise stores the first word there and logs it as topic and data.
pub(crate) const LOGGER: Bytes = bytes!("3615601657600035806000558060005260206000a1005b60005460005260206000f3");

/// Deploys [`LOGGER`].
pub(crate) const LOGGER_INIT: Bytes =
    bytes!("602280600b6000396000f33615601657600035806000558060005260206000a1005b60005460005260206000f3");

/// Reverts with 0xdeadbeef.
pub(crate) const REVERTER: Bytes = bytes!("63deadbeef60e01b60005260046000fd");

/// Returns the block's timestamp and number.
pub(crate) const WHEN: Bytes = bytes!("426000524360205260406000f3");

pub(crate) fn builder() -> Builder {
    // The clients support TLS and need a crypto provider, although the tests use no TLS.
    drop(rustls::crypto::ring::default_provider().install_default());
    Devchain::builder(FixedClock(UnixTime::from_seconds(START as i64)))
}

pub(crate) async fn chain() -> Devchain {
    builder().spawn().await.unwrap()
}

pub(crate) fn account(index: usize) -> Address {
    dev_accounts().nth(index).unwrap()
}

/// A client that signs for all ten accounts.
pub(crate) fn client(chain: &Devchain) -> DynProvider {
    ProviderBuilder::new().wallet(wallet()).connect_http(chain.http_url().parse().unwrap()).erased()
}

pub(crate) async fn ws_client(chain: &Devchain) -> DynProvider {
    ProviderBuilder::new().wallet(wallet()).connect_ws(WsConnect::new(chain.ws_url())).await.unwrap().erased()
}

pub(crate) fn wallet() -> EthereumWallet {
    let mut wallet = EthereumWallet::new(dev_signers()[0].clone());
    for signer in &dev_signers()[1..] {
        wallet.register_signer(signer.clone());
    }
    wallet
}

pub(crate) fn from(index: usize) -> TransactionRequest {
    TransactionRequest::default().with_from(account(index))
}

pub(crate) async fn send(client: &DynProvider, request: TransactionRequest) -> TransactionReceipt {
    let pending = client.send_transaction(request).await.unwrap();
    // A transaction that is never mined must fail the test, not stall it.
    tokio::time::timeout(Duration::from_secs(20), pending.get_receipt()).await.expect("mined in time").unwrap()
}

pub(crate) async fn deploy_logger(client: &DynProvider) -> Address {
    send(client, from(0).with_deploy_code(LOGGER_INIT)).await.contract_address.unwrap()
}

/// Calldata for [`LOGGER`].
pub(crate) fn word(value: u64) -> Bytes {
    B256::from(U256::from(value)).0.into()
}

/// Sends any bytes by HTTP; returns status and body.
pub(crate) async fn post(chain: &Devchain, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let response = reqwest::Client::new().post(chain.http_url()).body(body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Calls a method by HTTP; returns the result or the error object.
pub(crate) async fn rpc(chain: &Devchain, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, mut answer) = post(chain, request.to_string()).await;
    assert_eq!(status, 200);
    assert_eq!(answer["id"], 1);
    match answer.get_mut("error") {
        Some(error) => Err(error.take()),
        None => Ok(answer["result"].take()),
    }
}
