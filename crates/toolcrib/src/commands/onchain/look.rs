//! `inspect`, `predicate check`, `predicate requirements` and `predicate show`: read-only commands about a tool onchain.

use alloy_primitives::{Address, Bytes, U256};
use clap::Args;
use serde_json::{Value, json};
use toolcrib_chain::predicate::{self, Introspection, Logic, Meaning, Opaque, Requirement, Requirements};
use toolcrib_chain::registry::{AccessResult, Registry, ToolState};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::RequirementKind;

use crate::env;
use crate::kinds::parse_address;
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;

/// Arguments of commands about one tool.
#[derive(Args, Debug)]
pub(crate) struct Tool {
    /// Tool: a reference, or an id with --network [see `help references`]
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
}

/// Arguments of `predicate check`.
#[derive(Args, Debug)]
pub(crate) struct AccessOf {
    #[command(flatten)]
    pub(crate) tool: Tool,
    /// Account to check
    #[arg(value_name = "ADDRESS")]
    pub(crate) account: String,
    /// Access data for the predicate, in hex
    ///
    /// Not for secrets: RPC nodes see it.
    #[arg(long, value_name = "0x…")]
    pub(crate) data: Option<String>,
}

/// Shows the registry entry of a tool, and its predicate.
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
            let name = found.name.as_ref().map_or("without a name", Opaque::as_str);
            lines.push(("predicate", format!("{} {name}", address.to_checksum(None))));
            remarks.extend(of_predicate(&found, &registry).await);
            // The check is done for the creator's account: whether a predicate works rarely depends on the account. If the predicate needs
            // a proof, a check without it would not say anything.
            if found.code_hash.is_some() && !found.needs_proof() {
                let (account, data) = (config.creator, Bytes::new());
                let answer = registry.access(id, account, data.clone()).await.map_err(failed)?;
                if answer == AccessResult::Malfunction {
                    remarks.push((codes::predicate::MALFUNCTION, codes::predicate::MALFUNCTION.title().to_owned()));
                    let why = registry.explain(id, account, data, answer).await.map_err(failed)?;
                    remarks.extend(why.map(|why| (why.code(), why.to_string())));
                }
            }
            Some(found)
        }
    };
    let said = |text: &Option<Opaque>| text.as_ref().map_or("?", Opaque::as_str).to_owned();
    let what = format!("{} {}", said(&report.name), said(&report.version));
    lines.push(("registry", format!("{} ({what})", registry.address().to_checksum(None))));
    lines.push(("registry code", report.code_hash.to_string()));
    remarks.extend(report.codes().into_iter().map(|code| (code, code.title().to_owned())));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in &lines {
        printer.result(&format!("{name:width$}  {}\n", shown(value)))?;
    }
    for (code, what) in &remarks {
        printer.result(&format!("{}[{code}]: {}\n", code.severity(), shown(what)))?;
    }
    let data = json!({
        "tool": reference,
        "state": "present",
        "creator": config.creator,
        "metadata_uri": config.metadata_uri,
        "manifest_hash": config.manifest_hash,
        "access_predicate": config.access_predicate,
        "predicate_name": introspection.and_then(|found| found.name).map(|name| name.to_string()),
        "registry_code_hash": report.code_hash,
        "remarks": remarks.iter().map(|(code, _)| code.id()).collect::<Vec<_>>(),
    });
    Ok(Done::new(Exit::Yes, data))
}

/// Remarks about the predicate of a tool: codes, with their titles or details.
async fn of_predicate(found: &Introspection, registry: &Registry) -> Vec<(Code, String)> {
    let words = |code: Code| match &found.known_fault {
        Some(fault) if code == fault.code() => fault.to_string(),
        _ => code.title().to_owned(),
    };
    let elsewhere = other_registry(registry, found.address).await.map(|error| (error.code(), error.to_string()));
    elsewhere.into_iter().chain(found.codes().into_iter().map(|code| (code, words(code)))).collect()
}

