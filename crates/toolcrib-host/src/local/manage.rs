//! Changes by users: rules and credentials. Every change is recorded in the audit log.

use std::path::Path;

use toolcrib_core::codes::{self, Code};
use toolcrib_core::local::Credential;

use super::audit::{AuditError, Event, Record};
use super::call::definition;
use super::content::{ContentHash, hash_entries, list_folder};
use super::folder::LoadedTool;
use super::host::Host;
use super::install::{Diff, read_manifest};
use super::permissions::{ArgumentPattern, Decision, Grant, Lifetime, PermissionError, Rule, RuleId};
use super::secrets::{Secret, SecretError};

/// Why a change failed, or was not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The permissions cannot be changed.
    #[error(transparent)]
    Permission(#[from] PermissionError),
    /// The credentials cannot be changed.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The change was made, but could not be recorded.
    #[error("the change was made and is not in the audit log: {0}")]
    Audit(#[from] AuditError),
    /// The tool has no such function.
    #[error("{tool:?} has no function {function:?}")]
    Function {
        /// The tool.
        tool: String,
        /// The given name.
        function: String,
    },
    /// The tool has no such credential.
    #[error("{tool:?} has no credential {name:?}; its manifest names: {}", .known.join(", "))]
    Credential {
        /// The tool.
        tool: String,
        /// The given name.
        name: String,
        /// The names of its credentials.
        known: Vec<String>,
    },
}

impl ChangeError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Permission(error) => error.code(),
            Self::Secret(error) => error.code(),
            Self::Audit(error) => error.code(),
            Self::Function { .. } | Self::Credential { .. } => codes::host::TOOL_UNKNOWN,
        }
    }
}

impl LoadedTool {
    /// A credential that the manifest declares.
    pub fn credential(&self, name: &str) -> Result<&Credential, ChangeError> {
        let credentials = self.manifest().credentials();
        credentials.iter().find(|credential| credential.name() == name).ok_or_else(|| ChangeError::Credential {
            tool: self.id().to_owned(),
            name: name.to_owned(),
            known: credentials.iter().map(|credential| credential.name().to_owned()).collect(),
        })
    }
}

/// `client` is the program of the user, for the audit log: `cli` or `page`. All functions block.
impl Host {
    /// Adds a stored rule for a tool, or for one of its functions. An allow rule is bound to the current content of `tool`.
    pub fn set_rule(
        &self,
        tool: &LoadedTool,
        function: Option<&str>,
        decision: Decision,
        arguments: Vec<ArgumentPattern>,
        client: &str,
    ) -> Result<RuleId, ChangeError> {
        if let Some(function) = function.filter(|function| !tool.functions().contains_key(*function)) {
            return Err(ChangeError::Function { tool: tool.id().to_owned(), function: function.to_owned() });
        }
        let mut grant = match decision {
            Decision::Allow => Grant::allow(tool.id(), tool.content()),
            Decision::Ask => Grant::ask(tool.id()),
            Decision::Deny => Grant::deny(tool.id()),
        };
        let mut record = Record::new(Event::PermissionChanged).client(client).tool(tool.id()).content(tool.content());
        record = record.sandbox(&self.sandbox_summary(tool));
        if let Some(function) = function {
            grant = grant.function(function);
            record = record.function(function);
        }
        for pattern in arguments {
            grant = grant.argument(pattern);
        }
        for name in tool.functions().keys().filter(|name| function.is_none_or(|only| only == name.as_str())) {
            grant = grant.definition(name, definition(tool, name));
        }
        let rule = self.permissions().grant(grant.lifetime(Lifetime::Always))?;
        self.changed(record.decision(&decision.to_string(), "the user set a rule").detail(&format!("rule {rule}")))?;
        Ok(rule)
    }

    /// Sets the decision for all calls of a function, replacing the stored rules that do so now. Rules with argument patterns, rules for
    /// the whole tool and rules of the policy file stay.
    pub fn replace_rule(
        &self,
        tool: &LoadedTool,
        function: &str,
        decision: Decision,
        client: &str,
    ) -> Result<RuleId, ChangeError> {
        let is_replaced = |rule: &Rule| {
            rule.tool.as_deref() == Some(tool.id())
                && rule.function.as_deref() == Some(function)
                && rule.arguments.is_empty()
                && !matches!(rule.id, RuleId::Policy(_))
        };
        let old: Vec<_> = self.permissions().list()?.iter().filter(|rule| is_replaced(rule)).map(|rule| rule.id).collect();
        // The new rule is added first: between the two steps, the stricter one applies.
        let new = self.set_rule(tool, Some(function), decision, Vec::new(), client)?;
        self.revoke_rules(old, client)?;
        Ok(new)
    }

