//! A type that proves a fresh verification.

use std::fmt;

use toolcrib_core::caip::ToolRef;
use toolcrib_core::canon::Sealed;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::tool::ToolManifest;
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::{Policy, Report, judge_whole};

use crate::gather::{Depth, Verifier};
use crate::{Error, ToolSource};

/// A manifest that passed all four checks and every rule, based on evidence that this process gathered itself.
///
/// It can neither be cloned nor deserialised and has no public constructor: the only way to get one is [`Verifier::live`].
///
/// ```compile_fail
/// fn copy<M>(verified: &toolcrib_verify::Verified<M>) -> toolcrib_verify::Verified<M> {
///     verified.clone()
/// }
/// ```
///
/// ```compile_fail
/// fn load(file: &str) -> toolcrib_verify::Verified<toolcrib_core::tool::ToolManifest> {
///     serde_json::from_str(file).unwrap()
/// }
/// ```
///
/// ```compile_fail
/// fn forge(
///     manifest: toolcrib_core::canon::Sealed<toolcrib_core::tool::ToolManifest>,
///     report: toolcrib_judge::Report,
/// ) -> toolcrib_verify::Verified<toolcrib_core::tool::ToolManifest> {
///     toolcrib_verify::Verified { manifest, report }
/// }
/// ```
///
/// ```compile_fail
/// fn from_saved(evidence: toolcrib_judge::evidence::Evidence) -> toolcrib_verify::Verified<toolcrib_core::tool::ToolManifest> {
///     evidence.into()
/// }
/// ```
pub struct Verified<M> {
    manifest: Sealed<M>,
    tool: ToolRef,
    report: Report,
}

impl<M> Verified<M> {
    /// The manifest.
    pub const fn manifest(&self) -> &Sealed<M> {
        &self.manifest
    }

    /// The tool.
    pub const fn tool(&self) -> ToolRef {
        self.tool
    }

    /// The report of the verification, with all minor findings.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// When it was verified.
    pub const fn at(&self) -> UnixTime {
        self.report.freshness.gathered_at
    }

    /// Whether it may still be used at `now`, according to `maxAge` and the window of the policy that it was verified with.
    pub const fn is_fresh(&self, now: UnixTime) -> bool {
        let age = now.since(self.at());
        age >= 0 && age.unsigned_abs() <= self.report.freshness.window
    }

    /// Whether it may be used at `now` if at most `seconds` are allowed.
    pub const fn is_fresh_within(&self, now: UnixTime, seconds: u64) -> bool {
        let age = now.since(self.at());
        self.is_fresh(now) && age >= 0 && age.unsigned_abs() <= seconds
    }
}

impl<M> fmt::Debug for Verified<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verified({} at {})", self.tool, self.at())
    }
}

/// The result of a live verification.
#[derive(Debug)]
pub struct Live {
    /// The findings.
    pub report: Report,
    /// The evidence that the report is based on, for the record.
    pub evidence: Evidence,
    /// The proof, if the tool may be shown to an agent or called.
    pub verified: Option<Verified<ToolManifest>>,
}

impl Verifier {
    /// Verifies a tool now.
    pub async fn live(&self, source: &impl ToolSource, policy: &Policy, depth: Depth) -> Result<Live, Error> {
        // The registry's code is read with the details only.
        let depth = if policy.pinned_registry_code.is_some() { Depth::Full } else { depth };
        let evidence = self.gather(source, depth).await?;
        // Judge at the time of gathering, so that a policy without a window can succeed: the evidence was gathered just now.
        let (report, manifest) = judge_whole(&evidence, policy, evidence.gathered_at);
        let verified = manifest.filter(|_| report.is_usable()).map(|manifest| Verified {
            manifest,
            tool: source.tool(),
            report: report.clone(),
        });
        Ok(Live { report, evidence, verified })
    }
}
