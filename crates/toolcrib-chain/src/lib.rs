#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod abi;
pub mod delegate;
pub mod deploy;
mod error;
pub mod fns;
pub mod network;
pub mod predicate;
pub mod registry;
pub mod rpc;
pub mod settlement;
pub mod sign;
pub mod transaction;
pub mod wallet;

pub use error::{Error, MAX_FOREIGN_CHARS};
