//! The index on both engines.

mod access;
mod feed;
mod follow;
mod follow_forks;
mod follow_lease;
mod scripted;
mod stage;
mod usage;
mod work;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;

#[expect(dead_code, reason = "the tests of the chain use the rest")]
#[path = "../../../toolcrib-chain/tests/it/fake.rs"]
mod fake;

#[expect(dead_code, clippy::print_stderr, reason = "the tests of the chain use the rest, and what is skipped is said loudly")]
#[path = "../../../toolcrib-chain/tests/it/node.rs"]
mod node;
#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod support;
