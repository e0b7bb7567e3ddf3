//! The Bazaar, against a scripted facilitator on loopback, on both engines.

mod lies;
mod moderation;
mod probes;
mod search;
mod server;
mod stock;
mod walks;
