//! Rules from the permissions file, this process and the policy.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use toolcrib_core::clock::{Clock, UnixTime};

use super::decide::decide;
use super::{
    ArgumentPattern, Changed, Decision, Definition, Grant, Lifetime, PermissionError, Policy, Request, Rule, RuleId, Verdict,
};
use crate::local::ContentHash;
use crate::local::state_file::{Owners, StateFolder, check_private, open_regular, read_open};

/// The name of the file.
pub const PERMISSIONS_FILE: &str = "permissions.json";

/// Most rules of the file, and of one session. A user approved each one.
pub const MAX_RULES: usize = 4_096;

/// The largest file.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// The lock of the file.
const LOCK_FILE: &str = ".permissions.lock";

/// The version of the format.
const FORMAT: u32 = 1;

/// The permissions of one user.
pub struct Permissions {
    folder: StateFolder,
    clock: Arc<dyn Clock + Send + Sync>,
    policy: Vec<Rule>,
    session: Mutex<Session>,
    read: Mutex<Option<Read>>,
}

/// The rules of this process.
#[derive(Default)]
struct Session {
    rules: Vec<Rule>,
    last: u64,
}

/// The rules as last read.
struct Read {
    /// Kept open, so that its inode is not reused and `stamp` stays unique.
    _file: File,
    stamp: Stamp,
    content: Arc<Content>,
}

