//! What is shown of a tool: the fields that clients of the public interface read, and ours beside them.
//!
//! What a manifest says is shown only while all four checks pass for what the registry says now and the manifest keeps every rule. Of
//! others there is what the chain says, the verdict with its reasons, and under `claims` what they call themselves.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::money::Amount;
use toolcrib_core::time::format_rfc3339;
use toolcrib_core::url::{HttpsUrl, display_host};
use toolcrib_index::listing::{AccessKind, Life, Listing, ManifestFacts, Price, RequirementFacts};
use toolcrib_index::model::ToolView;
use toolcrib_index::search::Explanation;
use toolcrib_index::usage::PaymentStats;

/// The warning that ERC-8257 asks indexers for, word for word.
pub(crate) const NOT_ADVERTISED: &str = "predicate does not advertise IAccessPredicate";

/// A tool in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolListItem")]
pub(crate) struct ToolItem {
    #[serde(flatten)]
    pub(crate) registration: Registration,
    #[serde(flatten)]
    pub(crate) standing: Standing,
    /// Its name, for a tool that is verified and conformant. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

/// What the registry says about a tool, and where it is called.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Registration {
    /// Its id in its registry, in decimal digits.
    pub(crate) tool_id: String,
    /// The number of the registry's chain.
    pub(crate) registry_chain: String,
    /// The registry.
    pub(crate) registry_addr: String,
    /// Who registered it.
    pub(crate) creator: String,
    /// Where its manifest is. Foreign text.
    pub(crate) metadata_uri: String,
    /// The hash of its manifest.
    pub(crate) manifest_hash: String,
    /// Where it is called, for a tool that is verified and conformant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_url: Option<String>,
    /// The host of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_domain: Option<String>,
    /// Whether the manifest that was fetched has that hash.
    pub(crate) manifest_hash_verified: bool,
    /// Whether it is registered now.
    pub(crate) is_active: bool,
    /// When it was registered.
    pub(crate) created_at: String,
    /// When its registration last changed.
    pub(crate) updated_at: String,
}

/// How a tool stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Standing {
    /// Its name everywhere: `eip155:<chain>/erc8257:<registry>/<id>`.
    pub(crate) id: String,
    /// Whether all four checks passed for what the registry says now.
    pub(crate) verified: bool,
    /// Whether the manifest also keeps every rule and limit.
    pub(crate) conformant: bool,
    /// `verified`, `refused`, `unknown` (it could not be told) or `pending` (nobody has looked since it changed).
    pub(crate) verdict: &'static str,
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
    /// How access is given: `open`, `nft_gated`, `token_gated`, `subscription` or `gated`.
    pub(crate) access_type: &'static str,
    /// `active`, `maybe_stale` or `retired`.
    pub(crate) life: &'static str,
    /// Whether the development world was involved: such a tool means nothing outside it.
    pub(crate) dev: bool,
    /// What to know before relying on it.
    pub(crate) warnings: Vec<Warning>,
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

/// Everything about a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RegisteredTool")]
pub(crate) struct Tool {
    #[serde(flatten)]
    pub(crate) item: ToolItem,
    /// Its name, or what it is called without one.
    pub(crate) display_name: String,
    /// `healthy`, `degraded`, `down` or `unknown`.
    pub(crate) health_status: &'static str,
    /// The same as `access_type`.
    pub(crate) access_tier: &'static str,
    /// What it does. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<Vec<String>>,
    /// JSON Schema of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inputs: Option<Value>,
    /// JSON Schema of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outputs: Option<Value>,
    /// Who registered it.
    pub(crate) creator_address: String,
    /// Where it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Who may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<Access>,
    /// Its icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_url: Option<String>,
    /// Its large picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) featured_image_url: Option<String>,
    /// What it costs, the preferred option first.
    pub(crate) pricing_recipients: Vec<PricingRecipient>,
    /// Its own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The slug in its metadata URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slug: Option<String>,
    /// Everything that was found when it was last looked at.
    pub(crate) findings: Vec<Warning>,
    /// What a tool that is not verified calls itself. For people, never for an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claims: Option<ClaimsView>,
    /// The predicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate: Option<String>,
    /// What the predicate calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate_name: Option<String>,
    /// Whether the predicate's code can be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate_is_proxy: Option<bool>,
    /// Other registrations of the same metadata URI or endpoint.
    pub(crate) duplicates: Duplicates,
    /// What was proven about its use.
    pub(crate) usage: Usage,
    /// How its server has been doing.
    pub(crate) health: HealthView,
    /// Until when it stays listed without another look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    /// When it was deregistered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deregistered_at: Option<String>,
}

