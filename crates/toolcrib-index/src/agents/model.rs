//! The data model of agents, and the trait that resolves them.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use toolcrib_core::agent::vocabulary::is_id;
use toolcrib_core::agent::{AgtDomain, PricingModel};
use toolcrib_core::clock::UnixTime;

use super::memory::AgentMemory;
use crate::listing::{Failure, FindingNote};

/// The maximum number of protocols stored for one agent. The vocabulary has five; this allows a few versions and custom ones of each.
pub const MAX_PROTOCOLS: usize = 32;

/// The maximum number of capabilities stored for one agent: several times the reference vocabulary of 69.
pub const MAX_CAPABILITIES: usize = 256;

/// The maximum number of steps stored for a verdict: those of .agt 1.0 §4 Verification.
const MAX_STEPS: usize = 8;

/// The maximum number of findings stored for a verdict. Each code is stored once.
const MAX_FINDINGS: usize = 64;

/// The maximum length of a stored id, word or CID in bytes. A CID with a hash of 64 bytes has 110.
const MAX_WORD_BYTES: usize = 200;

/// The maximum length of a stored text in characters: an endpoint as browsers accept it; names and descriptions are shorter.
const MAX_TEXT_CHARS: usize = 2_048;

/// The maximum length of a stored report in bytes: the largest manifest, quoted once.
const MAX_REPORT_BYTES: usize = 512 * 1024;

/// Resolves names. The agent index reaches the network only through this trait.
pub trait ResolveAgent: Send + Sync {
    /// Resolves and verifies a name, also against the manifest that the index remembers. It never fails: failures are part of the result.
    fn resolve(&self, domain: &AgtDomain, remembered: Option<&AgentMemory>) -> impl Future<Output = AgentResolution> + Send;
}

/// The outcome of a resolution.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentResolution {
    /// There was enough evidence for a verdict.
    Judged {
        /// The verdict.
        verdict: Box<AgentVerdict>,
        /// The whole report, as JSON.
        report: String,
    },
    /// A source, gateway or node could not be reached, which says nothing about the name.
    Unreachable {
        /// The step that failed.
        step: String,
        /// The code of the reason.
        code: String,
    },
}

/// The verdict about an agent: the part of a report that is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentVerdict {
    /// The state, such as `manifest` or `not-an-agent`.
    pub state: String,
    /// Whether CID, signature and onchain owner are all valid.
    pub verified: bool,
    /// Whether the manifest also conforms to every rule.
    pub conformant: bool,
    /// Whether it consists of unsigned legacy records. Such an agent is never verified.
    pub legacy: bool,
    /// The first step that failed.
    pub failed: Option<Failure>,
    /// The outcome of each step, in order.
    pub steps: Vec<AgentStep>,
    /// The codes of all findings, each once, most severe first.
    pub findings: Vec<FindingNote>,
    /// The onchain owner of the name.
    pub owner: Option<Address>,
    /// The CID of the manifest.
    pub cid: Option<String>,
    /// The digest of the signed bytes: the same content can have many CIDs.
    pub content_digest: Option<B256>,
    /// When the manifest was created, as it states.
    pub created_at: Option<UnixTime>,
    /// The owner's signature scheme, such as `eip-191`.
    #[serde(default)]
    pub signed_by: Option<String>,
    /// The block at which the owner was read.
    pub block: Option<u64>,
    /// What the manifest says, for an agent that is verified and conformant. Untrusted text all the same.
    pub facts: Option<AgentFacts>,
    /// What an unverified manifest or legacy records claim about the agent: for people, never for another agent.
    pub claims: Option<AgentClaims>,
}

/// The outcome of one step of a resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStep {
    /// Its number in .agt 1.0 §4 Verification, 1 to 8.
    pub number: u8,
    /// `passed`, `failed` or `not_reached`.
    pub status: String,
    /// The code of the reason, if it did not pass.
    pub code: Option<String>,
}

/// What a verified and conformant manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// Its name.
    pub name: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Its website.
    pub website: Option<String>,
    /// The protocols that it supports, at most [`MAX_PROTOCOLS`].
    pub protocols: Vec<AgentProtocol>,
    /// The ids of its capabilities, at most [`MAX_CAPABILITIES`].
    pub capabilities: Vec<String>,
    /// Its pricing.
    pub pricing: Option<AgentPricing>,
    /// Whether the manifest has more protocols or capabilities than are stored.
    #[serde(default)]
    pub is_partial: bool,
}

/// A protocol that an agent supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProtocol {
    /// Its id, such as `mcp`.
    pub id: String,
    /// Its endpoint. Untrusted text.
    pub endpoint: String,
}

