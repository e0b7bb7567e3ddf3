//! JSON-RPC errors.

use serde::Serialize;
use serde_json::Value;

use crate::chain::Rejection;

/// An error object of JSON-RPC 2.0.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// The error code; 3 means that a call reverted.
    pub code: i64,
    /// The message, in wording that clients recognise.
    pub message: String,
    /// Revert data, as hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// The request is not JSON.
    pub(crate) fn parse() -> Self {
        Self::new(-32700, "parse error")
    }

    /// The JSON is not a request.
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    /// There is no such method.
    pub(crate) fn no_method(method: &str) -> Self {
        // Untrusted text: show enough to recognise it.
        let shown: String = method.chars().take(64).collect();
        Self::new(-32601, format!("the method {shown} does not exist/is not available"))
    }

    /// Other nodes support the method, this one does not (EIP-1474).
    pub(crate) fn not_supported(method: &str) -> Self {
        Self::new(-32004, format!("the method {method} is not supported by this development chain"))
    }

    /// A parameter is missing or invalid.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// A limit is exceeded.
    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(-32005, message)
    }

    /// An internal error.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl From<Rejection> for RpcError {
    fn from(refusal: Rejection) -> Self {
        let data = refusal.data().map(|data| Value::String(data.to_string()));
        Self { code: refusal.rpc_code(), message: refusal.to_string(), data }
    }
}
