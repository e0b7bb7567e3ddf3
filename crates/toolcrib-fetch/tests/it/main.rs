//! Requests against scripted servers on loopback.

mod configured;
mod dev;
mod doors;
mod egress;
mod keep_alive;
mod observe;
