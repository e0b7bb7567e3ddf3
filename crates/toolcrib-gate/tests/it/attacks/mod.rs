//! Attacks on a server of paid tools, crashes in the middle of its work, and a day's business with faults.
//!
//! Everything is real: the gate, a chain with a token on it (ours and, where there is one, anvil), the store. What is counted in the
//! end is what counts: how often handlers ran, how often somebody was asked to settle, and how much money moved, to the unit.
//!
//! | module | what is attempted |
//! |---|---|
//! | [`replays`] | one payment, used more than once: T1 to T4, T16 |
//! | [`hostile`] | payments that are not what they should be: T5 to T11 |
//! | [`order`] | what happens between check and settlement: T12, T14, T15 |
//! | [`settlements`] | facilitators that answer in every way, and who hears of it: T13, T23, T24 |
//! | [`liar`] | facilitators that move the money and say something else, or say it too early: T13 |
//! | [`two_nodes`] | a transfer that is older than the reservation, and nodes that are not equally far: T13 |
//! | [`two_stores`] | one payment at two gates that share no store: T1, T13 |
//! | [`surface`] | paths, hosts, caches: T17 to T19, T21 |
//! | [`own_key`] | settling with the operator's key: T20 |
//! | [`sign_in`] | one sign-in message, used more than once |
//! | [`malformed`] | malformed headers |
//! | [`crashes`] | the server is killed at every step |
//! | [`lost_answers`] | stock clients that come back for an answer |
//! | [`room`] | a store that is full of results |
//! | [`load`] | thousands of calls, one in twenty of which meets a fault |

pub(crate) mod chain;
mod crashes;
mod facilitator;
mod hostile;
pub(crate) mod http;
mod liar;
mod load;
mod lost_answers;
mod malformed;
mod order;
mod own_key;
pub(crate) mod payer;
pub(crate) mod process;
mod proxy;
mod replays;
mod room;
mod settlements;
pub(crate) mod shop;
mod sign_in;
mod surface;
mod two_nodes;
mod two_stores;
