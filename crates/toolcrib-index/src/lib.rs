#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod access;
pub mod agents;
pub mod bazaar;
mod chains;
mod error;
pub mod export;
pub mod facts;
pub mod feed;
pub mod follow;
mod index;
mod lease;
pub mod listing;
pub mod model;
pub mod moderation;
pub mod objects;
#[cfg(feature = "parquet")]
pub mod parquet;
mod registries;
pub mod replicas;
pub mod search;
mod tools;
mod unreadable;
pub mod usage;
pub mod work;

pub use chains::Chains;
pub use error::Error;
pub use index::Index;
pub use registries::{RegistryRow, RegistryState};
pub use tools::{List, ListPosition, MAX_TOOLS, Order, Page, text_key};
