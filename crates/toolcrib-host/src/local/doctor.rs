//! Diagnostics for `local doctor` and the settings page.

use std::process::{Command, Stdio};

use toolcrib_core::finding::Severity;
use toolcrib_core::local::RuntimeKind;
use toolcrib_process::{Containment, Surface};

use super::audit;
use super::folder::LoadedTool;
use super::host::Host;
use super::secrets::{Lookup, SecretError};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether the check passed.
    pub ok: bool,
    /// The details. May contain text of a tool's author.
    pub text: String,
}

impl Host {
    /// Checks folders, programs, sandbox, credentials, permissions and audit log. Does not run tools. Blocks.
    pub fn doctor(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let mut add = |name: String, ok: bool, text: String| checks.push(Check { name, ok, text });
        let machine = toolcrib_process::probe();
        add("sandbox of this machine".to_owned(), machine.contains(Surface::Files), machine.summary());
        let tools = self.tools();
        for problem in tools.problems() {
            add(format!("folder {}", problem.folder.display()), false, problem.error.to_string());
        }
        for tool in tools.tools().values() {
            let id = tool.id();
            let is_contained = self.containment(tool).as_ref().is_none_or(Containment::is_sandboxed);
            add(format!("sandbox of {id}"), is_contained, self.sandbox_summary(tool));
            let (can_run, text) = self.runtime_state(tool);
            add(format!("runtime of {id}"), can_run, text);
            let missing: Vec<_> = self.missing(tool).map(|(name, lookup)| hidden_until(id, name, &lookup)).collect();
            let text = if missing.is_empty() { "all set".to_owned() } else { missing.join(". ") };
            add(format!("credentials of {id}"), missing.is_empty(), text);
            if !self.is_enabled(tool) {
                // A tool that the user disabled is not a problem.
                let text = "hidden from models: a rule denies every call; `toolcrib permit list` has its number for `toolcrib permit revoke`";
                add(format!("permissions of {id}"), true, text.to_owned());
            }
            for finding in tool.warnings().iter().filter(|finding| finding.severity == Severity::Warning) {
                add(format!("manifest of {id}"), true, format!("{}: {}", finding.code, finding.message));
            }
        }
        for source in self.secrets().sources() {
            let state = || format!("{} secrets in {}", source.secrets, source.place);
            let text = source.problem.as_ref().map_or_else(state, ToString::to_string);
            add(format!("secrets: {}", source.source), source.problem.is_none(), text);
        }
        let rules = self.permissions().list();
        let is_readable = rules.is_ok();
        let text = rules.map_or_else(|error| error.to_string(), |rules| format!("{} rules", rules.len()));
        add("permissions".to_owned(), is_readable, text);
        if self.audit().path().exists() {
            let verified = audit::verify(self.audit().folder(), None);
            add("audit log".to_owned(), verified.is_ok(), verified.map_or_else(|error| error.to_string(), |log| log.to_string()));
        }
        checks
    }

    /// Whether the program of a tool exists and is new enough, and which one it is.
    fn runtime_state(&self, tool: &LoadedTool) -> (bool, String) {
        match self.check_runtime(tool) {
            Err(error) => (false, error.to_string()),
            Ok(program) => match old_node(tool, &program) {
                Some(version) => {
                    (false, format!("{program} is Node {version}, and TypeScript needs 22.18 or newer; name one with --node"))
                }
                None => (true, program),
            },
        }
    }

    /// Required credentials that are not set for the current content of a tool.
    pub fn missing_credentials(&self, tool: &LoadedTool) -> Vec<String> {
        self.missing(tool).map(|(name, _)| name.to_owned()).collect()
    }

    /// Required credentials that are not set for the current content of a tool, with the lookup result.
    fn missing<'t>(&self, tool: &'t LoadedTool) -> impl Iterator<Item = (&'t str, Result<Lookup, SecretError>)> {
        let required = tool.manifest().credentials().iter().filter(|credential| credential.required());
        let found =
            required.map(|credential| (credential.name(), self.secrets().get(tool.id(), credential.name(), &tool.content())));
        found.filter(|(_, lookup)| !matches!(lookup, Ok(Lookup::Value { .. })))
    }
}

/// Why a tool without a credential is hidden from models, and the command that sets it.
fn hidden_until(tool: &str, name: &str, lookup: &Result<Lookup, SecretError>) -> String {
    match lookup {
        Ok(Lookup::BoundToOther { .. }) => format!(
            "not set: {name}. It was set for another version of the tool; models do not see this one until you run `toolcrib secret rebind {tool}`"
        ),
        Ok(_) => format!("not set: {name}. Models do not see the tool until you run `toolcrib secret set {tool} {name}`"),
        Err(error) => format!("not set: {name}. Models do not see the tool: {error}"),
    }
}

/// The version of a Node that cannot run TypeScript, for a tool that needs it.
fn old_node(tool: &LoadedTool, program: &str) -> Option<String> {
    let RuntimeKind::Node { entry: Some(entry) } = tool.runtime() else { return None };
    if !entry.ends_with(".ts") && !entry.ends_with(".mts") {
        return None;
    }
    let output = Command::new(program).arg("--version").env_clear().stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().trim_start_matches('v');
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    // Node strips types by default since 22.18, and in the next line since 23.6.
    let runs = matches!((numbers.next()?, numbers.next()?), (22, 18..) | (23, 6..) | (24.., _));
    (!runs).then(|| version.to_owned())
}
