//! The steps of verification, their order, and the step of each finding.

use std::fmt;

use serde::{Serialize, Serializer};
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};

/// A step of verification. The variants are in the order of the steps, so the smallest failing one is the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The evidence is complete and consistent.
    Evidence,
    /// The tool is registered, in the right registry.
    Registration,
    /// The metadata URI follows the grammar and the well-known path.
    MetadataUri,
    /// Connecting to the host is permitted.
    Egress,
    /// The manifest was fetched: status 200, no redirect, complete.
    Fetch,
    /// The bytes are strict JSON.
    Json,
    /// The endpoint follows the grammar.
    Endpoint,
    /// Endpoint and metadata URI share their origin.
    Origin,
    /// Strings are NFC and hex fields are in lower case.
    Canonical,
    /// The hash is the committed one.
    Hash,
    /// The creator is the registering account.
    Creator,
}

impl Step {
    /// The check of ERC-8257 §7 that the step belongs to. `None` for the steps before the four.
    pub const fn check(self) -> Option<u8> {
        match self {
            Self::Evidence | Self::Registration => None,
            Self::Fetch => Some(1),
            Self::MetadataUri | Self::Egress | Self::Endpoint | Self::Origin => Some(2),
            Self::Json | Self::Canonical | Self::Hash => Some(3),
            Self::Creator => Some(4),
        }
    }

    /// The name in all output formats.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Evidence => "evidence",
            Self::Registration => "registration",
            Self::MetadataUri => "metadata_uri",
            Self::Egress => "egress",
            Self::Fetch => "fetch",
            Self::Json => "json",
            Self::Endpoint => "endpoint",
            Self::Origin => "origin",
            Self::Canonical => "canonical",
            Self::Hash => "hash",
            Self::Creator => "creator",
        }
    }

    /// Returns the step that fails by an error in a manifest. `None` for errors that make it not conformant but still verified.
    pub(super) fn of_manifest(finding: &Finding) -> Option<Self> {
        if finding.severity != Severity::Error {
            return None;
        }
        let code = finding.code;
        // These two are about a field that a check needs, regardless of what is wrong with it.
        if finding.pointer == "/endpoint" {
            return Some(Self::Endpoint);
        }
        if code == codes::json::NOT_NFC || code == codes::tool::HEX_UPPERCASE || code == codes::caip::UPPERCASE_HEX {
            return Some(Self::Canonical);
        }
        if finding.pointer == "/creatorAddress" {
            return Some(Self::Creator);
        }
        match code.info().check {
            Some(3) => Some(Self::Json),
            Some(4) => Some(Self::Creator),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
