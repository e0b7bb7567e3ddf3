//! Nodes: a real one of each kind, and one that answers as it is told.

pub mod fake;
mod funded;
pub mod lying;
mod real;

pub use funded::FundedNode;
pub use real::{Node, deploy, dev, send, set_balance, set_code};
