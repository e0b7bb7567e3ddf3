//! Publishing: handing a packed file to a service that keeps it on IPFS.
//!
//! [`Kubo`] speaks the RPC of IPFS nodes, which takes the blocks. [`PinningService`] speaks the IPFS Pinning Service API, which takes a CID
//! and finds the blocks itself, so a node must serve them already. Both answer with a CID, and nothing counts as published unless it is ours.
//!
//! Services are URLs of the user's settings. Tokens are kept as [`Headers`], whose values are never printed, and the bodies of answers are
//! never repeated in an error: a service may send back what it was sent.

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

/// Largest answer that is read. Those of all services are below 4 KiB.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Longest time for one request. Services write to disk before they answer.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// A file that a service keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The origin of the service.
    pub service: String,
    /// The CID that it keeps: the one that was asked for.
    pub cid: Cid,
    /// The id under which the service knows the request, if it gave one. Untrusted text.
    pub request: Option<String>,
}

/// Why a file is not known to be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// A URL or token that cannot be used.
    #[error(transparent)]
    Setting(#[from] toolcrib_fetch::Error),
    /// No answer.
    #[error("{service} did not answer: {detail}")]
    Unreachable {
        /// The origin of the service.
        service: String,
        /// The code of the reason.
        code: Code,
        /// What happened.
        detail: String,
    },
    /// The service does not know the token, or it may not publish.
    #[error("{service} refuses the token (status {status})")]
    Denied {
        /// The origin of the service.
        service: String,
        /// 401 or 403.
        status: u16,
    },
    /// An error status.
    #[error("{service} answered with status {status}")]
    Status {
        /// The origin of the service.
        service: String,
        /// The status.
        status: u16,
    },
    /// An answer that the API does not have.
    #[error("{service} gave an answer that cannot be read: {reason}")]
    Malformed {
        /// The origin of the service.
        service: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The service kept something else.
    #[error("{service} answered with the CID {got}, not {expected}")]
    OtherCid {
        /// The origin of the service.
        service: String,
        /// Our CID.
        expected: Cid,
        /// Theirs.
        got: Cid,
    },
    /// The service says that it could not keep the file.
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
        /// How long it was waited for.
        seconds: u64,
    },
}

impl PinError {
    /// The code of the vocabulary.
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

/// The limits of one request, which ends at the latest when `left` has passed.
fn limits(left: Duration) -> Limits {
    let mut limits = Limits::default();
    limits.idle = REQUEST_TIME;
    limits.total = REQUEST_TIME.min(left);
    limits.body = MAX_ANSWER_BYTES;
    limits
}

/// The answer of a service with a status of success.
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

/// Checks that a text of an answer is our CID, in either version.
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
