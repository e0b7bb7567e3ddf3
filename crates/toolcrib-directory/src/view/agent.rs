//! An agent in a list, and the full view of one.
//!
//! The content of a manifest is shown only while the verdict is good and valid. For other agents there is the verdict with its reasons,
//! and their own description under `claims`.

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_index::agents::{AgentChange, AgentPricing, AgentProtocol, AgentTool, AgentVerdict, AgentView};

use super::standing::{Standing, Warning};
use super::time;

/// The steps of .agt 1.0 §4 Verification, in order.
pub(crate) const STEPS: [&str; 8] = [
    "content_retrieved",
    "cid_matches",
    "content_canonical",
    "signer_recovered",
    "signer_is_owner",
    "token_known",
    "holder_read",
    "holder_is_owner",
];

/// An agent in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentListItem")]
pub(crate) struct AgentItem {
    /// Its name, in the form that counts.
    pub(crate) domain: String,
    /// The name as it displays, if that differs. Names with the same look are different names. Untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_domain: Option<String>,
    /// Whether CID, signature and owner onchain hold, and the verdict is not too old.
    pub(crate) verified: bool,
    /// Whether the manifest also keeps every rule.
    pub(crate) conformant: bool,
    /// Whether unsigned legacy records describe it. Such an agent is never verified.
    pub(crate) legacy: bool,
    /// The verdict in a word: `manifest`, `legacy`, `not-an-agent`, `not-found`, `invalid-cid`, `invalid-signature`, `invalid-owner`,
    /// `invalid-manifest`, `domain-mismatch`, `ambiguous`, `rollback` or `downgrade`; before the first verdict `unreachable` or `pending`.
    pub(crate) state: String,
    /// What decided against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<AgentFailed>,
    /// The holder of the name onchain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The CID of the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cid: Option<String>,
    /// The digest of the signed content, which does not depend on its layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_digest: Option<String>,
    /// When the manifest was made, according to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<String>,
    /// The block at which the holder was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<u64>,
    /// When the verdict was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checked_at: Option<String>,
    /// Until when the verdict holds without another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    /// Whether the verdict is older than it may be.
    pub(crate) expired: bool,
    /// The last attempt that failed, if it came after the verdict. It says nothing about the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreachable: Option<Unreachable>,
    /// Its name, for an agent that is verified and conformant. Untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// What it does, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// What it speaks, and where, likewise.
    pub(crate) protocols: Vec<ProtocolView>,
    /// The ids of what it can do, likewise.
    pub(crate) capabilities: Vec<String>,
    /// How it charges, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pricing: Option<PricingView>,
}

/// What decided against an agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct AgentFailed {
    /// The number of the step, for reasons that belong to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<u8>,
    /// The part of the judgement.
    pub(crate) stage: String,
    /// The code of the reason.
    pub(crate) code: String,
    /// What the code means.
    pub(crate) title: String,
}

/// An attempt that failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Unreachable {
    /// When.
    pub(crate) at: String,
    /// The part of the judgement.
    pub(crate) stage: String,
    /// The code of the reason.
    pub(crate) code: String,
    /// What the code means.
    pub(crate) title: String,
}

/// A protocol that an agent speaks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentProtocol")]
pub(crate) struct ProtocolView {
    /// Its id, such as `mcp`.
    pub(crate) id: String,
    /// Where. Untrusted text.
    pub(crate) endpoint: String,
}

/// How an agent charges.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentPricing")]
pub(crate) struct PricingView {
    /// `free`, `freemium`, `paid` or `contact`.
    pub(crate) model: String,
    /// A plain decimal number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount: Option<String>,
    /// An ISO 4217 code or a token symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) currency: Option<String>,
    /// What the amount is charged for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    /// Where the token lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
}

