//! Our gate against other people's x402 clients, with their facilitator and with a key of our own; our client against their servers.
//!
//! `interop/setup` installs them; without them these tests are recorded as skipped. Everything runs on this machine.

mod clients;
mod peers;
mod servers;
mod world;
