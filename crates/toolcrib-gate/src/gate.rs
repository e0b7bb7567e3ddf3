//! Who may call: everybody, those whom a predicate lets in, those who pay, or those who are let in and pay.
//!
//! A predicate answers for an account, and anybody can name an account. So the caller first proves to be it, with a signature
//! over a transfer of nothing (EIP-3009) that answers a 402 challenge. That needs no chain: the signer is recovered. Only then is
//! the registry asked, for the account that signed and no other.

use std::sync::Arc;

use alloy_primitives::{Address, Bytes, U256};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::canon::Sealed;
use toolcrib_core::tool::ToolManifest;
use toolcrib_x402::TimePolicy;

use self::sign_in::SignInSettings;
use crate::layer::LayerBuilder;
use crate::settle::Settle;

pub(crate) mod access;
pub(crate) mod bazaar;
pub(crate) mod delegation;
mod recipient;
pub(crate) mod sign_in;
pub(crate) mod terms;

pub use access::{ACCESS_TIME, FACTS_SECONDS, MAX_SHOWN_DATA_BYTES, MAX_SHOWN_REQUIREMENTS, X_TOOL_ACCESS_DATA};
pub use recipient::{EndpointRecipient, Recipient};
pub use terms::{IDENTITY_SECONDS, PAYMENT_SECONDS};

/// Who may call a tool.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Gate {
    /// Everybody, without a word.
    #[default]
    Open,
    /// Those whom the tool's predicate lets in.
    Predicate(Box<PredicateGate>),
    /// Everybody who says who they are.
    Identity(Box<IdentityGate>),
    /// Those who pay, and whom the predicate lets in if there is one.
    Paid(Box<PaidGate>),
}

impl Gate {
    /// Everybody who says who they are: the handler learns which account calls, and no registry is asked.
    pub fn identity() -> IdentityGate {
        IdentityGate::default()
    }

    /// Those who pay what the manifest asks for. Which prices those are, the manifest says; the money is moved by `settle`.
    pub fn paid(settle: impl Settle + 'static) -> PaidGate {
        PaidGate::new(Arc::new(settle))
    }

    /// Those whom the predicate of this tool lets in. Which predicate that is, the registry knows; there is no branch for any.
    pub fn predicate(registry: Registry, id: U256) -> PredicateGate {
        PredicateGate::new(registry, id)
    }

    /// Begins a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
    pub fn layer(self, manifest: Sealed<ToolManifest>) -> LayerBuilder {
        LayerBuilder::new(self, manifest)
    }
}

impl From<PredicateGate> for Gate {
    fn from(gate: PredicateGate) -> Self {
        Self::Predicate(Box::new(gate))
    }
}

impl From<PaidGate> for Gate {
    fn from(gate: PaidGate) -> Self {
        Self::Paid(Box::new(gate))
    }
}

impl From<IdentityGate> for Gate {
    fn from(gate: IdentityGate) -> Self {
        Self::Identity(Box::new(gate))
    }
}

/// A gate that asks who calls, and lets everybody in.
#[derive(Clone, Debug, Default)]
pub struct IdentityGate {
    pub(crate) tool: Option<ToolRef>,
    pub(crate) pay_to: Option<Address>,
    pub(crate) identity_chain: Option<u64>,
    pub(crate) times: TimePolicy,
    pub(crate) bound_only: bool,
    pub(crate) contract_accounts: Vec<Chain>,
    pub(crate) sign_in: SignInSettings,
}

impl IdentityGate {
    /// Begins a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
    pub fn layer(self, manifest: Sealed<ToolManifest>) -> LayerBuilder {
        LayerBuilder::new(self.into(), manifest)
    }

    /// The tool on its registry. Signatures that commit to a call then commit to this tool; without it, to the tool that the caller
    /// names.
    #[must_use]
    pub const fn tool(mut self, tool: ToolRef) -> Self {
        self.tool = Some(tool);
        self
    }

