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
