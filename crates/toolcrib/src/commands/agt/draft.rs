//! `agt new`: the draft of a manifest, from options or from answers to questions.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcrib_core::agent::vocabulary::{self, CAPABILITIES, Category, PROTOCOLS, UNITS};
use toolcrib_core::agent::{self, AgtDomain, DraftCapability, DraftContent, DraftPaid, DraftPricing, DraftProtocol};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_fetch::SystemClock;

use super::parse_name;
use crate::commands::new;
use crate::kinds::{self, ManifestKind, PathHints, parse_address};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt new`.
#[derive(Args, Debug)]
pub(crate) struct New {
    /// .agt name
    #[arg(value_name = "NAME")]
    pub(crate) domain: String,
    /// Address that holds the name and signs the manifest
    #[arg(long, value_name = "0x…")]
    pub(crate) owner: Option<String>,
    /// Display name, at most 100 characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Description, at most 280 characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// HTTPS URL of a square image
    #[arg(long, value_name = "URL")]
    pub(crate) icon: Option<String>,
    /// HTTPS URL of a website
    #[arg(long, value_name = "URL")]
    pub(crate) website: Option<String>,
    /// Protocol and endpoint, such as `mcp=https://…`; repeatable
    #[arg(long = "protocol", value_name = "ID=URL")]
    pub(crate) protocols: Vec<String>,
    /// Capability, see `agt vocab`; repeatable
    #[arg(long = "capability", value_name = "ID")]
    pub(crate) capabilities: Vec<String>,
    /// Price: `free`, `contact`, or AMOUNT:CURRENCY:UNIT[:CHAIN]
    ///
    /// For example `0.01:USDC:per_request:polygon`.
    #[arg(long, value_name = "PRICE")]
    pub(crate) price: Option<String>,
    /// Free tier; makes the price `freemium`
    #[arg(long, value_name = "TEXT", requires = "price")]
    pub(crate) free_tier: Option<String>,
    /// Output path; `-` for stdout [default: NAME.json]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

impl New {
    /// Whether an option describes the agent.
    fn describes(&self) -> bool {
        let texts = [&self.name, &self.description, &self.icon, &self.website, &self.price];
        texts.iter().any(|text| text.is_some()) || !self.protocols.is_empty() || !self.capabilities.is_empty()
    }
}

/// Writes a draft.
pub(crate) fn run(arguments: &New, printer: &mut Printer) -> Result<Done, Stop> {
    let domain = parse_name(&arguments.domain)?;
    let is_asked = !arguments.describes() && !printer.json() && io::stdin().is_terminal();
    let owner = match &arguments.owner {
        Some(text) => text.clone(),
        None if is_asked => ask("Owner: the wallet that holds the name (0x…)")?,
        None => return Err(usage("the draft needs the wallet that holds the name", "give --owner 0x…").into()),
    };
    let owner = parse_address(&owner)?;
    let fields = if is_asked { questions(&domain, printer)? } else { from_options(arguments)? };
    let text = agent::draft(&domain, owner, SystemClock.now(), &fields);
    let report = kinds::check(ManifestKind::Agent, text.as_bytes(), Mode::Producer, &PathHints::default());
    // The signature comes last, so that only it may be missing.
    let wrong = report.findings.iter().find(|finding| finding.severity == Severity::Error && finding.pointer != "/signature");
    if let Some(finding) = wrong {
        let what = format!("{}: {} ({})", finding.pointer, finding.message, finding.code);
        return Err(usage(&what, finding.code.info().hint).into());
    }
    for finding in report.findings.iter().filter(|finding| finding.severity != Severity::Error) {
        printer.aside(&format!("{}: {}\n", shown(&finding.pointer), shown(&finding.message)))?;
    }
    if arguments.out.as_deref() == Some(std::path::Path::new("-")) {
        printer.document(&text)?;
        return Ok(Done::new(Exit::Yes, json!({ "domain": domain.as_str(), "path": null, "text": text })));
    }
    let path = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{domain}.json")));
    new::write(&path, &text, arguments.force)?;
    let file = shown(&path.display().to_string());
    printer.result(&format!("{file}\n"))?;
    printer.aside(&format!("Next: toolcrib agt sign {file} --wallet NAME, then toolcrib agt publish\n"))?;
    Ok(Done::new(Exit::Yes, json!({ "domain": domain.as_str(), "path": path.display().to_string(), "text": text })))
}

fn from_options(arguments: &New) -> Result<DraftContent, Failure> {
    let protocols = arguments.protocols.iter().map(|text| parse_protocol(text)).collect::<Result<_, _>>()?;
    let mut pricing = arguments.price.as_deref().map(parse_price).transpose()?;
    if let (Some(pricing), Some(free)) = (&mut pricing, &arguments.free_tier) {
        pricing.model = "freemium".to_owned();
        pricing.free_tier = Some(free.clone());
    }
    Ok(DraftContent {
        name: arguments.name.clone(),
        description: arguments.description.clone(),
        icon: arguments.icon.clone(),
        website: arguments.website.clone(),
        protocols,
        capabilities: arguments.capabilities.iter().map(|id| capability(id)).collect(),
        pricing,
    })
}

