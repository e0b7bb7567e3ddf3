#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod approver;
mod client;
mod denial;
mod error;
pub mod ledger;
mod money;
mod policy;
mod resolve;
mod steps;
mod terms;
mod url;

pub use approver::{ApprovalRequest, Approver, Nobody};
pub use client::{CALL_LIMIT, Client, ClientBuilder, MAX_OUTPUT_BYTES, PAID_LIMIT};
pub use denial::{Denial, Holding, MAX_HOLDINGS};
pub use error::{CallError, ServerWords};
pub use ledger::{Ledger, PaymentId, SpendError};
pub use money::Usdc;
pub use policy::SpendPolicy;
pub use resolve::Resolution;
pub use steps::{
    Approved, Asked, CHECK_LIMIT, CallOptions, Called, Consent, MAX_LIFETIME_SECONDS, Paid, Plan, PreparedSignIn, Quote,
    REVERIFY_SECONDS, SignInRequest, SignInTerms, Unchecked,
};
pub use terms::{Terms, TermsFault};
pub use toolcrib_x402::Method as CallMethod;
pub use url::UrlPolicy;
