#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod answer;
mod clock;
mod endpoint;
mod error;
mod gate;
mod rate;
mod replay;
mod serving;
mod settle;
mod standing;
mod stored;
mod tls;
mod tool;
mod tools;
mod well_known;

pub use clock::SystemClock;
pub use endpoint::BODY_TIME;
pub use error::{SetupError, SetupErrors};
pub use gate::{
    ACCESS_TIME, FACTS_SECONDS, Gate, IDENTITY_SECONDS, MAX_SHOWN_DATA_BYTES, MAX_SHOWN_REQUIREMENTS, PaidGate, PredicateGate,
    X_TOOL_ACCESS_DATA,
};
pub use rate::{MAX_CALLERS, Rate, Rates};
pub use replay::{Claim, DEFAULT_REMEMBERED, MemoryReplay, Replay, ReplayError, Reservation, Reserve};
pub use serving::Origins;
pub use settle::{Due, Found, Outcome, Settle, Verdict};
pub use standing::Discord;
pub use stored::StoredReplay;
pub use tls::{AUTHORITY_DAYS, Authority, AuthorityError, CERTIFICATE_DAYS, HANDSHAKE_TIME, MAX_HANDSHAKES, Tls, TlsError};
pub use tool::{CALL_TIME, Caller, Context, Handler, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, NoHandler, Tool, ToolError};
pub use tools::{Fault, MAX_READING, MAX_RUNNING, SHUTDOWN_TIME, Server, Tools};