fn parse_protocol(text: &str) -> Result<DraftProtocol, Failure> {
    let hint = "write ID=URL, such as mcp=https://rain.example.org/mcp";
    let (id, endpoint) = text.split_once('=').ok_or_else(|| usage(&format!("`{text}` names no endpoint"), hint))?;
    Ok(DraftProtocol { id: id.to_owned(), endpoint: endpoint.to_owned(), ..DraftProtocol::default() })
}

fn capability(id: &str) -> DraftCapability {
    DraftCapability { id: id.to_owned(), description: None }
}

fn parse_price(text: &str) -> Result<DraftPricing, Failure> {
    if matches!(text, "free" | "contact") {
        return Ok(DraftPricing { model: text.to_owned(), ..DraftPricing::default() });
    }
    let mut parts = text.splitn(4, ':').map(ToOwned::to_owned);
    let (Some(amount), Some(currency), Some(unit), chain) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        let hint = format!("write free, contact, or AMOUNT:CURRENCY:UNIT[:CHAIN]; units: {}", UNITS.join(", "));
        return Err(usage(&format!("`{text}` is not a price"), &hint));
    };
    let paid = DraftPaid { amount, currency, unit, chain };
    Ok(DraftPricing { model: "paid".to_owned(), paid: Some(paid), free_tier: None })
}

/// Asks for everything that describes an agent. An empty answer leaves a field out.
fn questions(domain: &AgtDomain, printer: &mut Printer) -> Result<DraftContent, Stop> {
    let optional = |question: &str| ask(question).map(|answer| Some(answer).filter(|answer| !answer.is_empty()));
    let mut fields = DraftContent {
        name: optional(&format!("Display name [{}]", domain.sld()))?.or_else(|| Some(domain.sld().to_owned())),
        description: optional("What does the agent do, in one sentence?")?,
        website: optional("Website (https://…)")?,
        icon: optional("Image (https://…)")?,
        ..DraftContent::default()
    };
    let ids: Vec<_> = PROTOCOLS.iter().map(|one| one.id).collect();
    while let Some(text) = optional(&format!("Protocol as ID=URL ({}; empty when done)", ids.join(", ")))? {
        match parse_protocol(&text) {
            Ok(protocol) => fields.protocols.push(protocol),
            Err(failure) => printer.aside(&format!("{}\n", shown(&failure.message)))?,
        }
    }
    fields.capabilities = pick_capabilities(printer)?;
    while let Some(text) = optional("Price: free, contact, or AMOUNT:CURRENCY:UNIT[:CHAIN]")? {
        match parse_price(&text) {
            Ok(price) => {
                fields.pricing = Some(price);
                break;
            }
            Err(failure) => printer.aside(&format!("{}\n", shown(&failure.message)))?,
        }
    }
    Ok(fields)
}

/// Asks for capabilities by group: the name of a group lists its ids.
fn pick_capabilities(printer: &mut Printer) -> Result<Vec<DraftCapability>, Stop> {
    let groups: Vec<_> = Category::ALL.iter().map(|one| one.title()).collect();
    printer.aside(&format!("Groups of capabilities: {}\n", groups.join(", ")))?;
    let mut picked: Vec<DraftCapability> = Vec::new();
    loop {
        let answer = ask("Capability id, or a group to list its ids (empty when done)")?;
        if answer.is_empty() {
            return Ok(picked);
        }
        if let Some(group) = Category::ALL.into_iter().find(|group| group.title().eq_ignore_ascii_case(&answer)) {
            for one in CAPABILITIES.iter().filter(|one| one.category == group) {
                printer.aside(&format!("  {:<24} {}\n", one.id, one.description))?;
            }
            continue;
        }
        if let Some(near) = vocabulary::resembles(&answer, CAPABILITIES.iter().map(|one| one.id)) {
            printer.aside(&format!("`{}` is not a known id; did you mean {}?\n", shown(&answer), near.known()))?;
            continue;
        }
        if picked.iter().all(|one| one.id != answer) {
            picked.push(capability(&answer));
        }
    }
}

/// Asks for one line at the terminal. The end of the input is an empty answer.
fn ask(question: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(codes::cli::UNREADABLE, format!("cannot ask at the terminal: {error}"));
    write!(io::stderr(), "{question}: ").and_then(|()| io::stderr().flush()).map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(answer.trim().to_owned())
}

fn usage(what: &str, hint: &str) -> Failure {
    Failure::new(codes::cli::USAGE, what.to_owned()).hint(hint)
}
