//! The outcome of an EIP-3009 authorization: settled, cancelled, expired, or still open.
//!
//! For a nonce, a token only tells whether it is used; the logs tell which transfer used it. This module reads both and compares
//! them. An outcome that is bad for the payer counts only in a final block, because gates release results and payers free their
//! budgets based on it. Every reader of authorization, transfer and cancellation logs uses this module.

mod finality;
mod receipt;
mod state;
mod trail;

pub use finality::{Block, CONFIRMATIONS, block_at, last_final, newest_block};
pub use receipt::{MAX_PAYMENTS, PaidAuthorization, payments, pays};
pub use trail::{AuthorizationOutcome, LOG_WINDOW, MAX_LOG_WINDOWS, SearchFrom, Trail, TransactionProof};
