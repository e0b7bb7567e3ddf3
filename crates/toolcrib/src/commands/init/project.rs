//! A project: a program that serves a tool, its tests, and files to build and publish it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use alloy_primitives::Address;
use serde_json::json;
use toolcrib_chain::network::{Network, Source};
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::codes;
use toolcrib_core::json::pretty;
use toolcrib_core::money::Amount;
use toolcrib_core::registry::RequirementKind;
use toolcrib_core::slug::Slug;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_core::url::Origin;
use toolcrib_x402::asset::{self, Token};

use super::render::Filling;
use super::{Project, Supply};
use crate::cli::Init;
use crate::commands::new::check_name;
use crate::kinds::parse_address;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

#[path = "../../../templates/axum/tool.rs"]
#[expect(dead_code, unreachable_pub, reason = "a file of the project; only its types are looked at here")]
mod tool;

/// The description of a new project's tool.
const DESCRIPTION: &str = "Counts the words of a text, and finds the longest of them.";

/// Default port of a new tool, unless its origin has a port.
const PORT: u16 = 8402;

/// Names that a package cannot have: Rust keywords, and crates that the project depends on.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "axum",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "tower",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// The files: their paths and templates.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../../templates/axum/Cargo.toml.txt")),
    ("src/tool.rs", include_str!("../../../templates/axum/tool.rs")),
    ("src/lib.rs", include_str!("../../../templates/axum/lib.rs")),
    ("src/gate.rs", include_str!("../../../templates/axum/gate.rs")),
    ("src/main.rs", include_str!("../../../templates/axum/main.rs")),
    ("tests/tool.rs", include_str!("../../../templates/axum/tests.rs")),
    ("README.md", include_str!("../../../templates/axum/README.md.txt")),
    ("Dockerfile", include_str!("../../../templates/axum/Dockerfile.txt")),
    (".dockerignore", include_str!("../../../templates/axum/dockerignore.txt")),
    (".github/workflows/ci.yml", include_str!("../../../templates/axum/ci.yml.txt")),
    (".gitignore", include_str!("../../../templates/axum/gitignore.txt")),
    ("rustfmt.toml", include_str!("../../../templates/axum/rustfmt.toml.txt")),
    ("toolcrib.toml", include_str!("../../../templates/axum/toolcrib.toml.txt")),
];

/// The checked options.
#[derive(Debug)]
struct Plan {
    name: String,
    slug: String,
    package: String,
    creator: Address,
    network: &'static Network,
    origin: String,
    port: u16,
    gate: Gate,
    price: Option<Price>,
    supply: Supply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Predicate,
    Nft(Address),
}

/// The price of a call.
#[derive(Debug)]
pub(crate) struct Price {
    text: String,
    amount: Amount,
    token: Token,
    recipient: Address,
}

/// Creates the project.
pub(super) fn run(file: &Init, project: &Project, printer: &mut Printer) -> Result<Done, Stop> {
    if file.force {
        return Err(Failure::new(codes::cli::USAGE, "a project does not overwrite existing files")
            .hint("choose another --out")
            .into());
    }
    let plan = Plan::new(file, project)?;
    let folder = file.out.clone().unwrap_or_else(|| PathBuf::from(&plan.name));
    if folder == Path::new("-") {
        return Err(Failure::new(codes::cli::USAGE, "a project is a folder and cannot be printed").into());
    }
    let manifest = plan.manifest()?;
    let filling = plan.filling()?;
    // Creating the folder also fails if another process creates it at the same time.
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let made = parent.map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::create_dir(&folder));
    made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(codes::cli::EXISTS, format!("{} already exists", folder.display()))
            .hint("choose another name, or another folder with --out"),
        _ => Failure::new(codes::cli::UNWRITABLE, format!("cannot create {}: {error}", folder.display())),
    })?;
    let mut written = Vec::new();
    for (path, template) in FILES {
        write(&folder, path, &filling.render(template))?;
        written.push(*path);
    }
    write(&folder, "manifest.json", &manifest)?;
    written.push("manifest.json");
    // The versions that this checkout was tested with, which are on this machine already. Cargo drops what the project does not need.
    let lock = checkout().filter(|_| plan.supply == Supply::Path).map(|root| root.join("Cargo.lock"));
    if lock.is_some_and(|lock| fs::copy(lock, folder.join("Cargo.lock")).is_ok()) {
        written.push("Cargo.lock");
    }
    let shown_folder = shown(&folder.display().to_string());
    printer.result(&format!("{shown_folder}\n"))?;
    printer.aside(&format!(
        "Next:\n  1. cd {shown_folder}\n  2. cargo run\n  3. edit src/tool.rs; README.md explains how to publish\n"
    ))?;
    let path = folder.display().to_string();
    Ok(Done::new(Exit::Yes, json!({ "kind": "tool", "path": path, "files": written, "origin": plan.origin })))
}

