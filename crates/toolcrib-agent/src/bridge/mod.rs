//! Bridges between `.agt` manifests and other agent formats.
//!
//! Everything here is pure: a conformant manifest and options in, text and findings out. Nothing is fetched or guessed: data that a
//! format needs and the manifest lacks comes from [`ExportOptions`], and data that a format cannot express becomes a finding.
//!
//! An export is a copy without a proof. The owner's signature covers the manifest, not its exports, so exports include the domain,
//! the owner and, if it is known, the CID of the manifest: careful readers resolve the name.
//!
//! - [`export()`]: A2A Agent Card, ERC-8004 registration file, MCP registry `server.json`, ENSIP-26 records, AID records.
//! - [`mod@import`]: an unsigned draft from an A2A card or an ERC-8004 file.
//! - [`mod@cross_check`]: compares the agent with registered ERC-8257 tools at its endpoints.

mod a2a;
mod aid;
pub mod cross_check;
mod ensip;
mod erc8004;
mod export;
pub mod formats;
pub mod import;
mod mcp_registry;
mod options;
mod text;
mod urls;

#[cfg(test)]
mod tests;

pub use cross_check::cross_check;
pub use export::{Export, ExportError, PROVENANCE_EXTENSION, export};
pub use formats::Format;
pub use options::{A2aBinding, A2aEndpoint, AidVersion, ExportOptions, Registration, UnknownWord};
