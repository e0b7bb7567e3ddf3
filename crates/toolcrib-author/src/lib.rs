#![doc = include_str!("../README.md")]

mod error;
pub mod gas;
pub mod journal;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod publish;
pub mod run;
pub mod served;
mod standing;

pub use error::Error;