/// The pricing of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPricing {
    /// `free`, `freemium`, `paid` or `contact`.
    pub model: String,
    /// A plain decimal number.
    pub amount: Option<String>,
    /// An ISO 4217 code or a token symbol.
    pub currency: Option<String>,
    /// The unit that the amount is charged for.
    pub unit: Option<String>,
    /// The chain of the token.
    pub chain: Option<String>,
}

/// What an unverified agent claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentClaims {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The account that it claims as its owner.
    pub owner: Option<String>,
    /// The first of its endpoints, at most [`MAX_PROTOCOLS`].
    #[serde(default)]
    pub endpoints: Vec<String>,
}

/// A failed resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTrouble {
    /// The step that failed.
    pub step: String,
    /// The code of the reason.
    pub code: String,
}

/// A verdict in short form: a change is recorded if one of these fields differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAnswer {
    /// The state.
    pub state: String,
    /// Whether CID, signature and onchain owner are all valid.
    pub verified: bool,
    /// Whether the manifest also conforms to every rule.
    pub conformant: bool,
    /// The step that failed first.
    pub step: Option<String>,
    /// The code of the reason.
    pub code: Option<String>,
    /// The onchain owner of the name.
    pub owner: Option<Address>,
    /// The CID of the manifest.
    pub cid: Option<String>,
}

/// A change of the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentChange {
    /// When it was detected.
    pub at: UnixTime,
    /// The new verdict.
    pub answer: AgentAnswer,
}

/// Everything that is known about a name.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentView {
    /// The name.
    pub domain: AgtDomain,
    /// Whether it is in the list now.
    pub listed: bool,
    /// When it was first listed.
    pub added_at: UnixTime,
    /// When the verdict was reached.
    pub checked_at: Option<UnixTime>,
    /// Until when a good verdict is valid without another one.
    pub expires_at: Option<UnixTime>,
    /// The last verdict.
    pub verdict: Option<AgentVerdict>,
    /// The last failed resolution and its time, if it is newer than the verdict.
    pub trouble: Option<(AgentTrouble, UnixTime)>,
}

impl AgentVerdict {
    /// Whether the agent may be shown to other agents while the verdict is valid.
    pub const fn is_good(&self) -> bool {
        self.verified && self.conformant && !self.legacy
    }

    /// Returns the verdict in short form.
    pub fn answer(&self) -> AgentAnswer {
        AgentAnswer {
            state: self.state.clone(),
            verified: self.verified,
            conformant: self.conformant,
            step: self.failed.as_ref().map(|failed| failed.step.clone()),
            code: self.failed.as_ref().map(|failed| failed.code.clone()),
            owner: self.owner,
            cid: self.cid.clone(),
        }
    }

    /// Returns the verdict as it is stored: within limits, and with content only if it is good, whatever the resolver returned.
    pub(super) fn bounded(mut self) -> Self {
        cut_bytes(&mut self.state);
        self.verified &= !self.legacy;
        if !self.is_good() {
            self.facts = None;
        } else {
            self.claims = None;
        }
        if let Some(failed) = &mut self.failed {
            cut_bytes(&mut failed.step);
            cut_bytes(&mut failed.code);
        }
        self.steps.truncate(MAX_STEPS);
        for step in &mut self.steps {
            cut_bytes(&mut step.status);
            if let Some(code) = &mut step.code {
                cut_bytes(code);
            }
        }
        self.findings.truncate(MAX_FINDINGS);
        for note in &mut self.findings {
            cut_bytes(&mut note.code);
            cut_bytes(&mut note.severity);
            cut_chars(&mut note.title);
        }
        for text in [&mut self.cid, &mut self.signed_by].into_iter().flatten() {
            cut_bytes(text);
        }
        if let Some(facts) = &mut self.facts {
            facts.bound();
        }
        if let Some(claims) = &mut self.claims {
            for text in [&mut claims.name, &mut claims.description, &mut claims.owner].into_iter().flatten() {
                cut_chars(text);
            }
            claims.endpoints.truncate(MAX_PROTOCOLS);
            claims.endpoints.iter_mut().for_each(cut_chars);
        }
        self
    }
}

