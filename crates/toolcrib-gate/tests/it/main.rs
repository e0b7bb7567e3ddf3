//! Tools served over real HTTP on loopback, with a real chain behind their gates.

mod accounts;
mod authority;
mod delegation;
mod ends;
mod gated;
mod get;
mod malformed;
mod metrics;
mod open;
mod paid;
mod recipient;
mod routes;
mod settle;
mod setup;
mod till;
mod tls;
mod tracing;
mod usage;
mod world;
