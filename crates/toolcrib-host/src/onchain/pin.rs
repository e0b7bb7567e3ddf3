//! A pinned tool.

use std::sync::Arc;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use toolcrib_client::{CallMethod, Terms};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::canon::Sealed;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::finding::Mode;
use toolcrib_core::local::names::EXPOSED_MAX;
use toolcrib_core::slug::Slug;
use toolcrib_core::time::{format_rfc3339, parse_rfc3339};
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_verify::Live;

use super::{Changes, PinError};

/// Largest canonical manifest that can be pinned, in bytes. Usual ones have a few kilobytes.
pub const MAX_MANIFEST_BYTES: usize = 128 * 1024;

/// The prefix of the names of pinned tools for models.
pub const NAME_PREFIX: &str = "onchain_";

/// Most codes that are stored of a failed verification.
const MAX_CODES: usize = 20;

/// An onchain tool that the user accepted in one version.
#[derive(Clone, Debug)]
pub struct Pin {
    tool: ToolRef,
    slug: Slug,
    method: CallMethod,
    manifest: Arc<Sealed<ToolManifest>>,
    time: UnixTime,
    quarantine: Option<Quarantine>,
}

/// Why a pinned tool is neither listed nor called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    /// When the change was first seen, as RFC 3339.
    pub time: String,
    /// The manifest hash in the registry now. `None` if the tool is not registered any more.
    pub committed: Option<String>,
    /// Codes of the verification errors. Empty if another manifest verifies.
    pub codes: Vec<String>,
    /// The differences from the pinned manifest. `None` if the new manifest could not be read.
    pub changes: Option<Changes>,
}

impl Quarantine {
    pub(super) fn new(now: UnixTime, committed: Option<B256>, codes: Vec<String>, changes: Option<Changes>) -> Self {
        let time = format_rfc3339(now).unwrap_or_default();
        Self { time, committed: committed.map(|hash| hash.to_string()), codes, changes }
    }

    /// Whether two checks found the same, regardless of the time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.committed, &self.codes, &self.changes) == (&other.committed, &other.codes, &other.changes)
    }

    /// The reason in one line, without text of the manifest.
    pub fn text(&self) -> String {
        let fields: Vec<_> = self.changes.iter().flat_map(Changes::fields).map(super::Field::as_str).collect();
        let mut parts = Vec::new();
        if !self.codes.is_empty() {
            parts.push(format!("it no longer verifies ({})", self.codes.join(", ")));
        }
        if !fields.is_empty() {
            parts.push(format!("its manifest changed: {}", fields.join(", ")));
        }
        if parts.is_empty() {
            parts.push("its registration commits to another manifest".to_owned());
        }
        parts.join("; ")
    }
}

impl Pin {
    /// Pins a tool that was just verified. The name defaults to that of the manifest's well-known path.
    pub fn new(live: &Live, name: Option<Slug>, method: CallMethod, now: UnixTime) -> Result<Self, PinError> {
        let Some(verified) = &live.verified else {
            return Err(PinError::Unverified { report: Box::new(live.report.clone()) });
        };
        let slug = match name {
            Some(slug) => slug,
            None => {
                // A verified tool has a metadata URI with a slug.
                let well_known = live.evidence.metadata_uri().and_then(|uri| WellKnown::parse(uri).ok());
                let unverified = || PinError::Unverified { report: Box::new(live.report.clone()) };
                well_known.map(|well_known| well_known.slug().clone()).ok_or_else(unverified)?
            }
        };
        // Parsed from its canonical form, as it will be from the file, so that a difference is found now.
        Self::of(verified.tool(), slug, method, verified.manifest().canonical().as_str(), verified.manifest().hash(), now)
    }

