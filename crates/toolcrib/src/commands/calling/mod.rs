//! Commands that call tools and pay for them, and that look after what was spent.

mod asking;
pub(crate) mod budget;
pub(crate) mod call;
pub(crate) mod mcp;
mod outcome;
pub(crate) mod pay;
pub(crate) mod payments;
mod session;

pub(crate) use session::Purse;
