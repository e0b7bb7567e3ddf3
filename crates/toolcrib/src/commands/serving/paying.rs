//! Settlement of payments: by a facilitator, or by the operator's wallet.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::Price;
use toolcrib_fetch::Headers;
use toolcrib_gate::{
    Due, Facilitator, Found, Journal, LocalSettlement, Outcome, PAYMENT_SECONDS, PaidGate, Record, Settle, Verdict,
};
use toolcrib_x402::{Offer, PROTOCOL, asset};

use super::manifests::Loaded;
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;

/// The note of `serve` about transfers that the facilitator did not identify.
const SHARED_RECIPIENT: &str =
    "note: other servers may use the same recipients; servers with a common recipient must share a store";
const SOLE_RECIPIENT: &str =
    "note: only this server uses these recipients (--sole-recipient); a payment's transfer counts from any sender";

/// How payments are settled.
#[derive(Args, Clone, Debug)]
pub(crate) struct Paying {
    /// Settle payments through this facilitator
    #[arg(long, value_name = "URL", conflicts_with = "settle_locally")]
    pub(crate) facilitator: Option<String>,
    /// Facilitator header whose value is in a variable
    #[arg(long, value_name = "HEADER=VARIABLE", requires = "facilitator")]
    pub(crate) facilitator_auth_env: Vec<String>,
    /// Do not list the tools in the facilitator's catalog
    #[arg(long, requires = "facilitator")]
    pub(crate) unlisted: bool,
    /// Trust the facilitator without checking settlements on the chain
    ///
    /// A payment whose answer is lost stays undecided.
    #[arg(long, requires = "facilitator")]
    pub(crate) trust_facilitator: bool,
    /// Accept a payment's transfer from any sender
    ///
    /// Use it only if no other server is paid to these recipients, unless it shares the store. By default, a transfer that the
    /// facilitator did not name counts only if one of its announced signers sent it.
    #[arg(long, requires = "facilitator")]
    pub(crate) sole_recipient: bool,
    /// Settle payments with your own wallet, which pays the gas
    #[arg(long)]
    pub(crate) settle_locally: bool,
    /// Factory that may deploy payers' wallets (ERC-6492); repeatable
    ///
    /// Your wallet pays the gas.
    #[arg(long, value_name = "0x…", requires_all = ["settle_locally", "contract_accounts"])]
    pub(crate) wallet_factory: Vec<String>,
    /// Settle before the tool runs, for expensive or irreversible work
    #[arg(long)]
    pub(crate) settle_first: bool,
    #[command(flatten)]
    pub(crate) signing: Signing,
}

impl Paying {
    /// The settler of all these tools, if one of them has a price. They share one, because the nonces of a key must be assigned in one
    /// place.
    pub(crate) async fn settler(
        &self,
        tools: &[Loaded],
        onchain: &OnChain,
        is_dry: bool,
        printer: &mut Printer,
    ) -> Result<Option<Arc<dyn Settle>>, Stop> {
        let Some(first) = tools.iter().find(|tool| tool.is_priced()) else { return Ok(None) };
        let settle: Arc<dyn Settle> = if is_dry {
            Arc::new(NobodySettles)
        } else if let Some(url) = &self.facilitator {
            Arc::new(self.facilitator(url, tools, onchain, printer).await?)
        } else if self.settle_locally {
            let wallet: Arc<dyn Wallet> = self.signing.open()?.into();
            let chains = chains_of(tools, onchain, printer).await?;
            let recipients = prices(tools).filter_map(|price| price.recipient.evm_address());
            let factories = self.wallet_factory.iter().map(|text| parse_address(text)).collect::<Result<Vec<_>, Failure>>()?;
            Arc::new(LocalSettlement::new(wallet, chains).recipients(recipients).wallet_factories(factories))
        } else {
            let what = format!("{} has a price, but no settlement is configured", first.slug);
            return Err(Failure::new(codes::cli::USAGE, what)
                .hint("give --facilitator URL, or --settle-locally and a wallet")
                .into());
        };
        // The settler may be down for a moment, or not support one of the networks: warn, and start all the same.
        for finding in settle.check(&offers_of(tools)).await {
            let text = format!("{}[{}]: {}", finding.severity, finding.code, shown(&finding.message));
            printer.note(&text)?;
        }
        Ok(Some(settle))
    }

