//! Evaluates the rules for a call.

use serde_json::Value;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};

use super::{Decision, Lifetime, Rule, RuleId};
use crate::local::ContentHash;

/// A call to decide about.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// The tool.
    pub tool: &'r str,
    /// The function.
    pub function: &'r str,
    /// The content of the tool that would run.
    pub content: ContentHash,
    /// The arguments, already validated.
    pub arguments: &'r Value,
    /// Whether a user can be asked.
    pub interactive: bool,
}

/// The decision about a call, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The reason.
    pub reason: Reason,
    /// The rule that decided, if one did.
    pub rule: Option<RuleId>,
}

impl Verdict {
    /// The code if the call is not allowed yet; `None` if it is allowed.
    pub const fn code(&self) -> Option<Code> {
        use codes::permission as code;
        match (self.decision, &self.reason) {
            (Decision::Allow, _) => None,
            (_, Reason::DenyRule) => Some(code::DENIED),
            (_, Reason::ContentChanged { .. }) => Some(code::CONTENT_CHANGED),
            (Decision::Ask, _) => Some(code::REQUIRED),
            (Decision::Deny, _) => Some(code::HEADLESS),
        }
    }

    /// One sentence with decision and reason.
    pub fn text(&self) -> String {
        let rule = self.rule.map(|rule| format!(" (rule {rule})")).unwrap_or_default();
        let reason = self.reason.text();
        match (self.decision, &self.reason) {
            (Decision::Deny, Reason::DenyRule) | (Decision::Allow | Decision::Ask, _) => {
                format!("{}: {reason}{rule}", self.decision)
            }
            (Decision::Deny, _) => format!("deny: {reason}{rule}, and no person can be asked"),
        }
    }
}

/// Why a call is allowed, denied, or needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A rule allows it.
    AllowRule,
    /// A rule denies it.
    DenyRule,
    /// A rule requires approval.
    AskRule,
    /// It was allowed for another content, because the tool changed since.
    ContentChanged {
        /// The content that was approved last.
        granted_for: ContentHash,
    },
    /// Rules allow the function with other arguments.
    NotCovered,
    /// The rule that allowed it has expired.
    Expired {
        /// The expiry.
        at: UnixTime,
    },
    /// No rule covers the function.
    NoRule,
}

impl Reason {
    /// A short name for logs.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::AllowRule => "allow_rule",
            Self::DenyRule => "deny_rule",
            Self::AskRule => "ask_rule",
            Self::ContentChanged { .. } => "content_changed",
            Self::NotCovered => "not_covered",
            Self::Expired { .. } => "expired",
            Self::NoRule => "no_rule",
        }
    }

    /// A description of the reason.
    pub fn text(&self) -> String {
        match self {
            Self::AllowRule => "a rule allows this call".to_owned(),
            Self::DenyRule => "a rule denies this call".to_owned(),
            Self::AskRule => "a rule asks for approval of this call".to_owned(),
            Self::ContentChanged { granted_for } => format!("the tool changed since it was approved as {granted_for}"),
            Self::NotCovered => "the approval of this function does not cover these arguments".to_owned(),
            Self::Expired { at } => {
                let at = toolcrib_core::time::format_rfc3339(*at).unwrap_or_else(|| at.to_string());
                format!("the approval expired at {at}")
            }
            Self::NoRule => "no rule is about this function".to_owned(),
        }
    }
}

/// Evaluates the rules. Rules for a single call are used last, so that none is used up needlessly.
pub(super) fn decide<'r>(rules: impl Iterator<Item = &'r Rule> + Clone, request: &Request<'_>, now: UnixTime) -> Verdict {
    let about = rules.filter(|rule| rule.covers(request.tool, request.function));
    let matching = about.clone().filter(|rule| rule.is_valid_at(now) && rule.accepts(request.arguments));
    let verdict = |decision, reason, rule: Option<&Rule>| Verdict { decision, reason, rule: rule.map(|rule| rule.id) };

    if let Some(rule) = matching.clone().find(|rule| rule.decision == Decision::Deny) {
        return verdict(Decision::Deny, Reason::DenyRule, Some(rule));
    }
    let allowing = matching.clone().filter(|rule| rule.decision == Decision::Allow && !rule.is_for_other(&request.content));
    if let Some(rule) = allowing.min_by_key(|rule| rule.lifetime == Lifetime::Once) {
        return verdict(Decision::Allow, Reason::AllowRule, Some(rule));
    }
    let otherwise = if request.interactive { Decision::Ask } else { Decision::Deny };

    let asking = matching.clone().find(|rule| rule.decision == Decision::Ask);
    let allows = about.filter(|rule| rule.decision == Decision::Allow);
    let valid = allows.clone().filter(|rule| rule.is_valid_at(now));
    let current = valid.clone().find(|rule| !rule.is_for_other(&request.content));
    let changed = valid.max_by_key(|rule| (rule.granted_at, rule.id)).and_then(|rule| Some((rule, rule.content?)));
    match (asking, current, changed) {
        (Some(rule), Some(_), _) | (Some(rule), None, None) => return verdict(otherwise, Reason::AskRule, Some(rule)),
        (None, Some(rule), _) => return verdict(otherwise, Reason::NotCovered, Some(rule)),
        // More useful than an ask rule: the user sees what changed.
        (_, None, Some((rule, granted_for))) => return verdict(otherwise, Reason::ContentChanged { granted_for }, Some(rule)),
        (None, None, None) => {}
    }
    let expired = allows.filter_map(|rule| Some((rule.expires?, rule))).max_by_key(|(at, rule)| (*at, rule.id));
    match expired {
        Some((at, rule)) => verdict(otherwise, Reason::Expired { at }, Some(rule)),
        None => verdict(otherwise, Reason::NoRule, None),
    }
}
