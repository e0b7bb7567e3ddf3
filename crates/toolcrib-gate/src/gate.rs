//! Gates: open, predicate, identity and paid, and how a caller proves its account.
//!
//! A predicate checks an account, and any caller can name any account. So a caller first proves its account with a signature over a
//! transfer of value 0 (EIP-3009), which answers a 402 challenge. That needs no RPC node: the signer is recovered. Only then is the
//! registry asked whether that account has access.

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
    /// Every caller, without identification.
    #[default]
    Open,
    /// Callers that the tool's predicate accepts.
    Predicate(Box<PredicateGate>),
    /// Every caller that proves an account.
    Identity(Box<IdentityGate>),
    /// Callers that pay and, if there is a predicate, that it accepts.
    Paid(Box<PaidGate>),
}

impl Gate {
    /// Requires callers to prove an account, and accepts every account. The handler learns the account; no registry is asked.
    pub fn identity() -> IdentityGate {
        IdentityGate::default()
    }

    /// Requires payment of one of the manifest's prices. `settle` settles the payments.
    pub fn paid(settle: impl Settle + 'static) -> PaidGate {
        PaidGate::new(Arc::new(settle))
    }

    /// Requires access from the predicate of this tool. The registry says which predicate that is; the gate treats all predicates alike.
    pub fn predicate(registry: Registry, id: U256) -> PredicateGate {
        PredicateGate::new(registry, id)
    }

    /// Starts a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
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

/// A gate that identifies callers and accepts all of them.
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
    /// Starts a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
    pub fn layer(self, manifest: Sealed<ToolManifest>) -> LayerBuilder {
        LayerBuilder::new(self.into(), manifest)
    }

    /// Sets the tool's registration. Bound signatures must then commit to this tool; without it, to the tool that the caller names.
    #[must_use]
    pub const fn tool(mut self, tool: ToolRef) -> Self {
        self.tool = Some(tool);
        self
    }

    /// Sets the recipient (`payTo`) of identity signatures, instead of the manifest's creator. Clients refuse recipients that they cannot
    /// check against the manifest, so change it only if you have to.
    #[must_use]
    pub const fn pay_to(mut self, account: Address) -> Self {
        self.pay_to = Some(account);
        self
    }

    /// Sets the chain whose USDC identity signatures name, instead of Base. Nothing is ever sent to that chain.
    #[must_use]
    pub const fn identity_chain(mut self, chain: u64) -> Self {
        self.identity_chain = Some(chain);
        self
    }

    /// Sets the longest validity of signatures and the allowed clock skew.
    #[must_use]
    pub const fn times(mut self, times: TimePolicy) -> Self {
        self.times = times;
        self
    }

    /// Accepts only bound signatures, which commit to one call of this tool. Of all clients, only Toolcrib's make them.
    #[must_use]
    pub const fn bound_only(mut self) -> Self {
        self.bound_only = true;
        self
    }

    /// Accepts smart accounts, on a chain for which there is an RPC node: an account with code verifies its signature itself (ERC-1271), a
    /// signature of an undeployed account is simulated (ERC-6492), and for every other account the signer is recovered. Without this call
    /// every signer is recovered and no node is asked. It must be the chain that identity signatures name.
    #[must_use]
    pub fn contract_accounts(mut self, chain: Chain) -> Self {
        self.contract_accounts = vec![chain];
        self
    }

    /// Disables the x402 extension `sign-in-with-x`, with which callers sign a message for this endpoint (EIP-4361) instead of a transfer
    /// of value 0. Gates that accept [only bound signatures](Self::bound_only) never offer it.
    #[must_use]
    pub const fn without_sign_in_with_x(mut self) -> Self {
        self.sign_in.without_x = true;
        self
    }

    /// Accepts `Authorization: SIWE` too, which clients sent before x402: a message for this endpoint that the caller wrote (EIP-4361),
    /// with a nonce of the caller. Each message is accepted once.
    #[must_use]
    pub const fn siwe(mut self) -> Self {
        self.sign_in.siwe = true;
        self
    }
}