/// What an unverified tool calls itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Claims")]
pub(crate) struct ClaimsView {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
}

/// Other registrations, as `eip155:<chain>/erc8257:<registry>/<id>`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Duplicates {
    /// Of the same metadata URI.
    pub(crate) same_uri: Vec<String>,
    /// Of the same endpoint.
    pub(crate) same_endpoint: Vec<String>,
}

/// What was proven about the use of a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// Paid calls, each proven by a transaction.
    pub(crate) paid_calls: u64,
    /// Different accounts that paid.
    pub(crate) payers: u64,
    /// The same without the creator and the recipients: what ranking goes by.
    pub(crate) ranking_payers: u64,
    /// What was paid in dollars.
    pub(crate) volume_usd: String,
    /// Signatures over nothing. They cost nothing and never rank.
    pub(crate) signed_calls: u64,
    /// The last proven use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_at: Option<String>,
}

/// How a tool's server has been doing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(crate) struct HealthView {
    /// `healthy`, `degraded`, `down` or `unknown`.
    pub(crate) status: &'static str,
    /// Looks that were counted.
    pub(crate) looks: u32,
    /// Looks that got an answer.
    pub(crate) answered: u32,
    /// The time of an answer in milliseconds, in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_ms: Option<u32>,
    /// When it last answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_answer: Option<String>,
}

/// A payment option.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PricingRecipient {
    /// Who is paid.
    pub(crate) recipient: String,
    /// On which chain.
    pub(crate) payment_chain: String,
    /// In which asset.
    pub(crate) asset: String,
    /// By which protocol.
    pub(crate) protocol: String,
    /// How much, in the smallest unit.
    pub(crate) amount_per_call: String,
    /// Since when.
    pub(crate) created_at: String,
    /// The asset's symbol, for assets of a pinned table alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asset_symbol: Option<String>,
    /// The asset's digits after the point, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asset_decimals: Option<u8>,
    /// How much in dollars, for dollars of the pinned table alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount_per_call_usd: Option<String>,
    /// The asset as CAIP-19.
    pub(crate) asset_id: String,
}

impl PricingRecipient {
    /// How much, as people say it: `0.01 USDC` for assets that are known, and so many of the smallest unit of others.
    pub(crate) fn spoken(&self) -> String {
        match (&self.asset_symbol, self.asset_decimals, Amount::parse(&self.amount_per_call)) {
            (Some(symbol), Some(decimals), Ok(amount)) => format!("{} {symbol}", amount.format_units(decimals)),
            _ => format!("{} of the smallest unit of {}", self.amount_per_call, self.asset),
        }
    }
}

/// Who may use a tool, from the chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolAccess")]
pub(crate) struct Access {
    /// Whether everybody may.
    pub(crate) open_access: bool,
    /// `AND` when all requirements must be met, `OR` when one is enough.
    pub(crate) logic: &'static str,
    /// What is asked for.
    pub(crate) requirements: Vec<Requirement>,
}

