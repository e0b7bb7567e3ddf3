//! Commands that call and pay for tools, and manage payments.

mod asking;
pub(crate) mod budget;
pub(crate) mod call;
pub(crate) mod mcp;
mod outcome;
pub(crate) mod pay;
pub(crate) mod payments;
mod session;

pub(crate) use session::SpendArgs;