/// Checks whether an account has access to a tool.
pub(crate) async fn access(arguments: &AccessOf, printer: &mut Printer) -> Result<Done, Stop> {
    let account = parse_address(&arguments.account)?;
    let data: Bytes = match &arguments.data {
        None => Bytes::new(),
        Some(text) => text.parse().map_err(|_| Failure::new(codes::cli::USAGE, "--data is not hexadecimal"))?,
    };
    refuse_secret(&data)?;
    let (registry, id) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    let answer = registry.access(id, account, data.clone()).await.map_err(failed)?;
    // The reason is optional: the answer is valid without it.
    let reason = registry.explain(id, account, data, answer).await.ok().flatten();
    let elsewhere = match registry.config(id).await.ok().and_then(|config| config.access_predicate) {
        // If the predicate refuses to answer, the reason says already that it serves another registry.
        Some(address) if !matches!(reason, Some(predicate::Diagnosis::OtherRegistry { .. })) => {
            other_registry(&registry, address).await
        }
        _ => None,
    };
    let (word, exit) = match answer {
        AccessResult::Granted => ("granted", Exit::Yes),
        AccessResult::Denied => ("denied", Exit::No),
        AccessResult::Malfunction => ("malfunction", Exit::No),
    };
    printer.result(&format!("{word}\n"))?;
    if let Some(error) = &elsewhere {
        printer.note(&format!("warning[{}]: {error}", error.code()))?;
    }
    if let Some(reason) = &reason {
        printer.note(&format!("{}: {}", reason.code(), shown(&reason.to_string())))?;
    }
    if let Some(code) = reason.as_ref().map(predicate::Diagnosis::code).or(answer.code()) {
        printer.note(&format!("{}: {}", code, code.info().hint))?;
    }
    Ok(Done::new(
        exit,
        json!({
            "tool": registry.reference(id).to_string(),
            "account": account,
            "access": word,
            "code": answer.code().map(Code::id),
            "remarks": elsewhere.iter().map(|error| error.code().id()).collect::<Vec<_>>(),
            "reason": reason.as_ref().map(|reason| json!({ "code": reason.code().id(), "message": reason.to_string() })),
        }),
    ))
}

/// The error for a predicate that serves another registry, where the tool with the same id decides. Returns `None` also if that cannot be
/// determined.
async fn other_registry(registry: &Registry, predicate: Address) -> Option<toolcrib_chain::Error> {
    let mismatch = predicate::check_registry(registry, predicate).await.err()?;
    matches!(mismatch, toolcrib_chain::Error::OtherRegistry { .. }).then_some(mismatch)
}

/// Refuses data that looks like a secret: the node sees what is sent to a predicate, and it may become public.
pub(crate) fn refuse_secret(data: &Bytes) -> Result<(), Failure> {
    let own = [env::TOOLCRIB_PRIVATE_KEY, env::TOOLCRIB_PASSWORD].into_iter().find(|name| {
        let Some(value) = secrets::var(name) else { return false };
        let bytes = value.parse::<Bytes>().unwrap_or_default();
        let holds = |secret: &[u8]| !secret.is_empty() && data.windows(secret.len()).any(|window| window == secret);
        holds(&bytes) || holds(value.as_bytes())
    });
    let what = match own {
        Some(name) => format!("--data contains the value of {name}"),
        None => match predicate::secret_in(data) {
            Some(what) => format!("--data contains what looks like {what}"),
            None => return Ok(()),
        },
    };
    Err(Failure::new(codes::predicate::DATA_SECRET, what))
}

/// Lists the requirements that the predicate declares. They are a hint; `predicate check` gives the answer.
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

