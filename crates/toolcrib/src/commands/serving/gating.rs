//! Access gates, from the command line and the manifest.
//!
//! A manifest with a price or access requirements is never served for free by mistake: a price needs a settler, and access requirements
//! need the registered tool whose predicate decides, or an explicit `--open`.

use std::sync::Arc;

use alloy_primitives::U256;
use clap::Args;
use toolcrib_chain::registry::Registry;
use toolcrib_core::codes;
use toolcrib_gate::{Gate, IdentityGate, Settle};
use toolcrib_x402::asset;

use super::manifests::{Loaded, check_names, value_for};
use super::paying::{Paying, chains_of};
use crate::onchain::OnChain;
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;

/// Who may call.
#[derive(Args, Clone, Debug)]
pub(crate) struct Gating {
    /// Registered tool whose predicate decides access
    ///
    /// A reference, or an id with --network. With several manifests, write SLUG=TOOL.
    #[arg(long, alias = "tool-id", value_name = "[SLUG=]TOOL")]
    pub(crate) tool: Vec<String>,
    /// Ignore the access requirements of the manifest
    #[arg(long, conflicts_with_all = ["tool", "closed"])]
    pub(crate) open: bool,
    /// Serve the manifest and refuse all calls, until the tool is registered
    #[arg(long, conflicts_with = "tool")]
    pub(crate) closed: bool,
    /// Accept only payments and signatures bound to one call
    #[arg(long)]
    pub(crate) bound_only: bool,
    /// Require a proof of identity, from any account
    ///
    /// --network names the chain [default: base].
    #[arg(long, conflicts_with_all = ["tool", "open", "closed"])]
    pub(crate) identity: bool,
    /// Accept contract wallets (ERC-1271, ERC-6492); needs an RPC node
    #[arg(long)]
    pub(crate) contract_accounts: bool,
    /// Accept `Authorization: SIWE` from clients older than x402
    #[arg(long, conflicts_with = "bound_only")]
    pub(crate) siwe: bool,
    /// Do not offer the x402 extension sign-in-with-x
    #[arg(long)]
    pub(crate) no_sign_in_with_x: bool,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) paying: Paying,
}

/// The gate of a tool.
#[derive(Debug)]
pub(crate) struct Decided {
    /// The gate.
    pub(crate) gate: Gate,
    /// Its description.
    pub(crate) described: String,
    /// The tool in its registry, if it was given.
    pub(crate) standing: Option<(Registry, U256)>,
}

impl Gating {
    /// Refuses options that do not apply to any manifest.
    pub(crate) fn check(&self, tools: &[Loaded]) -> Result<(), Failure> {
        check_names("--tool", &self.tool, tools)?;
        let is_vague = tools.len() > 1
            && tools
                .iter()
                .any(|tool| value_for(&self.tool, &tool.slug).is_some_and(|value| self.tool.iter().any(|text| text == value)));
        if is_vague {
            return Err(Failure::new(codes::cli::USAGE, "--tool names one tool, but there are several manifests")
                .hint("write SLUG=TOOL, such as --tool tide-table=7"));
        }
        Ok(())
    }

    /// The gates of tools, in their order. A dry run needs no settler.
    pub(crate) async fn decide(&self, tools: &[Loaded], is_dry: bool, printer: &mut Printer) -> Result<Vec<Decided>, Stop> {
        if let (true, Some(tool)) = (self.closed, tools.iter().find(|tool| tool.is_priced())) {
            return Err(Failure::new(
                codes::cli::USAGE,
                format!("{} has a price, so it can be served before it is registered", tool.slug),
            )
            .hint("omit --closed")
            .into());
        }
        // Without a configured node, a public node would get a request for each call before its caller is known.
        if self.contract_accounts && !self.onchain.names_a_node() {
            return Err(Failure::new(codes::cli::USAGE, "--contract-accounts needs an RPC node to call contract wallets")
                .hint("give --rpc-url URL or set RPC_URL")
                .into());
        }
        let settle = self.paying.settler(tools, &self.onchain, is_dry, printer).await?;
        let mut all = Vec::new();
        for tool in tools {
            all.push(self.decide_one(tool, settle.as_ref(), is_dry, printer).await?);
        }
        self.check_used(&all)?;
        Ok(all)
    }