/// A gate that requires payment.
///
/// The payment proves the caller's account, so a predicate needs no second signature. The predicate is called before any money moves.
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
    /// Starts a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
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

    /// Requires access from the tool's predicate too, checked before any money moves. If that gate requires bound signatures, payments must
    /// be bound as well. Its times and its recipient do not apply: payments have their own [`times`](Self::times) and the manifest's
    /// recipient.
    #[must_use]
    pub fn predicate(mut self, gate: PredicateGate) -> Self {
        self.predicate = Some(gate);
        self
    }

    /// Sets the tool's registration, if no predicate sets it. Bound signatures must then commit to this tool; without it, to the tool that
    /// the caller names.
    #[must_use]
    pub const fn tool(mut self, tool: ToolRef) -> Self {
        self.tool = Some(tool);
        self
    }

    /// Sets the longest validity of payments and the allowed clock skew.
    #[must_use]
    pub const fn times(mut self, times: TimePolicy) -> Self {
        self.times = times;
        self
    }

    /// Accepts only bound payments, which commit to one call of this tool. Of all clients, only Toolcrib's make them.
    #[must_use]
    pub const fn bound_only(mut self) -> Self {
        self.bound_only = true;
        self
    }

    /// Does not ask facilitators to list the tool in their catalogues (the x402 extension `bazaar`).
    #[must_use]
    pub const fn unlisted(mut self) -> Self {
        self.unlisted = true;
        self
    }

    /// Settles before the handler runs, for handlers that are expensive or cannot be undone. A caller who has paid and gets an error
    /// instead of an output then has a receipt, and may call again with the same payment; there is no automatic refund.
    #[must_use]
    pub const fn settle_first(mut self) -> Self {
        self.settle_first = true;
        self
    }

    /// Accepts smart accounts, on the chains for which there is an RPC node: an account with code verifies its signature itself (ERC-1271),
    /// a signature of an undeployed account is simulated (ERC-6492), and for every other account the signer is recovered. Without this call
    /// every signer is recovered and no node is asked. Each chain must be the chain of a price. Whether such a payment can be settled
    /// depends on the token and on the facilitator or settlement key.
    #[must_use]
    pub fn contract_accounts(mut self, chains: Vec<Chain>) -> Self {
        self.contract_accounts = chains;
        self
    }
}

/// A gate that identifies callers and asks the registry whether the account has access.
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
    /// Starts a tower layer for the tool of this manifest; see [`GateLayer`](crate::GateLayer).
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

    /// Sets the recipient (`payTo`) of identity signatures, instead of the manifest's creator. Clients refuse recipients that they cannot
    /// check against the manifest, so change it only if you have to.
    #[must_use]
    pub const fn pay_to(mut self, account: Address) -> Self {
        self.pay_to = Some(account);
        self
    }

    /// Derives the recipient of identity signatures from the endpoint, the tool and the operator (the account of [`pay_to`](Self::pay_to),
    /// or else the manifest's creator), so that a signature for one tool is useless at another. Payments always go to the manifest's
    /// recipient.
    #[must_use]
    pub fn recipient(mut self, recipient: impl Recipient + 'static) -> Self {
        self.recipient = Some(Arc::new(recipient));
        self
    }

    /// Sets the chain whose USDC identity signatures name. The default is the registry's chain if stock clients of both x402 versions can
    /// sign for it, and Base otherwise. Nothing is ever sent to that chain.
    #[must_use]
    pub const fn identity_chain(mut self, chain: u64) -> Self {
        self.identity_chain = Some(chain);
        self
    }

    /// Sets the longest validity of signatures and the allowed clock skew.
    #[must_use]
    pub const fn times(mut self, times: TimePolicy) -> Self {
        self.times = times;
        self
    }

    /// Accepts only bound signatures, which commit to one call of this tool. Of all clients, only Toolcrib's make them.
    #[must_use]
    pub const fn bound_only(mut self) -> Self {
        self.bound_only = true;
        self
    }

    /// Sets the `data` that the predicate gets for callers that send none in the header [`X_TOOL_ACCESS_DATA`].
    #[must_use]
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Accepts smart accounts, on a chain for which there is an RPC node: an account with code verifies its signature itself (ERC-1271), a
    /// signature of an undeployed account is simulated (ERC-6492), and for every other account the signer is recovered. Without this call
    /// every signer is recovered and no node is asked. It must be the chain that identity signatures name.
    #[must_use]
    pub fn contract_accounts(mut self, chain: Chain) -> Self {
        self.contract_accounts = vec![chain];
        self
    }

    /// Disables the x402 extension `sign-in-with-x`, with which callers sign a message for this endpoint (EIP-4361) instead of a transfer
    /// of value 0. Gates that accept [only bound signatures](Self::bound_only) never offer it.
    #[must_use]
    pub const fn without_sign_in_with_x(mut self) -> Self {
        self.sign_in.without_x = true;
        self
    }

    /// Accepts `Authorization: SIWE` too, which clients sent before x402: a message for this endpoint that the caller wrote (EIP-4361),
    /// with a nonce of the caller. Each message is accepted once.
    #[must_use]
    pub const fn siwe(mut self) -> Self {
        self.sign_in.siwe = true;
        self
    }

    /// Lets callers use the access of an account that has delegated everything to them, on the registry's chain: they sign with their own
    /// key and name that account in the header `X-Delegate-For`. The delegation registry is usually
    /// [`DELEGATE_REGISTRY`](toolcrib_chain::delegate::DELEGATE_REGISTRY). Without this call the header is refused.
    #[must_use]
    pub const fn delegation(mut self, registry: Address) -> Self {
        self.delegation = Some(registry);
        self
    }
}
