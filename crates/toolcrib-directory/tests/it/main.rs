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
mod public_mcp;
mod readiness;
mod replicas;
mod rows;
mod serving;
mod shelf;