    /// Refuses options about signatures if no gate asks for one: the operator would believe that the tool is protected.
    fn check_used(&self, all: &[Decided]) -> Result<(), Failure> {
        let is_free = |decided: &Decided| matches!(decided.gate, Gate::Identity(_) | Gate::Predicate(_));
        let is_open = |decided: &Decided| matches!(decided.gate, Gate::Open);
        let option = match (self.siwe && !all.iter().any(is_free), self.contract_accounts && all.iter().all(is_open)) {
            (true, _) => "--siwe",
            (_, true) => "--contract-accounts",
            _ => return Ok(()),
        };
        let what = format!("{option} was given, but none of the tools identifies its callers that way");
        Err(Failure::new(codes::cli::USAGE, what).hint("give --identity, or --tool with the registered tool"))
    }

    async fn decide_one(
        &self,
        tool: &Loaded,
        settle: Option<&Arc<dyn Settle>>,
        is_dry: bool,
        printer: &mut Printer,
    ) -> Result<Decided, Stop> {
        let slug = tool.slug.as_str();
        if self.closed {
            return Ok(Decided { gate: Gate::Open, described: "closed".to_owned(), standing: None });
        }
        let standing = match value_for(&self.tool, &tool.slug) {
            None => None,
            Some(named) => Some(self.onchain.connect_for(named, printer).await?),
        };
        let predicate = standing.as_ref().map(|(registry, id)| {
            let mut gate = Gate::predicate(registry.clone(), *id);
            if self.siwe {
                gate = gate.siwe();
            }
            if self.no_sign_in_with_x {
                gate = gate.without_sign_in_with_x();
            }
            if self.bound_only { gate.bound_only() } else { gate }
        });
        let reference = standing.as_ref().map(|(registry, id)| registry.reference(*id).to_string());
        if let Some(settle) = settle.filter(|_| tool.is_priced()) {
            let mut gate = self.paying.gate(settle);
            if self.bound_only {
                gate = gate.bound_only();
            }
            if self.contract_accounts {
                gate = gate.contract_accounts(chains_of(std::slice::from_ref(tool), &self.onchain, printer).await?);
            }
            let mut described = format!("paid, settled {}", self.paying.described(is_dry));
            if let (Some(predicate), Some(reference)) = (predicate, reference) {
                gate = gate.predicate(predicate);
                described += &format!(", for accounts that the predicate of {reference} allows");
            }
            return Ok(Decided { gate: gate.into(), described, standing });
        }
        if let (Some(mut predicate), Some(reference), Some((registry, _))) = (predicate, reference, &standing) {
            if self.contract_accounts {
                // A contract wallet exists on one chain, so identity is signed for that chain, rather than the one that common clients
                // default to.
                let chain = registry.chain();
                predicate = predicate.identity_chain(with_usdc(chain.chain_id())?).contract_accounts(chain.clone());
            }
            return Ok(Decided { gate: predicate.into(), described: format!("predicate of {reference}"), standing });
        }
        if tool.manifest.value().access().is_some() && !self.open {
            let what = format!("{slug} has access requirements, but no predicate to check them");
            return Err(Failure::new(codes::cli::USAGE, what)
                .hint("give --tool with the registered tool, --closed before it is registered, or --open to allow everyone")
                .into());
        }
        if self.identity {
            let gate = self.identity_gate(printer).await?;
            return Ok(Decided { gate: gate.into(), described: "callers who prove their account".to_owned(), standing: None });
        }
        Ok(Decided { gate: Gate::Open, described: "open to everybody".to_owned(), standing: None })
    }

    /// A gate that only identifies the caller.
    async fn identity_gate(&self, printer: &mut Printer) -> Result<IdentityGate, Stop> {
        let mut gate = Gate::identity();
        if self.onchain.network.is_some() {
            gate = gate.identity_chain(with_usdc(self.onchain.named()?.chain_id)?);
        }
        if self.contract_accounts {
            let chain = match self.onchain.network {
                Some(_) => self.onchain.chain(printer).await?,
                None => self.onchain.chain_by_id(BASE, printer).await?,
            };
            gate = gate.contract_accounts(chain);
        }
        if self.siwe {
            gate = gate.siwe();
        }
        if self.no_sign_in_with_x {
            gate = gate.without_sign_in_with_x();
        }
        Ok(if self.bound_only { gate.bound_only() } else { gate })
    }
}

/// Default chain for identity signatures.
const BASE: u64 = 8453;

/// Checks that identity can be signed for a chain: its USDC must be known.
fn with_usdc(chain: u64) -> Result<u64, Failure> {
    match asset::preferred(chain) {
        Some(_) => Ok(chain),
        None => Err(Failure::new(
            codes::cli::USAGE,
            format!("there is no known USDC on chain {chain}, so identity cannot be proven there"),
        )
        .hint("name a network such as base or base-sepolia, or add a token to its entry in your settings file")),
    }
}