/// One thing that is asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolRequirement")]
pub(crate) struct Requirement {
    /// The four bytes of its kind.
    pub(crate) kind: String,
    /// The kind in a word.
    #[serde(rename = "type")]
    pub(crate) meaning: String,
    /// The collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collection_address: Option<String>,
    /// A token of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_id: Option<String>,
    /// A tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_tier: Option<u32>,
    /// A token that one has an amount of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_address: Option<String>,
    /// The amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_balance: Option<String>,
    /// The data as it is.
    pub(crate) data: String,
    /// What the predicate calls it.
    pub(crate) label: String,
    /// The collection, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<Collection>,
}

/// A collection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Collection {
    /// Its name in small letters and hyphens.
    pub(crate) slug: String,
    /// Its name, from the chain.
    pub(crate) name: String,
    /// Where it is shown, or nothing.
    pub(crate) opensea_url: String,
    /// A picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_url: Option<String>,
    /// Its contracts.
    pub(crate) contracts: Vec<Contract>,
    /// Its symbol, from the chain.
    pub(crate) symbol: Option<String>,
    /// The lowest price it is offered at.
    pub(crate) floor_price: Option<String>,
}

/// A contract.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Contract {
    /// Its address.
    pub(crate) address: String,
    /// The number of its chain.
    pub(crate) chain: String,
}

/// A tool that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolSearchResult")]
pub(crate) struct Found {
    /// Its id in its registry, in decimal digits.
    pub(crate) tool_id: String,
    /// The number of the registry's chain.
    pub(crate) registry_chain: String,
    /// The registry.
    pub(crate) registry_addr: String,
    /// Its name; empty for a tool that is not verified.
    pub(crate) name: String,
    /// Its name, or what it is called without one.
    pub(crate) display_name: String,
    /// What it does; empty for a tool that is not verified. Foreign text.
    pub(crate) description: String,
    /// Its tags.
    pub(crate) tags: Vec<String>,
    /// Who registered it.
    pub(crate) creator: String,
    /// The same, shortened.
    pub(crate) creator_display_name: String,
    /// The host that it is called at; empty for a tool that is not verified.
    pub(crate) endpoint_domain: String,
    /// Payments that were proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payment_stats: Option<PaymentView>,
    /// When it was registered.
    pub(crate) created_at: String,
    /// Its icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_url: Option<String>,
    /// Its large picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) featured_image_url: Option<String>,
    /// What it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pricing_recipients: Option<Vec<PricingRecipient>>,
    /// Who may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<Access>,
    #[serde(flatten)]
    pub(crate) standing: Standing,
    /// What was proven about its use.
    pub(crate) usage: Usage,
    /// How good a hit it is. Comparable within one answer alone.
    pub(crate) score: f32,
    /// How the score came about, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub(crate) explanation: Option<Explanation>,
}

/// Payments that were proven.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentStats")]
pub(crate) struct PaymentView {
    /// All of them.
    pub(crate) total_payments: u64,
    /// What was paid in dollars.
    pub(crate) total_volume_usd: f64,
    /// Different accounts that paid.
    pub(crate) unique_buyers: u64,
    /// Those of the last day.
    pub(crate) payments_last_24h: u64,
    /// Those of the last week.
    pub(crate) payments_last_7d: u64,
}

impl From<PaymentStats> for PaymentView {
    fn from(stats: PaymentStats) -> Self {
        Self {
            total_payments: stats.total_payments,
            total_volume_usd: stats.volume as f64 / 1e6,
            unique_buyers: stats.unique_buyers,
            payments_last_24h: stats.payments_last_24h,
            payments_last_7d: stats.payments_last_7d,
        }
    }
}

/// The names of the four checks.
pub(crate) const CHECKS: [&str; 4] = ["manifest_fetched", "origin_bound", "hash_matches", "creator_matches"];

/// A moment as text.
pub(crate) fn time(at: UnixTime) -> String {
    format_rfc3339(at).unwrap_or_default()
}

/// Millionths of a dollar as dollars.
pub(crate) fn dollars(micro: u64) -> String {
    Amount::new(alloy_primitives::U256::from(micro)).format_units(6)
}