/// Lists the requirements that a predicate declares, and returns them as data.
pub(crate) async fn describe(registry: &Registry, address: Address, id: U256, printer: &mut Printer) -> Result<Value, Stop> {
    let found = predicate::introspect(registry.chain(), address, id).await.map_err(failed)?;
    let remarks = of_predicate(&found, registry).await;
    for (code, what) in &remarks {
        printer.note(&format!("{}[{code}]: {}", code.severity(), shown(what)))?;
    }
    let list: Vec<_> = match &found.requirements {
        Requirements::Listed { logic, entries: list } => {
            printer.result(&format!(
                "{}\n",
                match logic {
                    Logic::And => "all of:",
                    Logic::Or => "any of:",
                }
            ))?;
            for requirement in list {
                let kind = alloy_primitives::hex::encode_prefixed(requirement.kind);
                let label = if requirement.label.is_empty() { String::new() } else { format!("  ({})", requirement.label) };
                printer.result(&format!("  {kind}  {}{}\n", shown(&in_words(requirement)), shown(&label)))?;
            }
            list.iter()
                .map(|requirement| {
                    json!({
                        "kind": alloy_primitives::hex::encode_prefixed(requirement.kind),
                        "data": requirement.data,
                        "label": requirement.label,
                        "name": RequirementKind::from_id(requirement.kind.0).map(|kind| kind.marker().trim_end_matches("()")),
                        "decoded": decoded(&Meaning::from(requirement)),
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    };
    let remarks: Vec<_> = remarks.iter().map(|(code, _)| code.id()).collect();
    Ok(json!({
        "open": false, "predicate": address, "complete": found.is_complete(), "requirements": list, "remarks": remarks,
    }))
}

/// Describes a requirement. Data of an unknown kind is shown as bytes, up to a limit.
fn in_words(requirement: &Requirement) -> String {
    /// Most bytes of unknown data that are shown.
    const SHOWN: usize = 64;
    match &Meaning::from(requirement) {
        Meaning::Erc721 { collection } => format!("own a token of {collection}"),
        Meaning::Erc1155 { collection, token_id } => format!("own token {token_id} of {collection}"),
        Meaning::Subscription { collection, min_tier } => {
            format!("have a subscription of {collection}, tier {min_tier} or higher")
        }
        Meaning::Erc20 { token, min_balance } => format!("hold {min_balance} base units of {token}"),
        Meaning::Trait { collection, traits, key, values } => {
            let values: Vec<_> = values.iter().map(ToString::to_string).collect();
            format!("own a token of {collection} whose trait {key} at {traits} is {}", values.join(" or "))
        }
        Meaning::Attestation { jwks_uri, condition } => format!("show an attestation of {condition} by the keys at {jwks_uri}"),
        Meaning::AccessProof { verifier } => format!("sign the challenge that {verifier} checks"),
        Meaning::Merkle { root } => format!("be on the list with root {root}"),
        Meaning::DenyAll => "denies everyone".to_owned(),
        Meaning::Unread => "unreadable requirement".to_owned(),
        _ => {
            let data = &requirement.data;
            let raw = alloy_primitives::hex::encode_prefixed(&data[..data.len().min(SHOWN)]);
            format!("unknown: {raw}{}", if data.len() > SHOWN { "…" } else { "" })
        }
    }
}

/// A requirement as data; null if its kind is unknown.
fn decoded(meaning: &Meaning) -> Value {
    match meaning {
        Meaning::Erc721 { collection } => json!({ "collection": collection }),
        Meaning::Erc1155 { collection, token_id } => json!({ "collection": collection, "token_id": token_id.to_string() }),
        Meaning::Subscription { collection, min_tier } => json!({ "collection": collection, "min_tier": min_tier }),
        Meaning::Erc20 { token, min_balance } => json!({ "token": token, "min_balance": min_balance.to_string() }),
        Meaning::Trait { collection, traits, key, values } => {
            json!({ "collection": collection, "traits": traits, "key": key, "values": values })
        }
        Meaning::Attestation { jwks_uri, condition } => json!({ "jwks_uri": jwks_uri, "condition": condition }),
        Meaning::AccessProof { verifier } => json!({ "verifier": verifier }),
        Meaning::Merkle { root } => json!({ "root": root }),
        Meaning::DenyAll => json!({}),
        _ => Value::Null,
    }
}

fn absent(reference: &str, what: &str, printer: &mut Printer) -> Result<Done, Stop> {
    printer.result(&format!("{reference}: {what}\n"))?;
    let state = if what == "not registered" { "not_found" } else { "deregistered" };
    Ok(Done::new(Exit::No, json!({ "tool": reference, "state": state })))
}

/// Shows the configuration of a known predicate for a tool.
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