    /// Whom signatures are made out to, instead of the manifest's creator. Clients refuse recipients that they cannot check against
    /// the manifest, so this needs a reason.
    #[must_use]
    pub const fn pay_to(mut self, account: Address) -> Self {
        self.pay_to = Some(account);
        self
    }

    /// The chain whose USDC is named in signatures, instead of Base. Nothing is ever sent there.
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

    /// Takes accounts that are contracts, on a chain that there is a node for: an account with code says itself whether it has signed
    /// (ERC-1271), one that is not deployed yet is simulated (ERC-6492), and any other is recovered. Without this call every signer is recovered and no node is asked. It must be the
    /// chain that is signed for.
    #[must_use]
    pub fn contract_accounts(mut self, chain: Chain) -> Self {
        self.contract_accounts = vec![chain];
        self
    }

    /// Does not offer the x402 extension `sign-in-with-x`, by which callers sign a message for this endpoint (EIP-4361) instead of a
    /// transfer of nothing. Gates that take [bound signatures only](Self::bound_only) never offer it.
    #[must_use]
    pub const fn without_sign_in_with_x(mut self) -> Self {
        self.sign_in.without_x = true;
        self
    }

    /// Takes `Authorization: SIWE` too, as clients sent it before x402: a message of the caller's own for this endpoint (EIP-4361), with
    /// a nonce that the caller chose. Each is taken once.
    #[must_use]
    pub const fn siwe(mut self) -> Self {
        self.sign_in.siwe = true;
        self
    }
}

/// A gate that asks for money.
///
/// The payment proves who calls, so a predicate needs no second signature; it is asked before any money moves.
#[derive(Clone, Debug)]
pub struct PaidGate {
    pub(crate) settle: Arc<dyn Settle>,
    pub(crate) predicate: Option<PredicateGate>,
    pub(crate) tool: Option<ToolRef>,
    pub(crate) times: TimePolicy,
    pub(crate) bound_only: bool,
    pub(crate) settle_first: bool,
    pub(crate) unlisted: bool,
    pub(crate) contract_accounts: Vec<Chain>,
}

impl PaidGate {
    /// Begins a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
    pub fn layer(self, manifest: Sealed<ToolManifest>) -> LayerBuilder {
        LayerBuilder::new(self.into(), manifest)
    }

    /// See [`Gate::paid`].
    pub fn new(settle: Arc<dyn Settle>) -> Self {
        Self {
            settle,
            predicate: None,
            tool: None,
            times: TimePolicy::default(),
            bound_only: false,
            settle_first: false,
            unlisted: false,
            contract_accounts: Vec::new(),
        }
    }

    /// Asks the tool's predicate too, before any money moves. Its wish for bound signatures counts for the payment as well; its times and
    /// whom identity is signed for do not: payments have their own [`times`](Self::times), and are for the manifest's recipient.
    #[must_use]
    pub fn predicate(mut self, gate: PredicateGate) -> Self {
        self.predicate = Some(gate);
        self
    }

    /// The tool on its registry, where there is no predicate that says it. Signatures that commit to a call then commit to this tool;
    /// without it, to the tool that the caller names.
    #[must_use]
    pub const fn tool(mut self, tool: ToolRef) -> Self {
        self.tool = Some(tool);
        self
    }

    /// How long payments may be valid, and how far clocks may be apart.
    #[must_use]
    pub const fn times(mut self, times: TimePolicy) -> Self {
        self.times = times;
        self
    }

    /// Takes only payments that commit to one call of this tool. Clients other than Toolcrib's do not make such.
    #[must_use]
    pub const fn bound_only(mut self) -> Self {
        self.bound_only = true;
        self
    }

    /// Does not ask facilitators to list the tool in their catalogues (the extension `bazaar`).
    #[must_use]
    pub const fn unlisted(mut self) -> Self {
        self.unlisted = true;
        self
    }