    /// Returns the gate for the manifest's price.
    pub(crate) fn gate(&self, settle: &Arc<dyn Settle>) -> PaidGate {
        let mut gate = PaidGate::new(settle.clone());
        if self.unlisted {
            gate = gate.unlisted();
        }
        if self.settle_first { gate.settle_first() } else { gate }
    }

    /// A facilitator. Its claims are checked on the chain if a node is configured.
    async fn facilitator(
        &self,
        url: &str,
        tools: &[Loaded],
        onchain: &OnChain,
        printer: &mut Printer,
    ) -> Result<Facilitator, Stop> {
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        let mut headers = Headers::new();
        for text in &self.facilitator_auth_env {
            let (name, variable) = text
                .split_once('=')
                .ok_or_else(|| Failure::new(codes::cli::USAGE, "--facilitator-auth-env expects HEADER=VARIABLE"))?;
            let value = secrets::var(variable)
                .ok_or_else(|| Failure::new(codes::cli::SETTINGS, format!("environment variable {variable} is not set")))?;
            headers = headers.with(name, &value).map_err(unusable)?;
        }
        let facilitator = Facilitator::from_setting(url).map_err(unusable)?.headers(headers);
        if onchain.names_a_node() {
            printer.note(if self.sole_recipient { SOLE_RECIPIENT } else { SHARED_RECIPIENT })?;
            let facilitator = if self.sole_recipient { facilitator.sole_recipient() } else { facilitator };
            return Ok(facilitator.confirm_with(chains_of(tools, onchain, printer).await?));
        }
        // Without a node, transfers cannot be searched, so the option would have no effect.
        if self.sole_recipient {
            let what = "--sole-recipient needs an RPC node, to see transfers on the chain";
            return Err(Failure::new(codes::settlement::NO_NODE, what)
                .hint("give --rpc-url or RPC_URL, or omit --sole-recipient")
                .into());
        }
        if !self.trust_facilitator {
            let what = "there is no RPC node to check the facilitator's settlements on the chain";
            return Err(Failure::new(codes::settlement::NO_NODE, what)
                .hint("give --rpc-url or RPC_URL, or --trust-facilitator to trust the facilitator")
                .into());
        }
        printer.note("note: settlements are not checked on the chain; the facilitator is trusted")?;
        Ok(facilitator)
    }

    /// A description of the settler.
    pub(crate) const fn described(&self, is_dry: bool) -> &'static str {
        match (is_dry, self.settle_locally) {
            (true, _) => "not in this dry run",
            (false, true) => "with your wallet",
            (false, false) => "by a facilitator",
        }
    }
}

fn prices(tools: &[Loaded]) -> impl Iterator<Item = &Price> {
    tools.iter().flat_map(|tool| tool.manifest.value().pricing())
}

/// The chains of the tools' prices, without duplicates.
pub(super) async fn chains_of(tools: &[Loaded], onchain: &OnChain, printer: &mut Printer) -> Result<Vec<Chain>, Stop> {
    let ids = prices(tools).filter_map(|price| ChainId::parse(price.asset.chain()).ok()?.evm_id());
    let mut chains = Vec::new();
    for id in ids.collect::<BTreeSet<_>>() {
        chains.push(onchain.chain_by_id(id, printer).await?);
    }
    Ok(chains)
}

/// The payment options that the gate will offer.
fn offers_of(tools: &[Loaded]) -> Vec<Offer> {
    let offer = |price: &Price| {
        let chain = ChainId::parse(price.asset.chain()).ok()?.evm_id()?;
        let token = asset::find(chain, price.asset.evm_address()?)?;
        Offer::exact(token, price.amount, price.recipient.evm_address()?, PAYMENT_SECONDS)
    };
    prices(tools).filter(|price| price.protocol == PROTOCOL).filter_map(offer).collect()
}

/// Used where nothing may be settled. It cannot tell whether a payment would settle, so it accepts every one and sends none.
#[derive(Clone, Copy, Debug)]
struct NobodySettles;

#[async_trait]
impl Settle for NobodySettles {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Good { from_block: None }
    }

    async fn settle(&self, _: Due<'_>, _: Option<u64>, _: &dyn Journal) -> Outcome {
        Outcome::NotAttempted { detail: "this is a dry run".to_owned() }
    }

    async fn look_up(&self, _: Due<'_>, _: &Record) -> Found {
        Found::Unclear { detail: "this is a dry run".to_owned() }
    }
}
