//! Sources of the chain's part of the evidence.

use std::future::Future;

use alloy_primitives::U256;
use toolcrib_chain::Error;
use toolcrib_chain::predicate::{self, Introspection};
use toolcrib_chain::registry::Registry;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_judge::evidence::{ChainReads, ConfigRead, ContractFact, PredicateFacts, Registration, ToolConfig, ToolState};

/// A source of a registry's data about one tool: a node, or an index that has read it already.
pub trait ToolSource: Sync {
    /// The tool.
    fn tool(&self) -> ToolRef;

    /// Reads the configuration now. Called once, and again if the served manifest does not match.
    fn config(&self) -> impl Future<Output = Result<ConfigRead, Error>> + Send;

    /// Adds the predicate's answers, the registry's code and the time of registration to `reads`.
    fn details(&self, reads: ChainReads) -> impl Future<Output = Result<ChainReads, Error>> + Send;
}

/// A tool whose registry is read through a node.
#[derive(Clone, Debug)]
pub struct Onchain {
    registry: Registry,
    id: U256,
    registration: Option<Registration>,
}

impl Onchain {
    /// The tool with this id.
    pub const fn new(registry: Registry, id: U256) -> Self {
        Self { registry, id, registration: None }
    }

    /// The registry.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The id of the tool.
    pub const fn id(&self) -> U256 {
        self.id
    }

    /// Sets the time of registration, if you know it. Otherwise the node is asked once, and may refuse.
    #[must_use]
    pub const fn registered(mut self, block: u64, at: UnixTime) -> Self {
        self.registration = Some(Registration { block, at });
        self
    }

    /// Reads the time of registration. It matters for the certificate, but not for the four checks, so a node's refusal
    /// is not a failure.
    async fn look_up_registration(&self) -> Option<Registration> {
        let (block, seconds) = self.registry.registered_at(self.id).await.ok().flatten()?;
        Some(Registration { block, at: UnixTime::from_seconds(i64::try_from(seconds).ok()?) })
    }
}

impl ToolSource for Onchain {
    fn tool(&self) -> ToolRef {
        self.registry.reference(self.id)
    }

    async fn config(&self) -> Result<ConfigRead, Error> {
        let block = self.registry.chain().block_number().await?;
        let state = self.registry.tool(self.id).await?;
        Ok(ConfigRead { block, state })
    }

    async fn details(&self, mut reads: ChainReads) -> Result<ChainReads, Error> {
        let code = self.registry.chain().code(self.registry.address()).await?;
        reads.registry_code_hash = Some(alloy_primitives::keccak256(&code));
        reads.registration = match self.registration {
            Some(known) => Some(known),
            None => self.look_up_registration().await,
        };
        if let Some(ToolState::Present(ToolConfig { access_predicate: Some(address), .. })) =
            reads.config.last().map(|read| &read.state)
        {
            let introspection = predicate::introspect(self.registry.chain(), *address, self.id).await?;
            let mut facts = facts(introspection);
            for address in facts.requirements.tokens().into_iter().take(MAX_CONTRACTS) {
                let has_code = !self.registry.chain().code(address).await?.is_empty();
                facts.contracts.push(ContractFact { address, has_code });
            }
            reads.predicate = Some(facts);
        }
        Ok(reads)
    }
}

/// Maximum number of contracts in requirements that are read. Our own predicates accept at most twelve.
const MAX_CONTRACTS: usize = 16;

/// Converts an introspection to plain data.
fn facts(introspection: Introspection) -> PredicateFacts {
    PredicateFacts {
        address: introspection.address,
        code_hash: introspection.code_hash,
        proxy: introspection.proxy,
        erc165: introspection.erc165,
        name: introspection.name.map(|name| name.as_str().to_owned()),
        version: introspection.version.map(|version| version.as_str().to_owned()),
        requirements: introspection.requirements,
        contracts: Vec::new(),
    }
}
