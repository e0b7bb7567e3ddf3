//! `permit`: rules that allow or deny functions.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use toolcrib_core::codes;
use toolcrib_host::local::ChangeError;
use toolcrib_host::local::permissions::{ArgumentPattern, Decision, Matcher};

use super::HostArgs;
use super::list::unknown;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// What to do with permissions.
#[derive(Debug, Subcommand)]
pub(crate) enum PermitCommand {
    /// Add a permission rule for a tool or function
    #[command(
        after_long_help = "An allow rule applies to the current content of the tool: after a change you are asked again. Deny rules win."
    )]
    Set(SetRule),
    /// List permission rules
    List(ListRules),
    /// Remove a rule by its id
    Revoke(Revoke),
}

/// Arguments of `permit set`.
#[derive(Args, Debug)]
pub(crate) struct SetRule {
    /// Tool id
    pub(crate) tool: String,
    /// Decision for matching calls
    pub(crate) decision: DecisionName,
    /// Only this function
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only calls whose argument matches a pattern; repeatable
    ///
    /// A JSON pointer and a pattern with `*`; all must match.
    #[arg(long = "arg", value_name = "POINTER=PATTERN")]
    pub(crate) patterns: Vec<String>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// What happens with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecisionName {
    /// Run without asking
    Allow,
    /// Ask each time
    Ask,
    /// Refuse
    Deny,
}

/// Arguments of `permit list`.
#[derive(Args, Debug)]
pub(crate) struct ListRules {
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Arguments of `permit revoke`.
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// Rule id, from `permit list`
    pub(crate) rule: u64,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Runs a command.
pub(crate) fn run(command: &PermitCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        PermitCommand::Set(arguments) => set(arguments, printer),
        PermitCommand::List(arguments) => list(arguments, printer),
        PermitCommand::Revoke(arguments) => revoke(arguments, printer),
    }
}

fn set(arguments: &SetRule, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(&arguments.tool) else { return Err(unknown(&arguments.tool).into()) };
    let decision = match arguments.decision {
        DecisionName::Allow => Decision::Allow,
        DecisionName::Ask => Decision::Ask,
        DecisionName::Deny => Decision::Deny,
    };
    let patterns = arguments.patterns.iter().map(|pattern| parse_pattern(pattern)).collect::<Result<Vec<_>, _>>()?;
    let rule = host.set_rule(tool, arguments.function.as_deref(), decision, patterns, "cli").map_err(|error| failed(&error))?;
    let word = decision.to_string();
    printer.note(&format!("rule {rule}: {word} {}", arguments.tool))?;
    Ok(Done::new(Exit::Yes, json!({ "rule": rule.to_string(), "decision": word, "content": tool.content() })))
}

fn list(arguments: &ListRules, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let rules = host.permissions().list().map_err(|error| failed(&error.into()))?;
    let mut rows = Vec::new();
    for rule in rules {
        let what = [rule.tool.as_deref().unwrap_or("every tool"), rule.function.as_deref().unwrap_or("every function")].join(" ");
        let patterns =
            if rule.arguments.is_empty() { String::new() } else { format!("  with {} argument patterns", rule.arguments.len()) };
        let content = rule.content.map_or_else(String::new, |content| format!("  {content}"));
        printer.result(&format!("{:>10}  {:<5}  {what}{patterns}{content}\n", rule.id.to_string(), rule.decision.to_string()))?;
        rows.push(json!({
            "id": rule.id.to_string(),
            "decision": rule.decision.to_string(),
            "tool": rule.tool,
            "function": rule.function,
            "content": rule.content,
            "arguments": rule.arguments.len(),
            "expires": rule.expires,
        }));
    }
    Ok(Done::new(Exit::Yes, json!({ "rules": rows })))
}

fn revoke(arguments: &Revoke, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let id = toolcrib_host::local::permissions::RuleId::Stored(arguments.rule);
    host.revoke_rule(id, "cli").map_err(|error| failed(&error))?;
    printer.note(&format!("rule {id} is removed"))?;
    Ok(Done::new(Exit::Yes, json!({ "revoked": id.to_string() })))
}

fn parse_pattern(text: &str) -> Result<ArgumentPattern, Failure> {
    let usage = |message: String| Failure::new(codes::cli::USAGE, message).hint("write --arg '/path=notes/*'");
    let (pointer, pattern) = text.split_once('=').ok_or_else(|| usage(format!("`{text}` is not POINTER=PATTERN")))?;
    ArgumentPattern::new(pointer, Matcher::Glob(pattern.to_owned())).map_err(|error| usage(error.to_string()))
}

fn failed(error: &ChangeError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
