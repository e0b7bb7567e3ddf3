#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod admitted;
mod answer;
mod endpoint;
mod error;
mod gate;
mod layer;
mod metrics;
mod note;
mod query;
mod rate;
mod reconcile;
mod room;
mod serving;
mod settle;
mod standing;
mod tool;
mod tools;
mod usage;
mod used;
mod watch;
mod well_known;

pub use admitted::SETTLEMENT_SECONDS;
pub use endpoint::BODY_TIME;
pub use error::{SetupError, SetupErrors};
pub use gate::{
    ACCESS_TIME, EndpointRecipient, FACTS_SECONDS, Gate, IDENTITY_SECONDS, IdentityGate, MAX_SHOWN_DATA_BYTES,
    MAX_SHOWN_REQUIREMENTS, PAYMENT_SECONDS, PaidGate, PredicateGate, Recipient, X_TOOL_ACCESS_DATA,
};
pub use layer::{GateLayer, Gated, LayerBuilder};
pub use metrics::COUNTS_SECONDS;
pub use query::{MAX_PARAMETERS, MAX_QUERY_BYTES};
pub use rate::{MAX_CALLERS, Rates};
pub use reconcile::{GIVE_UP_SECONDS, RECONCILE_EVERY, Reconciled};
pub use serving::{HANDSHAKE_TIME, HEAD_TIME, MAX_CONNECTIONS, MAX_HANDSHAKES, MAX_HEAD_BYTES, Origins};
pub use settle::{
    CONFIRM_TIME, Due, Facilitator, FacilitatorCall, Found, Journal, LocalSettlement, MAX_DEPLOYMENT_GAS, MAX_SETTLEMENT_FEE_WEI,
    MAX_SETTLEMENT_GAS, MAX_SKEW_SECONDS, NONE_SENT, Outcome, PENDING_PAUSE, RECEIPT_TIME, REFUSED, Record, SETTLE_TIME,
    SKEW_SECONDS, SUPPORTED_TIME, Settle, Unrecorded, VERIFY_TIME, Verdict,
};
pub use standing::RegistrationMismatch;
pub use tool::{CALL_TIME, Caller, Context, Handler, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, NoHandler, Paid, Tool, ToolError};
pub use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, SystemClock};
pub use toolcrib_http::{Rate, Tls, TlsError};
pub use tools::{InternalError, MAX_BODY_BYTES, MAX_RUNNING, SHUTDOWN_TIME, Server, Tools};
pub use usage::{MAX_REPORTS, USAGE_TIME, Usage};
