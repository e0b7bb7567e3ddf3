//! `pay` and `auth`: call any x402 endpoint, with or without a manifest.

use clap::Args;
use toolcrib_client::{UrlPolicy, Usdc};
use toolcrib_core::url::HttpsUrl;

use super::SpendArgs;
use super::call::{Method, dollars, terms};
use super::outcome::conclude;
use super::session::{cautious, equipped};
use crate::commands::trust::EgressArgs;
use crate::commands::trust::probe;
use crate::input::Source;
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Done, Failure, Stop};
use crate::printer::Printer;
use crate::settings::Settings;

/// Arguments of `pay`.
#[derive(Args, Debug)]
pub(crate) struct Pay {
    #[command(flatten)]
    pub(crate) to: Endpoint,
    /// Highest price in dollars
    #[arg(long, value_name = "AMOUNT", default_value = "0")]
    pub(crate) max_price: String,
    /// Highest price in base units, as the reference SDK has it
    #[arg(long, value_name = "N", hide = true, conflicts_with = "max_price")]
    pub(crate) max_amount: Option<u64>,
    /// Allowed recipient; repeatable
    #[arg(long = "to", value_name = "0x…")]
    pub(crate) recipients: Vec<String>,
    /// Accept exactly these terms
    #[arg(long, value_name = "TERMS")]
    pub(crate) agree: Option<String>,
    /// Do not ask about the price, within the spend policy
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Arguments of `auth`.
#[derive(Args, Debug)]
pub(crate) struct Auth {
    #[command(flatten)]
    pub(crate) to: Endpoint,
    /// Account that may receive the proof of identity
    #[arg(long = "to", value_name = "0x…", required_unless_present = "sign_in")]
    pub(crate) recipient: Option<String>,
    /// Sign in (sign-in-with-x) without asking, if the endpoint requires it
    #[arg(long)]
    pub(crate) sign_in: bool,
}

/// Where to, and with what.
#[derive(Args, Debug)]
pub(crate) struct Endpoint {
    /// Endpoint
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Body: JSON, `@FILE`, or `-` for stdin [default: {}]
    #[arg(short, long, alias = "body", value_name = "JSON|@FILE|-")]
    pub(crate) data: Option<String>,
    /// HTTP method
    #[arg(long, value_enum, default_value_t = Method::Post)]
    pub(crate) method: Method,
    /// Show what the endpoint requires; sign nothing, send no body
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// Pays.
pub(crate) async fn run(arguments: &Pay, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let recipients = arguments.recipients.iter().map(|text| parse_address(text)).collect::<Result<_, Failure>>()?;
    let policy = UrlPolicy {
        max_amount: match arguments.max_amount {
            Some(units) => Usdc::micro(units),
            None => dollars(&arguments.max_price)?,
        },
        recipients,
        terms: arguments.agree.as_deref().map(terms).transpose()?,
        dev_chain: None,
        yes: arguments.yes,
        sign_in: false,
    };
    send(&arguments.to, policy, settings, printer).await
}

/// Proves the caller's identity.
pub(crate) async fn auth(arguments: &Auth, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let recipients = arguments.recipient.iter().map(|text| parse_address(text)).collect::<Result<_, Failure>>()?;
    let policy = UrlPolicy { recipients, sign_in: arguments.sign_in, ..UrlPolicy::default() };
    send(&arguments.to, policy, settings, printer).await
}

async fn send(to: &Endpoint, policy: UrlPolicy, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let url = HttpsUrl::parse(&to.url)
        .map_err(|fault| Failure::new(fault.code(), format!("{} is not an endpoint: {}", to.url, fault.code().title())))?;
    let body = match to.data.as_deref() {
        None => b"{}".to_vec(),
        Some("-") => Source::Stdin.read()?,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => Source::File(path.into()).read()?,
            None => text.as_bytes().to_vec(),
        },
    };
    // A node is only needed for balances and to confirm a local chain. `--network` restricts what is signed.
    let chain = if to.onchain.network.is_some() { Some(to.onchain.chain(printer).await?) } else { None };
    if to.dry_run {
        let dev_chain = chain.as_ref().map(toolcrib_chain::rpc::Chain::chain_id);
        return probe::url(&to.url, dev_chain, &to.reach, printer).await;
    }
    let policy = UrlPolicy { dev_chain: chain.as_ref().map(toolcrib_chain::rpc::Chain::chain_id), ..policy };
    let mut builder = to.purse.client(&to.reach, settings).await?;
    if let Some(chain) = &chain {
        builder = builder.policy(cautious(settings.spend.value.clone(), chain)).only_chain(chain.chain_id());
    }
    let client = equipped(builder, &to.signing, chain)?;
    conclude(client.call_url(&url, to.method.into(), &body, &policy).await, printer)
}
