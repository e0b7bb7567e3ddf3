//! Settlement on real chains: our own and, where there is one, anvil. Each test that needs a chain runs on both.

mod bazaar;
mod chain_lookup;
mod facilitator;
mod local;
mod lying_node;
pub(crate) mod scripted;
mod served;
mod stage;
