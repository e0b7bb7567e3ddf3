//! Who moves the money of payments: a facilitator, or a wallet of one's own.

use async_trait::async_trait;
use clap::Args;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_core::x402::Offer;
use toolcrib_gate::{Due, Found, Gate, Outcome, PaidGate, Settle, Verdict};

use super::manifests::Loaded;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;

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
        _onchain: &OnChain,
        is_dry: bool,
        _printer: &mut Printer,
    ) -> Result<PaidGate, Stop> {
        let gate = if is_dry {
            Gate::paid(NobodySettles)
        } else if self.facilitator.is_some() || self.settle_locally {
            return Err(Failure::new(codes::cli::USAGE, "payments cannot be settled yet").into());
        } else {
            let what = format!("{} has a price, and nothing says who settles payments", tool.slug);
            return Err(Failure::new(codes::cli::USAGE, what)
                .hint("give --facilitator URL, or --settle-locally and a wallet")
                .into());
        };
        Ok(if self.settle_first { gate.settle_first() } else { gate })
    }

    /// Who settles, in words.
    pub(crate) fn described(&self, is_dry: bool) -> &'static str {
        match () {
            () if is_dry => "by nobody in this dry run",
            () if self.settle_locally => "with a wallet of our own",
            () => "by a facilitator",
        }
    }
}

/// Stands in where only the terms are wanted. It never says that a payment is good.
#[derive(Clone, Copy, Debug)]
struct NobodySettles;

#[async_trait]
impl Settle for NobodySettles {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Unclear { detail: "this is a dry run".to_owned() }
    }

    async fn settle(&self, _: Due<'_>) -> Outcome {
        Outcome::NotAttempted { detail: "this is a dry run".to_owned() }
    }

    async fn look_up(&self, _: Due<'_>, _: UnixTime) -> Found {
        Found::Unclear { detail: "this is a dry run".to_owned() }
    }
}
