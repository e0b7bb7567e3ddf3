//! The client against fake nodes, a real one (anvil), and third-party test vectors.
#![expect(clippy::print_stderr, reason = "tests print what they counted")]

mod compare;
mod contracts;
mod corpus;
mod counterfactual;
mod fns;
mod fns_reorgs;
mod gas;
mod kept;
mod model;
mod reads;
mod rpc;
mod settlement;
mod transactions;
mod zoo;