impl AgentFacts {
    fn bound(&mut self) {
        let before = (self.protocols.len(), self.capabilities.len());
        // A value that is not an id cannot match a filter, and a truncated endpoint is a different endpoint.
        self.protocols.retain(|protocol| is_short_id(&protocol.id) && protocol.endpoint.chars().count() <= MAX_TEXT_CHARS);
        self.protocols.truncate(MAX_PROTOCOLS);
        self.capabilities.retain(|id| is_short_id(id));
        self.capabilities.truncate(MAX_CAPABILITIES);
        self.is_partial |= before != (self.protocols.len(), self.capabilities.len());
        for text in [&mut self.name, &mut self.description, &mut self.website].into_iter().flatten() {
            cut_chars(text);
        }
        self.pricing = self.pricing.take().filter(|pricing| PricingModel::parse(&pricing.model).is_some());
        if let Some(pricing) = &mut self.pricing {
            for text in [&mut pricing.amount, &mut pricing.currency, &mut pricing.unit, &mut pricing.chain].into_iter().flatten()
            {
                cut_bytes(text);
            }
        }
    }
}

/// Returns the report as it is stored. One that is too large is not stored: the verdict has the essentials.
pub(super) fn bounded_report(report: String) -> Option<String> {
    (report.len() <= MAX_REPORT_BYTES && !report.contains('\0')).then_some(report)
}

impl AgentTrouble {
    pub(super) fn bounded(mut self) -> Self {
        cut_bytes(&mut self.step);
        cut_bytes(&mut self.code);
        self
    }
}

impl AgentView {
    /// Whether the agent is shown to other agents: in the list, and with a good verdict that is still valid.
    pub fn is_good(&self, now: UnixTime) -> bool {
        self.listed
            && self.verdict.as_ref().is_some_and(AgentVerdict::is_good)
            && self.expires_at.is_some_and(|expires_at| now < expires_at)
    }

    /// Returns what the manifest says, if it may be shown.
    pub fn facts(&self, now: UnixTime) -> Option<&AgentFacts> {
        self.verdict.as_ref().filter(|_| self.is_good(now))?.facts.as_ref()
    }
}

fn is_short_id(id: &str) -> bool {
    id.len() <= MAX_WORD_BYTES && is_id(id)
}

fn cut_bytes(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_WORD_BYTES));
}

fn cut_chars(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A good verdict with a name.
    fn good(name: &str) -> AgentVerdict {
        AgentVerdict {
            state: "manifest".to_owned(),
            verified: true,
            conformant: true,
            legacy: false,
            failed: None,
            steps: Vec::new(),
            findings: Vec::new(),
            owner: Some(Address::repeat_byte(1)),
            cid: None,
            content_digest: None,
            created_at: None,
            signed_by: None,
            block: Some(7),
            facts: Some(AgentFacts { name: Some(name.to_owned()), ..AgentFacts::default() }),
            claims: None,
        }
    }

    // req: AGT-026
    #[test]
    fn content_is_kept_of_good_agents_alone() {
        assert!(good("a").bounded().facts.is_some());
        for bad in [
            AgentVerdict { verified: false, ..good("a") },
            AgentVerdict { conformant: false, ..good("a") },
            AgentVerdict { legacy: true, ..good("a") },
        ] {
            let kept = bad.bounded();
            assert!(kept.facts.is_none() && !kept.is_good());
        }
        assert!(!AgentVerdict { legacy: true, ..good("a") }.bounded().verified, "legacy records are never verified");
    }

    #[test]
    fn everything_has_a_bound() {
        let mut verdict = good(&"\u{1f916}".repeat(100_000));
        verdict.cid = Some("\u{e9}".repeat(10_000));
        verdict.steps = vec![AgentStep { number: 1, status: "passed".to_owned(), code: Some("y".repeat(9_000)) }; 500];
        let facts = verdict.facts.as_mut().expect("facts");
        facts.capabilities = (0..5_000).map(|n| format!("cap-{n}")).chain(["Bad Id".to_owned(), "a".repeat(300)]).collect();
        facts.protocols = vec![AgentProtocol { id: "mcp".to_owned(), endpoint: "x".repeat(3_000) }; 50];
        facts.pricing = Some(AgentPricing { model: "trial".to_owned(), ..AgentPricing::default() });
        let kept = verdict.bounded();
        let facts = kept.facts.as_ref().expect("facts");
        assert_eq!((facts.capabilities.len(), facts.protocols.len(), facts.pricing.is_some()), (MAX_CAPABILITIES, 0, false));
        assert!(facts.is_partial && kept.steps.len() == MAX_STEPS && kept.cid.as_ref().is_some_and(|cid| cid.len() <= 200));
        assert!(serde_json::to_string(&kept).expect("JSON").len() < 64 * 1024);
        assert_eq!(bounded_report("x".repeat(MAX_REPORT_BYTES + 1)), None);
        assert_eq!(bounded_report("\0".to_owned()), None, "PostgreSQL takes no such text");
    }
}
