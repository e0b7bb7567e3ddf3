//! Pinned onchain tools: ERC-8257 tools that the user accepted in one version, listed for models beside local ones.
//!
//! - `pin`: a tool, the manifest that the user accepted, and why it is quarantined if it is.
//! - `change`: what differs between the pinned manifest and another one.
//! - `observe`: what a verification says about a pin.
//! - `listing`: a pin as a tool of an MCP server.
//! - `store`: the file that pins are kept in.
//!
//! A pin never replaces verification: every call verifies the tool at that moment, and is refused unless the verified manifest is the
//! pinned one. The pin decides what is listed, and that a change is shown to the user before the tool is used again.

mod change;
mod listing;
mod observe;
mod pin;
mod store;

pub use change::{Change, Changes, Field, MAX_CHANGES};
pub(crate) use listing::spec;
pub use observe::{Observation, observe};
pub use pin::{MAX_MANIFEST_BYTES, NAME_PREFIX, Pin, Quarantine};
pub use store::{MAX_PINS, PinError, PinStore, Pins};
