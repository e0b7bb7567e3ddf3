#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod attempt;
mod clock;
mod configured;
mod connect;
mod egress;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod http;
mod limits;
mod observe;
mod pool;
mod resolve;
mod tls;
mod turnstile;
mod untrusted;

pub use clock::SystemClock;
pub use configured::{Configured, ConfiguredBuilder, ConfiguredUrl};
pub use connect::{Connect, MAX_ATTEMPTS, TcpConnector};
pub use egress::{BLOCKED_PORTS, DEV_CHAIN, MAX_ADDRESSES, PortPolicy};
pub use error::Error;
pub use headers::Headers;
pub use limits::{Concurrency, Limits, MAX_HEADERS, MAX_INTERIM};
pub use observe::Observer;
pub use pool::KeepAlive;
pub use resolve::{MAX_LOOKUPS, Resolve, ResolveError, SystemResolver};
pub use rustls::pki_types::CertificateDer;
pub use untrusted::{DevWorld, Expect, Target, Untrusted, UntrustedBuilder};