impl Plan {
    fn new(file: &Init, project: &Project) -> Result<Self, Failure> {
        let name = file.name.clone().unwrap_or_else(|| "my-tool".to_owned());
        check_name(&name)?;
        let slug = Slug::derive(&name).map_err(|fault| Failure::new(fault.code(), format!("`{name}` gives no slug: {fault}")))?;
        let slug = slug.as_str().to_owned();
        let is_taken =
            TAKEN.contains(&slug.as_str()) || slug.starts_with("toolcrib") || slug.starts_with(|c: char| c.is_ascii_digit());
        let package = if is_taken { format!("tool-{slug}") } else { slug.clone() };
        let network = Network::find(project.network.as_deref().unwrap_or("local"))
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
        let creator = match &file.address {
            Some(text) => parse_address(text)?,
            None if network.is_local => DEV_ACCOUNTS[0],
            None => {
                return Err(Failure::new(codes::cli::USAGE, format!("a tool on {} needs a creator", network.title))
                    .hint("give your address with --address"));
            }
        };
        let origin = match &project.origin {
            Some(text) => text.clone(),
            None if network.is_local => format!("https://{slug}.tool.localhost:{PORT}"),
            None => "https://tools.example.com".to_owned(),
        };
        let origin = Origin::parse(&origin)
            .map_err(|fault| Failure::new(fault.code(), format!("{origin} is not an origin: {fault}")))?
            .to_string();
        let port = origin.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(PORT);
        Ok(Self {
            gate: gate(project.gate.as_deref().unwrap_or("open"))?,
            price: project
                .price
                .as_deref()
                .map(|text| price(text, project.recipient.as_deref(), creator, network))
                .transpose()?,
            supply: project.toolcrib_source.unwrap_or(Supply::Path),
            name,
            slug,
            package,
            creator,
            network,
            origin,
            port,
        })
    }

    /// The manifest that the project's code produces.
    fn manifest(&self) -> Result<String, Failure> {
        let endpoint = format!("{}/{}", self.origin, self.slug);
        let mut builder = ToolBuilder::new(&self.name, DESCRIPTION, &endpoint, self.creator)
            .inputs::<tool::Input>()
            .outputs::<tool::Output>()
            .version("0.1.0")
            .tag("text");
        if let Some(price) = &self.price {
            builder = builder.price(&price.amount.to_string(), &price.asset(), &price.account(), "x402");
        }
        if let Gate::Nft(collection) = self.gate {
            builder =
                builder.requirement(RequirementKind::Erc721Holding.id(), collection.into_word().as_slice(), &label(collection));
        }
        let built = builder.build().map_err(|findings| {
            let what = findings.first().map_or_else(String::new, |finding| format!("{} ({})", finding.message, finding.code));
            Failure::new(codes::cli::USAGE, format!("`{}` does not give a valid manifest: {what}", self.name))
        })?;
        Ok(format!("{}\n", pretty(built.manifest.value().document().root()).trim_end()))
    }

    /// The network in the project's code, which does not read the settings of this machine.
    fn found(&self) -> String {
        let Network { name, chain_id, registry, source, .. } = self.network;
        match (source, registry) {
            (Source::BuiltIn, _) => format!("Network::find(\"{name}\")?"),
            (_, Some(registry)) => format!("&Network::unlisted({chain_id}).with_registry(\"{}\".parse()?)", lower(*registry)),
            (_, None) => format!("&Network::unlisted({chain_id})"),
        }
    }

