#![doc = include_str!("../README.md")]

mod error;
pub mod journal;
pub mod plan;
pub mod preflight;
pub mod run;

pub use error::Error;