/// What was derived, if it is about the registration as it is now.
pub(crate) fn current(view: &ToolView) -> Option<&Listing> {
    let row = &view.row;
    view.listing.as_ref().filter(|listing| listing.manifest_hash == row.manifest_hash && listing.metadata_uri == row.metadata_uri)
}

/// What the manifest says, if it may be shown.
pub(crate) fn manifest(view: &ToolView) -> Option<&ManifestFacts> {
    let listing = view.listing.as_ref().filter(|listing| listing.is_good_for(&view.row))?;
    listing.manifest.as_ref()
}

/// What a tool is called.
pub(crate) fn display_name(view: &ToolView) -> String {
    manifest(view).map_or_else(|| format!("tool {}", view.tool.id), |manifest| manifest.name.clone())
}

/// The host of an endpoint as people see it.
pub(crate) fn domain(endpoint: &str) -> Option<String> {
    HttpsUrl::parse(endpoint).ok().map(|url| display_host(url.host()).text)
}

pub(crate) const fn verdict(listing: Option<&Listing>) -> &'static str {
    use toolcrib_index::listing::Verdict;
    match listing {
        None => "pending",
        Some(listing) => match listing.verdict {
            Verdict::Verified => "verified",
            Verdict::Refused => "refused",
            Verdict::Unknown => "unknown",
        },
    }
}

pub(crate) fn life(view: &ToolView) -> &'static str {
    if !view.row.is_active() {
        return "retired";
    }
    match view.listing.as_ref().map(|listing| &listing.life) {
        Some(Life::MaybeStale) => "maybe_stale",
        Some(Life::Retired(_)) => "retired",
        Some(Life::Active) | None => "active",
    }
}

/// How access is given. Before the first look the chain says only whether there is a predicate.
pub(crate) fn access_kind(view: &ToolView) -> AccessKind {
    match &view.listing {
        Some(listing) if listing.access.predicate == view.row.predicate => listing.access.kind,
        _ if view.row.predicate.is_none() => AccessKind::Open,
        _ => AccessKind::Gated,
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
            verified: listing.is_some_and(|listing| listing.verified),
            conformant: listing.is_some_and(|listing| listing.verified && listing.conformant),
            verdict: verdict(listing),
            checks: checks.collect(),
            failed,
            checked_at: view.listing.as_ref().map(|listing| time(listing.checked_at)),
            tier: listing.map_or_else(|| "self-attested".to_owned(), |listing| listing.tier.clone()),
            access_type: access_kind(view).as_str(),
            life: life(view),
            dev: view.listing.as_ref().is_some_and(|listing| listing.dev),
            warnings: warnings(view),
        }
    }
}

/// What to know before relying on a tool: the warnings of the last look, and that of ERC-8257 about predicates.
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

impl Warning {
    fn of(note: &toolcrib_index::listing::FindingNote) -> Self {
        Self { code: note.code.clone(), severity: note.severity.clone(), title: note.title.clone() }
    }
}

impl Registration {
    pub(crate) fn of(view: &ToolView) -> Self {
        let ToolRef { chain, registry, id } = &view.tool;
        let row = &view.row;
        let endpoint = manifest(view).map(|manifest| manifest.endpoint.clone());
        // The third check is about the hash.
        let is_hash_right = current(view).is_some_and(|listing| listing.checks.get(2).is_some_and(|check| check == "passed"));
        Self {
            tool_id: id.to_string(),
            registry_chain: chain.to_string(),
            registry_addr: format!("{registry:#x}"),
            creator: format!("{:#x}", row.creator),
            metadata_uri: row.metadata_uri.clone(),
            manifest_hash: row.manifest_hash.to_string(),
            endpoint_domain: endpoint.as_deref().and_then(domain),
            endpoint_url: endpoint,
            manifest_hash_verified: is_hash_right,
            is_active: row.is_active(),
            created_at: time(row.registered.time),
            updated_at: time(row.deregistered.unwrap_or(row.updated).time),
        }
    }
}

