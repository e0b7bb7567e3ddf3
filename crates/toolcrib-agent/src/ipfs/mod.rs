//! Content by CID: parsing CIDs, checking blocks, retrieving from untrusted sources, packing and publishing.
//!
//! [`cid`], [`dag`], [`car`] and [`mod@pack`] are pure. [`gateway`] and [`pin`] connect to configured services, [`local`] reads
//! files. Content counts only after every block has matched its hash.

pub mod car;
pub mod cid;
pub mod dag;
#[cfg(feature = "resolve")]
pub mod gateway;
pub mod hash;
#[cfg(feature = "resolve")]
pub mod local;
mod multibase;
pub mod pack;
#[cfg(feature = "resolve")]
pub mod pin;
#[cfg(feature = "resolve")]
mod retrieve;
mod varint;

pub use cid::{Cid, CidError, Codec};
pub use dag::{DagError, Walk, WalkError, WalkLimits};
#[cfg(feature = "resolve")]
pub use gateway::{GatewayLimits, Gateways};
pub use hash::HashFunction;
#[cfg(feature = "resolve")]
pub use local::{CarFile, LocalFile};
pub use pack::{Block, Layout, PackError, Packed, pack};
#[cfg(feature = "resolve")]
pub use retrieve::NOT_ASKED;
