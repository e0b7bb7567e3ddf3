//! Errors of calls.

use alloy_primitives::{Address, B256};
use toolcrib_chain::wallet::WalletError;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{Code, call as code};
use toolcrib_core::finding::Finding;
use toolcrib_core::schema::{Prefilled, Violation};
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::Report;
use toolcrib_judge::evidence::Failure;

use crate::ledger::PaymentId;
use crate::{Denial, Paid, SpendError, Terms, Unchecked, Usdc};

/// Most characters of a server's code or message.
const MAX_WORDS_CHARS: usize = 300;

/// A server's error response. Escaped and shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerWords {
    /// The status.
    pub status: u16,
    /// The member `code` of its JSON body: from Toolcrib's vocabulary if it is a Toolcrib gate.
    pub code: Option<String>,
    /// The member `message` or `error`.
    pub message: Option<String>,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u64>,
}

impl ServerWords {
    pub(crate) fn of(response: &toolcrib_judge::evidence::Response) -> Self {
        let body: Option<serde_json::Value> = serde_json::from_slice(response.body.as_bytes()).ok();
        let text = |key: &str| {
            let text = body.as_ref()?.get(key)?.as_str()?;
            Some(escape_for_display(&text.chars().take(MAX_WORDS_CHARS).collect::<String>()))
        };
        Self {
            status: response.status,
            code: text("code"),
            message: text("message").or_else(|| text("error")),
            retry_after: response.header("retry-after").next().and_then(|value| value.trim().parse().ok()),
        }
    }

    fn shown(&self) -> String {
        let mut text = format!("status {}", self.status);
        for words in [&self.code, &self.message].into_iter().flatten() {
            text.push_str(", ");
            text.push_str(words);
        }
        text
    }
}

