//! Settlement on real chains: the development chain and, if it is installed, anvil. Each test that needs a chain runs on both.

mod bazaar;
mod chain_lookup;
mod facilitator;
mod local;
mod lying_node;
pub(crate) mod scripted;
mod served;
mod stage;
