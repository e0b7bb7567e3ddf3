#![doc = include_str!("../README.md")]

pub mod accounts;
mod chain;
pub mod clock;
mod devchain;
mod error;
pub mod limits;
mod node;
mod predeploy;
mod rpc;
mod server;

pub use chain::{Mining, Refusal};
pub use devchain::{Builder, Devchain, LOCAL_CHAIN_ID};
pub use error::Error;
pub use predeploy::{CREATE2_FACTORY, Predeploy};
pub use rpc::RpcError;
pub use toolcrib_core::registry::gas::ColdAccess;
