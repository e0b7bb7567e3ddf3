//! The directory on both engines.

mod agent_feed;
mod agent_tools;
mod agents;
mod bazaar;
mod calls;
mod cdn;
mod contract;
mod feeds;
mod filters;
mod hostile;
mod images;
mod keeping;
mod keys;
mod mcp;
mod moderation;
mod openapi;
mod outage;
mod pages;
mod parameters;
mod readiness;
mod replicas;
mod rows;
mod serving;
mod shelf;

#[path = "../../../toolcrib-mcp/tests/support/mod.rs"]
mod clients;
#[path = "../../../toolcrib-store/tests/support/mod.rs"]
mod databases;
#[path = "../../../toolcrib-fetch/tests/support/mod.rs"]
mod servers;
