//! RPC nodes: a real one of each kind, and a fake one with scripted responses.

pub mod fake;
mod funded;
pub mod lying;
mod real;

pub use funded::FundedNode;
pub use real::{Node, deploy, dev, send, set_balance, set_code};
