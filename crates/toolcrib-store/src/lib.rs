#![doc = include_str!("../README.md")]

pub mod database;
mod error;
#[cfg(feature = "objects")]
pub mod objects;
pub mod replay;

pub use database::{Database, Location, Migration};
pub use error::Error;
