//! Who may call: everybody, or those whom a predicate lets in.
//!
//! A predicate answers for an account, and anybody can name an account. So the caller first proves to be it, with a signature
//! over a transfer of nothing (EIP-3009) that answers a 402 challenge. That needs no chain: the signer is recovered. Only then is
//! the registry asked, for the account that signed and no other.

use alloy_primitives::{Address, Bytes, U256};
use toolcrib_chain::registry::Registry;
use toolcrib_core::x402::TimePolicy;

pub(crate) mod access;
pub(crate) mod identity;

pub use access::{ACCESS_TIME, FACTS_SECONDS, MAX_SHOWN_DATA_BYTES, MAX_SHOWN_REQUIREMENTS, X_TOOL_ACCESS_DATA};
pub use identity::IDENTITY_SECONDS;

/// Who may call a tool.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Gate {
    /// Everybody, without a word.
    #[default]
    Open,
    /// Those whom the tool's predicate lets in.
    Predicate(Box<PredicateGate>),
}

impl Gate {
    /// Those whom the predicate of this tool lets in. Which predicate that is, the registry knows; there is no branch for any.
    pub fn predicate(registry: Registry, id: U256) -> PredicateGate {
        PredicateGate::new(registry, id)
    }
}

impl From<PredicateGate> for Gate {
    fn from(gate: PredicateGate) -> Self {
        Self::Predicate(Box::new(gate))
    }
}

/// A gate that asks who calls, and then the registry whether that account may.
#[derive(Clone, Debug)]
pub struct PredicateGate {
    pub(crate) registry: Registry,
    pub(crate) id: U256,
    pub(crate) pay_to: Option<Address>,
    pub(crate) identity_chain: Option<u64>,
    pub(crate) times: TimePolicy,
    pub(crate) bound_only: bool,
    pub(crate) data: Option<Bytes>,
}

impl PredicateGate {
    /// See [`Gate::predicate`].
    pub fn new(registry: Registry, id: U256) -> Self {
        let times = TimePolicy::default();
        Self { registry, id, pay_to: None, identity_chain: None, times, bound_only: false, data: None }
    }

    /// Whom signatures are made out to, instead of the manifest's creator. Clients refuse recipients that they cannot check
    /// against the manifest, so this needs a reason.
    #[must_use]
    pub const fn pay_to(mut self, account: Address) -> Self {
        self.pay_to = Some(account);
        self
    }

    /// The chain whose USDC is named in signatures. Without this call it is the registry's, where stock clients of both versions
    /// can sign for it, and Base otherwise. Nothing is ever sent there.
    #[must_use]
    pub const fn identity_chain(mut self, chain: u64) -> Self {
        self.identity_chain = Some(chain);
        self
    }

    /// How long signatures may be valid, and how far clocks may be apart.
    #[must_use]
    pub const fn times(mut self, times: TimePolicy) -> Self {
        self.times = times;
        self
    }

    /// Takes only signatures that commit to one call of this tool. Clients other than Toolcrib's do not make such.
    #[must_use]
    pub const fn bound_only(mut self) -> Self {
        self.bound_only = true;
        self
    }

    /// What the predicate gets as `data` from callers who send none of their own in the header [`X_TOOL_ACCESS_DATA`].
    #[must_use]
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(data.into());
        self
    }
}
