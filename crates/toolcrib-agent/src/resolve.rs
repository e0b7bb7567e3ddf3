//! Resolution: TXT records, content, the onchain owner, and the verdict.
//!
//! Each source needs the result of the one before, so they are asked in sequence; TXT sources are asked concurrently. Every part has
//! its share of one overall deadline, so that a slow source cannot use up the time of the others. Missing results are part of the
//! evidence, and [`judge`](fn@crate::judge::judge) decides what they mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Bytes;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use toolcrib_core::agent::txt::{CidText, LegacyAgent};
use toolcrib_core::agent::{AgentManifest, AgtDomain};
use toolcrib_core::canon::Sealed;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes;

use crate::cache::ContentCache;
use crate::content_hash::{CidHash, ContentHash};
use crate::evidence::{
    AgentEvidence, Dnssec, FORMAT, GatewayAttempt, GatewayOutcome, OwnerOutcome, OwnerRead, Retrieval, TxtAnswer, TxtLookup,
};
use crate::judge::{ContentTrust, Judgement, Parsed, TxtResult, judge_parsed, judge_parsed_file, read_answers};
use crate::memory::{AgentMemory, MemoryError, ProcessMemory, Remembered};
use crate::policy::AgentPolicy;
use crate::report::AgentReport;
use crate::source::{ContentSource, OwnerSource, TxtSource};

/// Default time limit for one name: gateways that search the network for content take many seconds.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// Percentage of the deadline after which TXT sources are no longer waited for.
const TXT_PERCENT: u32 = 40;

/// Percentage of the deadline after which content is no longer waited for. The rest is for the owner.
const CONTENT_PERCENT: u32 = 80;

/// Resolves names. Cheap to share behind an [`Arc`].
pub struct Resolver {
    txt: Vec<Arc<dyn TxtSource>>,
    content: Arc<dyn ContentSource>,
    owners: Option<Arc<dyn OwnerSource>>,
    memory: Arc<dyn AgentMemory>,
    hash: Arc<dyn ContentHash>,
    clock: Arc<dyn Clock + Send + Sync>,
    policy: AgentPolicy,
    deadline: Duration,
    gatherer: String,
    cache: ContentCache,
}

/// The result of resolving a name.
#[derive(Debug)]
pub struct Resolution {
    /// The evidence.
    pub evidence: AgentEvidence,
    /// The verdict.
    pub report: AgentReport,
    /// The manifest, if it is verified and conformant.
    pub manifest: Option<Sealed<AgentManifest>>,
    /// The legacy records, if the name has nothing else. Untrusted and unsigned.
    pub legacy: Option<LegacyAgent>,
    /// Why a verified manifest could not be stored in the memory.
    pub not_remembered: Option<MemoryError>,
}

/// The gathered evidence, with the parts that are already parsed.
struct Gathered {
    evidence: AgentEvidence,
    cid: Option<CidText>,
    parsed: Option<Parsed>,
}

impl Resolver {
    /// A resolver without TXT sources and without a chain, whose memory lasts as long as the resolver. `gatherer` identifies the program in
    /// evidence, such as `toolcrib 1.0.0`.
    pub fn new(content: Arc<dyn ContentSource>, clock: Arc<dyn Clock + Send + Sync>, gatherer: impl Into<String>) -> Self {
        Self {
            txt: Vec::new(),
            content,
            owners: None,
            memory: Arc::new(ProcessMemory::default()),
            hash: Arc::new(CidHash),
            clock,
            policy: AgentPolicy::default(),
            deadline: DEFAULT_DEADLINE,
            gatherer: gatherer.into(),
            cache: ContentCache::new(),
        }
    }

    /// Adds a TXT source. All sources that respond must agree.
    #[must_use]
    pub fn txt_source(mut self, source: Arc<dyn TxtSource>) -> Self {
        self.txt.push(source);
        self
    }

    /// Sets the registry of owners. Without one nothing is verified.
    #[must_use]
    pub fn owners(mut self, owners: Arc<dyn OwnerSource>) -> Self {
        self.owners = Some(owners);
        self
    }

