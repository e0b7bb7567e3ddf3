//! A call, step by step. Each step takes the value that only the previous step can make:
//!
//! ```text
//! ToolRef -> Verified -> Asked::Quoted(Quote) -> Approved -> Called
//! ```
//!
//! [`Client::call`], below, takes all of them.
//!
//! - `request`: the request, sent first without a payment and at most once more with one.
//! - `ask`: verify, validate the input, send it without a payment, read the challenge.
//! - `choose`: which offers may be signed. Pure, and the core of it.
//! - `approve`: policy, approval, another verification, reservation.
//! - `pay`: signature, the one retry, ledger, output.
//! - `answer`: reading any response.
//! - `receipt`: what the server states about the settlement, compared with the chain.
//! - `sign_in`: a signed message instead of a payment, for servers that ask for nothing else.

use alloy_primitives::{Address, B256, Bytes};
use serde_json::Value as Json;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::finding::Finding;
use toolcrib_core::schema::Prefilled;
use toolcrib_judge::evidence::Exchange;
use toolcrib_x402::{Method, SettleResponse};

mod answer;
mod approve;
mod ask;
mod choose;
mod pay;
mod receipt;
mod request;
mod schemas;
mod sign_in;

pub use approve::{Approved, REVERIFY_SECONDS};
pub use ask::{Asked, Plan, Quote};
pub use pay::MAX_LIFETIME_SECONDS;
pub use receipt::CHECK_LIMIT;
pub use schemas::Unchecked;
pub use sign_in::{PreparedSignIn, SignInRequest, SignInTerms};

pub(crate) use answer::no_answer;
pub(crate) use approve::{Basis, check_size};
pub(crate) use choose::{Candidate, Fit, payable, terms_of};
pub(crate) use pay::{Sent, credentials, finish, for_the_record};
pub(crate) use request::{Request, read_challenge};
pub(crate) use schemas::outputs_of;
pub(crate) use sign_in::wanted;

use crate::ledger::{Evidence, PaymentId, State};
use crate::{CallError, Client, Terms, Usdc};

/// What the caller agrees to in advance. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// The values that the tool's schema fixes are acknowledged.
    pub ack_const: bool,
    /// It is acknowledged that the tool's schemas cannot be applied, so that input or output are not validated.
    pub unchecked: bool,
    /// The price limit of this call. Prices up to it are paid without approval, within the policy's limits.
    pub max_price: Option<Usdc>,
    /// Prices that would need approval are approved, within the policy's limits.
    pub yes: bool,
    /// Exactly these terms are approved, even if the manifest states others.
    pub terms: Option<Terms>,
    /// This account is trusted to run the tool, so that it may be the recipient of a proof of identity.
    pub operator: Option<Address>,
    /// Signing in with a message is approved, if the tool asks for that.
    pub sign_in: bool,
    /// Only a tool with this manifest is called: the one that the user has seen. Another one gets nothing, not even the input.
    pub manifest: Option<B256>,
}

/// Options of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// How the input is sent.
    pub method: Method,
    /// What is approved in advance.
    pub consent: Consent,
    /// Whether the nonce commits to this very call. On by default.
    pub bound: bool,
    /// What the predicate needs besides the account. Sent only together with a signature.
    pub access_data: Option<Bytes>,
    /// The account that has delegated to the wallet (delegate.xyz).
    pub delegate_for: Option<Address>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self { method: Method::Post, consent: Consent::default(), bound: true, access_data: None, delegate_for: None }
    }
}

/// The result of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Called {
    /// The output, validated against the manifest. `None` for a URL whose response is not JSON.
    pub output: Option<Json>,
    /// The original bytes of the output.
    pub body: Vec<u8>,
    /// The tool; `None` for a URL.
    pub tool: Option<ToolRef>,
    /// The hash of the manifest that was verified for this call.
    pub manifest_hash: Option<B256>,
    /// What was paid.
    pub paid: Option<Paid>,
    /// The account that proved its identity, if only that was asked for.
    pub identity: Option<Address>,
    /// Values that the schema would fill in, for display.
    pub prefilled: Vec<Prefilled>,
    /// Further findings.
    pub findings: Vec<Finding>,
    /// The HTTP exchanges, without request headers.
    pub exchanges: Vec<Exchange>,
}

/// What was paid for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paid {
    /// Its ID in the ledger.
    pub id: PaymentId,
    /// The terms.
    pub terms: Terms,
    /// The payer.
    pub payer: Address,
    /// The server's receipt.
    pub receipt: Option<SettleResponse>,
    /// The settlement transaction, according to the evidence. `None` if the receipt names none, or one that the chain shows to be another
    /// transfer.
    pub transaction: Option<B256>,
    /// Who says that it settled.
    pub evidence: Option<Evidence>,
    /// Its state in the ledger.
    pub state: State,
}

impl Client {
    /// Calls a tool: verify, ask, approve, pay, and return the output. Steps that need more than policy and consent ask the
    /// [`Approver`](crate::Approver).
    pub async fn call(&self, tool: ToolRef, input: &Json, options: &CallOptions) -> Result<Called, CallError> {
        match self.ask(tool, input, options).await? {
            Asked::Served(called) => Ok(*called),
            Asked::Quoted(quote) => {
                let approved = self.approve(*quote, &options.consent).await?;
                self.pay(approved).await
            }
            Asked::SignIn(request) => self.sign_in(*request, options.consent.sign_in).await,
        }
    }
}
