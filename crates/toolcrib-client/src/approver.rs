//! Whoever is asked before money is signed away under terms that the policy does not cover.

use std::fmt;

use alloy_primitives::Address;
use async_trait::async_trait;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::finding::Finding;
use toolcrib_core::schema::Prefilled;

use crate::{SignInTerms, Terms, Unchecked, Usdc};

/// What somebody has to agree to. All text of tools in it is foreign: escape it before it is shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Question<'q> {
    /// The amount is above what is paid without asking.
    Spend {
        /// The tool; `None` for a URL.
        tool: Option<ToolRef>,
        /// What would be paid.
        terms: Terms,
        /// The account that would sign and pay.
        account: Address,
        /// The amount up to which there is no question.
        ask_above: Usdc,
    },
    /// The endpoint asks for something else than the manifest states.
    Differs {
        /// The tool.
        tool: ToolRef,
        /// What it asks for. Agreeing is to exactly this.
        asked: Terms,
        /// The account that would sign and pay.
        account: Address,
        /// In what it differs.
        findings: &'q [Finding],
    },
    /// The tool wants a proof of who calls: a signature over a payment of nothing (EIP-3009). It moves no money.
    Identity {
        /// The tool.
        tool: ToolRef,
        /// What is signed: the amount is 0, `pay_to` is whom the proof is made out to.
        terms: Terms,
        /// The account that would sign.
        account: Address,
    },
    /// The server wants the account to sign a message (EIP-4361). It moves no money; it shows who calls.
    SignIn {
        /// The tool; `None` for a URL.
        tool: Option<ToolRef>,
        /// What is signed, by whom, for whom, on which chain.
        terms: &'q SignInTerms,
    },
    /// The schema fixes values of the input.
    Fixed {
        /// The tool.
        tool: ToolRef,
        /// The values, with the place where they stand.
        values: &'q [Prefilled],
    },
    /// Schemas of the tool cannot be applied, so that input or output go unchecked.
    Unchecked {
        /// The tool.
        tool: ToolRef,
        /// Which schemas, and why.
        parts: &'q [Unchecked],
    },
}

/// Answers [`Question`]s: a person at a terminal, an elicitation, a program's own rules.
#[async_trait]
pub trait Approver: fmt::Debug + Send + Sync {
    /// Whether it is agreed to. May take as long as a person does; what was verified before is verified again afterwards.
    async fn approve(&self, question: &Question<'_>) -> bool;
}

/// Nobody is there to be asked: the answer is no.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

#[async_trait]
impl Approver for Nobody {
    async fn approve(&self, _: &Question<'_>) -> bool {
        false
    }
}