impl Permissions {
    /// The permissions file in this folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self::in_folder(StateFolder::new(folder), clock)
    }

    fn in_folder(folder: StateFolder, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self { folder, clock, policy: Vec::new(), session: Mutex::default(), read: Mutex::new(None) }
    }

    /// Adds the rules of an operator's policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy.into_rules();
        self
    }

    /// The path of the permissions file.
    pub fn path(&self) -> PathBuf {
        self.folder.file(PERMISSIONS_FILE)
    }

    /// Decides about a call. An approval for a single call is used up: call this once per call.
    ///
    /// Fails if the rules cannot be read. The call must not be made then, since there may be a deny rule.
    pub fn decide(&self, request: &Request<'_>) -> Result<Verdict, PermissionError> {
        let stored = self.stored()?;
        let mut session = self.session();
        let verdict = self.verdict(&stored, &session.rules, request);
        if verdict.decision == Decision::Allow {
            let is_used_up = |rule: &Rule| Some(rule.id) == verdict.rule && rule.lifetime == Lifetime::Once;
            session.rules.retain(|rule| !is_used_up(rule));
        }
        Ok(verdict)
    }

    /// Returns what [`decide`](Self::decide) would return, without using up an approval.
    pub fn preview(&self, request: &Request<'_>) -> Result<Verdict, PermissionError> {
        let stored = self.stored()?;
        Ok(self.verdict(&stored, &self.session().rules, request))
    }

    /// Adds a user's decision, and returns the id of the new rule.
    ///
    /// A stored approval replaces those of the same function for other contents: a tool that returns to an old content needs approval
    /// again.
    pub fn grant(&self, grant: Grant) -> Result<RuleId, PermissionError> {
        let mut rule = Rule {
            id: RuleId::Session(0),
            tool: Some(grant.tool),
            function: grant.function,
            decision: grant.decision,
            content: grant.content,
            arguments: grant.arguments,
            lifetime: grant.lifetime,
            expires: grant.expires,
            granted_at: Some(self.clock.now()),
            definitions: grant.definitions,
        };
        rule.check()?;
        if rule.lifetime == Lifetime::Always {
            return self.store(rule);
        }
        let now = self.clock.now();
        let mut session = self.session();
        session.rules.retain(|rule| rule.is_valid_at(now));
        if session.rules.len() >= MAX_RULES {
            return Err(PermissionError::TooMany);
        }
        session.last += 1;
        rule.id = RuleId::Session(session.last);
        let id = rule.id;
        session.rules.push(rule);
        Ok(id)
    }

    /// Removes and returns a rule.
    pub fn revoke(&self, id: RuleId) -> Result<Rule, PermissionError> {
        match id {
            RuleId::Policy(_) => Err(PermissionError::ReadOnly(id)),
            RuleId::Session(_) => {
                let mut session = self.session();
                let place = session.rules.iter().position(|rule| rule.id == id).ok_or(PermissionError::NotFound(id))?;
                Ok(session.rules.remove(place))
            }
            RuleId::Stored(_) => self.change(|content| {
                let place = content.rules.iter().position(|rule| rule.id == id).ok_or(PermissionError::NotFound(id))?;
                Ok(content.rules.remove(place))
            }),
        }
    }

    /// Removes all allow and ask rules of a tool, and returns their number. Deny rules stay, for when the tool is installed again.
    pub fn forget_tool(&self, tool: &str) -> Result<usize, PermissionError> {
        let is_meant = |rule: &Rule| rule.tool.as_deref() == Some(tool) && rule.decision != Decision::Deny;
        let mut session = self.session();
        let before = session.rules.len();
        session.rules.retain(|rule| !is_meant(rule));
        let removed = before - session.rules.len();
        drop(session);
        if !self.stored()?.rules.iter().any(is_meant) {
            return Ok(removed);
        }
        self.change(|content| {
            let before = content.rules.len();
            content.rules.retain(|rule| !is_meant(rule));
            Ok(removed + before - content.rules.len())
        })
    }

    /// All rules: those of the policy, of the file and of this process.
    pub fn list(&self) -> Result<Vec<Rule>, PermissionError> {
        let mut rules = self.policy.clone();
        rules.extend(self.stored()?.rules.iter().cloned());
        rules.extend(self.session().rules.iter().cloned());
        Ok(rules)
    }

    /// Whether a rule denies every call of a tool.
    pub fn is_disabled(&self, tool: &str) -> Result<bool, PermissionError> {
        let (stored, now) = (self.stored()?, self.clock.now());
        let session = self.session();
        let mut rules = self.policy.iter().chain(&stored.rules).chain(&session.rules);
        Ok(rules.any(|rule| rule.disables(tool) && rule.is_valid_at(now)))
    }

    /// What changed in a function since it was last approved for another content. `None` if no approval contains its definition.
    pub fn changed(
        &self,
        tool: &str,
        function: &str,
        content: &ContentHash,
        today: &Definition,
    ) -> Result<Option<Changed>, PermissionError> {
        let rules = self.list()?;
        let old = rules.iter().filter(|rule| rule.covers(tool, function) && rule.is_for_other(content));
        let old = old.filter_map(|rule| Some((rule.granted_at, rule.id, rule.definitions.get(function)?)));
        Ok(old.max_by_key(|(at, id, _)| (*at, *id)).map(|(.., definition)| definition.changes_to(today)))
    }

    fn verdict(&self, stored: &Content, session: &[Rule], request: &Request<'_>) -> Verdict {
        decide(self.policy.iter().chain(&stored.rules).chain(session), request, self.clock.now())
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, mut rule: Rule) -> Result<RuleId, PermissionError> {
        let now = self.clock.now();
        self.change(|content| {
            let is_outdated = |old: &Rule| {
                rule.decision == Decision::Allow
                    && old.decision == Decision::Allow
                    && (&old.tool, &old.function) == (&rule.tool, &rule.function)
                    && old.content != rule.content
            };
            content.rules.retain(|old| old.is_valid_at(now) && !is_outdated(old));
            if content.rules.len() >= MAX_RULES {
                return Err(PermissionError::TooMany);
            }
            content.last += 1;
            rule.id = RuleId::Stored(content.last);
            let id = rule.id;
            content.rules.push(rule);
            Ok(id)
        })
    }

    /// Reads, changes and writes the file under its lock.
    fn change<T>(&self, change: impl FnOnce(&mut Content) -> Result<T, PermissionError>) -> Result<T, PermissionError> {
        let lock = self.folder.lock(LOCK_FILE)?;
        let mut content = (*self.stored()?).clone();
        let result = change(&mut content)?;
        let written = Written { format: FORMAT, last: content.last, rules: content.rules.iter().map(Entry::of).collect() };
        let mut bytes = serde_json::to_vec_pretty(&written).map_err(|error| self.malformed(&error.to_string()))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(PermissionError::TooMany);
        }
        self.folder.replace(&lock, PERMISSIONS_FILE, &bytes)?;
        Ok(result)
    }

    /// The rules of the file, read again only if it was replaced.
    fn stored(&self) -> Result<Arc<Content>, PermissionError> {
        let path = self.path();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, metadata)) = open_regular(&path)? else {
            *read = None;
            return Ok(Arc::default());
        };
        let stamp = Stamp::of(&metadata);
        if let Some(read) = read.as_ref().filter(|read| read.stamp == stamp && stamp != Stamp::UNKNOWN) {
            return Ok(Arc::clone(&read.content));
        }
        check_private(&metadata, &path, 0o600, Owners::User)?;
        let held = file.try_clone().map_err(crate::local::StateFileError::io("open", &path))?;
        let bytes = read_open(file, &metadata, &path, MAX_FILE_BYTES)?;
        let written: Written = serde_json::from_slice(&bytes).map_err(|error| self.malformed(&error.to_string()))?;
        if written.format != FORMAT {
            return Err(self.malformed(&format!("its format is version {}; expected {FORMAT}", written.format)));
        }
        if written.rules.len() > MAX_RULES {
            return Err(self.malformed(&format!("it has more than {MAX_RULES} rules")));
        }
        let rules: Vec<Rule> = written.rules.into_iter().map(Entry::into_rule).collect();
        for rule in &rules {
            let is_bound = rule.decision != Decision::Allow || rule.content.is_some();
            if !is_bound {
                return Err(self.malformed(&format!("rule {} allows every content", rule.id)));
            }
            rule.check().map_err(|error| self.malformed(&format!("rule {}: {error}", rule.id)))?;
        }
        let content = Arc::new(Content { last: written.last, rules });
        *read = Some(Read { _file: held, stamp, content: Arc::clone(&content) });
        Ok(content)
    }

    fn malformed(&self, why: &str) -> PermissionError {
        PermissionError::Malformed { path: self.path(), why: why.to_owned() }
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions").field("folder", &self.folder).field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// The rules of the file.
#[derive(Clone, Default)]
struct Content {
    /// The last id that was assigned. Ids are never reused.
    last: u64,
    rules: Vec<Rule>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    last: u64,
    rules: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: u64,
    tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    decision: Decision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<ContentHash>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<ArgumentPattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<UnixTime>,
    granted_at: UnixTime,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    definitions: BTreeMap<String, Definition>,
}

impl Entry {
    fn of(rule: &Rule) -> Self {
        let id = match rule.id {
            RuleId::Stored(id) | RuleId::Session(id) | RuleId::Policy(id) => id,
        };
        Self {
            id,
            tool: rule.tool.clone().unwrap_or_default(),
            function: rule.function.clone(),
            decision: rule.decision,
            content: rule.content,
            arguments: rule.arguments.clone(),
            expires: rule.expires,
            granted_at: rule.granted_at.unwrap_or(UnixTime::from_seconds(0)),
            definitions: rule.definitions.clone(),
        }
    }

    fn into_rule(self) -> Rule {
        Rule {
            id: RuleId::Stored(self.id),
            tool: Some(self.tool),
            function: self.function,
            decision: self.decision,
            content: self.content,
            arguments: self.arguments,
            lifetime: Lifetime::Always,
            expires: self.expires,
            granted_at: Some(self.granted_at),
            definitions: self.definitions,
        }
    }
}

/// Distinguishes files that had the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// For systems without file ids: never equal.
    const UNKNOWN: Self = Self { device: 0, inode: 0, bytes: 0, modified: (0, 0) };

    #[cfg(unix)]
    fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;

        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), bytes: metadata.len(), modified }
    }

    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Self {
        Self::UNKNOWN
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
