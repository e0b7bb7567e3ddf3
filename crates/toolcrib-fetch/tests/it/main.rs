//! Requests against scripted servers on loopback.

#[path = "../support/mod.rs"]
mod support;

mod configured;
mod dev;
mod doors;
mod egress;
mod keep_alive;
mod observe;
