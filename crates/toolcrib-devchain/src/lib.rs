#![doc = include_str!("../README.md")]

#[cfg(feature = "chain")]
pub mod accounts;
mod authority;
#[cfg(feature = "chain")]
mod chain;
#[cfg(feature = "chain")]
pub mod clock;
#[cfg(feature = "chain")]
mod devchain;
#[cfg(feature = "chain")]
mod error;
#[cfg(feature = "chain")]
pub mod limits;
#[cfg(feature = "chain")]
mod node;
#[cfg(feature = "chain")]
mod predeploy;
#[cfg(feature = "chain")]
mod rpc;
#[cfg(feature = "chain")]
mod server;

pub use authority::{AUTHORITY_DAYS, Authority, AuthorityError, CERTIFICATE_DAYS};
#[cfg(feature = "chain")]
pub use {
    chain::{Mining, Rejection},
    devchain::{Builder, Devchain, LOCAL_CHAIN_ID},
    error::Error,
    predeploy::{CREATE2_FACTORY, Predeploy},
    rpc::RpcError,
    toolcrib_core::registry::gas::ColdAccess,
};
