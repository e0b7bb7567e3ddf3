//! What became of an EIP-3009 authorization: settled, cancelled, expired, or still open.
//!
//! A token tells of a nonce only whether it is used; which transfer it was used for is in the logs. Both are read, checked against
//! each other, and believed against the payer only in a block that cannot be replaced: a gate that releases a result, and a payer
//! that frees its budget, act on these answers. Every reader of authorization, transfer and cancellation logs uses this module.

mod finality;
mod receipt;
mod state;
mod trail;

pub use finality::{Block, CONFIRMATIONS, block_at, last_final, newest_block};
pub use receipt::{MAX_PAYMENTS, PaidAuthorization, payments, pays};
pub use trail::{AuthorizationOutcome, LOG_WINDOW, MAX_LOG_WINDOWS, SearchFrom, Trail, TransactionProof};
