//! `inspect`, `access` and `requirements`: what a chain says about a tool. Nothing is changed.

use alloy_primitives::{Address, Bytes, U256};
use clap::Args;
use serde_json::{Value, json};
use toolcrib_chain::predicate::{self, Requirements};
use toolcrib_chain::registry::{Access, Registry, ToolState};
use toolcrib_core::codes;

use crate::kinds::parse_address;
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of commands about one tool.
#[derive(Args, Debug)]
pub(crate) struct Tool {
    /// The tool: `eip155:<chain>/erc8257:<registry>/<id>`, or an id together with --network
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
}

/// Arguments of `access`.
#[derive(Args, Debug)]
pub(crate) struct AccessOf {
    #[command(flatten)]
    pub(crate) tool: Tool,
    /// The account
    #[arg(value_name = "ADDRESS")]
    pub(crate) account: String,
    /// Bytes for predicates that take a proof, in hex. Never a secret: nodes see it
    #[arg(long, value_name = "0x…")]
    pub(crate) data: Option<String>,
}

/// Shows what the registry has about a tool, and what its predicate is.
pub(crate) async fn inspect(arguments: &Tool, printer: &mut Printer) -> Result<Done, Stop> {
    let (registry, id) = arguments.onchain.connect_for(&arguments.tool, printer).await?;
    let reference = registry.reference(id).to_string();
    let config = match registry.tool(id).await.map_err(failed)? {
        ToolState::Present(config) => config,
        ToolState::NotFound => return absent(&reference, "not registered", printer),
        ToolState::Deregistered => return absent(&reference, "removed by its creator", printer),
    };
    let report = registry.inspect().await.map_err(failed)?;
    let mut lines = vec![
        ("tool", reference.clone()),
        ("creator", config.creator.to_checksum(None)),
        ("manifest", config.metadata_uri.clone()),
        ("hash", config.manifest_hash.to_string()),
    ];
    let mut remarks = Vec::new();
    let introspection = match config.access_predicate {
        None => {
            lines.push(("access", "open to everybody".to_owned()));
            None
        }
        Some(address) => {
            let found = predicate::introspect(registry.chain(), address, id).await.map_err(failed)?;
            lines.push((
                "predicate",
                format!("{} {}", address.to_checksum(None), found.name.as_deref().unwrap_or("without a name")),
            ));
            remarks.extend(found.codes());
            Some(found)
        }
    };
    let what = format!("{} {}", report.name.as_deref().unwrap_or("?"), report.version.as_deref().unwrap_or("?"));
    lines.push(("registry", format!("{} ({what})", registry.address().to_checksum(None))));
    lines.push(("registry code", report.code_hash.to_string()));
    if report.proxy.is_some() {
        remarks.push(codes::chain::REGISTRY_PROXY);
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in &lines {
        printer.result(&format!("{name:width$}  {}\n", shown(value)))?;
    }
    for code in &remarks {
        printer.result(&format!("{}[{code}]: {}\n", code.severity(), code.title()))?;
    }
    let data = json!({
        "tool": reference,
        "state": "present",
        "creator": config.creator,
        "metadata_uri": config.metadata_uri,
        "manifest_hash": config.manifest_hash,
        "access_predicate": config.access_predicate,
        "predicate_name": introspection.and_then(|found| found.name),
        "registry_code_hash": report.code_hash,
        "remarks": remarks.iter().map(|code| code.id()).collect::<Vec<_>>(),
    });
    Ok(Done::new(Exit::Yes, data))
}

/// Says whether an account may use a tool.
pub(crate) async fn access(arguments: &AccessOf, printer: &mut Printer) -> Result<Done, Stop> {
    let account = parse_address(&arguments.account)?;
    let data: Bytes = match &arguments.data {
        None => Bytes::new(),
        Some(text) => text.parse().map_err(|_| Failure::new(codes::cli::USAGE, "--data is no hex"))?,
    };
    let (registry, id) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    let answer = registry.access(id, account, data).await.map_err(failed)?;
    let (word, exit) = match answer {
        Access::Granted => ("granted", Exit::Yes),
        Access::Denied => ("denied", Exit::No),
        Access::Malfunction => ("malfunction", Exit::No),
    };
    printer.result(&format!("{word}\n"))?;
    if let Some(code) = answer.code() {
        printer.note(&format!("{}: {}", code, code.info().hint))?;
    }
    Ok(Done::new(exit, json!({ "tool": registry.reference(id).to_string(), "account": account, "access": word })))
}

/// Lists what the predicate says it asks for. A hint: `access` is the answer.
pub(crate) async fn requirements(arguments: &Tool, printer: &mut Printer) -> Result<Done, Stop> {
    let (registry, id) = arguments.onchain.connect_for(&arguments.tool, printer).await?;
    let config = registry.config(id).await.map_err(failed)?;
    let Some(address) = config.access_predicate else {
        printer.result("open to everybody\n")?;
        return Ok(Done::new(Exit::Yes, json!({ "open": true, "requirements": [] })));
    };
    let data = describe(&registry, address, id, printer).await?;
    Ok(Done::new(if data["complete"] == true { Exit::Yes } else { Exit::No }, data))
}

async fn describe(registry: &Registry, address: Address, id: U256, printer: &mut Printer) -> Result<Value, Stop> {
    let found = predicate::introspect(registry.chain(), address, id).await.map_err(failed)?;
    for code in found.codes() {
        printer.note(&format!("{}[{code}]: {}", code.severity(), code.title()))?;
    }
    let list: Vec<_> = match &found.requirements {
        Requirements::Listed { logic, entries: list } => {
            printer.result(&format!(
                "{}\n",
                match logic {
                    predicate::Logic::And => "all of:",
                    predicate::Logic::Or => "any of:",
                }
            ))?;
            for requirement in list {
                let kind = alloy_primitives::hex::encode_prefixed(requirement.kind);
                printer.result(&format!("  {kind}  {}  {:?}\n", shown(&requirement.label), requirement.meaning))?;
            }
            list.iter()
                .map(|requirement| {
                    json!({
                        "kind": alloy_primitives::hex::encode_prefixed(requirement.kind),
                        "data": requirement.data,
                        "label": requirement.label,
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    };
    Ok(json!({ "open": false, "predicate": address, "complete": found.is_complete(), "requirements": list }))
}

fn absent(reference: &str, what: &str, printer: &mut Printer) -> Result<Done, Stop> {
    printer.result(&format!("{reference}: {what}\n"))?;
    let state = if what == "not registered" { "not_found" } else { "deregistered" };
    Ok(Done::new(Exit::No, json!({ "tool": reference, "state": state })))
}

/// Shows how a known predicate is configured for a tool.
pub(crate) async fn show_predicate(arguments: &Tool, printer: &mut Printer) -> Result<Done, Stop> {
    let (registry, id) = arguments.onchain.connect_for(&arguments.tool, printer).await?;
    let Some(address) = registry.config(id).await.map_err(failed)?.access_predicate else {
        printer.result("open to everybody\n")?;
        return Ok(Done::new(Exit::Yes, json!({ "predicate": null })));
    };
    let chain = registry.chain().clone();
    let known = &chain.network().predicates;
    let is = |candidate: Option<Address>| candidate == Some(address);
    let (kind, config) = if is(known.erc721) {
        let collections = predicate::Erc721Predicate::new(chain.clone(), address).collections(id).await.map_err(failed)?;
        ("erc721", json!({ "collections": collections }))
    } else if is(known.erc1155) {
        let gates = predicate::Erc1155Predicate::new(chain.clone(), address).gates(id).await.map_err(failed)?;
        let gates: Vec<_> = gates
            .iter()
            .map(|gate| json!({ "collection": gate.collection, "token_ids": gate.token_ids.iter().map(U256::to_string).collect::<Vec<_>>() }))
            .collect();
        ("erc1155", json!({ "gates": gates }))
    } else if is(known.erc20) {
        let gate = predicate::Erc20Predicate::new(chain.clone(), address).gate(id).await.map_err(failed)?;
        ("erc20", json!(gate.map(|gate| json!({ "token": gate.token, "min_balance": gate.min_balance.to_string() }))))
    } else if is(known.subscription) {
        let gate = predicate::SubscriptionPredicate::new(chain.clone(), address).gate(id).await.map_err(failed)?;
        ("subscription", json!(gate.map(|gate| json!({ "collection": gate.collection, "min_tier": gate.min_tier }))))
    } else if is(known.traits) {
        let gate = predicate::TraitPredicate::new(chain.clone(), address).gate(id).await.map_err(failed)?;
        let gate = gate
            .map(|gate| json!({ "collection": gate.collection, "traits": gate.traits, "key": gate.key, "values": gate.values }));
        ("trait", json!(gate))
    } else if is(known.composite) {
        let composite = predicate::CompositePredicate::new(chain.clone(), address);
        let all = composite.op(id).await.map_err(failed)? == predicate::CompositeOp::All;
        let terms = composite.terms(id).await.map_err(failed)?;
        let terms: Vec<_> = terms.iter().map(|term| json!({ "predicate": term.predicate, "negated": term.is_negated })).collect();
        ("composite", json!({ "all": all, "terms": terms }))
    } else if is(known.merkle) {
        ("allowlist", json!({ "root": predicate::MerklePredicate::new(chain.clone(), address).root(id).await.map_err(failed)? }))
    } else if is(known.deny_all) {
        ("deny_all", Value::Null)
    } else if is(known.access_proof) {
        ("access_proof", Value::Null)
    } else {
        ("other", Value::Null)
    };
    printer.result(&format!("{kind} {}\n", address.to_checksum(None)))?;
    if !config.is_null() {
        printer.json_document(&config)?;
    }
    Ok(Done::new(Exit::Yes, json!({ "predicate": address, "kind": kind, "configuration": config })))
}