/// Why a call has no result. Every code has a hint that says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The tool did not pass verification.
    #[error("{tool} did not pass verification")]
    NotVerified {
        /// The tool.
        tool: ToolRef,
        /// The verification report.
        report: Box<Report>,
    },
    /// A chain could not be read.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// No RPC node is configured.
    #[error("no node of chain {chain} is set")]
    NoChain {
        /// The chain.
        chain: u64,
    },
    /// There is no wallet.
    #[error("the tool asks for a signature, and there is no wallet")]
    NoWallet,
    /// The wallet did not sign.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The input does not fit the schema.
    #[error("the input does not fit the tool's schema: {}", first(.violations))]
    Input {
        /// The violations.
        violations: Vec<Violation>,
    },
    /// The input is too large.
    #[error("the input has {bytes} bytes")]
    InputTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The input cannot be a query string.
    #[error("`{}` cannot be sent as a query parameter", escape_for_display(.member))]
    InputNotAQuery {
        /// The member that cannot be sent.
        member: String,
    },
    /// Schemas cannot be applied, and calling without validation was not approved.
    #[error("the tool's schema of {} cannot be applied", .parts.iter().map(|part| part.which).collect::<Vec<_>>().join(" and "))]
    Schema {
        /// The schemas, and why.
        parts: Vec<Unchecked>,
    },
    /// Fixed values that were not acknowledged.
    #[error("the schema fixes {} values that nobody has acknowledged", .values.len())]
    FixedValues {
        /// The values.
        values: Vec<Prefilled>,
    },
    /// No price of the manifest can be paid by this client.
    #[error("the price is unknown: {}", .reasons.join("; "))]
    PricingUnknown {
        /// Each price, and why it cannot be paid.
        reasons: Vec<String>,
    },
    /// The tool could not be reached, before anything was signed.
    #[error("the tool gave no answer: {}", escape_for_display(&.failure.detail))]
    NoAnswer {
        /// The failure.
        failure: Failure,
    },
    /// The tool redirects.
    #[error("the tool redirects, which is not followed")]
    Redirected {
        /// The status.
        status: u16,
        /// The payment that was sent to it, if there was one.
        payment: Option<PaymentId>,
    },
    /// Another error status.
    #[error("the tool refuses the call: {}", .words.shown())]
    Refused {
        /// Its error response.
        words: ServerWords,
        /// The payment that was sent to it, if there was one.
        payment: Option<PaymentId>,
    },
    /// The challenge is invalid.
    #[error("the challenge is flawed: {}", first_finding(.findings))]
    Challenge {
        /// The errors.
        findings: Vec<Finding>,
    },
    /// No offer can be paid by this client.
    #[error("none of the offers can be paid: {}", .reasons.join("; "))]
    NoPayableOffer {
        /// Each offer, and why it cannot be paid.
        reasons: Vec<String>,
    },
    /// The endpoint asks for other terms than the manifest states.
    #[error("the endpoint asks for {}, which the manifest does not state", shown(.asked))]
    TermsDiffer {
        /// The terms that it asks for. Consent names one of these.
        asked: Vec<Terms>,
        /// The differences.
        findings: Vec<Finding>,
    },
    /// A tool that is free by its manifest asks for a payment.
    #[error("the tool is free by its manifest and asks for {}", shown(.asked))]
    FreeAsksMoney {
        /// The terms that it asks for. Consent names one of these.
        asked: Vec<Terms>,
        /// The differences.
        findings: Vec<Finding>,
    },
    /// A proof of identity for an unknown recipient.
    #[error("the endpoint asks for a proof of identity made out to {operator}, who is not known for this tool")]
    OperatorUnknown {
        /// The recipient.
        operator: Address,
    },
    /// The payment is on another network than the caller named, or than the tool is on.
    #[error("the payment is asked for on {}, and only {} is allowed", network(*.asked), networks(.allowed))]
    OtherNetwork {
        /// The chain of the payment.
        asked: u64,
        /// The chains that are allowed, or the one that the tool is on.
        allowed: Vec<u64>,
    },
    /// A URL accepts test money and real money, and no network was named.
    #[error("the endpoint takes test money and real money")]
    MixedNetworks,
    /// A URL asks for more than was allowed.
    #[error("the URL asks for {}, which was not allowed", shown(.asked))]
    NotConsented {
        /// The terms that it asks for.
        asked: Vec<Terms>,
    },
    /// The payment was not approved.
    #[error("nobody approved paying {}", .terms.shown())]
    NotApproved {
        /// The payment.
        terms: Terms,
    },
    /// A proof of identity was not approved.
    #[error("showing who calls was not approved: {}", .terms.shown())]
    IdentityNotApproved {
        /// What would have been signed.
        terms: Terms,
    },
    /// Above the price limit of this call.
    #[error("the call costs {amount} USDC, and at most {limit} was named")]
    AboveMaxPrice {
        /// The price.
        amount: Usdc,
        /// The limit.
        limit: Usdc,
    },
    /// The policy or the ledger refuses.
    #[error(transparent)]
    Spend(#[from] SpendError),
    /// The wallet's balance is too low.
    #[error("{wallet} does not hold what the tool costs: {}", shown(.wanted))]
    Funds {
        /// The account.
        wallet: Address,
        /// The terms that could have been paid.
        wanted: Vec<Terms>,
    },
    /// The manifest has changed.
    #[error("the manifest changed from {before} to {after} while the payment was being approved")]
    ChangedMeanwhile {
        /// Its hash before.
        before: B256,
        /// Its hash now.
        after: B256,
    },
    /// The server responded 402 to the payment.
    #[error("the tool does not accept the payment: {}", .words.shown())]
    PaymentRefused {
        /// Its error response.
        words: ServerWords,
        /// The payment, if it was not a proof of identity.
        payment: Option<PaymentId>,
    },
    /// Something failed after the wallet was asked, so that a signature may exist.
    #[error("{message}; payment {payment} may have been signed and counts as spent")]
    AfterSigning {
        /// The payment.
        payment: PaymentId,
        /// The code of the failure.
        code: Code,
        /// The failure.
        message: String,
    },
    /// The payment was sent, and its outcome is unknown.
    #[error("payment {payment} was sent, and what came of it is unknown: {reason}")]
    Indeterminate {
        /// The payment.
        payment: PaymentId,
        /// What is known.
        reason: String,
        /// The server's response, if there was one.
        words: Option<ServerWords>,
    },
    /// The payment settled, but the server returned no result.
    #[error("payment {payment} settled, and the tool gave no result: {}", .words.shown())]
    PaidNotServed {
        /// The payment.
        payment: PaymentId,
        /// The server's error response.
        words: ServerWords,
    },
    /// The predicate denies access.
    #[error("the wallet may not use this tool")]
    Denied(Box<Denial>),
    /// The output does not fit the schema.
    #[error("the output does not fit the tool's schema: {}", first(.violations))]
    Output {
        /// The violations.
        violations: Vec<Violation>,
        /// The output. Untrusted, and it does not fit the schema.
        body: Vec<u8>,
        /// What was paid for it.
        paid: Option<Box<Paid>>,
    },
    /// The output is not JSON.
    #[error("the output is not JSON")]
    OutputNotJson {
        /// The output.
        body: Vec<u8>,
        /// What was paid for it.
        paid: Option<Box<Paid>>,
    },
    /// The payment cannot be sent again.
    #[error("payment {payment} cannot be presented again")]
    NotResumable {
        /// The payment.
        payment: PaymentId,
    },
    /// The sign-in message that a server asks for may not be signed.
    #[error("not signed in: {detail}")]
    SignIn {
        /// The rule that it violates.
        code: Code,
        /// The violation. Escaped.
        detail: String,
    },
    /// Signing in was not approved.
    #[error("nobody agreed to sign in at {}", escape_for_display(.domain))]
    SignInNotApproved {
        /// The site.
        domain: String,
    },
    /// The server does not accept the signed message.
    #[error("the server does not accept the sign-in: {}", .words.shown())]
    SignInRefused {
        /// Its error response.
        words: ServerWords,
    },
    /// A header or URL cannot be made.
    #[error("{what} cannot be used: {reason}")]
    Setting {
        /// The header or URL.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

impl CallError {
    /// Returns the code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::NotVerified { .. } => code::NOT_VERIFIED,
            Self::Chain(error) => error.code(),
            Self::NoChain { .. } => code::NO_CHAIN,
            Self::NoWallet => code::NO_WALLET,
            Self::Wallet(error) => error.code(),
            Self::Input { .. } => code::INPUT,
            Self::InputTooLarge { .. } => code::INPUT_TOO_LARGE,
            Self::InputNotAQuery { .. } => code::INPUT_NOT_A_QUERY,
            Self::Schema { .. } => code::SCHEMA_UNUSABLE,
            Self::FixedValues { .. } => code::FIXED_VALUES,
            Self::PricingUnknown { .. } => code::PRICING_UNKNOWN,
            Self::NoAnswer { failure } => failure.code,
            Self::Redirected { .. } => code::REDIRECTED,
            Self::Refused { .. } => code::REFUSED,
            Self::Challenge { .. } => code::CHALLENGE,
            Self::NoPayableOffer { .. } => code::NO_PAYABLE_OFFER,
            Self::TermsDiffer { .. } => code::TERMS_DIFFER,
            Self::FreeAsksMoney { .. } => code::FREE_ASKS_MONEY,
            Self::OperatorUnknown { .. } => code::OPERATOR_UNKNOWN,
            Self::NotConsented { .. } => code::NOT_CONSENTED,
            Self::OtherNetwork { .. } => code::OTHER_NETWORK,
            Self::MixedNetworks => code::MIXED_NETWORKS,
            Self::NotApproved { .. } => code::NOT_APPROVED,
            Self::IdentityNotApproved { .. } => code::IDENTITY_NOT_APPROVED,
            Self::AboveMaxPrice { .. } => code::ABOVE_MAX_PRICE,
            Self::Spend(error) => error.code(),
            Self::Funds { .. } => code::FUNDS,
            Self::ChangedMeanwhile { .. } => code::CHANGED_MEANWHILE,
            Self::PaymentRefused { .. } => code::PAYMENT_REFUSED,
            Self::AfterSigning { code, .. } => *code,
            Self::Indeterminate { .. } => code::INDETERMINATE,
            Self::PaidNotServed { .. } => code::PAID_NOT_SERVED,
            Self::Denied(_) => code::DENIED,
            Self::Output { .. } => code::OUTPUT,
            Self::OutputNotJson { .. } => code::OUTPUT_NOT_JSON,
            Self::NotResumable { .. } => code::NOT_RESUMABLE,
            Self::SignIn { code, .. } => *code,
            Self::SignInNotApproved { .. } => toolcrib_core::codes::sign_in::NOT_APPROVED,
            Self::SignInRefused { .. } => code::SIGN_IN_REFUSED,
            Self::Setting { .. } => code::SETTING,
        }
    }

    /// Returns the same error with the payment that the call leaves in the ledger.
    pub(crate) fn after_signing(self, payment: PaymentId) -> Self {
        match self.payment() {
            Some(_) => self,
            None => Self::AfterSigning { payment, code: self.code(), message: self.to_string() },
        }
    }

    /// Returns the payment that this call left in the ledger, signed or settled.
    pub fn payment(&self) -> Option<PaymentId> {
        match self {
            Self::Redirected { payment, .. } | Self::Refused { payment, .. } | Self::PaymentRefused { payment, .. } => *payment,
            Self::Indeterminate { payment, .. }
            | Self::AfterSigning { payment, .. }
            | Self::PaidNotServed { payment, .. }
            | Self::NotResumable { payment } => Some(*payment),
            Self::Denied(denial) => denial.payment,
            Self::Output { paid, .. } | Self::OutputNotJson { paid, .. } => paid.as_ref().map(|paid| paid.id),
            _ => None,
        }
    }
}

fn first(violations: &[Violation]) -> String {
    violations.first().map_or_else(String::new, |violation| escape_for_display(&violation.to_string()))
}

fn first_finding(findings: &[Finding]) -> String {
    findings.first().map_or_else(String::new, |finding| escape_for_display(&finding.message))
}

fn shown(terms: &[Terms]) -> String {
    terms.iter().map(Terms::shown).collect::<Vec<_>>().join(", or ")
}

fn networks(chains: &[u64]) -> String {
    chains.iter().map(|chain| network(*chain)).collect::<Vec<_>>().join(" or ")
}

/// Describes a chain for people: its name, its ID, and whether its money is real.
pub(crate) fn network(chain: u64) -> String {
    let title = toolcrib_chain::network::Network::by_id(chain).map_or("an unlisted network", |network| network.title);
    let money = if toolcrib_x402::asset::is_test_chain(chain) { "test money" } else { "real money" };
    format!("{title} (eip155:{chain}, {money})")
}