    /// Removes and returns a rule.
    pub fn revoke_rule(&self, id: RuleId, client: &str) -> Result<Rule, ChangeError> {
        let rule = self.permissions().revoke(id)?;
        let record = Record::new(Event::PermissionChanged).client(client).tool(rule.tool.as_deref().unwrap_or_default());
        self.changed(record.detail(&format!("rule {id} revoked")))?;
        Ok(rule)
    }

    /// Disables a tool by a rule that denies every call of any content. Models do not see the tool until that rule is removed.
    pub fn disable(&self, tool: &LoadedTool, client: &str) -> Result<(), ChangeError> {
        if self.permissions().is_disabled(tool.id())? {
            return Ok(());
        }
        self.set_rule(tool, None, Decision::Deny, Vec::new(), client).map(drop)
    }

    /// Removes the rules that disable a tool. Returns whether it is enabled now: a rule of the policy file cannot be removed.
    pub fn enable(&self, tool: &str, client: &str) -> Result<bool, ChangeError> {
        let is_removed = |rule: &Rule| rule.disables(tool) && !matches!(rule.id, RuleId::Policy(_));
        let rules: Vec<_> = self.permissions().list()?.iter().filter(|rule| is_removed(rule)).map(|rule| rule.id).collect();
        self.revoke_rules(rules, client)?;
        Ok(!self.permissions().is_disabled(tool)?)
    }

    /// Stores a credential for the current content of `tool`.
    pub fn set_secret(&self, tool: &LoadedTool, name: &str, value: &Secret, client: &str) -> Result<(), ChangeError> {
        tool.credential(name)?;
        self.secrets().set(tool.id(), name, &tool.content(), value, self.clock().now())?;
        self.changed(Record::new(Event::SecretSet).client(client).tool(tool.id()).content(tool.content()).detail(name))
    }

    /// Stores the path of a private file with a credential for the current content of `tool`.
    pub fn set_secret_reference(&self, tool: &LoadedTool, name: &str, file: &Path, client: &str) -> Result<(), ChangeError> {
        tool.credential(name)?;
        self.secrets().set_reference(tool.id(), name, &tool.content(), file, self.clock().now())?;
        self.changed(Record::new(Event::SecretSet).client(client).tool(tool.id()).content(tool.content()).detail(name))
    }

    /// Records that the key of stored credentials was moved.
    pub fn secret_key_moved(&self, place: &str, client: &str) -> Result<(), ChangeError> {
        self.changed(Record::new(Event::SecretKeyMoved).client(client).detail(place))
    }

    /// Removes a stored credential. Returns whether there was one.
    pub fn unset_secret(&self, tool: &str, name: &str, client: &str) -> Result<bool, ChangeError> {
        let was_set = self.secrets().unset(tool, name)?;
        if was_set {
            self.changed(Record::new(Event::SecretUnset).client(client).tool(tool).detail(name))?;
        }
        Ok(was_set)
    }

    /// Binds the stored credentials of earlier contents of a tool to its current content. Returns their number.
    pub fn rebind_secrets(&self, tool: &LoadedTool, client: &str) -> Result<usize, ChangeError> {
        let stored = self.secrets().list()?;
        let old = stored.into_iter().filter(|secret| secret.tool == tool.id()).filter_map(|secret| secret.bound_to);
        let mut contents: Vec<_> = old.filter(|content| *content != tool.content()).collect();
        contents.sort();
        contents.dedup();
        let mut count = 0;
        for content in contents {
            count += self.secrets().rebind(tool.id(), &content, &tool.content())?;
            let record = Record::new(Event::SecretRebound).client(client).tool(tool.id()).content(tool.content());
            self.changed(record.detail(&format!("was {content}")))?;
        }
        Ok(count)
    }

    /// The changes from an earlier content of a tool to the current one. `None` if no copy of the earlier one is kept.
    pub fn diff_since(&self, tool: &LoadedTool, earlier: &ContentHash) -> Option<Diff> {
        let folder = self.snapshots.kept(earlier)?;
        let (old, new) = (list_folder(&folder).ok()?, list_folder(tool.folder()).ok()?);
        if hash_entries(&old) != *earlier {
            return None;
        }
        let (manifest, _) = read_manifest(&folder).ok()?;
        Some(Diff::of((&old, &manifest), (&new, tool.manifest())))
    }

    /// Removes rules. A missing rule is not an error.
    fn revoke_rules(&self, rules: Vec<RuleId>, client: &str) -> Result<(), ChangeError> {
        for id in rules {
            match self.revoke_rule(id, client) {
                Ok(_) | Err(ChangeError::Permission(PermissionError::NotFound(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Records a change, and reports that the list for models may have changed.
    fn changed(&self, record: Record) -> Result<(), ChangeError> {
        self.touch();
        self.audit().append([record])?;
        Ok(())
    }
}
