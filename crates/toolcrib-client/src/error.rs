//! Why a call gave no result.

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

/// Characters of a server's code or message that are kept.
const MAX_WORDS_CHARS: usize = 300;

/// What a server said with an answer that is no result. Escaped and shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerWords {
    /// The status.
    pub status: u16,
    /// The member `code` of its JSON body: one of our vocabulary when it is a Toolcrib gate.
    pub code: Option<String>,
    /// The member `message` or `error`.
    pub message: Option<String>,
    /// Seconds after which it wants to be asked again.
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

/// Why a call gave no result. Every code has a hint that says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The tool is not verified.
    #[error("{tool} did not pass verification")]
    NotVerified {
        /// Which one.
        tool: ToolRef,
        /// What is wrong.
        report: Box<Report>,
    },
    /// A chain could not be asked.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// No node is known.
    #[error("no node of chain {chain} is set")]
    NoChain {
        /// The chain.
        chain: u64,
    },
    /// There is nobody to sign.
    #[error("the tool asks for a signature, and there is no wallet")]
    NoWallet,
    /// The wallet did not sign.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The input breaks the schema.
    #[error("the input does not fit the tool's schema: {}", first(.violations))]
    Input {
        /// How.
        violations: Vec<Violation>,
    },
    /// The input is too large.
    #[error("the input has {bytes} bytes")]
    InputTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The input is no query.
    #[error("`{}` cannot be sent as a query parameter", escape_for_display(.member))]
    InputNotAQuery {
        /// The member.
        member: String,
    },
    /// Schemas cannot be applied, and there is no consent to call without checking.
    #[error("the tool's schema of {} cannot be applied", .parts.iter().map(|part| part.which).collect::<Vec<_>>().join(" and "))]
    Schema {
        /// Which, and why.
        parts: Vec<Unchecked>,
    },
    /// Fixed values that nobody has acknowledged.
    #[error("the schema fixes {} values that nobody has acknowledged", .values.len())]
    FixedValues {
        /// Which.
        values: Vec<Prefilled>,
    },
    /// The price cannot be paid here.
    #[error("the price is unknown: {}", .reasons.join("; "))]
    PricingUnknown {
        /// Each entry, and why it cannot be paid.
        reasons: Vec<String>,
    },
    /// The tool could not be reached, before anything was signed.
    #[error("the tool gave no answer: {}", escape_for_display(&.failure.detail))]
    NoAnswer {
        /// Why.
        failure: Failure,
    },
    /// It redirects.
    #[error("the tool redirects, which is not followed")]
    Redirected {
        /// The status.
        status: u16,
        /// The payment that was sent to it, if one was.
        payment: Option<PaymentId>,
    },
    /// Another status.
    #[error("the tool refuses the call: {}", .words.shown())]
    Refused {
        /// What it says.
        words: ServerWords,
        /// The payment that was sent to it, if one was.
        payment: Option<PaymentId>,
    },
    /// The challenge cannot be relied on.
    #[error("the challenge is flawed: {}", first_finding(.findings))]
    Challenge {
        /// How.
        findings: Vec<Finding>,
    },
    /// No offer is one that we pay.
    #[error("none of the offers can be paid: {}", .reasons.join("; "))]
    NoPayableOffer {
        /// Each offer, and why not.
        reasons: Vec<String>,
    },
    /// The endpoint asks for something else than the manifest.
    #[error("the endpoint asks for {}, which the manifest does not state", shown(.asked))]
    TermsDiffer {
        /// What is asked for. Consent names one of these.
        asked: Vec<Terms>,
        /// In what it differs.
        findings: Vec<Finding>,
    },
    /// A free tool asks for money.
    #[error("the tool is free by its manifest and asks for {}", shown(.asked))]
    FreeAsksMoney {
        /// What is asked for. Consent names one of these.
        asked: Vec<Terms>,
        /// In what it differs.
        findings: Vec<Finding>,
    },
    /// A proof of identity for a stranger.
    #[error("the endpoint asks for a proof of identity made out to {operator}, who is not known for this tool")]
    OperatorUnknown {
        /// Who would get it.
        operator: Address,
    },
    /// The payment is asked for on another network than the caller named, or than the tool is on.
    #[error("the payment is asked for on {}, and only {} is allowed", network(*.asked), networks(.allowed))]
    OtherNetwork {
        /// The chain that is asked for.
        asked: u64,
        /// The chains that are allowed, or the one that the tool is on.
        allowed: Vec<u64>,
    },
    /// A URL takes test money and real money, and no network was named.
    #[error("the endpoint takes test money and real money")]
    MixedNetworks,
    /// A URL asks for more than was allowed.
    #[error("the URL asks for {}, which was not allowed", shown(.asked))]
    NotConsented {
        /// What is asked for.
        asked: Vec<Terms>,
    },
    /// Nobody agreed.
    #[error("nobody approved paying {}", .terms.shown())]
    NotApproved {
        /// What.
        terms: Terms,
    },
    /// A proof of identity was not agreed to.
    #[error("showing who calls was not approved: {}", .terms.shown())]
    IdentityNotApproved {
        /// What would have been signed.
        terms: Terms,
    },
    /// Above the highest price of this call.
    #[error("the call costs {amount} USDC, and at most {limit} was named")]
    AboveMaxPrice {
        /// What it costs.
        amount: Usdc,
        /// What was named.
        limit: Usdc,
    },
    /// The policy or the ledger refuses.
    #[error(transparent)]
    Spend(#[from] SpendError),
    /// Not enough in the wallet.
    #[error("{wallet} does not hold what the tool costs: {}", shown(.wanted))]
    Funds {
        /// Whose balance.
        wallet: Address,
        /// What could have been paid.
        wanted: Vec<Terms>,
    },
    /// The manifest is another one by now.
    #[error("the manifest changed from {before} to {after} while the payment was being approved")]
    ChangedMeanwhile {
        /// Its hash before.
        before: B256,
        /// Its hash now.
        after: B256,
    },
    /// 402 again.
    #[error("the tool does not accept the payment: {}", .words.shown())]
    PaymentRefused {
        /// What it says.
        words: ServerWords,
        /// The payment, if money was promised.
        payment: Option<PaymentId>,
    },
    /// Something failed after the wallet was asked, so that a signature may exist.
    #[error("{message}; payment {payment} may have been signed and counts as spent")]
    AfterSigning {
        /// Which one.
        payment: PaymentId,
        /// What failed.
        code: Code,
        /// How.
        message: String,
    },
    /// The payment is out, and nobody knows.
    #[error("payment {payment} was sent, and what came of it is unknown: {reason}")]
    Indeterminate {
        /// Which one.
        payment: PaymentId,
        /// What was seen.
        reason: String,
        /// What the server said, if it said anything.
        words: Option<ServerWords>,
    },
    /// The payment settled, and the server gave no result for it.
    #[error("payment {payment} settled, and the tool gave no result: {}", .words.shown())]
    PaidNotServed {
        /// Which one.
        payment: PaymentId,
        /// What the server said.
        words: ServerWords,
    },
    /// The predicate says no.
    #[error("the wallet may not use this tool")]
    Denied(Box<Denial>),
    /// The output breaks the schema.
    #[error("the output does not fit the tool's schema: {}", first(.violations))]
    Output {
        /// How.
        violations: Vec<Violation>,
        /// The output. Foreign, and not what was promised.
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
    /// The payment cannot be presented again.
    #[error("payment {payment} cannot be presented again")]
    NotResumable {
        /// Which one.
        payment: PaymentId,
    },
    /// The message that a server wants to be signed is not one that we sign.
    #[error("not signed in: {detail}")]
    SignIn {
        /// The rule that it breaks.
        code: Code,
        /// How. Escaped.
        detail: String,
    },
    /// Nobody agreed to sign in.
    #[error("nobody agreed to sign in at {}", escape_for_display(.domain))]
    SignInNotApproved {
        /// Where.
        domain: String,
    },
    /// The server does not accept the signed message.
    #[error("the server does not accept the sign-in: {}", .words.shown())]
    SignInRefused {
        /// What it says.
        words: ServerWords,
    },
    /// A header or URL cannot be made.
    #[error("{what} cannot be used: {reason}")]
    Setting {
        /// What.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

impl CallError {
    /// The code of the vocabulary.
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

    /// The same error with the payment that it leaves behind.
    pub(crate) fn after_signing(self, payment: PaymentId) -> Self {
        match self.payment() {
            Some(_) => self,
            None => Self::AfterSigning { payment, code: self.code(), message: self.to_string() },
        }
    }

    /// The payment that stands in the ledger because of this call, signed or more.
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

/// A chain as people know it: its name, number, and whether money on it is real.
pub(crate) fn network(chain: u64) -> String {
    let title = toolcrib_chain::network::Network::by_id(chain).map_or("an unlisted network", |network| network.title);
    let money = if toolcrib_x402::asset::is_test_chain(chain) { "test money" } else { "real money" };
    format!("{title} (eip155:{chain}, {money})")
}
