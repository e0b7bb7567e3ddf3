//! Access to a tool.

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_index::listing::{AccessKind, RequirementFacts};
use toolcrib_index::model::ToolView;
use toolcrib_index::search::slug;

/// Who may use a tool, from the chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolAccess")]
pub(crate) struct AccessView {
    /// Whether everybody may.
    pub(crate) open_access: bool,
    /// `AND` when all requirements must be met, `OR` when one is enough.
    pub(crate) logic: &'static str,
    /// What is asked for.
    pub(crate) requirements: Vec<Requirement>,
}

impl AccessView {
    /// Returns `None` when only the address of the predicate is known.
    pub(super) fn of(view: &ToolView) -> Option<Self> {
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
    /// The lowest price it is offered at with its currency, such as `0.045 ETH`; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// Returns the kind of access. Before the first verification the chain only shows whether there is a predicate.
pub(crate) fn access_kind(view: &ToolView) -> AccessKind {
    match &view.listing {
        Some(listing) if listing.access.predicate == view.row.predicate => listing.access.kind.clone(),
        _ if view.row.predicate.is_none() => AccessKind::Open,
        _ => AccessKind::Gated,
    }
}

/// Returns the page of a collection. Clients require the field; on other chains it is empty.
fn collection_page(chain: u64, contract: &str) -> String {
    match chain {
        1 => format!("https://opensea.io/assets/ethereum/{contract}"),
        8453 => format!("https://opensea.io/assets/base/{contract}"),
        _ => String::new(),
    }
}
