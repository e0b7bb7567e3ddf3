//! Reads a predicate's current configuration for a tool, the counterpart of configuring it.

use alloy_primitives::U256;
use toolcrib_chain::Error;
use toolcrib_chain::predicate::{
    CompositeOp, CompositePredicate, Erc20Predicate, Erc721Predicate, Erc1155Predicate, MerklePredicate, SubscriptionPredicate,
    TraitPredicate,
};
use toolcrib_chain::registry::Registry;

use crate::plan::Gate;

impl Gate {
    /// Reads the configuration of this gate's predicate for a tool as a gate of the same kind. `None` if it is not configured
    /// and denies every account. A gate that needs no configuration is returned unchanged.
    pub async fn standing(&self, registry: &Registry, tool: U256) -> Result<Option<Self>, Error> {
        let chain = registry.chain().clone();
        Ok(match *self {
            Self::Open | Self::Predicate(_) => Some(self.clone()),
            Self::Erc721 { predicate, .. } => {
                let collections = Erc721Predicate::new(chain, predicate).collections(tool).await?;
                (!collections.is_empty()).then_some(Self::Erc721 { predicate, collections })
            }
            Self::Erc1155 { predicate, .. } => {
                let gates = Erc1155Predicate::new(chain, predicate).gates(tool).await?;
                let tokens: Vec<_> = gates.into_iter().map(|gate| (gate.collection, gate.token_ids)).collect();
                (!tokens.is_empty()).then_some(Self::Erc1155 { predicate, tokens })
            }
            Self::Erc20 { predicate, .. } => {
                let gate = Erc20Predicate::new(chain, predicate).gate(tool).await?;
                gate.map(|gate| Self::Erc20 { predicate, token: gate.token, min_balance: gate.min_balance })
            }
            Self::Subscription { predicate, .. } => {
                let gate = SubscriptionPredicate::new(chain, predicate).gate(tool).await?;
                gate.map(|gate| Self::Subscription { predicate, collection: gate.collection, min_tier: gate.min_tier })
            }
            Self::Trait { predicate, .. } => {
                let gate = TraitPredicate::new(chain, predicate).gate(tool).await?;
                gate.map(|gate| Self::Trait {
                    predicate,
                    collection: gate.collection,
                    traits: gate.traits,
                    key: gate.key,
                    values: gate.values,
                })
            }
            Self::Composite { predicate, .. } => {
                let composite = CompositePredicate::new(chain, predicate);
                let terms = composite.terms(tool).await?;
                if terms.is_empty() {
                    return Ok(None);
                }
                let all = composite.op(tool).await? == CompositeOp::All;
                let terms = terms.into_iter().map(|term| (term.predicate, term.is_negated)).collect();
                Some(Self::Composite { predicate, all, terms })
            }
            Self::Merkle { predicate, .. } => {
                let root = MerklePredicate::new(chain, predicate).root(tool).await?;
                root.map(|root| Self::Merkle { predicate, root })
            }
        })
    }
}
