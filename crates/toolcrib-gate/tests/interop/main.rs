//! Our gate against other people's x402 clients, with their facilitator and with a key of our own; our client against their servers.
//!
//! They are in `interop/`, and run when `TOOLCRIB_INTEROP` says where that is. Everything is on this machine.

mod clients;
mod peers;
mod servers;
mod world;
