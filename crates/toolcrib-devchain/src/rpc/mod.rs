//! JSON-RPC 2.0: the methods, and responses to single requests and batches.

use serde::Serialize;
use serde_json::{Value, json};

use crate::chain::Chain;
use crate::limits::MAX_BATCH;
use crate::node::Node;

mod development;
mod error;
mod params;
mod queries;
mod sending;

pub use error::RpcError;
pub(crate) use params::Params;
pub(crate) use sending::sign_request;

/// Methods of anvil or geth that this chain does not support. The README lists them too.
pub(crate) const NOT_SUPPORTED: [&str; 7] = [
    "eth_getProof",
    "eth_simulateV1",
    "anvil_impersonateAccount",
    "anvil_stopImpersonatingAccount",
    "anvil_autoImpersonateAccount",
    "hardhat_impersonateAccount",
    "hardhat_stopImpersonatingAccount",
];

/// The result of a method.
pub(crate) type Answer = Result<Value, RpcError>;

type Method = fn(&mut Chain, Params) -> Answer;

/// Additional methods of some connections, such as subscriptions.
pub(crate) trait Extra {
    /// Calls the method, or returns the parameters if the method is not one of these.
    fn call(&mut self, node: &Node, method: &str, params: Params) -> Result<Answer, Params>;
}

/// A connection without additional methods.
#[derive(Debug)]
pub(crate) struct NoExtra;

impl Extra for NoExtra {
    fn call(&mut self, _: &Node, method: &str, params: Params) -> Result<Answer, Params> {
        match method {
            "eth_subscribe" | "eth_unsubscribe" => {
                Ok(Err(RpcError::invalid_request("notifications not supported over HTTP; connect by WebSocket")))
            }
            _ => Err(params),
        }
    }
}

/// Handles the bytes of a request or batch; `None` if it has notifications only.
pub(crate) fn answer(node: &Node, body: &[u8], extra: &mut impl Extra) -> Option<Vec<u8>> {
    let reply = match serde_json::from_slice::<Value>(body) {
        Err(_) => failure(Value::Null, RpcError::parse()),
        Ok(Value::Array(batch)) if batch.is_empty() => failure(Value::Null, RpcError::invalid_request("empty batch")),
        Ok(Value::Array(batch)) if batch.len() > MAX_BATCH => {
            failure(Value::Null, RpcError::invalid_request(format!("batch too large: more than {MAX_BATCH} requests")))
        }
        Ok(Value::Array(batch)) => {
            let replies: Vec<Value> = batch.into_iter().filter_map(|request| one(node, request, extra)).collect();
            if replies.is_empty() {
                return None;
            }
            Value::Array(replies)
        }
        Ok(request) => one(node, request, extra)?,
    };
    serde_json::to_vec(&reply).ok()
}

/// Calls a method.
pub(crate) fn call(node: &Node, method: &str, params: Params, extra: &mut impl Extra) -> Answer {
    let params = match extra.call(node, method, params) {
        Ok(answer) => return answer,
        Err(params) => params,
    };
    let method =
        queries::find(method).or_else(|| sending::find(method)).or_else(|| development::find(method)).ok_or_else(|| {
            match NOT_SUPPORTED.contains(&method) {
                true => RpcError::not_supported(method),
                false => RpcError::no_method(method),
            }
        })?;
    node.with(|chain| method(chain, params))
}

/// An error response without a request id.
pub(crate) fn error_body(error: RpcError) -> Vec<u8> {
    failure(Value::Null, error).to_string().into_bytes()
}

fn one(node: &Node, request: Value, extra: &mut impl Extra) -> Option<Value> {
    let Value::Object(mut request) = request else {
        return Some(failure(Value::Null, RpcError::invalid_request("a request is an object")));
    };
    let id = request.remove("id");
    if !matches!(id, None | Some(Value::Null | Value::String(_) | Value::Number(_))) {
        return Some(failure(Value::Null, RpcError::invalid_request("an id is a string or a number")));
    }
    let answer = match (request.remove("jsonrpc"), request.remove("method")) {
        (Some(version), _) if version != "2.0" => Err(RpcError::invalid_request("jsonrpc must be \"2.0\"")),
        (_, Some(Value::String(method))) => {
            Params::new(request.remove("params")).and_then(|params| call(node, &method, params, extra))
        }
        _ => {
            return Some(failure(id.unwrap_or_default(), RpcError::invalid_request("a request names its method")));
        }
    };
    let id = id?;
    Some(match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => failure(id, error),
    })
}

fn failure(id: Value, error: RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// Serialises a result as JSON.
fn reply(value: impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(|error| RpcError::internal(error.to_string()))
}
