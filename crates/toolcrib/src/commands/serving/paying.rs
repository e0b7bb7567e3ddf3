//! Who moves the money of payments: a facilitator, or a wallet of one's own.

use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::caip::ChainId;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::Price;
use toolcrib_core::x402::{Offer, PROTOCOL, asset};
use toolcrib_fetch::Headers;
use toolcrib_gate::{Due, Facilitator, Found, LocalSettlement, Outcome, PAYMENT_SECONDS, PaidGate, Settle, Verdict};

use super::manifests::Loaded;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Failure, Stop};
use crate::printer::{Printer, shown};

/// How payments are settled.
#[derive(Args, Clone, Debug)]
pub(crate) struct Paying {
    /// Settle payments through this facilitator
    #[arg(long, value_name = "URL", conflicts_with = "settle_locally")]
    pub(crate) facilitator: Option<String>,
    /// A header for the facilitator, and the environment variable that holds its value
    #[arg(long, value_name = "HEADER=VARIABLE", requires = "facilitator")]
    pub(crate) facilitator_auth_env: Vec<String>,
    /// Settle payments with a wallet of one's own, which pays the gas; the options below say which
    #[arg(long)]
    pub(crate) settle_locally: bool,
    /// Settle before the tool runs, for tools that cost much or do what cannot be undone
    #[arg(long)]
    pub(crate) settle_first: bool,
    #[command(flatten)]
    pub(crate) signing: Signing,
}

impl Paying {
    /// A gate that asks for what the manifest asks for.
    pub(crate) async fn gate(
        &self,
        tool: &Loaded,
        onchain: &OnChain,
        is_dry: bool,
        printer: &mut Printer,
    ) -> Result<PaidGate, Stop> {
        let settle: Arc<dyn Settle> = if is_dry {
            Arc::new(NobodySettles)
        } else if let Some(url) = &self.facilitator {
            Arc::new(self.facilitator(url, tool, onchain, printer).await?)
        } else if self.settle_locally {
            let wallet: Arc<dyn Wallet> = self.signing.open()?.into();
            let mut chains = Vec::new();
            for chain in chains_of(tool) {
                chains.push(onchain.chain_by_id(chain, printer).await?);
            }
            let recipients = tool.manifest.value().pricing().iter().filter_map(|price| price.recipient.evm_address());
            Arc::new(LocalSettlement::new(wallet, chains).recipients(recipients))
        } else {
            let what = format!("{} has a price, and nothing says who settles payments", tool.slug);
            return Err(Failure::new(codes::cli::USAGE, what)
                .hint("give --facilitator URL, or --settle-locally and a wallet")
                .into());
        };
        // Whoever settles may be down for a moment, or serve one of several networks: told, and no reason not to start.
        for finding in settle.check(&offers_of(tool)).await {
            let text = format!("{}[{}]: {}", finding.severity, finding.code, shown(&finding.message));
            printer.note(&text)?;
        }
        let gate = PaidGate::new(settle);
        Ok(if self.settle_first { gate.settle_first() } else { gate })
    }

    /// A facilitator. What it says is held against the chain where a node was named.
    async fn facilitator(&self, url: &str, tool: &Loaded, onchain: &OnChain, printer: &mut Printer) -> Result<Facilitator, Stop> {
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        let mut headers = Headers::new();
        for text in &self.facilitator_auth_env {
            let (name, variable) = text.split_once('=').ok_or_else(|| {
                Failure::new(codes::cli::USAGE, "--facilitator-auth-env takes a header, `=` and the name of a variable")
            })?;
            let value = std::env::var(variable)
                .map_err(|_| Failure::new(codes::cli::SETTINGS, format!("environment variable {variable} is not set")))?;
            headers = headers.with(name, &value).map_err(unusable)?;
        }
        let mut facilitator = Facilitator::from_setting(url).map_err(unusable)?.headers(headers);
        if onchain.names_a_node() {
            let mut chains = Vec::new();
            for chain in chains_of(tool) {
                chains.push(onchain.chain_by_id(chain, printer).await?);
            }
            facilitator = facilitator.confirm_with(chains);
        } else {
            printer.note("note: without --rpc-url or RPC_URL settlements are believed on the facilitator's word")?;
        }
        Ok(facilitator)
    }

    /// Who settles, in words.
    pub(crate) const fn described(&self, is_dry: bool) -> &'static str {
        match (is_dry, self.settle_locally) {
            (true, _) => "by nobody in this dry run",
            (false, true) => "with a wallet of our own",
            (false, false) => "by a facilitator",
        }
    }
}

/// The chains of a tool's prices, each once.
fn chains_of(tool: &Loaded) -> Vec<u64> {
    let prices = tool.manifest.value().pricing().iter();
    let mut chains: Vec<u64> = prices.filter_map(|price| ChainId::parse(price.asset.chain()).ok()?.evm_id()).collect();
    chains.sort_unstable();
    chains.dedup();
    chains
}

/// What the gate will offer.
fn offers_of(tool: &Loaded) -> Vec<Offer> {
    let prices = tool.manifest.value().pricing().iter().filter(|price| price.protocol == PROTOCOL);
    let offer = |price: &Price| {
        let chain = ChainId::parse(price.asset.chain()).ok()?.evm_id()?;
        let token = asset::find(chain, price.asset.evm_address()?)?;
        Offer::exact(token, price.amount, price.recipient.evm_address()?, PAYMENT_SECONDS)
    };
    prices.filter_map(offer).collect()
}

/// Stands in where nothing may be settled. Whether a payment would settle it cannot tell, so every one passes; none is sent anywhere.
#[derive(Clone, Copy, Debug)]
struct NobodySettles;

#[async_trait]
impl Settle for NobodySettles {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Good
    }

    async fn settle(&self, _: Due<'_>) -> Outcome {
        Outcome::NotAttempted { detail: "this is a dry run".to_owned() }
    }

    async fn look_up(&self, _: Due<'_>, _: UnixTime) -> Found {
        Found::Unclear { detail: "this is a dry run".to_owned() }
    }
}
