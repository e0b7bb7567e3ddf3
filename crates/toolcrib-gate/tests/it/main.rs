//! Tools served over real HTTP on loopback, with a real chain behind their gates.

mod accounts;
mod attacks;
mod counterfactual;
mod delegation;
mod ends;
mod gated;
mod get;
mod interop;
mod layers;
mod malformed;
mod metrics;
mod open;
mod paid;
mod receipts;
mod recipient;
mod routes;
mod settle;
mod setup;
mod sign_in;
mod till;
mod tls;
mod tracing;
mod usage;
mod world;
