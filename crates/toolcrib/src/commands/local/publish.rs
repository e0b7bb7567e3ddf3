//! `local publish`: serves a function of a local tool as an ERC-8257 tool behind the gate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::Address;
use clap::Args;
use toolcrib_chain::network::Network;
use toolcrib_core::codes;
use toolcrib_core::local::names::{Target as NameTarget, exposed_name};
use toolcrib_core::slug::Slug;
use toolcrib_core::url::{Origin, well_known};
use toolcrib_files::AtomicFile;
use toolcrib_host::local::export::{ExportOptions, ExportTool, Target, export};
use toolcrib_host::local::{Host, PublishError, PublishOptions, Published};
use toolcrib_judge::PriceText;
use toolcrib_x402::PROTOCOL;

use super::install::agreed;
use super::{HostArgs, refused};
use crate::commands::hosting::logging;
use crate::commands::init::price;
use crate::commands::serving::{Behind, Function, Loaded, ServerArgs, load, serve_tools};
use crate::outcome::{Done, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `local publish`.
#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// Tool id
    #[arg(value_name = "TOOL")]
    pub(crate) id: String,
    /// Function name
    pub(crate) function: String,
    /// Creator address, which will register the tool
    #[arg(long, value_name = "0x…")]
    pub(crate) creator: Address,
    /// Price per call in USDC of --network, such as 0.01
    #[arg(long, value_name = "AMOUNT", requires = "network")]
    pub(crate) price: Option<String>,
    /// Recipient of payments [default: the creator]
    #[arg(long, value_name = "0x…", requires = "price")]
    pub(crate) recipient: Option<String>,
    /// Folder for the manifest (in `.well-known/ai-tool`)
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Publish a tool with credentials; every caller uses them
    #[arg(long)]
    pub(crate) allow_credentials: bool,
    /// Publish a tool that runs without a sandbox
    ///
    /// A bug in it gives callers your files and network.
    #[arg(long)]
    pub(crate) allow_unsandboxed: bool,
    /// Publish without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Publishes a function and serves it until Ctrl-C or SIGTERM.
pub(crate) async fn run(arguments: &Publish, printer: &mut Printer) -> Result<Done, Stop> {
    logging::begin(printer);
    arguments.server.check_descriptors()?;
    let origin = arguments.server.origin.as_deref().ok_or_else(|| {
        Failure::new(codes::cli::USAGE, "the public origin of the tool is unknown")
            .hint("give --origin, such as https://tools.example.com")
    })?;
    let origin = Origin::parse(origin)
        .map_err(|fault| Failure::new(fault.code(), format!("{} is not an origin: {fault}", shown(origin))))?;
    let host = arguments.host.open()?;
    let options =
        PublishOptions { allow_credentials: arguments.allow_credentials, allow_unsandboxed: arguments.allow_unsandboxed };
    let published = match Published::new(Arc::clone(&host), &arguments.id, &arguments.function, options) {
        Ok(published) => published,
        Err(error) => return refused(&failed(&error), printer),
    };
    let slug = exposed_name(&arguments.id, &arguments.function, NameTarget::ErcSlug)
        .map_err(|error| Failure::new(codes::cli::USAGE, format!("the function name gives no slug: {error}")))?;
    let slug = Slug::parse(&slug).map_err(|fault| Failure::new(fault.code(), fault.to_string()))?;
    let bytes = manifest(arguments, &host, &origin, &slug)?;
    match published.is_allowed() {
        Ok(true) => {}
        Ok(false) => {
            printer.flush()?;
            let endpoint = format!("{origin}/tools/{}/{}", arguments.id, arguments.function);
            let question = format!("{}\npublish it?", published.prompt(&endpoint));
            if let Err(failure) = agreed(arguments.yes, &question, "you refused to publish the function") {
                return refused(&failure, printer);
            }
            published.allow().map_err(|error| failed(&error))?;
        }
        Err(error) => return refused(&failed(&error), printer),
    }
    let file = write(&arguments.out, &slug, &bytes)?;
    let loaded = load(&[&file], printer)?;
    let network = arguments.server.gating.onchain.network.as_deref().unwrap_or("NAME");
    let uri = well_known::metadata_uri(&origin, &slug);
    let path = shown(&file.display().to_string());
    printer.note(&format!("manifest written to {path}"))?;
    printer.note(&format!(
        "next: toolcrib register --metadata {uri} --manifest {path} --network {} --wallet NAME",
        shown(network)
    ))?;
    // The watcher ends with the process.
    drop(host.watch());
    let function = Mutex::new(Some(Function::new(published, Duration::from_secs(arguments.server.time))));
    let behind = |_: &Loaded| {
        let function = function.lock().ok().and_then(|mut function| function.take());
        let function = function.ok_or_else(|| Failure::new(codes::cli::USAGE, "one function is published at a time"))?;
        Ok(Behind::function(function, arguments.server.at_once))
    };
    let done = serve_tools(&arguments.server, loaded, &behind, printer).await;
    host.shutdown().await;
    done
}

/// The manifest of the function, as drafted by `local export erc8257`, with its price.
fn manifest(arguments: &Publish, host: &Host, origin: &Origin, slug: &Slug) -> Result<Vec<u8>, Failure> {
    let tools = host.tools();
    let tool = tools.tools().get(&arguments.id).ok_or_else(|| super::list::unknown(&arguments.id))?;
    let price = match (&arguments.price, &arguments.server.gating.onchain.network) {
        (Some(text), Some(network)) => {
            let network = Network::find(network).map_err(|error| Failure::new(error.code(), error.to_string()))?;
            let price = price(text, arguments.recipient.as_deref(), arguments.creator, network)?;
            Some(PriceText {
                amount: price.amount().to_string(),
                asset: price.asset(),
                recipient: price.account(),
                protocol: PROTOCOL.to_owned(),
            })
        }
        _ => None,
    };
    let options = ExportOptions {
        // Other functions of the tool are not published.
        skip_unsupported: true,
        origin: Some(origin.to_string()),
        creator: Some(arguments.creator),
        price,
        ..ExportOptions::default()
    };
    let tool = ExportTool { manifest: tool.manifest(), folder: tool.folder(), content: tool.content() };
    let exported = export(Target::Erc8257, &[tool], &options).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    let name = format!("/{slug}.json");
    if let Some(file) = exported.files.into_iter().find(|file| file.path.ends_with(&name)) {
        return Ok(file.bytes);
    }
    let reason = exported.warnings.into_iter().find(|note| note.function.as_deref() == Some(&arguments.function));
    let (code, message) = match reason {
        Some(note) => (note.finding.code, note.finding.message),
        None => (codes::export::INVALID, "the function has no ERC-8257 manifest".to_owned()),
    };
    Err(Failure::new(code, message))
}

fn write(out: &Path, slug: &Slug, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let folder = out.join(".well-known/ai-tool");
    let path = folder.join(format!("{slug}.json"));
    let unwritable = |error: std::io::Error| Failure::new(codes::cli::OUTPUT, format!("{}: {error}", path.display()));
    fs::create_dir_all(&folder).map_err(unwritable)?;
    AtomicFile::new(&path).shared().replace(bytes).map_err(unwritable)?;
    Ok(path)
}

fn failed(error: &PublishError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
