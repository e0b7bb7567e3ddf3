//! Gathering evidence: one read of the chain, one fetch, at most one more read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolcrib_core::canon::Canonical;
use toolcrib_core::checked::Manifest as _;
use toolcrib_core::clock::Clock;
use toolcrib_core::json::{self, Document};
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_fetch::{Limits, Target, Untrusted};
use toolcrib_judge::evidence::{AttestationFetch, ChainReads, ConfigRead, Evidence, Exchange, ToolState};
use toolcrib_judge::{Policy, judge_whole};

use crate::{Error, ToolSource};

/// Maximum size of an attestation report. Nitro documents and quotes have a few kilobytes, with certificates some tens.
pub const ATTESTATION_MAX_BYTES: usize = 256 << 10;

/// How much is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// What the four checks need: the configuration and the manifest.
    Checks,
    /// Also the registry's code, the predicate, and the attestation report if the manifest names one.
    Full,
}

/// Gathers evidence and verifies tools.
#[derive(Clone)]
pub struct Verifier {
    pub(crate) door: Untrusted,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    gatherer: Arc<str>,
    limits: Limits,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("door", &self.door).field("gatherer", &self.gatherer).finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier that fetches through `door`. `gatherer` identifies the program in the evidence, such as `toolcrib 1.0.0`.
    pub fn new(door: Untrusted, clock: Arc<dyn Clock + Send + Sync>, gatherer: &str) -> Self {
        Self { door, clock, gatherer: gatherer.into(), limits: Limits::MANIFEST }
    }

    /// Sets other limits for every fetch. Raising the body limit has no effect: parsing stops at [`json::MAX_BYTES`].
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The time limit of a fetch.
    pub const fn time(&self) -> Duration {
        self.limits.total
    }

    /// The same verifier with a time limit of at most `time` for every fetch.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        let mut verifier = self.clone();
        verifier.limits.total = time.min(self.limits.total);
        verifier
    }

    /// Gathers evidence about a registered tool. Fails only if the chain cannot be read.
    pub async fn gather(&self, source: &impl ToolSource, depth: Depth) -> Result<Evidence, Error> {
        let tool = source.tool();
        let mut evidence = Evidence::new(&*self.gatherer, self.clock.now());
        evidence.tool = Some(tool);
        let first = source.config().await?;
        let uri = registered_uri(&first).and_then(|uri| WellKnown::parse(uri).ok());
        let mut reads = ChainReads { registry_code_hash: None, config: vec![first], predicate: None, registration: None };
        let mut document = None;
        if let Some(uri) = uri {
            let exchange = self.door.get(&Target::file(uri.url(), Some(tool.chain)).limits(self.limits)).await;
            document = read(&exchange);
            if document.as_ref().is_some_and(|document| !is_committed(document, &reads)) {
                reads.config.push(source.config().await?);
            }
            evidence.manifest = Some(exchange);
        }
        if depth == Depth::Full {
            reads = source.details(reads).await?;
        }
        evidence.chain = Some(reads);
        if depth == Depth::Full && document.is_some_and(|document| names_report(&document)) {
            evidence.attestation = self.attestation(&evidence).await;
        }
        Ok(evidence)
    }

    /// Gathers evidence that needs no chain: the manifest at a metadata URI.
    pub async fn gather_url(&self, metadata_uri: &str) -> Evidence {
        let mut evidence = Evidence::new(&*self.gatherer, self.clock.now());
        evidence.url = Some(metadata_uri.to_owned());
        if let Ok(uri) = WellKnown::parse(metadata_uri) {
            evidence.manifest = Some(self.door.get(&Target::file(uri.url(), None).limits(self.limits)).await);
        }
        evidence
    }

    /// Fetches the manifest at a metadata URI that is about to be committed on `chain`, so that an author can check it before paying. It
    /// is not judged, and not recorded as evidence.
    pub async fn fetch_manifest(&self, uri: &WellKnown, chain: u64) -> Exchange {
        self.door.get(&Target::file(uri.url(), Some(chain)).limits(self.limits)).await
    }

    /// Fetches the attestation report, only for verified manifests: other documents must not choose the hosts that are contacted.
    async fn attestation(&self, evidence: &Evidence) -> Option<AttestationFetch> {
        let (_, manifest) = judge_whole(evidence, &Policy::default(), evidence.gathered_at);
        let manifest = manifest?;
        let claims = manifest.verifiability().filter(|claims| claims.execution().is_isolated())?;
        let endpoint = HttpsUrl::parse(claims.attestation()?.endpoint()?).ok()?;
        let mut limits = self.limits;
        limits.body = ATTESTATION_MAX_BYTES;
        let target = Target::file(&endpoint, evidence.tool.map(|tool| tool.chain)).limits(limits);
        Some(AttestationFetch { nonce: None, exchange: self.door.get(&target).await })
    }
}

fn registered_uri(read: &ConfigRead) -> Option<&str> {
    match &read.state {
        ToolState::Present(config) => Some(&config.metadata_uri),
        ToolState::NotFound | ToolState::Deregistered => None,
    }
}

/// Parses the served document, if the response is complete and valid.
fn read(exchange: &Exchange) -> Option<Document> {
    let response = exchange.complete()?;
    json::read_foreign(response.body.as_bytes(), ToolManifest::LIMITS, ToolManifest::MAX_VALUES).document
}

/// Whether the served document has the committed hash. A document without a hash counts as committed: reading the chain
/// again would not help.
fn is_committed(document: &Document, reads: &ChainReads) -> bool {
    let Some(ToolState::Present(config)) = reads.config.last().map(|read| &read.state) else { return true };
    Canonical::of(document).is_none_or(|canonical| canonical.hash() == config.manifest_hash)
}

/// Whether the document has an attestation block, valid or not.
fn names_report(document: &Document) -> bool {
    document.root().get("verifiability").and_then(|claims| claims.get("attestation")).is_some()
}
