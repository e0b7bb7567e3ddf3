//! x402-reqwest pays for one POST: `foreign-client URL`. Key of the payer in `PRIVATE_KEY`, body in `BODY`.
//!
//! Prints one line of JSON: `status`, `body`, `receipt` (decoded), `header` (where the receipt stood), `error`.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use alloy_signer_local::PrivateKeySigner;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use x402_chain_eip155::{V1Eip155ExactClient, V2Eip155ExactClient};
use x402_reqwest::{ReqwestWithPayments, ReqwestWithPaymentsBuild, X402Client};

/// A call waits for a block at most; what takes longer hangs.
const CALL_TIME: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let line = match call().await {
        Ok(answer) => answer,
        Err(error) => json!({ "status": 0, "body": null, "receipt": null, "header": null, "error": format!("{error:#}") }),
    };
    println!("{line}");
}

async fn call() -> Result<Value, Box<dyn std::error::Error>> {
    let url = env::args().nth(1).ok_or("usage: foreign-client URL")?;
    let signer = Arc::new(env::var("PRIVATE_KEY")?.parse::<PrivateKeySigner>()?);
    let client = X402Client::new().register(V1Eip155ExactClient::new(signer.clone())).register(V2Eip155ExactClient::new(signer));
    let client = reqwest::Client::builder().timeout(CALL_TIME).no_proxy().with_payments(client).build()?;
    let request = client.post(url).header("content-type", "application/json").body(env::var("BODY")?);
    let answer = request.send().await?;
    let status = answer.status().as_u16();
    let header = ["payment-response", "x-payment-response"].into_iter().find(|name| answer.headers().contains_key(*name));
    let receipt = match header.and_then(|name| answer.headers().get(name)) {
        Some(value) => serde_json::from_slice(&BASE64_STANDARD.decode(value)?)?,
        None => Value::Null,
    };
    let body = answer.text().await?;
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    Ok(json!({ "status": status, "body": body, "receipt": receipt, "header": header, "error": null }))
}
