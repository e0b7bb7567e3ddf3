//! The index on both engines.

mod access;
mod agents;
mod bazaar;
mod export;
mod feed;
mod follow;
mod follow_forks;
mod follow_lease;
mod follow_lying;
#[cfg(feature = "parquet")]
mod parquet;
mod ranking;
mod replicas;
mod scripted;
mod search;
mod search_pages;
mod snapshots;
mod stage;
mod usage;
mod usage_lying_node;
mod work;

#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;

#[expect(dead_code, reason = "the tests of the chain use the rest")]
#[path = "../../../toolcrib-chain/tests/it/fake.rs"]
mod fake;
#[expect(dead_code, reason = "the tests of the chain use the rest")]
#[path = "../../../toolcrib-chain/tests/it/lying.rs"]
mod lying;

#[expect(dead_code, reason = "the tests of the chain use the rest")]
#[path = "../../../toolcrib-chain/tests/it/node.rs"]
mod node;
#[path = "../support/quality.rs"]
mod quality;
#[path = "../../../toolcrib-store/tests/support/s3.rs"]
mod s3;
#[path = "../support/mod.rs"]
mod samples;
#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod support;