impl ToolItem {
    pub(crate) fn of(view: &ToolView) -> Self {
        Self {
            registration: Registration::of(view),
            standing: Standing::of(view),
            name: manifest(view).map(|manifest| manifest.name.clone()),
        }
    }
}

impl Tool {
    pub(crate) fn of(view: &ToolView, duplicates: Duplicates) -> Self {
        let item = ToolItem::of(view);
        let manifest = manifest(view);
        let listing = view.listing.as_ref();
        let health = listing.map(|listing| listing.health.clone()).unwrap_or_default();
        let claims = current(view).filter(|_| manifest.is_none()).and_then(|listing| listing.claims.as_ref());
        Self {
            display_name: display_name(view),
            health_status: health.status(),
            access_tier: item.standing.access_type,
            description: manifest.map(|manifest| manifest.description.clone()),
            tags: manifest.map(|manifest| manifest.tags.clone()),
            inputs: manifest.and_then(|manifest| manifest.inputs.clone()),
            outputs: manifest.and_then(|manifest| manifest.outputs.clone()),
            creator_address: item.registration.creator.clone(),
            endpoint: manifest.map(|manifest| manifest.endpoint.clone()),
            access: Access::of(view),
            image_url: manifest.and_then(|manifest| manifest.image.clone()),
            featured_image_url: manifest.and_then(|manifest| manifest.featured_image.clone()),
            pricing_recipients: prices(view),
            version: manifest.and_then(|manifest| manifest.version.clone()),
            slug: manifest.map(|manifest| manifest.slug.clone()),
            findings: current(view).into_iter().flat_map(|listing| &listing.findings).map(Warning::of).collect(),
            claims: claims.map(|claims| ClaimsView { name: claims.name.clone(), endpoint: claims.endpoint.clone() }),
            predicate: view.row.predicate.map(|predicate| format!("{predicate:#x}")),
            predicate_name: listing.and_then(|listing| listing.access.predicate_name.clone()),
            predicate_is_proxy: listing.and_then(|listing| listing.access.predicate_is_proxy),
            duplicates,
            usage: Usage::of(view),
            health: HealthView {
                status: health.status(),
                looks: health.looks,
                answered: health.answered,
                latency_ms: health.latency_ms,
                last_answer: health.last_answer.map(time),
            },
            expires_at: listing.map(|listing| time(listing.expires_at)),
            deregistered_at: view.row.deregistered.map(|at| time(at.time)),
            item,
        }
    }
}

impl Found {
    pub(crate) fn of(view: &ToolView, is_whole: bool, stats: Option<PaymentStats>, score: f32) -> Self {
        let registration = Registration::of(view);
        let manifest = manifest(view);
        Self {
            tool_id: registration.tool_id,
            registry_chain: registration.registry_chain,
            registry_addr: registration.registry_addr,
            name: manifest.map(|manifest| manifest.name.clone()).unwrap_or_default(),
            display_name: display_name(view),
            description: manifest.map(|manifest| manifest.description.clone()).unwrap_or_default(),
            tags: manifest.map(|manifest| manifest.tags.clone()).unwrap_or_default(),
            creator_display_name: short(&registration.creator),
            creator: registration.creator,
            endpoint_domain: registration.endpoint_domain.unwrap_or_default(),
            payment_stats: stats.map(PaymentView::from),
            created_at: registration.created_at,
            image_url: manifest.and_then(|manifest| manifest.image.clone()),
            featured_image_url: manifest.and_then(|manifest| manifest.featured_image.clone()),
            pricing_recipients: is_whole.then(|| prices(view)),
            access: Access::of(view).filter(|_| is_whole),
            standing: Standing::of(view),
            usage: Usage::of(view),
            score,
            explanation: None,
        }
    }
}

impl Usage {
    fn of(view: &ToolView) -> Self {
        let usage = &view.usage;
        Self {
            paid_calls: usage.paid_calls,
            payers: usage.payers,
            ranking_payers: usage.ranking_payers,
            volume_usd: dollars(usage.volume),
            signed_calls: usage.signed_calls,
            last_at: usage.last_at.map(time),
        }
    }
}

