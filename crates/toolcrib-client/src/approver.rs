//! Approval of payments and signatures that the spend policy does not cover.

use std::fmt;

use alloy_primitives::Address;
use async_trait::async_trait;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::finding::Finding;
use toolcrib_core::schema::Prefilled;

use crate::{SignInTerms, Terms, Unchecked, Usdc};

/// What the user is asked to approve. All text of tools in it is untrusted: escape it before it is shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ApprovalRequest<'q> {
    /// The amount is above the limit for payments without approval.
    Spend {
        /// The tool; `None` for a URL.
        tool: Option<ToolRef>,
        /// What would be paid.
        terms: Terms,
        /// The account that would sign and pay.
        account: Address,
        /// The amount up to which no approval is needed.
        ask_above: Usdc,
    },
    /// The endpoint asks for other terms than the manifest states.
    Differs {
        /// The tool.
        tool: ToolRef,
        /// The terms that it asks for. Approval covers exactly these.
        asked: Terms,
        /// The account that would sign and pay.
        account: Address,
        /// The differences.
        findings: &'q [Finding],
    },
    /// The tool asks for a proof of identity: a signature over a payment of 0 (EIP-3009). It moves no money.
    Identity {
        /// The tool.
        tool: ToolRef,
        /// What is signed: the amount is 0, `pay_to` is the recipient of the proof.
        terms: Terms,
        /// The account that would sign.
        account: Address,
    },
    /// The server asks the account to sign a message (EIP-4361). It moves no money; it identifies the caller.
    SignIn {
        /// The tool; `None` for a URL.
        tool: Option<ToolRef>,
        /// The message: signer, domain and chain.
        terms: &'q SignInTerms,
    },
    /// The schema fixes values of the input.
    Fixed {
        /// The tool.
        tool: ToolRef,
        /// The values, and where they are in the input.
        values: &'q [Prefilled],
    },
    /// Schemas of the tool cannot be applied, so that input or output are not validated.
    Unchecked {
        /// The tool.
        tool: ToolRef,
        /// Which schemas, and why.
        parts: &'q [Unchecked],
    },
}

/// Answers [`ApprovalRequest`]s: a person at a terminal, an MCP elicitation, a program's own rules.
#[async_trait]
pub trait Approver: fmt::Debug + Send + Sync {
    /// Returns whether it is approved. May take as long as a person does; the tool is verified again afterwards.
    async fn approve(&self, question: &ApprovalRequest<'_>) -> bool;
}

/// Approves nothing, for programs without a user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

#[async_trait]
impl Approver for Nobody {
    async fn approve(&self, _: &ApprovalRequest<'_>) -> bool {
        false
    }
}
