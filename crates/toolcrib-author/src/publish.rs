//! Publishing: compares a manifest with its registration, and determines the remaining steps.
//!
//! Authors publish every new version, also from machines without a journal and after crashes at any point, and must end up
//! with one registration. So it first checks unfinished work, the tool published earlier from this machine, and the
//! registry itself. The journal id depends only on account and URL, not on the manifest, so that a changed file
//! never starts a second registration next to a pending one.

use alloy_primitives::{Address, U256};
use futures_util::{StreamExt, TryStreamExt, stream};
use toolcrib_chain::registry::{EventFilter, Registry, RegistryEvent, ToolConfig, ToolState};
use toolcrib_core::url::well_known::{WellKnown, metadata_uri};

use crate::Error;
use crate::journal::{Entry, Journal, State};
use crate::plan::{self, Gate, Step, journal_id};
use crate::preflight::Ready;

/// Largest registry that is enumerated tool by tool. The alternative is to search its logs from the first block, which on an old chain
/// takes thousands of requests.
pub const MAX_ENUMERATED: u64 = 2_000;

/// Number of concurrent requests: enough to hide latency, few enough for a public node.
const AT_ONCE: usize = 8;

/// One account's tool at one URL.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The registry.
    pub registry: &'a Registry,
    /// The account.
    pub signer: Address,
    /// The URL, normalised.
    pub uri: &'a str,
}

/// A registered tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: U256,
    /// Its configuration in the registry.
    pub config: ToolConfig,
}

/// What remains to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tool is not registered: register it with these steps.
    Register(Vec<Step>),
    /// The tool is registered, but differs: change it with these steps.
    Change(U256, Vec<Step>),
    /// The tool is registered as it should be.
    Nothing(U256),
}

impl Subject<'_> {
    /// The id of the task in the journal.
    pub fn journal_id(&self) -> String {
        let (chain_id, registry) = (self.registry.chain().chain_id(), self.registry.address());
        journal_id("publish", chain_id, registry, self.signer, self.uri.as_bytes())
    }

    /// Returns unfinished work for this URL that must be finished first, because one of its transactions may be pending. Work
    /// without a signed transaction, or whose transactions all failed, is not included.
    pub fn begun(&self, journal: &Journal) -> Result<Vec<Entry>, Error> {
        let mine = (self.registry.chain().chain_id(), self.registry.address(), self.signer);
        let mut entries = journal.unfinished()?;
        entries.retain(|entry| {
            (entry.chain_id, entry.registry, entry.signer) == mine
                && entry.is_begun()
                && (entry.id == self.journal_id()
                    || entry.steps.iter().any(|progress| match &progress.step {
                        Step::Register { uri, .. } | Step::Update { uri, .. } => uri == self.uri,
                        _ => false,
                    }))
        });
        Ok(entries)
    }

    /// Finds the tool. A named tool must exist. Otherwise checks the tool published earlier from this machine, then the
    /// registry: tool by tool, or through its logs from `from_block` on if that is given or there are too many tools.
    pub async fn find(&self, journal: &Journal, named: Option<U256>, from_block: Option<u64>) -> Result<Option<Found>, Error> {
        if let Some(id) = named {
            let config = self.registry.config(id).await?;
            if config.creator != self.signer {
                return Err(Error::NotCreator { signer: self.signer, creator: config.creator });
            }
            return Ok(Some(Found { id, config }));
        }
        // Only a hint: development chains are reset and reuse ids, and tools move to other URLs.
        if let Some(id) = journal.load(&self.journal_id())?.and_then(|entry| entry.tool)
            && let Some(found) = self.look(id).await?
        {
            return Ok(Some(found));
        }
        let mut found = stream::iter(self.candidates(from_block).await?)
            .map(|id| self.look(id))
            .buffered(AT_ONCE)
            .try_filter_map(|found| async move { Ok(found) })
            .try_collect::<Vec<_>>()
            .await?;
        if found.len() > 1 {
            let tools = found.iter().map(|found| found.id).collect();
            return Err(Error::Duplicate { uri: self.uri.to_owned(), tools });
        }
        Ok(found.pop())
    }

    /// Determines the remaining steps. The gate is applied to a tool that is not registered yet, or whose predicate is not configured; for
    /// any other tool, a requested gate must equal the existing one.
    pub async fn decide(&self, found: Option<&Found>, ready: &Ready, gate: &Gate) -> Result<Decision, Error> {
        let (uri, hash) = (&ready.metadata_uri, ready.manifest.hash());
        let Some(Found { id, config }) = found else { return Ok(Decision::Register(plan::register(uri, hash, gate))) };
        let mut steps = Vec::new();
        if config.metadata_uri != *uri || config.manifest_hash != hash {
            steps.push(Step::Update { uri: uri.clone(), hash });
        }
        if *gate != Gate::Open {
            let differs = || Error::GateDiffers { tool: *id, has: config.access_predicate, wanted: gate.predicate() };
            if gate.predicate() != config.access_predicate {
                return Err(differs());
            }
            match gate.standing(self.registry, *id).await? {
                // Registered by an earlier run without a journal; no account has had access since.
                None => steps.push(Step::Configure(gate.clone())),
                Some(standing) if standing != *gate => return Err(differs()),
                Some(_) => {}
            }
        }
        Ok(if steps.is_empty() { Decision::Nothing(*id) } else { Decision::Change(*id, steps) })
    }

    /// The journal entry of a decision; `None` if there is nothing to do. It replaces the former entry of this URL, and afterwards
    /// records which tool the URL belongs to.
    pub fn entry(&self, decision: Decision) -> Option<Entry> {
        let (tool, steps) = match decision {
            Decision::Register(steps) => (None, steps),
            Decision::Change(id, steps) => (Some(id), steps),
            Decision::Nothing(_) => return None,
        };
        let (chain_id, registry) = (self.registry.chain().chain_id(), self.registry.address());
        Some(Entry::new(self.journal_id(), chain_id, registry, self.signer, tool, steps))
    }

    /// Returns the tool if this account registered it with this URL.
    async fn look(&self, id: U256) -> Result<Option<Found>, Error> {
        let ToolState::Present(config) = self.registry.tool(id).await? else { return Ok(None) };
        let is_mine = config.creator == self.signer && normalized(&config.metadata_uri).as_deref() == Some(self.uri);
        Ok(is_mine.then_some(Found { id, config }))
    }

    /// The ids of tools that may match.
    async fn candidates(&self, from_block: Option<u64>) -> Result<Vec<U256>, Error> {
        if from_block.is_none() {
            let count = self.registry.tool_count().await?;
            if let Ok(count @ 0..=MAX_ENUMERATED) = u64::try_from(count) {
                return Ok((1..=count).map(U256::from).collect());
            }
        }
        let head = self.registry.chain().block_number().await?;
        let filter = EventFilter { creator: Some(self.signer), ..EventFilter::default() };
        let pages = self.registry.events(from_block.unwrap_or(0), head, filter).try_collect::<Vec<_>>().await?;
        let ids = pages.into_iter().flat_map(|page| page.events).filter_map(|logged| match logged.event {
            RegistryEvent::Registered { id, .. } => Some(id),
            _ => None,
        });
        Ok(ids.collect())
    }
}

