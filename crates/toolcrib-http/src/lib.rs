#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
mod body;
mod form;
pub mod framing;
mod io;
mod limits;
mod media_type;
mod metrics;
mod network;
mod quota;
mod rate;
mod registry;
mod request_id;
mod server;
mod tls;

pub use address::client_address;
pub use body::{BodyBudget, BodyError, ReadBody};
pub use form::{form_decode, form_decode_into, form_fields, percent_decode, percent_encode};
pub use limits::Limits;
pub use media_type::MediaType;
pub use metrics::{Histogram, MetricsPage, metrics_response};
pub use network::Network;
pub use quota::{Hold, Quota};
pub use rate::{Bucket, Buckets, Level, MAX_BUCKETS, Rate};
pub use request_id::{X_REQUEST_ID, request_id};
pub use server::{Delivered, Rejection, Server};
pub use tls::{Tls, TlsError};
