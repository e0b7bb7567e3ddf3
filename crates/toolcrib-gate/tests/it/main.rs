//! Tools served over real HTTP on loopback, with a real chain behind their gates.

mod accounts;
mod counterfactual;
mod delegation;
mod ends;
mod gated;
mod get;
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

#[expect(dead_code, reason = "the tests of the chain use the rest")]
#[path = "../../../toolcrib-chain/tests/it/fake.rs"]
mod fake;
#[expect(dead_code, reason = "the tests of the chain use the rest")]
#[path = "../../../toolcrib-chain/tests/it/lying.rs"]
mod lying;
