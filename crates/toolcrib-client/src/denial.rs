//! Explanation of a 403: what the tool's predicate requires, and what the wallet has of it.
//!
//! Everything is read from the chain within the limits of introspection, never from the server's text. It helps people; access is decided
//! by the predicate's access check. That check is made here too, so that a server is noticed that denies a caller whom the predicate grants
//! access.

use alloy_primitives::{Address, Bytes, U256, keccak256};
use toolcrib_chain::predicate::{Logic, Meaning, Requirement, Requirements, read_requirements};
use toolcrib_chain::registry::AccessResult;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::evidence::Response;

use crate::client::{read_balance, read_word};
use crate::ledger::PaymentId;
use crate::{CallError, Client, ServerWords};

/// Most requirements for which balances are read. Each is one call to a node; people read a few.
pub const MAX_HOLDINGS: usize = 16;

/// Why a caller was denied, as far as it can be determined.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Denial {
    /// The server's code and message.
    pub words: ServerWords,
    /// The payment that was sent, if there was one. It can still be used until it expires.
    pub payment: Option<PaymentId>,
    /// The account whose access was checked.
    pub account: Option<Address>,
    /// The predicate, as currently registered.
    pub predicate: Option<Address>,
    /// The registry's answer for the account. `None` if there is no account, or no node could be asked.
    pub access: Option<AccessResult>,
    /// How the requirements combine.
    pub logic: Option<Logic>,
    /// The requirements.
    pub holdings: Vec<Holding>,
    /// Whether there are further requirements, or some that could not be read.
    pub is_incomplete: bool,
}

/// A requirement, and the account's balance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holding {
    /// The predicate's label, escaped.
    pub label: String,
    /// The kind of requirement.
    pub meaning: Meaning,
    /// The amount that is required, in the token's smallest unit, if it is a number.
    pub needed: Option<U256>,
    /// The account's balance; `None` if it cannot be read.
    pub held: Option<U256>,
}

impl Holding {
    /// Describes the requirement: with the predicate's label, or else a generated text.
    pub fn described(&self) -> String {
        if !self.label.is_empty() {
            return self.label.clone();
        }
        match &self.meaning {
            Meaning::Erc721 { collection } => format!("a token of {collection} (ERC-721)"),
            Meaning::Erc1155 { collection, token_id } => format!("token {token_id} of {collection} (ERC-1155)"),
            Meaning::Erc20 { token, min_balance } => format!("{min_balance} of {token} (ERC-20)"),
            Meaning::Subscription { collection, min_tier } => format!("a subscription of tier {min_tier} at {collection}"),
            Meaning::Trait { collection, .. } => format!("a token of {collection} with certain traits"),
            Meaning::Attestation { .. } => "an attestation about the wallet".to_owned(),
            Meaning::AccessProof { verifier } => format!("a signature that {verifier} checks"),
            Meaning::Merkle { root } => format!("a place on the list with root {root}"),
            Meaning::DenyAll => "nobody qualifies".to_owned(),
            _ => "something that cannot be read".to_owned(),
        }
    }

    /// Whether the requirement is met. `None` if that cannot be determined.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.held? >= self.needed?)
    }
}

/// The account whose access is checked, and the proof for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    /// An account that has delegated to the wallet's.
    pub(crate) delegator: Option<Address>,
    pub(crate) data: Option<Bytes>,
}

impl Client {
    /// Returns the error for a 403, with an explanation. A failing node only makes it shorter.
    pub(crate) async fn denied(
        &self,
        tool: ToolRef,
        payment: Option<PaymentId>,
        subject: &Subject,
        response: &Response,
    ) -> CallError {
        let account = subject.delegator.or_else(|| self.inner.wallet.as_ref().map(|wallet| wallet.address()));
        let mut denial = Denial {
            words: ServerWords::of(response),
            payment,
            account,
            predicate: None,
            access: None,
            logic: None,
            holdings: Vec::new(),
            is_incomplete: true,
        };
        let _ = self.explain(&mut denial, tool, subject.data.clone().unwrap_or_default()).await;
        CallError::Denied(Box::new(denial))
    }

    async fn explain(&self, denial: &mut Denial, tool: ToolRef, data: Bytes) -> Result<(), CallError> {
        let registry = self.registry(tool)?;
        if let Some(account) = denial.account {
            denial.access = Some(registry.access(tool.id, account, data).await?);
        }
        denial.predicate = registry.config(tool.id).await?.access_predicate;
        let Some(predicate) = denial.predicate else { return Ok(()) };
        let Requirements::Listed { logic, entries } = read_requirements(registry.chain(), predicate, tool.id).await? else {
            return Ok(());
        };
        denial.logic = Some(logic);
        denial.is_incomplete = entries.len() > MAX_HOLDINGS
            || entries
                .iter()
                .any(|entry| matches!(Meaning::from(entry), Meaning::Unread | Meaning::Undecodable | Meaning::Unknown));
        for entry in entries.into_iter().take(MAX_HOLDINGS) {
            denial.holdings.push(holding(registry.chain(), entry, denial.account).await);
        }
        Ok(())
    }
}

async fn holding(chain: &Chain, requirement: Requirement, account: Option<Address>) -> Holding {
    let meaning = Meaning::from(&requirement);
    let label = requirement.label;
    let needed = match &meaning {
        Meaning::Erc721 { .. } | Meaning::Erc1155 { .. } => Some(U256::ONE),
        Meaning::Erc20 { min_balance, .. } => Some(*min_balance),
        _ => None,
    };
    let held = match (&meaning, account) {
        (Meaning::Erc721 { collection }, Some(account)) => read_balance(chain, *collection, account).await,
        (Meaning::Erc20 { token, .. }, Some(account)) => read_balance(chain, *token, account).await,
        (Meaning::Erc1155 { collection, token_id }, Some(account)) => {
            let selector = &keccak256("balanceOf(address,uint256)")[..4];
            let data = [selector, account.into_word().as_slice(), &token_id.to_be_bytes::<32>()].concat();
            read_word(chain, *collection, data.into()).await
        }
        _ => Ok(None),
    };
    Holding { label: escape_for_display(&label), meaning, needed, held: held.ok().flatten() }
}
