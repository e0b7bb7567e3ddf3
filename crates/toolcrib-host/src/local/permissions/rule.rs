//! Rules, and the approvals that create them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::local::MAX_FUNCTIONS;
use toolcrib_core::local::names::is_name;
use toolcrib_core::text::escape_for_display;

use super::{ArgumentPattern, Definition, Matcher, PermissionError, Request};
use crate::local::ContentHash;

/// Most argument patterns of a rule. Functions rarely have more than ten parameters.
pub const MAX_PATTERNS: usize = 32;

/// The decision of a rule or a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call is allowed.
    Allow,
    /// A user must approve it.
    Ask,
    /// The call is denied.
    Deny,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// The lifetime of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// One call. It is used up by the first call that it allows.
    Once,
    /// Until this process ends.
    Session,
    /// Until it is revoked or expires.
    Always,
}

/// The id of a rule: `12` in the permissions file, `session-3` in this process, `policy-1` in the policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleId {
    /// A rule of the permissions file.
    Stored(u64),
    /// A rule of this process.
    Session(u64),
    /// A rule of the policy file, counted from 1.
    Policy(u64),
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(number) => write!(f, "{number}"),
            Self::Session(number) => write!(f, "session-{number}"),
            Self::Policy(number) => write!(f, "policy-{number}"),
        }
    }
}

impl FromStr for RuleId {
    type Err = PermissionError;

    fn from_str(text: &str) -> Result<Self, PermissionError> {
        let (kind, number): (fn(u64) -> Self, _) = match text.rsplit_once('-') {
            Some(("session", number)) => (Self::Session, number),
            Some(("policy", number)) => (Self::Policy, number),
            _ => (Self::Stored, text),
        };
        let number = number.parse().map_err(|_| {
            PermissionError::Rule(format!(
                "`{}` is not the id of a rule",
                escape_for_display(&text.chars().take(64).collect::<String>())
            ))
        })?;
        Ok(kind(number))
    }
}

/// A rule: a decision about calls that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id.
    pub id: RuleId,
    /// The tool. `None` for every tool, in policy files only.
    pub tool: Option<String>,
    /// The function. `None` for every function.
    pub function: Option<String>,
    /// Its decision.
    pub decision: Decision,
    /// The content that it applies to. `None` for every content: deny and ask rules, and allow rules of a policy that says so.
    pub content: Option<ContentHash>,
    /// Patterns for the arguments. All must match.
    pub arguments: Vec<ArgumentPattern>,
    /// Its lifetime.
    pub lifetime: Lifetime,
    /// The time of expiry.
    pub expires: Option<UnixTime>,
    /// When it was created. `None` for a policy.
    pub granted_at: Option<UnixTime>,
    /// The definitions of the functions at that time, by name.
    pub definitions: BTreeMap<String, Definition>,
}

impl Rule {
    /// Whether the rule denies every call of a tool, with any function and arguments, which disables the tool.
    pub fn disables(&self, tool: &str) -> bool {
        self.decision == Decision::Deny
            && self.tool.as_deref().is_none_or(|own| own == tool)
            && self.function.is_none()
            && self.arguments.is_empty()
    }

    /// Whether the rule covers this function.
    pub(super) fn covers(&self, tool: &str, function: &str) -> bool {
        self.tool.as_deref().is_none_or(|own| own == tool) && self.function.as_deref().is_none_or(|own| own == function)
    }

    /// Whether the arguments match the rule.
    pub(super) fn accepts(&self, arguments: &Value) -> bool {
        self.arguments.iter().all(|pattern| pattern.matches(arguments))
    }

    /// Whether the rule is valid at this time.
    pub(super) fn is_valid_at(&self, now: UnixTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Whether the rule is bound to another content.
    pub(super) fn is_for_other(&self, content: &ContentHash) -> bool {
        self.content.is_some_and(|own| own != *content)
    }

    /// Checks names and limits.
    pub(super) fn check(&self) -> Result<(), PermissionError> {
        for (what, name) in [("tool", &self.tool), ("function", &self.function)] {
            if let Some(name) = name.as_ref().filter(|name| !is_name(name)) {
                let name = escape_for_display(&name.chars().take(64).collect::<String>());
                return Err(PermissionError::Rule(format!("`{name}` is not the name of a {what}")));
            }
        }
        if self.arguments.len() > MAX_PATTERNS {
            let why = format!("it has {} argument patterns; the limit is {MAX_PATTERNS}", self.arguments.len());
            return Err(PermissionError::Rule(why));
        }
        if self.definitions.len() > MAX_FUNCTIONS {
            let why = format!("it has {} definitions; the limit is {MAX_FUNCTIONS}", self.definitions.len());
            return Err(PermissionError::Rule(why));
        }
        self.arguments.iter().try_for_each(ArgumentPattern::check)
    }
}

/// A user's decision.
#[derive(Clone, Debug)]
#[must_use]
pub struct Grant {
    pub(super) tool: String,
    pub(super) function: Option<String>,
    pub(super) decision: Decision,
    pub(super) content: Option<ContentHash>,
    pub(super) arguments: Vec<ArgumentPattern>,
    pub(super) lifetime: Lifetime,
    pub(super) expires: Option<UnixTime>,
    pub(super) definitions: BTreeMap<String, Definition>,
}

impl Grant {
    /// Allows every function of one content of a tool, for this session.
    pub fn allow(tool: &str, content: ContentHash) -> Self {
        Self::new(tool, Decision::Allow, Some(content))
    }

    /// Denies every function of a tool, whatever its content, for this session.
    pub fn deny(tool: &str) -> Self {
        Self::new(tool, Decision::Deny, None)
    }

    /// Requires approval of every function of a tool, whatever its content, for this session. It only affects lists and reasons: a
    /// function without an allow rule needs approval anyway.
    pub fn ask(tool: &str) -> Self {
        Self::new(tool, Decision::Ask, None)
    }

    /// Allows exactly this call, once: the same function, content and arguments.
    pub fn call(request: &Request<'_>) -> Self {
        let exactly = ArgumentPattern { pointer: String::new(), matcher: Matcher::Equals(request.arguments.clone()) };
        let mut grant = Self::allow(request.tool, request.content).function(request.function).lifetime(Lifetime::Once);
        grant.arguments.push(exactly);
        grant
    }

    fn new(tool: &str, decision: Decision, content: Option<ContentHash>) -> Self {
        Self {
            tool: tool.to_owned(),
            function: None,
            decision,
            content,
            arguments: Vec::new(),
            lifetime: Lifetime::Session,
            expires: None,
            definitions: BTreeMap::new(),
        }
    }

    /// Restricts it to this function.
    pub fn function(mut self, function: &str) -> Self {
        self.function = Some(function.to_owned());
        self
    }

    /// Restricts it to these arguments. Several patterns must all match.
    pub fn argument(mut self, pattern: ArgumentPattern) -> Self {
        self.arguments.push(pattern);
        self
    }

    /// Sets the lifetime.
    pub const fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets the expiry.
    pub const fn expires(mut self, expires: UnixTime) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Stores the current definition of a function, to show later what changed.
    pub fn definition(mut self, function: &str, definition: Definition) -> Self {
        self.definitions.insert(function.to_owned(), definition);
        self
    }
}