    /// Sets the memory of verified names.
    #[must_use]
    pub fn memory(mut self, memory: Arc<dyn AgentMemory>) -> Self {
        self.memory = memory;
        self
    }

    /// Sets how content is compared with its CID.
    #[must_use]
    pub fn content_hash(mut self, hash: Arc<dyn ContentHash>) -> Self {
        self.hash = hash;
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: AgentPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the time limit for one name.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Resolves a name and judges the evidence. The owner is read every time; content of a verified manifest is cached.
    pub async fn resolve(&self, domain: &AgtDomain) -> Resolution {
        let gathered = self.gather(domain).await;
        let (now, remembered) = (self.clock.now(), self.memory.recall(domain));
        let mut resolution = self.judge(domain, gathered, remembered.as_ref(), now);
        resolution.not_remembered = self.remember(domain, &resolution.report, remembered, now).await.err();
        resolution
    }

    /// Like [`Self::resolve`], with an entry from the caller's own memory. The resolver's memory is neither read nor written: an
    /// index stores its entries in its database, together with the verdicts.
    pub async fn resolve_by(&self, domain: &AgtDomain, remembered: Option<&Remembered>) -> Resolution {
        let gathered = self.gather(domain).await;
        self.judge(domain, gathered, remembered, self.clock.now())
    }

    async fn gather(&self, domain: &AgtDomain) -> Gathered {
        let started = Instant::now();
        let mut evidence = AgentEvidence {
            format: FORMAT,
            gatherer: self.gatherer.clone(),
            gathered_at: self.clock.now(),
            domain: domain.as_str().to_owned(),
            txt: Vec::new(),
            content: None,
            owner: None,
        };
        let txt_until = started + self.deadline * TXT_PERCENT / 100;
        evidence.txt = join_all(self.txt.iter().map(|source| lookup(&**source, domain, txt_until))).await;
        let cid = match read_answers(&evidence.txt, &self.policy).result {
            TxtResult::Pointer(cid) => Some(cid),
            TxtResult::Legacy(_) | TxtResult::Rejected(..) => None,
        };
        let mut parsed = None;
        if let Some(cid) = &cid {
            let retrieval = self.retrieve(domain, cid, started + self.deadline * CONTENT_PERCENT / 100).await;
            parsed = retrieval.content.as_ref().map(|content| Parsed::of(content));
            evidence.content = Some(retrieval);
            // A manifest of another name is rejected in any case, so its owner is not read.
            if let Some(parsed) = parsed.as_ref().filter(|parsed| parsed.domain().as_ref() == Some(domain)) {
                evidence.owner = self.holder(domain, parsed, started + self.deadline).await;
            }
        }
        Gathered { evidence, cid, parsed }
    }

    fn judge(&self, domain: &AgtDomain, gathered: Gathered, remembered: Option<&Remembered>, now: UnixTime) -> Resolution {
        let Gathered { evidence, cid, parsed } = gathered;
        let trust = ContentTrust::Retrieved(&*self.hash);
        let Judgement { report, manifest, legacy } = judge_parsed(&evidence, parsed, &self.policy, remembered, now, trust);
        if let (true, Some(cid), Some(content)) = (report.verified, &cid, content_of(&evidence)) {
            self.cache.insert(domain, cid, content.clone());
        }
        Resolution { evidence, report, manifest, legacy, not_remembered: None }
    }

    /// Judges a manifest in a file for a name, or for the name in it. The result is never verified, because no TXT record is read.
    pub async fn verify_manifest(&self, bytes: &[u8], domain: Option<&AgtDomain>) -> Judgement {
        let parsed = Parsed::of(bytes);
        let own = parsed.domain();
        let owner = match (domain, &own) {
            (Some(asked), Some(own)) if asked != own => None,
            (_, Some(own)) => self.holder(own, &parsed, Instant::now() + self.deadline).await,
            (_, None) => None,
        };
        let remembered = domain.or(own.as_ref()).and_then(|domain| self.memory.recall(domain));
        judge_parsed_file(parsed, domain, owner.as_ref(), &self.policy, remembered.as_ref(), self.clock.now())
    }

    async fn retrieve(&self, domain: &AgtDomain, cid: &CidText, until: Instant) -> Retrieval {
        if let Some(content) = self.cache.get(domain, cid) {
            let attempt = GatewayAttempt { gateway: "cache".to_owned(), outcome: GatewayOutcome::Served, bytes: 0, millis: 0 };
            return Retrieval { cid: cid.as_str().to_owned(), content: Some(content), attempts: vec![attempt] };
        }
        let started = Instant::now();
        match timeout_at(until, self.content.retrieve(cid, until)).await {
            Ok(retrieval) => retrieval,
            Err(_) => {
                let outcome = GatewayOutcome::Unreachable {
                    code: codes::fetch::TOTAL_TIMEOUT.id().to_owned(),
                    message: "the deadline of the resolution passed".to_owned(),
                };
                let attempt =
                    GatewayAttempt { gateway: "all gateways".to_owned(), outcome, bytes: 0, millis: millis_since(started) };
                Retrieval { cid: cid.as_str().to_owned(), content: None, attempts: vec![attempt] }
            }
        }
    }

    async fn holder(&self, domain: &AgtDomain, parsed: &Parsed, until: Instant) -> Option<OwnerRead> {
        let owners = self.owners.as_ref()?;
        let signed = parsed.signed().filter(|_| self.policy.allow_contract_owner);
        let signed = signed.as_ref().map(|(payload, signature)| (payload.digest(), signature.as_bytes()));
        match timeout_at(until, owners.holder(domain, signed)).await {
            Ok(read) => Some(read),
            Err(_) => Some(OwnerRead {
                chain_id: self.policy.chain_id,
                registry: self.policy.registry,
                token_id: domain.token_id(),
                block: None,
                block_hash: None,
                outcome: OwnerOutcome::Failed {
                    code: codes::chain::RPC_TIMEOUT.id().to_owned(),
                    message: "the deadline of the resolution passed".to_owned(),
                },
                contract: None,
            }),
        }
    }

    async fn remember(
        &self,
        domain: &AgtDomain,
        report: &AgentReport,
        known: Option<Remembered>,
        now: UnixTime,
    ) -> Result<(), MemoryError> {
        let Some(remembered) = Remembered::of(report, now) else { return Ok(()) };
        // The same content is not an update, even if its time is in the future and was limited to that of the verification.
        let is_same = |known: &Remembered| {
            (&known.cid, known.digest, known.owner) == (&remembered.cid, remembered.digest, remembered.owner)
        };
        if known.is_some_and(|known| is_same(&known) || remembered.created_at < known.created_at) {
            return Ok(());
        }
        let (memory, domain) = (Arc::clone(&self.memory), domain.clone());
        // Writing a file waits for the disk and for other processes.
        tokio::task::spawn_blocking(move || memory.remember(&domain, remembered)).await.unwrap_or_else(|error| {
            Err(MemoryError::Io { action: "write", path: "the memory".into(), source: std::io::Error::other(error) })
        })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<&str> = self.txt.iter().map(|source| source.name()).collect();
        f.debug_struct("Resolver")
            .field("txt", &sources)
            .field("policy", &self.policy)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

async fn lookup(source: &dyn TxtSource, domain: &AgtDomain, until: Instant) -> TxtAnswer {
    let started = Instant::now();
    match timeout_at(until, source.lookup(domain)).await {
        Ok(answer) => answer,
        Err(_) => TxtAnswer {
            source: source.name().to_owned(),
            outcome: TxtLookup::Failed {
                code: codes::fetch::TOTAL_TIMEOUT.id().to_owned(),
                message: "no answer before the deadline of the resolution".to_owned(),
            },
            dnssec: Dnssec::Unchecked,
            millis: millis_since(started),
        },
    }
}

fn content_of(evidence: &AgentEvidence) -> Option<&Bytes> {
    evidence.content.as_ref()?.content.as_ref()
}

fn millis_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
