//! `call`: verifies a tool, pays its price and prints the result.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use alloy_primitives::Bytes;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use toolcrib_client::{CallMethod, CallOptions, Consent, Plan, Terms, Usdc};
use toolcrib_core::codes;

use super::SpendArgs;
use super::outcome::{conclude, refuse};
use super::session::{cautious, equipped};
use crate::commands::trust::EgressArgs;
use crate::input::{Source, json_argument};
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::settings::{Origin, Settings};

/// Arguments of `call`.
#[derive(Args, Debug)]
pub(crate) struct Call {
    /// Tool: a reference, or an id with --network [see `help references`]
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// Input: JSON, `@FILE`, or `-` for stdin [default: {}]
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// HTTP method
    #[arg(long, value_enum, default_value_t = Method::Post)]
    pub(crate) method: Method,
    /// Show what would be paid, and send nothing to the tool
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Confirm price and identity beforehand, within the spend policy
    ///
    /// Without --yes and --max-price you are asked about amounts above `spend.ask_above` (0.02 by default), and about proofs of
    /// identity unless `spend.ask_identity` is false. Without a terminal nothing is paid unless your settings have limits.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Highest price in dollars, accepted without asking
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) max_price: Option<String>,
    /// Accept values that the tool's schema fixes (`const`)
    #[arg(long)]
    pub(crate) ack_const: bool,
    /// Call even if a schema cannot be applied
    ///
    /// Input or output are then not checked.
    #[arg(long)]
    pub(crate) allow_unchecked: bool,
    /// Accept exactly these terms, even if the manifest states others
    #[arg(long, value_name = "TERMS")]
    pub(crate) agree: Option<String>,
    /// Account of the tool's operator, allowed as recipient of identity proofs
    #[arg(long, value_name = "0x…")]
    pub(crate) operator: Option<String>,
    /// Sign in (sign-in-with-x) without asking, if the tool requires it
    #[arg(long)]
    pub(crate) sign_in: bool,
    /// Use a random nonce not bound to the call, for servers that require it
    #[arg(long)]
    pub(crate) unbound: bool,
    /// File with access data for the predicate, in hex
    #[arg(long, value_name = "FILE")]
    pub(crate) access_data: Option<PathBuf>,
    /// Account that delegated to the wallet (delegate.xyz)
    #[arg(long, value_name = "0x…")]
    pub(crate) delegate_for: Option<String>,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// How a tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Send the input as JSON body
    Post,
    /// Send the input as query parameters
    Get,
}

impl From<Method> for CallMethod {
    fn from(method: Method) -> Self {
        match method {
            Method::Post => Self::Post,
            Method::Get => Self::Get,
        }
    }
}

/// Calls.
pub(crate) async fn run(arguments: &Call, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let input = input(arguments.input.as_deref())?;
    let options = options(arguments)?;
    let (registry, id) = arguments.onchain.connect_for(&arguments.tool, printer).await?;
    let mut builder = arguments.purse.client(&arguments.reach, settings).await?;
    // At a terminal, small amounts need no approval by default, since the user sees what is paid. A script has to allow them.
    let mut policy = settings.spend.value.clone();
    if settings.spend.origin == Origin::Default && !std::io::stdin().is_terminal() {
        policy.ask_above = Usdc::ZERO;
    }
    // Proofs of identity need approval unless the settings say otherwise.
    policy.ask_identity.get_or_insert(true);
    builder = builder.policy(cautious(policy, registry.chain()));
    // `--network` restricts what is signed, also for a tool that is registered on another network.
    if arguments.onchain.network.is_some() {
        builder = builder.only_chain(arguments.onchain.named()?.chain_id);
    }
    let client = equipped(builder, &arguments.signing, Some(registry.chain().clone()))?;
    let tool = registry.reference(id);
    if arguments.dry_run {
        return match client.plan(tool, &input, &options).await {
            Ok(plan) => planned(&plan, printer),
            Err(error) => refuse(&error, printer),
        };
    }
    conclude(client.call(tool, &input, &options).await, printer)
}

fn planned(plan: &Plan, printer: &mut Printer) -> Result<Done, Stop> {
    printer.result(&format!("would call {}\n", shown(&plan.url)))?;
    let price = plan.terms.as_ref().map_or_else(|| "nothing".to_owned(), |terms| terms.shown());
    printer.result(&format!("would pay  {price}{}\n", if plan.asks { ", after asking" } else { "" }))?;
    for value in &plan.prefilled {
        printer.result(&format!("schema     {} = {}\n", shown(&value.pointer), shown(&value.value)))?;
    }
    let mut exit = Exit::Yes;
    if let Some(refusal) = &plan.refusal {
        exit = Exit::No;
        printer.result(&format!("refused    {}: {}\n", refusal.code(), shown(&refusal.to_string())))?;
    }
    let data = json!({
        "dry_run": true,
        "tool": plan.tool.to_string(),
        "manifest_hash": plan.manifest_hash,
        "url": plan.url,
        "terms": plan.terms,
        "shown": plan.terms.as_ref().map(Terms::shown),
        "asks": plan.asks,
        "unchecked": plan.unchecked.iter().map(|part| part.which).collect::<Vec<_>>(),
        "refusal": plan.refusal.as_ref().map(|refusal| refusal.code().id()),
        "prefilled": plan.prefilled.iter().map(|value| json!({ "pointer": value.pointer, "keyword": value.keyword, "value": value.value })).collect::<Vec<_>>(),
    });
    Ok(Done::new(exit, data))
}

fn options(arguments: &Call) -> Result<CallOptions, Failure> {
    let consent = Consent {
        ack_const: arguments.ack_const,
        unchecked: arguments.allow_unchecked,
        max_price: arguments.max_price.as_deref().map(dollars).transpose()?,
        yes: arguments.yes,
        terms: arguments.agree.as_deref().map(terms).transpose()?,
        operator: arguments.operator.as_deref().map(parse_address).transpose()?,
        sign_in: arguments.sign_in,
        manifest: None,
    };
    let access_data = match &arguments.access_data {
        Some(path) => Some(hexadecimal(path)?),
        None => None,
    };
    Ok(CallOptions {
        method: arguments.method.into(),
        consent,
        bound: !arguments.unbound,
        access_data,
        delegate_for: arguments.delegate_for.as_deref().map(parse_address).transpose()?,
    })
}

fn input(text: Option<&str>) -> Result<Value, Failure> {
    text.map_or_else(|| Ok(json!({})), json_argument)
}

/// Parses an amount in dollars.
pub(super) fn dollars(text: &str) -> Result<Usdc, Failure> {
    Usdc::parse(text).ok_or_else(|| {
        Failure::new(codes::cli::USAGE, format!("`{text}` is not an amount"))
            .hint("write dollars with at most six decimals, such as 0.05")
    })
}

/// Parses terms in the form in which a denied call prints them.
pub(super) fn terms(text: &str) -> Result<Terms, Failure> {
    Terms::parse(text).map_err(|fault| Failure::new(codes::cli::USAGE, format!("`{text}` are not payment terms: {fault}")))
}

fn hexadecimal(path: &Path) -> Result<Bytes, Failure> {
    let bytes = Source::File(path.to_owned()).read()?;
    let text = String::from_utf8_lossy(&bytes);
    text.trim().parse().map_err(|_| Failure::new(codes::cli::USAGE, format!("{} is not hexadecimal", path.display())))
}
