//! Publishing: sending a packed file to a service that keeps it on IPFS.
//!
//! [`Kubo`] uses the RPC API of IPFS nodes, which takes the blocks. [`PinningService`] uses the IPFS Pinning Service API, which takes a CID
//! and finds the blocks itself, so a node must serve them already. Both return a CID, and publishing succeeds only if it is ours.
//!
//! Services are URLs from the user's settings. Tokens are stored in [`Headers`], whose values are never printed, and the bodies of
//! responses are never repeated in errors: a service may echo what it was sent.

mod kubo;
mod service;

use std::time::Duration;

use serde_json::Value;
use toolcrib_core::codes::{self, Code};
use toolcrib_fetch::{Headers, Limits};
use toolcrib_judge::evidence::{Exchange, Response};

pub use self::kubo::Kubo;
pub use self::service::{PinningService, PollLimits};
use super::cid::Cid;

/// Maximum size of a response. Those of all known services are below 4 KiB.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Time limit of one request. Services write to disk before they respond.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// A published file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The origin of the service.
    pub service: String,
    /// The CID that it pinned: the requested one.
    pub cid: Cid,
    /// The service's request id, if any. Untrusted text.
    pub request: Option<String>,
}

/// Why a file could not be published, or its state is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// An invalid URL or token.
    #[error(transparent)]
    Setting(#[from] toolcrib_fetch::Error),
    /// No response.
    #[error("{service} did not answer: {detail}")]
    Unreachable {
        /// The origin of the service.
        service: String,
        /// The code of the reason.
        code: Code,
        /// What happened.
        detail: String,
    },
    /// The service rejected the token, or the token may not publish.
    #[error("{service} refuses the token (status {status})")]
    Denied {
        /// The origin of the service.
        service: String,
        /// 401 or 403.
        status: u16,
    },
    /// The service responded with an error status.
    #[error("{service} answered with status {status}")]
    Status {
        /// The origin of the service.
        service: String,
        /// The status.
        status: u16,
    },
    /// The response violates the API.
    #[error("{service} gave an answer that cannot be read: {reason}")]
    Malformed {
        /// The origin of the service.
        service: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The service pinned another CID.
    #[error("{service} answered with the CID {got}, not {expected}")]
    OtherCid {
        /// The origin of the service.
        service: String,
        /// Our CID.
        expected: Cid,
        /// The service's CID.
        got: Cid,
    },
    /// The service reports that it could not pin the file.
    #[error("{service} could not pin {cid}")]
    Failed {
        /// The origin of the service.
        service: String,
        /// Our CID.
        cid: Cid,
    },
    /// The service accepted the request and did not finish in time.
    #[error("{service} did not pin {cid} within {seconds} s; it may still do so")]
    Pending {
        /// The origin of the service.
        service: String,
        /// Our CID.
        cid: Cid,
        /// The time waited.
        seconds: u64,
    },
}

impl PinError {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Setting(error) => error.code(),
            Self::Unreachable { code, .. } => *code,
            Self::Denied { .. } => codes::agent::PUBLISH_DENIED,
            Self::Status { .. } | Self::Malformed { .. } => codes::agent::PUBLISH_ANSWER,
            Self::OtherCid { .. } => codes::agent::PUBLISH_OTHER_CID,
            Self::Failed { .. } => codes::agent::PUBLISH_FAILED,
            Self::Pending { .. } => codes::agent::PUBLISH_PENDING,
        }
    }
}

/// Headers with a bearer token, if there is one.
fn bearer(token: Option<&str>) -> Result<Headers, PinError> {
    let headers = Headers::new().with("accept", "application/json")?;
    Ok(match token {
        Some(token) => headers.with("authorization", &format!("Bearer {token}"))?,
        None => headers,
    })
}

/// The limits of one request, whose time is at most `left`.
fn limits(left: Duration) -> Limits {
    let mut limits = Limits::default();
    limits.idle = REQUEST_TIME;
    limits.total = REQUEST_TIME.min(left);
    limits.body = MAX_ANSWER_BYTES;
    limits
}

/// The response of a service, if its status is a success.
fn answer<'e>(service: &str, exchange: &'e Exchange) -> Result<&'e Response, PinError> {
    let service = service.to_owned();
    match (&exchange.response, &exchange.failure) {
        (Some(response), _) if matches!(response.status, 401 | 403) => Err(PinError::Denied { service, status: response.status }),
        (Some(response), _) if !(200..300).contains(&response.status) => {
            Err(PinError::Status { service, status: response.status })
        }
        (_, Some(failure)) => Err(PinError::Unreachable { service, code: failure.code, detail: failure.detail.clone() }),
        (Some(response), None) => Ok(response),
        (None, None) => Err(PinError::Malformed { service, reason: "there is no answer" }),
    }
}

/// Checks that a text in a response is our CID, in either version.
fn same_cid(service: &str, expected: &Cid, text: Option<&Value>) -> Result<(), PinError> {
    let malformed = |reason| PinError::Malformed { service: service.to_owned(), reason };
    let text = text.and_then(Value::as_str).ok_or_else(|| malformed("it has no CID"))?;
    let got = Cid::parse_any_version(text).map_err(|_| malformed("its CID is not one that is accepted"))?;
    if got == *expected {
        Ok(())
    } else {
        Err(PinError::OtherCid { service: service.to_owned(), expected: expected.clone(), got })
    }
}
