//! The standing of a tool: the verdict with its four checks, and warnings.

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::codes;
use toolcrib_index::listing::{FindingNote, Life, Listing};
use toolcrib_index::model::ToolView;
use toolcrib_index::moderation::Moderation;
use toolcrib_index::search::Source;

use super::access::access_kind;
use super::{current, time};

/// The warning that ERC-8257 requires of indexers, word for word.
pub(crate) const NOT_ADVERTISED: &str = "predicate does not advertise IAccessPredicate";

/// How a tool stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Standing {
    /// Its name everywhere: `eip155:<chain>/erc8257:<registry>/<id>`, or `x402_bazaar/<number>`.
    pub(crate) id: String,
    /// `onchain` for tools of a registry, `x402_bazaar` for resources that a facilitator lists.
    pub(crate) source: &'static str,
    /// Whether all four checks passed for what the registry says now.
    pub(crate) verified: bool,
    /// Whether the manifest also keeps every rule and limit.
    pub(crate) conformant: bool,
    /// `verified`, `refused`, `unknown` (it could not be told) or `pending` (nobody has looked since it changed), or `blocked` by the
    /// operator. A resource of the Bazaar is `unverified`. Later versions may have
    /// more words.
    pub(crate) verdict: String,
    /// The four checks of ERC-8257 §7.
    pub(crate) checks: Vec<Check>,
    /// Where verification failed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<Failed>,
    /// When it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checked_at: Option<String>,
    /// The trust tier that was verified here.
    pub(crate) tier: String,
    /// How access is given: `open`, `nft_gated`, `token_gated`, `subscription` or `gated`. Later versions may have more words.
    pub(crate) access_type: String,
    /// `active`, `maybe_stale` or `retired`. Later versions may have more words.
    pub(crate) life: String,
    /// Whether the development world was involved: such a tool means nothing outside it.
    pub(crate) dev: bool,
    /// What to know before relying on it.
    pub(crate) warnings: Vec<Warning>,
    /// What the operator of this directory did to it, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moderation: Option<ModerationView>,
    /// The resource of the Bazaar with the same endpoint, as `x402_bazaar/<number>`: a facilitator lists this verified tool too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) also_in_bazaar: Option<String>,
}

/// What the operator did to a tool or a resource.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Moderation")]
pub(crate) struct ModerationView {
    /// `block`: its content is not shown; `hide`: it is left out of lists and search.
    pub(crate) action: &'static str,
    /// Why.
    pub(crate) reason: String,
    /// What is said in place of the content.
    pub(crate) notice: String,
    /// Since when.
    pub(crate) at: String,
}

impl ModerationView {
    pub(super) fn of(moderation: &Moderation) -> Self {
        let Moderation { action, reason, notice, at } = moderation.clone();
        Self { action: action.as_str(), reason, notice, at: time(at) }
    }
}

impl Standing {
    pub(crate) fn of(view: &ToolView) -> Self {
        let listing = current(view);
        let status = |at: usize| listing.and_then(|listing| listing.checks.get(at).cloned());
        let checks = CHECKS.iter().zip(1..).map(|(name, number)| Check {
            number,
            name,
            status: status(usize::from(number) - 1).unwrap_or_else(|| "not_reached".to_owned()),
        });
        let failed = listing.and_then(|listing| listing.failed.as_ref()).map(|failure| Failed {
            check: failure.check,
            step: failure.step.clone(),
            code: failure.code.clone(),
            title: codes::Code::find(&failure.code).map(|code| code.title().to_owned()).unwrap_or_default(),
        });
        Self {
            id: view.tool.to_string(),
            source: Source::Onchain.as_str(),
            verified: listing.is_some_and(|listing| listing.verified),
            conformant: listing.is_some_and(|listing| listing.verified && listing.conformant),
            verdict: if view.is_blocked() { "blocked".to_owned() } else { verdict(listing) },
            checks: checks.collect(),
            failed,
            checked_at: view.listing.as_ref().map(|listing| time(listing.checked_at)),
            tier: listing.map_or_else(|| "self-attested".to_owned(), |listing| listing.tier.clone()),
            access_type: access_kind(view).into(),
            life: life(view),
            dev: view.listing.as_ref().is_some_and(|listing| listing.dev),
            warnings: warnings(view),
            moderation: view.moderation.as_ref().map(ModerationView::of),
            also_in_bazaar: None,
        }
    }
}

/// One of the four checks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Check {
    /// 1 to 4.
    pub(crate) number: u8,
    /// What is checked.
    pub(crate) name: &'static str,
    /// `passed`, `failed` or `not_reached`.
    pub(crate) status: String,
}

/// Where verification failed first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Failed {
    /// The number of the check, for steps that belong to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<u8>,
    /// The step.
    pub(crate) step: String,
    /// The code of the reason.
    pub(crate) code: String,
    /// What the code means.
    pub(crate) title: String,
}

/// Something that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Warning {
    /// Its code.
    pub(crate) code: String,
    /// `error`, `warning` or `hint`.
    pub(crate) severity: String,
    /// What it means.
    pub(crate) title: String,
}

impl Warning {
    pub(super) fn of(note: &FindingNote) -> Self {
        Self { code: note.code.clone(), severity: note.severity.clone(), title: note.title.clone() }
    }
}

/// The names of the four checks.
pub(crate) const CHECKS: [&str; 4] = ["manifest_fetched", "origin_bound", "hash_matches", "creator_matches"];

pub(crate) fn verdict(listing: Option<&Listing>) -> String {
    listing.map_or("pending", |listing| listing.verdict.as_str()).to_owned()
}

pub(crate) fn life(view: &ToolView) -> String {
    let word = match view.listing.as_ref().map(|listing| &listing.life) {
        _ if !view.row.is_active() => "retired",
        Some(Life::MaybeStale) => "maybe_stale",
        Some(Life::Retired(_)) => "retired",
        Some(Life::Active) | None => "active",
        Some(Life::Other { state, .. }) => state,
    };
    word.to_owned()
}

/// Returns the warnings about a tool: those of the last verification, and that of ERC-8257 about predicates.
pub(crate) fn warnings(view: &ToolView) -> Vec<Warning> {
    let Some(listing) = current(view) else { return Vec::new() };
    let mut warnings = Vec::new();
    let code = codes::predicate::NOT_ADVERTISED;
    if listing.access.is_advertised == Some(false) {
        warnings.push(Warning { code: code.id().to_owned(), severity: "warning".to_owned(), title: NOT_ADVERTISED.to_owned() });
    }
    let others = listing.findings.iter().filter(|note| note.severity == "warning" && note.code != code.id());
    warnings.extend(others.map(Warning::of));
    warnings
}