    fn filling(&self) -> Result<Filling, Failure> {
        let (is_paid, has_predicate) = (self.price.is_some(), self.gate != Gate::Open);
        let mut filling = Filling::default();
        filling
            .flag("paid", is_paid)
            .flag("free", !is_paid)
            .flag("predicate", has_predicate)
            .flag("chain", is_paid || has_predicate)
            .flag("nft", matches!(self.gate, Gate::Nft(_)))
            .flag("open", !is_paid && !has_predicate)
            .flag("predicate_only", !is_paid && has_predicate)
            .flag("paid_only", is_paid && !has_predicate)
            .flag("paid_predicate", is_paid && has_predicate);
        filling
            .value("name", &self.name)
            .value("slug", &self.slug)
            .value("package", &self.package)
            .value("crate", self.package.replace('-', "_"))
            .value("description", DESCRIPTION)
            .value("origin", &self.origin)
            .value("port", self.port.to_string())
            .value("creator", lower(self.creator))
            .value("network", self.network.name)
            .value("found", self.found())
            .value("chain", self.network.chain_id.to_string());
        if let Some(price) = &self.price {
            filling
                .value("price", &price.text)
                .value("amount", price.amount.to_string())
                .value("asset", price.asset())
                .value("recipient", price.account());
        }
        if let Gate::Nft(collection) = self.gate {
            let kind: Vec<_> = RequirementKind::Erc721Holding.id().iter().map(|byte| format!("{byte:#04x}")).collect();
            filling.value("kind", kind.join(", ")).value("collection", lower(collection));
        }
        self.fill_sources(&mut filling)?;
        self.fill_words(&mut filling);
        Ok(filling)
    }

    /// Where Cargo, Docker and CI get the crates from.
    fn fill_sources(&self, filling: &mut Filling) -> Result<(), Failure> {
        let (repository, version) = (env!("CARGO_PKG_REPOSITORY"), env!("CARGO_PKG_VERSION"));
        let checkout = checkout();
        let dependency = |name: &str| match (self.supply, &checkout) {
            (Supply::Path, Some(folder)) => Ok(format!("path = {}", quoted(&folder.join("crates").join(name)))),
            (Supply::Path, None) => {
                Err(Failure::new(codes::cli::NOT_FOUND, "the checkout that this program was built from no longer exists")
                    .hint("give --toolcrib-source git"))
            }
            (Supply::Git, _) => Ok(format!("git = \"{repository}\"")),
            (Supply::Registry, _) => Ok(format!("version = \"{version}\"")),
        };
        for name in ["toolcrib-chain", "toolcrib-core", "toolcrib-gate", "toolcrib-store"] {
            let source = dependency(name)?;
            filling.value(name, source.strip_prefix("version = ").map_or_else(|| format!("{{ {source} }}"), str::to_owned));
        }
        filling.value("toolcrib-devchain", format!("{{ {}, default-features = false }}", dependency("toolcrib-devchain")?));
        let folder = checkout.filter(|_| self.supply == Supply::Path).map(|folder| folder.display().to_string());
        let (copy, note, docker) = match &folder {
            Some(folder) => (
                format!(
                    "# Toolcrib's crates come from a checkout: docker build --build-context toolcrib={folder} .\nCOPY --from=toolcrib . {folder}\n"
                ),
                format!(
                    "\n      # Cargo.toml uses Toolcrib's crates from {folder}, which does not exist here.\n      # Name the repository there instead: `git = \"{repository}\"`."
                ),
                format!("docker build --build-context toolcrib={folder} -t {} .", self.package),
            ),
            None => (String::new(), String::new(), format!("docker build -t {} .", self.package)),
        };
        filling.value("copy", copy).value("note", note).value("docker", docker);
        // The Rust version that the crates are tested with: a newer one may emit more warnings.
        filling.value("rust", env!("CARGO_PKG_RUST_VERSION").to_owned());
        Ok(())
    }

