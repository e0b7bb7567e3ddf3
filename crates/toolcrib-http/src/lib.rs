#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
mod body;
pub mod framing;
mod io;
mod limits;
mod network;
mod quota;
mod rate;
mod registry;
mod server;
mod tls;

pub use address::client_address;
pub use body::{BodyBudget, BodyError, ReadBody};
pub use limits::Limits;
pub use network::Network;
pub use quota::{Hold, Quota};
pub use rate::{Bucket, Buckets, Level, MAX_BUCKETS, Rate};
pub use server::{Delivered, Rejection, Server};
pub use tls::{Tls, TlsError};
