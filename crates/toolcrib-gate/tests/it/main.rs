//! Tools served over real HTTP on loopback, with a real chain behind their gates.

mod ends;
mod gated;
mod malformed;
mod open;
mod paid;
mod settle;
mod setup;
mod world;
