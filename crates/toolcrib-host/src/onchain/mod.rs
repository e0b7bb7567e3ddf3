//! Pinned onchain tools: ERC-8257 tools that the user accepted in one version, listed for models with the local ones.
//!
//! - `pin`: a tool, the manifest that the user accepted, and its quarantine, if any.
//! - `change`: differences between the pinned manifest and another one.
//! - `observe`: compares a verification with a pin.
//! - `listing`: a pin as an MCP tool.
//! - `store`: the pins file.
//!
//! A pin never replaces verification: every call verifies the tool, and is refused unless the verified manifest is the pinned one. The pin
//! decides what is listed, and ensures that a change is shown to the user before the tool is used again.

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