impl AgentItem {
    pub(crate) fn of(view: &AgentView, now: UnixTime) -> Self {
        let verdict = view.verdict.as_ref();
        let expired = view.expires_at.is_some_and(|expires_at| expires_at <= now);
        let facts = view.facts(now);
        let holds = |is: fn(&AgentVerdict) -> bool| verdict.is_some_and(is) && !expired;
        let failed = verdict.and_then(|verdict| verdict.failed.as_ref()).map(|failed| AgentFailed {
            step: failed.check,
            stage: failed.step.clone(),
            code: failed.code.clone(),
            title: title(&failed.code),
        });
        let unreachable = view.trouble.as_ref().map(|(trouble, at)| Unreachable {
            at: time(*at),
            stage: trouble.step.clone(),
            code: trouble.code.clone(),
            title: title(&trouble.code),
        });
        let state = match (verdict, &unreachable) {
            (Some(verdict), _) => verdict.state.clone(),
            (None, Some(_)) => "unreachable".to_owned(),
            (None, None) => "pending".to_owned(),
        };
        Self {
            domain: view.domain.as_str().to_owned(),
            display_domain: view.domain.unicode(),
            verified: holds(|verdict| verdict.verified),
            conformant: holds(|verdict| verdict.verified && verdict.conformant),
            legacy: verdict.is_some_and(|verdict| verdict.legacy),
            state,
            failed,
            owner: verdict.and_then(|verdict| verdict.owner).map(|owner| owner.to_checksum(None)),
            cid: verdict.and_then(|verdict| verdict.cid.clone()),
            content_digest: verdict.and_then(|verdict| verdict.content_digest).map(|digest| digest.to_string()),
            created_at: verdict.and_then(|verdict| verdict.created_at).map(time),
            block: verdict.and_then(|verdict| verdict.block),
            checked_at: view.checked_at.map(time),
            expires_at: view.expires_at.map(time),
            expired,
            unreachable,
            name: facts.and_then(|facts| facts.name.clone()),
            description: facts.and_then(|facts| facts.description.clone()),
            protocols: facts.into_iter().flat_map(|facts| &facts.protocols).map(ProtocolView::of).collect(),
            capabilities: facts.map(|facts| facts.capabilities.clone()).unwrap_or_default(),
            pricing: facts.and_then(|facts| facts.pricing.as_ref()).map(PricingView::of),
        }
    }

    /// Returns whether it may be shown to other agents.
    pub(crate) const fn is_good(&self) -> bool {
        self.verified && self.conformant
    }

    /// Returns its display name.
    pub(crate) fn display_name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or(&self.domain)
    }
}

impl ProtocolView {
    fn of(protocol: &AgentProtocol) -> Self {
        Self { id: protocol.id.clone(), endpoint: protocol.endpoint.clone() }
    }
}

impl PricingView {
    fn of(pricing: &AgentPricing) -> Self {
        let AgentPricing { model, amount, currency, unit, chain } = pricing.clone();
        Self { model, amount, currency, unit, chain }
    }

    /// Returns the price in words.
    pub(crate) fn spoken(&self) -> String {
        let mut words = vec![self.model.as_str()];
        words.extend([&self.amount, &self.currency, &self.unit].into_iter().flatten().map(String::as_str));
        words.join(" ")
    }
}

/// Everything about an agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Agent")]
pub(crate) struct Agent {
    #[serde(flatten)]
    pub(crate) item: AgentItem,
    /// When the name was first listed here.
    pub(crate) added_at: String,
    /// The eight steps of .agt 1.0 §4 Verification.
    pub(crate) steps: Vec<StepView>,
    /// Everything that was found.
    pub(crate) findings: Vec<Warning>,
    /// How the owner signed: `eip-191`, or an extension of the specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signed_by: Option<String>,
    /// Its website, for an agent that is verified and conformant. Untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) website: Option<String>,
    /// Whether the manifest has more protocols or capabilities than are shown.
    pub(crate) partial: bool,
    /// What an agent that is not verified calls itself. For people, never for an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claims: Option<AgentClaimsView>,
    /// Registered tools (ERC-8257) at its endpoints that this directory knows, for an agent that is verified and conformant.
    pub(crate) tools: Vec<AgentToolView>,
    /// The changes of the verdict, the newest first.
    pub(crate) history: Vec<AgentChangeView>,
}

/// A registered tool at an endpoint of the agent. Both verdicts count: that of the agent and that of the tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentTool")]
pub(crate) struct AgentToolView {
    /// The protocol of the agent whose endpoint it is.
    pub(crate) protocol: String,
    /// The tool, as `eip155:<chain>/erc8257:<registry>/<id>`.
    pub(crate) id: String,
    /// The number of the registry's chain.
    pub(crate) registry_chain: String,
    /// The registry.
    pub(crate) registry_addr: String,
    /// The tool's id there.
    pub(crate) tool_id: String,
    /// The tool's endpoint, by its verified manifest or by its own word. Untrusted text.
    pub(crate) endpoint: String,
    /// How it relates to the endpoint of the agent: `same`, `below` (a path below it) or `same_origin`.
    pub(crate) place: &'static str,
    /// The account that registered the tool.
    pub(crate) creator: String,
    /// Whether that account holds the name of the agent.
    pub(crate) same_owner: bool,
    /// The verdict about the tool: `verified`, `refused`, `unknown`, `pending` or `blocked`, or a word of a later version.
    pub(crate) verdict: String,
    /// Whether the same account vouches for both: it is the same, and both are verified.
    pub(crate) confirmed: bool,
}

