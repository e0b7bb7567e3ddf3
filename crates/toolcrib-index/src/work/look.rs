//! One verification run of a tool: reading the chain, fetching from its server, and the report.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::future::BoxFuture;
use toolcrib_chain::registry::Registry;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::canon::Sealed;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_judge::evidence::{Evidence, Exchange};
use toolcrib_judge::{Policy, Report, judge_whole};
use toolcrib_verify::{Depth, Onchain, Verifier};

use crate::facts::access::collections_of;
use crate::facts::collection::{CollectionProvider, Collections};
use crate::listing::CollectionFacts;
use crate::model::ToolRow;
use crate::{Chains, Error};

/// The maximum number of name servers stored for a host. Domains have two to eight.
const MAX_NAME_SERVERS: usize = 16;

/// The result of one verification run.
#[derive(Debug)]
pub struct Look {
    /// The collected evidence.
    pub evidence: Evidence,
    /// The report about it.
    pub report: Report,
    /// The manifest, if all four checks passed and it is conformant.
    pub manifest: Option<Sealed<ToolManifest>>,
    /// Metadata of the collections that the predicate requires.
    pub collections: BTreeMap<Address, CollectionFacts>,
    /// Name servers of the host, if known.
    pub name_servers: Option<Vec<String>>,
}

impl Look {
    /// Judges evidence as of the time at which it was gathered.
    pub fn judged(evidence: Evidence, policy: &Policy) -> Self {
        let (report, manifest) = judge_whole(&evidence, policy, evidence.gathered_at);
        Self { evidence, report, manifest, collections: BTreeMap::new(), name_servers: None }
    }
}

/// Verifies tools.
pub trait ToolVerifier: Send + Sync {
    /// Verifies a tool. An error means that the chain could not be read.
    fn look(&self, tool: ToolRef, row: &ToolRow) -> impl Future<Output = Result<Look, Error>> + Send;

    /// Verifies a tool, with at most `time` for each fetch. `None` when that was too short for a result: the caller tries again with
    /// [`look`](Self::look). Time that a chain takes does not count.
    fn first_look(
        &self,
        tool: ToolRef,
        row: &ToolRow,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Look>, Error>> + Send {
        let _ = time;
        async move { self.look(tool, row).await.map(Some) }
    }

    /// Whether a server responds at all, within `time`. Distinguishes an outage of this machine's network from one of the servers.
    fn reaches(&self, metadata_uri: &str, chain: u64, time: Duration) -> impl Future<Output = bool> + Send {
        let _ = (metadata_uri, chain, time);
        async { false }
    }

    /// Whether it has an RPC node for this chain.
    fn can_ask(&self, chain: u64) -> bool;
}

/// Looks up the name servers of a host.
pub trait NameServers: fmt::Debug + Send + Sync {
    /// Returns the name servers of a host; `None` when they cannot be looked up.
    fn of<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Option<Vec<String>>>;
}

/// Verifies tools through a verifier and the chains that this process has nodes for.
#[derive(Clone, Debug)]
pub struct Live {
    verifier: Verifier,
    chains: Chains,
    policy: Policy,
    collections: Collections,
    name_servers: Option<Arc<dyn NameServers>>,
}

impl Live {
    /// Creates a verifier of tools on `chains`.
    pub fn new(verifier: Verifier, chains: Chains, policy: Policy) -> Self {
        Self { verifier, chains, policy, collections: Collections::default(), name_servers: None }
    }

    /// Sets the provider of images and prices of collections.
    #[must_use]
    pub fn collections(mut self, provider: Arc<dyn CollectionProvider>) -> Self {
        self.collections = Collections::with(provider);
        self
    }

    /// Sets the source of name servers.
    #[must_use]
    pub fn name_servers(mut self, servers: Arc<dyn NameServers>) -> Self {
        self.name_servers = Some(servers);
        self
    }
}

impl Live {
    async fn look_with(&self, verifier: &Verifier, tool: ToolRef, row: &ToolRow) -> Result<Look, Error> {
        let chain = self.chains.get(tool.chain).ok_or(Error::Corrupt { what: "lease: its chain is not configured" })?;
        let source = Onchain::new(Registry::new(chain.clone(), tool.registry), tool.id)
            .registered(row.registered.block, row.registered.time);
        let evidence = verifier.gather(&source, Depth::Full).await?;
        let mut look = Look::judged(evidence, &self.policy);
        if let Some(predicate) = look.evidence.chain.as_ref().and_then(|reads| reads.predicate.as_ref()) {
            let contracts = collections_of(predicate);
            look.collections = self.collections.read(chain, &contracts, look.evidence.gathered_at).await;
        }
        if let (Some(servers), Ok(url)) = (&self.name_servers, HttpsUrl::parse(&row.metadata_uri)) {
            look.name_servers = servers.of(url.host()).await.map(|mut list| {
                list.truncate(MAX_NAME_SERVERS);
                list
            });
        }
        Ok(look)
    }
}

impl ToolVerifier for Live {
    async fn look(&self, tool: ToolRef, row: &ToolRow) -> Result<Look, Error> {
        self.look_with(&self.verifier, tool, row).await
    }

    async fn first_look(&self, tool: ToolRef, row: &ToolRow, time: Duration) -> Result<Option<Look>, Error> {
        if time >= self.verifier.time() {
            return self.look(tool, row).await.map(Some);
        }
        let look = self.look_with(&self.verifier.within(time), tool, row).await?;
        // A fetch that failed at the end of the short timeout might have succeeded with the long one.
        let was_cut = |exchange: &Exchange| exchange.failure.is_some() && u128::from(exchange.timing.total) >= time.as_micros();
        let evidence = &look.evidence;
        let attestation = evidence.attestation.as_ref().map(|fetch| &fetch.exchange);
        let is_cut = evidence.manifest.iter().chain(attestation).any(was_cut);
        Ok((!is_cut).then_some(look))
    }

    async fn reaches(&self, metadata_uri: &str, chain: u64, time: Duration) -> bool {
        match WellKnown::parse(metadata_uri) {
            // Only the head of the response: TLS succeeded, so it comes from the server itself.
            Ok(uri) => self.verifier.within(time).fetch_manifest(&uri, chain).await.response.is_some(),
            Err(_) => false,
        }
    }

    fn can_ask(&self, chain: u64) -> bool {
        self.chains.get(chain).is_some()
    }
}