/// Replaces the gate of unfinished work by the requested one, if the predicate rejected the old one or was not configured yet. The
/// predicate stays the same, so that access is as restricted as before.
pub fn regate(entry: &mut Entry, gate: &Gate) {
    for progress in &mut entry.steps {
        if let (Step::Configure(old), State::Waiting) = (&progress.step, &progress.state)
            && gate.needs_configuration()
            && gate.predicate() == old.predicate()
        {
            progress.step = Step::Configure(gate.clone());
        }
    }
}

fn normalized(uri: &str) -> Option<String> {
    let place = WellKnown::parse(uri).ok()?;
    Some(metadata_uri(&place.origin(), place.slug()))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;

    use super::*;

    #[test]
    fn a_refused_gate_can_be_corrected() {
        let predicate = Address::repeat_byte(9);
        let gate = |count| Gate::Erc721 { predicate, collections: vec![Address::repeat_byte(1); count] };
        let steps = plan::register("https://a.example/x", B256::ZERO, &gate(9));
        let mut entry = Entry::new("publish-1".to_owned(), 1, Address::ZERO, Address::ZERO, None, steps);
        regate(&mut entry, &Gate::Open);
        assert_eq!(entry.steps[1].step, Step::Configure(gate(9)), "nothing is opened");
        regate(&mut entry, &Gate::Merkle { predicate: Address::ZERO, root: B256::ZERO });
        assert_eq!(entry.steps[1].step, Step::Configure(gate(9)), "another predicate is another matter");
        regate(&mut entry, &gate(1));
        assert_eq!(entry.steps[1].step, Step::Configure(gate(1)));
        entry.steps[1].state = State::Done { hash: B256::ZERO, block: 1 };
        regate(&mut entry, &gate(2));
        assert_eq!(entry.steps[1].step, Step::Configure(gate(1)), "what is done is done");
    }
}
