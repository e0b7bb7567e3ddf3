//! `call`: verify a tool, pay for it if need be, and print what it says.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use alloy_primitives::Bytes;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use toolcrib_client::{CallMethod, CallOptions, Consent, Plan, Terms, Usdc};
use toolcrib_core::codes;

use super::Purse;
use super::outcome::{conclude, refuse};
use super::session::{cautious, equipped};
use crate::commands::trust::Reach;
use crate::input::{Source, json_argument};
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::settings::{Origin, Settings};

/// Arguments of `call`.
#[derive(Args, Debug)]
pub(crate) struct Call {
    /// The tool: `eip155:<chain>/erc8257:<registry>/<id>`, or an id together with --network
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The input: JSON, `@FILE`, or `-` for stdin; an empty object if none is given
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// How the tool is called
    #[arg(long, value_enum, default_value_t = Method::Post)]
    pub(crate) method: Method,
    /// Say what would be paid, and send nothing to the tool
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask about the price or a proof of identity, within the limits of the spend policy. Without this and --max-price, amounts
    /// above `spend.ask_above` of the user's settings are asked about (0.02 by default), proofs of identity unless
    /// `spend.ask_identity` is false, and without a terminal nothing is paid unless the settings have limits
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The highest price, in dollars; up to it nobody is asked
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) max_price: Option<String>,
    /// Send the values that the tool's schema fixes
    #[arg(long)]
    pub(crate) ack_const: bool,
    /// Call the tool although a schema of it cannot be applied, so that input or output are not checked
    #[arg(long)]
    pub(crate) allow_unchecked: bool,
    /// Agree to exactly these terms, though the manifest states others
    #[arg(long, value_name = "TERMS")]
    pub(crate) agree: Option<String>,
    /// An account that is known to run the tool: a proof of identity may be made out to it
    #[arg(long, value_name = "0x…")]
    pub(crate) operator: Option<String>,
    /// Sign in with a message where the tool asks for that and nothing else, without asking
    #[arg(long)]
    pub(crate) sign_in: bool,
    /// Sign a nonce that commits to nothing, for servers that ask for one
    #[arg(long)]
    pub(crate) unbound: bool,
    /// A file with what the predicate needs beside the account, in hexadecimal digits
    #[arg(long, value_name = "FILE")]
    pub(crate) access_data: Option<PathBuf>,
    /// The account that has delegated to the wallet (delegate.xyz)
    #[arg(long, value_name = "0x…")]
    pub(crate) delegate_for: Option<String>,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) purse: Purse,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// How a tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// The input is the JSON body
    Post,
    /// The members of the input are query parameters
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
    // The default lets small amounts go without a question, for people who see what they pay. A script has to say that it may.
    let mut policy = settings.spend.value.clone();
    if settings.spend.origin == Origin::Default && !std::io::stdin().is_terminal() {
        policy.ask_above = Usdc::ZERO;
    }
    // A signature that shows who calls is asked about unless the settings say otherwise.
    policy.ask_identity.get_or_insert(true);
    builder = builder.policy(cautious(policy, registry.chain()));
    // A network that is named limits what is signed, also for a tool that is registered there.
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

/// An amount in dollars.
pub(super) fn dollars(text: &str) -> Result<Usdc, Failure> {
    Usdc::parse(text).ok_or_else(|| {
        Failure::new(codes::cli::USAGE, format!("`{text}` is no amount"))
            .hint("write dollars with at most six decimals, such as 0.05")
    })
}

/// Terms, as a refusal names them.
pub(super) fn terms(text: &str) -> Result<Terms, Failure> {
    Terms::parse(text).map_err(|fault| Failure::new(codes::cli::USAGE, format!("`{text}` are no terms: {fault}")))
}

fn hexadecimal(path: &Path) -> Result<Bytes, Failure> {
    let bytes = Source::File(path.to_owned()).read()?;
    let text = String::from_utf8_lossy(&bytes);
    text.trim()
        .parse()
        .map_err(|_| Failure::new(codes::cli::USAGE, format!("{} does not hold hexadecimal digits", path.display())))
}
