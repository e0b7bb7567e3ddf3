#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod evidence;
pub mod source;
pub mod txt;
pub mod txt_writer;