impl AgentToolView {
    fn of(tool: &AgentTool) -> Self {
        Self {
            protocol: tool.protocol.id.clone(),
            id: tool.view.tool.to_string(),
            registry_chain: tool.view.tool.chain.to_string(),
            registry_addr: format!("{:#x}", tool.view.tool.registry),
            tool_id: tool.view.tool.id.to_string(),
            endpoint: tool.endpoint.clone(),
            place: tool.place.as_str(),
            creator: tool.view.row.creator.to_checksum(None),
            same_owner: tool.same_owner,
            verdict: Standing::of(&tool.view).verdict,
            // Tools are searched only if the agent is verified and conformant.
            confirmed: tool.same_owner && tool.view.is_listed(),
        }
    }
}

/// How one step went.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentStep")]
pub(crate) struct StepView {
    /// 1 to 8.
    pub(crate) number: u8,
    /// What is checked.
    pub(crate) name: &'static str,
    /// `passed`, `failed` or `not_reached`.
    pub(crate) status: &'static str,
    /// The code of the reason, where it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// What the code means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
}

/// What an unverified agent calls itself. Untrusted text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentClaims")]
pub(crate) struct AgentClaimsView {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// What it says it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The account that it names as its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// Its endpoints.
    pub(crate) endpoints: Vec<String>,
}

/// A change of the verdict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentChange")]
pub(crate) struct AgentChangeView {
    /// When it was noticed.
    pub(crate) at: String,
    /// The verdict from then on, in a word.
    pub(crate) state: String,
    /// Whether CID, signature and owner onchain held.
    pub(crate) verified: bool,
    /// Whether the manifest also kept every rule.
    pub(crate) conformant: bool,
    /// The code of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// The CID of the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cid: Option<String>,
    /// The holder of the name onchain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

impl Agent {
    pub(crate) fn of(view: &AgentView, changes: &[AgentChange], tools: &[AgentTool], now: UnixTime) -> Self {
        let item = AgentItem::of(view, now);
        let verdict = view.verdict.as_ref();
        let facts = view.facts(now);
        let claims = verdict.filter(|_| facts.is_none()).and_then(|verdict| verdict.claims.as_ref());
        Self {
            added_at: time(view.added_at),
            steps: steps(verdict),
            findings: verdict.into_iter().flat_map(|verdict| &verdict.findings).map(Warning::of).collect(),
            signed_by: verdict.and_then(|verdict| verdict.signed_by.clone()),
            website: facts.and_then(|facts| facts.website.clone()),
            partial: facts.is_some_and(|facts| facts.is_partial),
            claims: claims.map(|claims| AgentClaimsView {
                name: claims.name.clone(),
                description: claims.description.clone(),
                owner: claims.owner.clone(),
                endpoints: claims.endpoints.clone(),
            }),
            tools: tools.iter().map(AgentToolView::of).collect(),
            history: changes.iter().map(AgentChangeView::of).collect(),
            item,
        }
    }
}

impl AgentChangeView {
    fn of(change: &AgentChange) -> Self {
        let answer = &change.answer;
        Self {
            at: time(change.at),
            state: answer.state.clone(),
            verified: answer.verified,
            conformant: answer.conformant,
            code: answer.code.clone(),
            cid: answer.cid.clone(),
            owner: answer.owner.map(|owner| owner.to_checksum(None)),
        }
    }
}

fn steps(verdict: Option<&AgentVerdict>) -> Vec<StepView> {
    let all = STEPS.iter().zip(1_u8..).map(|(name, number)| {
        let step = verdict.and_then(|verdict| verdict.steps.iter().find(|step| step.number == number));
        let status = match step.map(|step| step.status.as_str()) {
            Some("passed") => "passed",
            Some("failed") => "failed",
            _ => "not_reached",
        };
        let code = step.and_then(|step| step.code.clone());
        StepView { number, name, status, title: code.as_deref().map(title), code }
    });
    all.collect()
}

/// Returns what a code means. A code of a later version is unknown here.
fn title(code: &str) -> String {
    Code::find(code).map(|code| code.title().to_owned()).unwrap_or_default()
}
