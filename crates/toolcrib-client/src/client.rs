//! The client and its settings.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolCall;
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::sign::{Domain, check_domain};
use toolcrib_chain::wallet::{Scope, Wallet};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::tool::ToolManifest;
use toolcrib_fetch::{Limits, Untrusted};
use toolcrib_judge::Policy;
use toolcrib_judge::evidence::Exchange;
use toolcrib_verify::{Depth, Live, Onchain, Verified, Verifier};
use toolcrib_x402::asset::Token;

use crate::approver::{Approver, Nobody};
use crate::{CallError, Ledger, SpendPolicy};

/// Most bytes of an output: what Toolcrib's gate serves. Agents read outputs into a context that holds less.
pub const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Timeout of a response to a request without payment. Toolcrib's gate gives handlers 55 seconds, and an open tool runs at once.
pub const CALL_LIMIT: Duration = Duration::from_secs(65);

/// Timeout of a response to a payment: the handler, and a settlement that waits for its block.
pub const PAID_LIMIT: Duration = Duration::from_secs(130);

/// Gas limit for reading a balance: enough for tokens behind a proxy or two.
const BALANCE_GAS: u64 = 500_000;

/// Calls tools and pays for them. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) verifier: Verifier,
    pub(crate) door: Untrusted,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) ledger: Ledger,
    pub(crate) wallet: Option<Arc<dyn Wallet>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) policy: SpendPolicy,
    pub(crate) chains: BTreeMap<u64, Chain>,
    pub(crate) only_chains: Option<Vec<u64>>,
    pub(crate) operators: Vec<(ToolRef, Address)>,
    pub(crate) limits: Limits,
    pub(crate) paid_limits: Limits,
    /// Tokens whose EIP-712 domain was compared with the chain's.
    domains: Mutex<HashSet<(u64, Address)>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("wallet", &self.inner.wallet.as_ref().map(|wallet| wallet.address()))
            .field("chains", &self.inner.chains.keys().collect::<Vec<_>>())
            .field("policy", &self.inner.policy)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Starts the settings. The verifier and the HTTP client should resolve hosts and chains alike; the clock dates signatures and budgets.
    pub fn builder(verifier: Verifier, door: Untrusted, ledger: Ledger, clock: Arc<dyn Clock + Send + Sync>) -> ClientBuilder {
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_OUTPUT_BYTES;
        (limits.idle, limits.total) = (CALL_LIMIT, CALL_LIMIT);
        let mut paid_limits = limits;
        (paid_limits.idle, paid_limits.total) = (PAID_LIMIT, PAID_LIMIT);
        ClientBuilder(Inner {
            verifier,
            door,
            clock,
            ledger,
            wallet: None,
            approver: Arc::new(Nobody),
            policy: SpendPolicy::default(),
            chains: BTreeMap::new(),
            only_chains: None,
            operators: Vec::new(),
            limits,
            paid_limits,
            domains: Mutex::default(),
        })
    }

    /// Returns the ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// Returns the policy.
    pub fn policy(&self) -> &SpendPolicy {
        &self.inner.policy
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.inner.clock.now()
    }

    pub(crate) fn chain(&self, chain: u64) -> Result<&Chain, CallError> {
        self.inner.chains.get(&chain).ok_or(CallError::NoChain { chain })
    }

    /// Whether signatures for a chain are allowed.
    pub(crate) fn is_allowed(&self, chain: u64) -> bool {
        self.inner.only_chains.as_ref().is_none_or(|allowed| allowed.contains(&chain))
    }

    pub(crate) fn registry(&self, tool: ToolRef) -> Result<Registry, CallError> {
        Ok(Registry::new(self.chain(tool.chain)?.clone(), tool.registry))
    }

    /// Verifies a tool now, without using earlier results.
    pub(crate) async fn verify(&self, tool: ToolRef) -> Result<Verified<ToolManifest>, CallError> {
        let live = self.verify_live(tool).await?;
        live.verified.ok_or_else(|| CallError::NotVerified { tool, report: Box::new(live.report) })
    }

    /// Verifies a tool now, under the policy of a paid call, and returns the report and the evidence as well.
    pub async fn verify_live(&self, tool: ToolRef) -> Result<Live, CallError> {
        let registry = self.registry(tool)?;
        let mut policy = Policy::pay();
        // A built-in registry is trusted only as long as its code is the pinned one.
        let network = registry.chain().network();
        policy.pinned_registry_code = network.registry_code.filter(|_| network.registry == Some(tool.registry));
        Ok(self.inner.verifier.live(&Onchain::new(registry, tool.id), &policy, Depth::Checks).await?)
    }

    /// Whether there is an RPC node for a chain, so that tools of its registries can be verified.
    pub fn knows_chain(&self, chain: u64) -> bool {
        self.inner.chains.contains_key(&chain)
    }

    /// Returns the operators that the user pinned for a tool.
    pub(crate) fn operators(&self, tool: ToolRef) -> Vec<Address> {
        self.inner.operators.iter().filter(|(of, _)| *of == tool).map(|(_, operator)| *operator).collect()
    }

    /// Returns an account's balance of a token. `None` if there is no node for its chain.
    pub(crate) async fn balance(&self, token: &Token, account: Address) -> Result<Option<U256>, CallError> {
        match self.inner.chains.get(&token.chain) {
            Some(chain) => Ok(read_balance(chain, token.address, account).await?),
            None => Ok(None),
        }
    }

    /// Compares a token's EIP-712 domain with the pinned one, once, if there is a node.
    pub(crate) async fn check_domain(&self, token: &Token) -> Result<(), CallError> {
        let key = (token.chain, token.address);
        let Some(chain) = self.inner.chains.get(&token.chain) else { return Ok(()) };
        if self.inner.domains.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return Ok(());
        }
        check_domain(chain, &domain(token)).await?;
        self.inner.domains.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        Ok(())
    }

    /// Returns what a person has to see about a chain before signing for it: network, nodes and the settings file that they come from.
    /// Empty if there is no node for the chain.
    pub fn facts(&self, chain: u64) -> Vec<(&'static str, String)> {
        self.inner.chains.get(&chain).map(Chain::facts).unwrap_or_default()
    }

    /// Returns the account that signs; `None` without a wallet.
    pub fn account(&self) -> Option<Address> {
        self.inner.wallet.as_ref().map(|wallet| wallet.address())
    }

    /// Returns where signatures for a chain are valid. On a local chain with a public chain ID, only development keys may sign.
    pub(crate) async fn scope(&self, chain: u64) -> Result<Scope, CallError> {
        Ok(match self.inner.chains.get(&chain) {
            Some(chain) => Scope::of(chain).await?,
            None => Scope::offline(chain),
        })
    }
}

