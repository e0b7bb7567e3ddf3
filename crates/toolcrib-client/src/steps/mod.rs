//! A call, step by step. Each step takes the value that only the step before can make:
//!
//! ```text
//! ToolRef -> Verified -> Asked::Quoted(Quote) -> Approved -> Called
//! ```
//!
//! [`Client::call`], below, takes all of them.
//!
//! - `request`: the request that is sent, plain first and with a payment at most once more.
//! - `ask`: verify, check the input, send it plainly, read the challenge.
//! - `choose`: which offer may be signed for. Pure, and the heart of it.
//! - `approve`: policy, questions, verification once more, reservation.
//! - `pay`: signature, the one retry, ledger, output.
//! - `answer`: what every answer is read for.
//! - `receipt`: what the server states about the settlement, held against the chain.
//! - `sign_in`: a signed message in place of a payment, for servers that ask for nothing else.

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

/// What whoever calls agrees to beforehand. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// The values that the tool's schema fixes were seen.
    pub ack_const: bool,
    /// It was seen that the tool's schemas cannot be applied, so that input or output are not checked against them.
    pub unchecked: bool,
    /// The highest price of this call. What is at most this much is paid without asking, as far as the policy's caps go.
    pub max_price: Option<Usdc>,
    /// Prices above what is paid without asking are agreed to, as far as the policy's caps go.
    pub yes: bool,
    /// Exactly these terms are agreed to, though the manifest states others.
    pub terms: Option<Terms>,
    /// This account is known to run the tool, so that a proof of identity may be made out to it.
    pub operator: Option<Address>,
    /// Signing in with a message is agreed to, where the tool asks for that.
    pub sign_in: bool,
    /// Only a tool with this manifest is meant: what was looked at before. Another one gets nothing, not even the input.
    pub manifest: Option<B256>,
}

/// How a call is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// How the input travels.
    pub method: Method,
    /// What is agreed to.
    pub consent: Consent,
    /// Whether the nonce commits to this very call. On unless somebody turns it off.
    pub bound: bool,
    /// What the predicate needs beside the account. Sent only together with a signature.
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
    /// The output, checked against the manifest. `None` for a URL whose answer is not JSON.
    pub output: Option<Json>,
    /// The output as it came.
    pub body: Vec<u8>,
    /// The tool; `None` for a URL.
    pub tool: Option<ToolRef>,
    /// The hash of the manifest that was verified for this call.
    pub manifest_hash: Option<B256>,
    /// What was paid.
    pub paid: Option<Paid>,
    /// The account that proved who it is, where only that was asked for.
    pub identity: Option<Address>,
    /// Values that the schema would fill in, for showing.
    pub prefilled: Vec<Prefilled>,
    /// What was found beside the point.
    pub findings: Vec<Finding>,
    /// What went over the wire, without the headers that were sent.
    pub exchanges: Vec<Exchange>,
}

/// What was paid for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paid {
    /// Its name in the ledger.
    pub id: PaymentId,
    /// What.
    pub terms: Terms,
    /// By whom.
    pub payer: Address,
    /// What the server says about it.
    pub receipt: Option<SettleResponse>,
    /// The transaction, as the evidence says. `None` where the receipt names none, or one that the chain shows to be another.
    pub transaction: Option<B256>,
    /// Who says that it settled.
    pub evidence: Option<Evidence>,
    /// Where it stands in the ledger.
    pub state: State,
}

impl Client {
    /// Calls a tool: verify, ask, approve, pay, and give back what it says. Steps that need more than policy and consent put
    /// questions to the [`Approver`](crate::Approver).
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
