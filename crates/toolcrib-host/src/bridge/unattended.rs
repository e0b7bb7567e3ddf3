//! Calls that need no approval: the policy file of the bridge.

use serde::{Deserialize, Serialize};
use toolcrib_client::{Plan, Terms, Usdc};
use toolcrib_core::caip::ToolRef;
use toolcrib_x402::asset;

/// Calls that need no approval, because the user allowed them beforehand. By default none, however cheap: a model sends the user's data
/// to a third-party server, even if the call is free. The caps of the spend policy apply all the same. In settings:
///
/// ```
/// let unattended: toolcrib_host::bridge::Unattended = toml::from_str(r#"
///     tools = ["eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7"]
///     max_price = "0.02"
/// "#).unwrap();
/// assert!(!unattended.any_tool);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Unattended {
    /// Allowed tools, as `eip155:<chain>/erc8257:<registry>/<id>`.
    pub tools: Vec<String>,
    /// Allow every tool that is verified.
    pub any_tool: bool,
    /// The highest price of a call. By default zero: only free calls.
    pub max_price: Usdc,
    /// Sign messages (EIP-4361) of these tools without showing them. Domain, origin, network and times are checked all the same; the tool
    /// chooses the statement.
    pub sign_in: bool,
}

impl Default for Unattended {
    fn default() -> Self {
        Self { tools: Vec::new(), any_tool: false, max_price: Usdc::micro(0), sign_in: false }
    }
}

impl Unattended {
    /// Whether a planned call needs no approval. A call whose schema fixes values, or cannot be applied, always needs it, because the user
    /// must see that.
    pub(crate) fn allows(&self, plan: &Plan) -> bool {
        let is_free_choice = plan.prefilled.iter().all(|value| value.keyword != "const");
        self.names(plan.tool) && is_free_choice && plan.unchecked.is_empty() && plan.terms.is_none_or(|terms| self.covers(&terms))
    }

    /// Whether a message of this tool may be signed without approval.
    pub(crate) fn allows_sign_in(&self, tool: ToolRef) -> bool {
        self.sign_in && self.names(tool)
    }

    fn names(&self, tool: ToolRef) -> bool {
        self.any_tool || self.tools.contains(&tool.to_string())
    }

    fn covers(&self, terms: &Terms) -> bool {
        let token = asset::find(terms.chain, terms.asset);
        token.and_then(|token| Usdc::of(terms.amount, token)).is_some_and(|amount| amount <= self.max_price)
    }
}