/// Returns the pinned domain of a token.
pub(crate) fn domain(token: &Token) -> Domain {
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

/// Calls `balanceOf(address)` of an ERC-20 or an ERC-721. `None` if the contract does not return a number.
pub(crate) async fn read_balance(chain: &Chain, token: Address, account: Address) -> Result<Option<U256>, toolcrib_chain::Error> {
    let data = IEIP3009::balanceOfCall { account }.abi_encode().into();
    read_word(chain, token, data).await
}

/// Calls a function that returns one word.
pub(crate) async fn read_word(
    chain: &Chain,
    to: Address,
    data: alloy_primitives::Bytes,
) -> Result<Option<U256>, toolcrib_chain::Error> {
    let call = BoundedCall { to, data, from: None, gas: Some(BALANCE_GAS), max_bytes: 32 };
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) if bytes.len() == 32 => Some(U256::from_be_slice(&bytes)),
        _ => None,
    })
}

/// Settings of a [`Client`].
pub struct ClientBuilder(Inner);

impl ClientBuilder {
    /// Sets the wallet. Without one, only open tools can be called.
    #[must_use]
    pub fn wallet(mut self, wallet: Arc<dyn Wallet>) -> Self {
        self.0.wallet = Some(wallet);
        self
    }

    /// Adds a chain: for tools that are registered on it, for balances, and to look up the outcome of payments.
    #[must_use]
    pub fn chain(mut self, chain: Chain) -> Self {
        self.0.chains.insert(chain.chain_id(), chain);
        self
    }

    /// Allows signatures for this chain only: payments and proofs of identity.
    #[must_use]
    pub fn only_chain(self, chain: u64) -> Self {
        self.only_chains([chain])
    }

    /// Allows signatures for these chains only.
    #[must_use]
    pub fn only_chains(mut self, chains: impl IntoIterator<Item = u64>) -> Self {
        self.0.only_chains = Some(chains.into_iter().collect());
        self
    }

    /// Sets the approver. Without one, every question is answered with no.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.0.approver = approver;
        self
    }

    /// Sets the spend policy.
    #[must_use]
    pub fn policy(mut self, policy: SpendPolicy) -> Self {
        self.0.policy = policy;
        self
    }

    /// Pins an account that runs a tool for its creator, so that it may be the recipient of proofs of identity.
    #[must_use]
    pub fn operator(mut self, tool: ToolRef, operator: Address) -> Self {
        self.0.operators.push((tool, operator));
        self
    }

    /// Sets the limits for requests without and with a payment.
    #[must_use]
    pub const fn limits(mut self, plain: Limits, paid: Limits) -> Self {
        (self.0.limits, self.0.paid_limits) = (plain, paid);
        self
    }

    /// Builds the client.
    pub fn build(self) -> Client {
        Client { inner: Arc::new(self.0) }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

/// The exchanges of a call, in order, for the record. They do not contain request headers.
pub(crate) type Exchanges = Vec<Exchange>;
