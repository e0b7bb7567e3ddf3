//! `agt export` and `agt import`: conversion to and from the formats of other systems.

use std::path::PathBuf;

use alloy_primitives::U256;
use clap::Args;
use serde_json::json;
use toolcrib_agent::bridge::import::{ImportFormat, ImportOptions, import};
use toolcrib_agent::bridge::{A2aBinding, A2aEndpoint, AidVersion, ExportOptions, Format, Registration, export};
use toolcrib_agent::ipfs::{Cid, Codec, HashFunction};
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_fetch::SystemClock;

use super::pack::read_signed;
use super::parse_name;
use crate::commands::new;
use crate::input::Source;
use crate::kinds::parse_address;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// Signed manifest, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// Format: a2a, erc8004, mcp-registry, ensip26 or aid
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Format,
    /// Output path [default: stdout]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Version of the agent; required by mcp-registry
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// Kind of the manifest's `a2a` endpoint: card or rpc; required by a2a
    #[arg(long, value_name = "WHAT")]
    pub(crate) a2a_endpoint: Option<A2aEndpoint>,
    /// A2A binding: JSONRPC, GRPC or HTTP+JSON
    #[arg(long, value_name = "BINDING")]
    pub(crate) a2a_binding: Option<A2aBinding>,
    /// URL for calls, if the manifest's endpoint is a card
    #[arg(long, value_name = "URL")]
    pub(crate) a2a_interface: Option<String>,
    /// URL of the card, if the manifest's endpoint takes calls
    #[arg(long, value_name = "URL")]
    pub(crate) a2a_card: Option<String>,
    /// a2a: organization that provides the agent
    #[arg(long, value_name = "TEXT")]
    pub(crate) provider: Option<String>,
    /// ERC-8004 registration as CHAIN:REGISTRY:ID; repeatable
    #[arg(long = "registration", value_name = "CHAIN:0x…:ID")]
    pub(crate) registrations: Vec<String>,
    /// erc8004: the agent accepts x402 payments
    #[arg(long)]
    pub(crate) x402: bool,
    /// Namespace you own, such as io.github.you; required by mcp-registry
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Host of AID records [default: the .agt name]
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Version of AID records: aid1 or aid2
    #[arg(long, value_name = "VERSION", default_value = "aid2")]
    pub(crate) aid_version: AidVersion,
}

/// Arguments of `agt import`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    /// A2A Agent Card or ERC-8004 registration file, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// .agt name of the manifest
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: String,
    /// Address that holds the name and will sign
    #[arg(long, value_name = "0x…")]
    pub(crate) owner: String,
    /// Format: a2a or erc8004 [default: detect]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<ImportFormat>,
}

/// Exports a manifest.
pub(crate) fn run_export(arguments: &Export, printer: &mut Printer) -> Result<Done, Stop> {
    let (manifest, bytes) = read_signed(&arguments.path)?;
    let cid = Cid::of(Codec::Raw, HashFunction::default(), &bytes).to_string();
    let options = ExportOptions {
        cid: CidText::parse(&cid).ok(),
        version: arguments.version.clone(),
        a2a_endpoint: arguments.a2a_endpoint,
        a2a_binding: arguments.a2a_binding,
        a2a_interface: arguments.a2a_interface.clone(),
        a2a_card: arguments.a2a_card.clone(),
        provider: arguments.provider.clone(),
        registrations: arguments.registrations.iter().map(|text| registration(text)).collect::<Result<_, _>>()?,
        x402: arguments.x402,
        namespace: arguments.namespace.clone(),
        host: arguments.host.clone(),
        aid_version: arguments.aid_version,
        ..ExportOptions::default()
    };
    let exported = export(&manifest, arguments.to, &options).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    tell(&exported.findings, printer)?;
    match &arguments.out {
        None => printer.document(&exported.text)?,
        Some(path) => {
            new::write(path, &exported.text, arguments.force)?;
            printer.result(&format!("{}\n", shown(&path.display().to_string())))?;
        }
    }
    let findings: Vec<_> = exported.findings.iter().map(as_json).collect();
    let path = arguments.out.as_ref().map(|path| path.display().to_string());
    let data = json!({
        "format": arguments.to.as_str(), "media_type": exported.media_type, "file_name": exported.file_name,
        "path": path, "text": exported.text, "findings": findings,
    });
    Ok(Done::new(Exit::Yes, data))
}

/// Drafts a manifest from another document.
pub(crate) fn run_import(arguments: &Import, printer: &mut Printer) -> Result<Done, Stop> {
    let options = ImportOptions {
        domain: parse_name(&arguments.domain)?,
        owner: parse_address(&arguments.owner)?,
        created_at: SystemClock.now(),
        format: arguments.from,
    };
    let bytes = Source::from_argument(&arguments.path).read()?;
    let imported = import(&bytes, &options).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    tell(&imported.findings, printer)?;
    tell(&imported.draft_findings, printer)?;
    printer.document(&imported.draft)?;
    printer.aside("Next: complete the draft, then toolcrib agt sign\n")?;
    let findings: Vec<_> = imported.findings.iter().chain(&imported.draft_findings).map(as_json).collect();
    Ok(Done::new(Exit::Yes, json!({ "draft": imported.draft, "format": imported.format.as_str(), "findings": findings })))
}

fn registration(text: &str) -> Result<Registration, Failure> {
    let wrong = || {
        Failure::new(codes::cli::USAGE, format!("`{text}` is not a registration"))
            .hint("write CHAIN:REGISTRY:ID, such as 8453:0x8004…:42")
    };
    let mut parts = text.splitn(3, ':');
    let (Some(chain), Some(registry), Some(id)) = (parts.next(), parts.next(), parts.next()) else { return Err(wrong()) };
    Ok(Registration {
        chain_id: chain.parse().map_err(|_| wrong())?,
        registry: parse_address(registry)?,
        agent_id: U256::from_str_radix(id, 10).map_err(|_| wrong())?,
    })
}

fn tell(findings: &[Finding], printer: &mut Printer) -> Result<(), Stop> {
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Hint) {
        let line = format!(
            "{}[{}] {}: {}\n",
            finding.severity.as_str(),
            finding.code.id(),
            shown(&finding.pointer),
            shown(&finding.message)
        );
        printer.aside(&line)?;
    }
    Ok(())
}

fn as_json(finding: &Finding) -> serde_json::Value {
    json!({
        "code": finding.code.id(), "severity": finding.severity.as_str(), "pointer": finding.pointer, "message": finding.message,
    })
}