    fn of(tool: ToolRef, slug: Slug, method: CallMethod, text: &str, hash: B256, time: UnixTime) -> Result<Self, PinError> {
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(PinError::TooLarge { bytes: text.len() });
        }
        if NAME_PREFIX.len() + slug.as_str().len() > EXPOSED_MAX {
            return Err(PinError::NameLong { name: format!("{NAME_PREFIX}{slug}") });
        }
        let broken = |problem: &str| PinError::Broken { problem: format!("{tool}: {problem}") };
        let manifest = ToolManifest::parse(text.as_bytes(), Mode::Consumer).into_result();
        let manifest = manifest.map_err(|_| broken("the manifest breaks a rule"))?;
        if manifest.hash() != hash {
            return Err(broken("the manifest does not have the pinned hash"));
        }
        Ok(Self { tool, slug, method, manifest: Arc::new(manifest), time, quarantine: None })
    }

    /// The tool.
    pub const fn tool(&self) -> ToolRef {
        self.tool
    }

    /// The name that models see.
    pub fn exposed(&self) -> String {
        format!("{NAME_PREFIX}{}", self.slug)
    }

    /// The name without its prefix.
    pub const fn slug(&self) -> &Slug {
        &self.slug
    }

    /// How the tool is called.
    pub const fn method(&self) -> CallMethod {
        self.method
    }

    /// The manifest that the user accepted.
    pub fn manifest(&self) -> &Sealed<ToolManifest> {
        &self.manifest
    }

    /// The hash of that manifest.
    pub fn hash(&self) -> B256 {
        self.manifest.hash()
    }

    /// When the user accepted it.
    pub const fn time(&self) -> UnixTime {
        self.time
    }

    /// Why it is neither listed nor called. `None` if it is.
    pub const fn quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    /// The price of a call in our words: one that this program can pay, or that it cannot.
    pub fn price(&self) -> String {
        let prices = self.manifest.pricing();
        match prices.iter().find_map(Terms::stated) {
            _ if prices.is_empty() => "none stated".to_owned(),
            None => "not payable with x402".to_owned(),
            Some(terms) if terms.amount.is_zero() => "free".to_owned(),
            Some(terms) => terms.shown(),
        }
    }

    pub(super) fn set_quarantine(&mut self, quarantine: Option<Quarantine>) {
        self.quarantine = quarantine;
    }

    /// Copies name and method of another pin of the same tool.
    #[must_use]
    pub fn named_like(mut self, other: &Self) -> Self {
        (self.slug, self.method) = (other.slug.clone(), other.method);
        self
    }
}

/// The error codes of a report, without duplicates.
pub(super) fn error_codes(report: &toolcrib_judge::Report) -> Vec<String> {
    let errors = report.findings.iter().filter(|finding| finding.severity == toolcrib_core::finding::Severity::Error);
    let codes: std::collections::BTreeSet<_> = errors.map(|finding| finding.code.id().to_owned()).collect();
    codes.into_iter().take(MAX_CODES).collect()
}

/// A pin in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredPin {
    tool: String,
    name: String,
    method: String,
    manifest_hash: String,
    /// The canonical text of the manifest, whose hash is above.
    manifest: String,
    time: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quarantine: Option<Quarantine>,
}

impl StoredPin {
    pub(super) fn of(pin: &Pin) -> Self {
        Self {
            tool: pin.tool.to_string(),
            name: pin.slug.to_string(),
            method: pin.method.as_str().to_owned(),
            manifest_hash: pin.hash().to_string(),
            manifest: pin.manifest.canonical().as_str().to_owned(),
            time: format_rfc3339(pin.time).unwrap_or_default(),
            quarantine: pin.quarantine.clone(),
        }
    }

    /// Parses a pin and checks everything again: a file that was edited by hand lists nothing that its hash does not cover.
    pub(super) fn read(self) -> Result<Pin, PinError> {
        let broken = |problem: String| PinError::Broken { problem };
        let tool = ToolRef::parse(&self.tool).map_err(|fault| broken(fault.to_string()))?;
        let slug = Slug::parse(&self.name).map_err(|fault| broken(format!("{tool}: {fault}")))?;
        let hash: B256 = self.manifest_hash.parse().map_err(|_| broken(format!("{tool}: no hash")))?;
        let time = parse_rfc3339(&self.time).map_err(|fault| broken(format!("{tool}: {}", fault.described())))?;
        let method = match self.method.as_str() {
            "POST" => CallMethod::Post,
            "GET" => CallMethod::Get,
            _ => return Err(broken(format!("{tool}: no such method"))),
        };
        let mut pin = Pin::of(tool, slug, method, &self.manifest, hash, time)?;
        pin.quarantine = self.quarantine;
        Ok(pin)
    }
}