    /// Settles before the handler runs, for handlers that cost much or do what cannot be undone. A caller who has paid and gets an
    /// error instead of an output then has a receipt, and may call again with the same payment; nothing is paid back by itself.
    #[must_use]
    pub const fn settle_first(mut self) -> Self {
        self.settle_first = true;
        self
    }

    /// Takes accounts that are contracts, on the chains that there is a node for: an account with code says itself whether it has
    /// signed (ERC-1271), one that is not deployed yet is simulated (ERC-6492), and any other is recovered. Without this call every signer is recovered and no node is asked. Each must
    /// be a chain of a price. Whether the payment of a contract can be settled, is up to the token and whoever settles.
    #[must_use]
    pub fn contract_accounts(mut self, chains: Vec<Chain>) -> Self {
        self.contract_accounts = chains;
        self
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
    pub(crate) contract_accounts: Vec<Chain>,
    pub(crate) delegation: Option<Address>,
    pub(crate) recipient: Option<Arc<dyn Recipient>>,
    pub(crate) sign_in: SignInSettings,
}

impl PredicateGate {
    /// Begins a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
    pub fn layer(self, manifest: Sealed<ToolManifest>) -> LayerBuilder {
        LayerBuilder::new(self.into(), manifest)
    }

    /// See [`Gate::predicate`].
    pub fn new(registry: Registry, id: U256) -> Self {
        Self {
            registry,
            id,
            pay_to: None,
            identity_chain: None,
            times: TimePolicy::default(),
            bound_only: false,
            data: None,
            contract_accounts: Vec::new(),
            delegation: None,
            recipient: None,
            sign_in: SignInSettings::default(),
        }
    }

    /// Whom signatures are made out to, instead of the manifest's creator. Clients refuse recipients that they cannot check
    /// against the manifest, so this needs a reason.
    #[must_use]
    pub const fn pay_to(mut self, account: Address) -> Self {
        self.pay_to = Some(account);
        self
    }

    /// Derives whom signatures are made out to from the endpoint, the tool and the operator (the account of [`pay_to`](Self::pay_to), or
    /// else the manifest's creator), so that a signature for one tool is worth nothing at another. Payments are made out to the
    /// recipient of the manifest in any case.
    #[must_use]
    pub fn recipient(mut self, recipient: impl Recipient + 'static) -> Self {
        self.recipient = Some(Arc::new(recipient));
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

    /// Takes accounts that are contracts, on a chain that there is a node for: an account with code says itself whether it has signed
    /// (ERC-1271), one that is not deployed yet is simulated (ERC-6492), and any other is recovered. Without this call every signer is recovered and no node is asked. It must be the
    /// chain that is signed for.
    #[must_use]
    pub fn contract_accounts(mut self, chain: Chain) -> Self {
        self.contract_accounts = vec![chain];
        self
    }

    /// Does not offer the x402 extension `sign-in-with-x`, by which callers sign a message for this endpoint (EIP-4361) instead of a
    /// transfer of nothing. Gates that take [bound signatures only](Self::bound_only) never offer it.
    #[must_use]
    pub const fn without_sign_in_with_x(mut self) -> Self {
        self.sign_in.without_x = true;
        self
    }

    /// Takes `Authorization: SIWE` too, as clients sent it before x402: a message of the caller's own for this endpoint (EIP-4361), with
    /// a nonce that the caller chose. Each is taken once.
    #[must_use]
    pub const fn siwe(mut self) -> Self {
        self.sign_in.siwe = true;
        self
    }

    /// Lets callers use the access of an account that has delegated everything to theirs, on the registry's chain: they sign with
    /// their own key and name that account in the header `X-Delegate-For`. The registry of delegations is usually
    /// [`DELEGATE_REGISTRY`](toolcrib_chain::delegate::DELEGATE_REGISTRY). Without this call the header is refused.
    #[must_use]
    pub const fn delegation(mut self, registry: Address) -> Self {
        self.delegation = Some(registry);
        self
    }
}