    /// Sentences of the README.
    fn fill_words(&self, filling: &mut Filling) {
        let who = if self.network.is_local { "--dev-account 0 --yes" } else { "--wallet NAME" };
        let gate = match self.gate {
            Gate::Open => String::new(),
            Gate::Predicate => " --access-predicate 0x…".to_owned(),
            Gate::Nft(collection) => format!(" --nft-gate {}", collection.to_checksum(None)),
        };
        let (network, origin, slug) = (self.network.name, &self.origin, &self.slug);
        let publish = format!(
            "toolcrib publish manifest.json --network {network} {who}{gate} \\\n    --metadata {origin}/.well-known/ai-tool/{slug}.json"
        );
        let after = match self.gate {
            Gate::Open => "\n".to_owned(),
            _ => "\nThe tool takes no calls before it knows its number on the registry, which stands at the end of what `publish` prints:\n\
                  start it again with `TOOL_ID=<number> cargo run`.\n\n"
                .to_owned(),
        };
        let mut settings = String::new();
        if self.gate != Gate::Open {
            settings += "| `TOOL_ID` | the tool's number on the registry; without it all calls are refused |\n";
        }
        if self.gate != Gate::Open || self.price.is_some() {
            settings += "| `RPC_URL` | nodes of the tool's chain; on the local network that of `toolcrib dev`, otherwise a public one |\n";
        }
        if self.price.is_some() {
            settings += "| `FACILITATOR_URL` | who settles payments |\n\
                | `TOOLCRIB_PRIVATE_KEY` | settles payments with this key, which pays the gas; on the local network a public key does |\n";
        }
        let price_words =
            self.price.as_ref().map_or_else(String::new, |price| format!(", with its price of {} USDC", price.text));
        let public_words = if self.price.is_some() { ", asset and recipient of the price to those of the network" } else { "" };
        filling
            .value("publish", publish)
            .value("caller", if self.network.is_local { "--dev-account 2" } else { "--wallet NAME" })
            .value("verify", format!("<number> --network {network}"))
            .value("after", after)
            .value("settings", settings)
            .value("price_words", price_words)
            .value("public_words", public_words);
    }
}

impl Price {
    /// The amount in the smallest unit of the token.
    pub(crate) const fn amount(&self) -> Amount {
        self.amount
    }

    /// The token as CAIP-19.
    pub(crate) fn asset(&self) -> String {
        format!("eip155:{}/erc20:{}", self.token.chain, lower(self.token.address))
    }

    /// The recipient as CAIP-10.
    pub(crate) fn account(&self) -> String {
        format!("eip155:{}:{}", self.token.chain, lower(self.recipient))
    }
}

fn gate(text: &str) -> Result<Gate, Failure> {
    match text {
        "open" => Ok(Gate::Open),
        "predicate" => Ok(Gate::Predicate),
        _ => match text.strip_prefix("nft:") {
            Some(collection) => Ok(Gate::Nft(parse_address(collection)?)),
            None => {
                Err(Failure::new(codes::cli::USAGE, format!("`{text}` is not a gate")).hint("write open, predicate, or nft:0x…"))
            }
        },
    }
}

/// Parses a price in USDC of a network. The recipient is the creator by default.
pub(crate) fn price(text: &str, recipient: Option<&str>, creator: Address, network: &Network) -> Result<Price, Failure> {
    // Projects know only the built-in token table.
    let token = asset::usdc(network.chain_id)
        .ok_or_else(|| Failure::new(codes::cli::USAGE, format!("there is no known USDC on {}", network.title)))?;
    let amount = Amount::parse_units(text, token.decimals).map_err(|fault| {
        Failure::new(codes::cli::USAGE, format!("`{text}` is not a price: {fault}")).hint("write 0.01, for one cent")
    })?;
    if amount.is_zero() {
        return Err(Failure::new(codes::cli::USAGE, "the price is zero").hint("omit --price"));
    }
    let recipient = recipient.map_or(Ok(creator), parse_address)?;
    Ok(Price { text: text.to_owned(), amount, token, recipient })
}

/// The checkout that this program was built from, if it still exists.
fn checkout() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    root.join("crates/toolcrib-gate/Cargo.toml").is_file().then(|| root.to_owned())
}

fn label(collection: Address) -> String {
    format!("Holders of {}", lower(collection))
}

fn lower(address: Address) -> String {
    format!("{address:#x}")
}

/// Formats a TOML string.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

fn write(folder: &Path, path: &str, text: &str) -> Result<(), Failure> {
    let whole = folder.join(path);
    let failure =
        |error: std::io::Error| Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", whole.display()));
    if let Some(parent) = whole.parent() {
        fs::create_dir_all(parent).map_err(failure)?;
    }
    fs::write(&whole, text).map_err(failure)
}
