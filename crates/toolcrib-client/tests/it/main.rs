//! Calls against servers on loopback, a chain in this process and a ledger on disk.
#![expect(clippy::unwrap_used, reason = "in helpers of tests an unwrap is an assertion as well")]
#![expect(clippy::print_stdout, reason = "children talk to their parent")]

mod after_paying;
mod denied;
mod faults;
mod gated;
mod honest;
mod hostile;
mod ledger;
mod lying_node;
mod open_payments;
mod processes;
mod receipts;
mod sign_in;