/// `0x1234…abcd`
pub(crate) fn short(address: &str) -> String {
    match (address.get(..6), address.get(address.len().saturating_sub(4)..)) {
        (Some(start), Some(end)) => format!("{start}\u{2026}{end}"),
        _ => address.to_owned(),
    }
}

fn prices(view: &ToolView) -> Vec<PricingRecipient> {
    let since = time(view.row.updated.time);
    let one = |price: &Price| PricingRecipient {
        recipient: price.recipient.rsplit(':').next().unwrap_or_default().to_owned(),
        payment_chain: price
            .chain
            .map_or_else(|| price.asset.split('/').next().unwrap_or_default().to_owned(), |chain| chain.to_string()),
        asset: price.token.map_or_else(|| price.asset.clone(), |token| format!("{token:#x}")),
        protocol: price.protocol.clone(),
        amount_per_call: price.amount.clone(),
        created_at: since.clone(),
        asset_symbol: price.symbol.clone(),
        asset_decimals: price.decimals,
        amount_per_call_usd: price.micro_usd.map(dollars),
        asset_id: price.asset.clone(),
    };
    manifest(view).into_iter().flat_map(|manifest| &manifest.prices).map(one).collect()
}

impl Access {
    /// `None` while only the chain's word for the predicate is known.
    fn of(view: &ToolView) -> Option<Self> {
        let kind = access_kind(view);
        let listing = view.listing.as_ref().filter(|listing| listing.access.predicate == view.row.predicate);
        if listing.is_none() && kind != AccessKind::Open {
            return None;
        }
        let requirements = listing.map(|listing| listing.access.requirements.as_slice()).unwrap_or_default();
        Some(Self {
            open_access: kind == AccessKind::Open,
            logic: if listing.is_some_and(|listing| listing.access.any) { "OR" } else { "AND" },
            requirements: requirements.iter().map(|requirement| Requirement::of(requirement, view.tool.chain)).collect(),
        })
    }
}

impl Requirement {
    fn of(facts: &RequirementFacts, chain: u64) -> Self {
        let contract = facts.contract.map(|contract| format!("{contract:#x}"));
        let is_token = facts.min_balance.is_some() || facts.meaning == "erc20";
        let collection = facts.collection.as_ref().zip(contract.as_ref()).map(|(collection, contract)| {
            let name = collection.name.clone().unwrap_or_default();
            Collection {
                slug: slug(&name),
                opensea_url: collection_page(chain, contract),
                name,
                image_url: collection.image.clone(),
                contracts: vec![Contract { address: contract.clone(), chain: chain.to_string() }],
                symbol: collection.symbol.clone(),
                floor_price: collection.floor_price.clone(),
            }
        });
        Self {
            kind: facts.kind.clone(),
            meaning: facts.meaning.clone(),
            collection_address: contract.clone().filter(|_| !is_token),
            token_address: contract.filter(|_| is_token),
            token_id: facts.token_id.clone(),
            min_tier: facts.min_tier,
            min_balance: facts.min_balance.clone(),
            data: facts.data.clone(),
            label: facts.label.clone(),
            collection,
        }
    }
}

/// A name in small letters, digits and hyphens.
pub(crate) fn slug(name: &str) -> String {
    let mut slug = String::with_capacity(name.len());
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Where a collection is shown. The field is required by clients; on other chains it is empty.
fn collection_page(chain: u64, contract: &str) -> String {
    match chain {
        1 => format!("https://opensea.io/assets/ethereum/{contract}"),
        8453 => format!("https://opensea.io/assets/base/{contract}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_plain() {
        assert_eq!(slug("Bored Ape Yacht Club!"), "bored-ape-yacht-club");
        assert_eq!(slug("<script>"), "script");
        assert_eq!(slug("\u{1f4a9}"), "");
    }
}
