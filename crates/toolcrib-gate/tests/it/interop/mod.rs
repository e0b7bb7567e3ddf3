//! Our gate against other people's x402 clients, with their facilitator and with a key of our own; our client against their servers.
//!
//! `interop/setup` installs them; without them these tests are recorded as skipped. Everything runs on this machine.
//!
//! | module | what runs |
//! |---|---|
//! | [`clients`] | their clients against our gate |
//! | [`servers`] | our client against their servers |
//! | [`late`] | their facilitator gives up before its transaction is mined |
//! | [`crowd`] | many payments at one time, with transactions that are in each other's way |
//! | [`two_gates`] | one payment at two gates that share their facilitator and nothing else |
//! | [`sign_in`] | callers that sign a message instead of a payment |
//! | [`wallets`] | their facilitator settles for a wallet that is not deployed |
//! | [`kills`] | our gate is killed at random moments while their clients pay |

mod clients;
mod crowd;
mod kills;
mod late;
mod recorder;
mod servers;
mod sign_in;
mod two_gates;
mod wallets;
mod world;
