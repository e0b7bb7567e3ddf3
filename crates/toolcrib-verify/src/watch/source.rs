//! How a watcher learns of changes before it verifies.

use std::future::Future;

use alloy_primitives::Address;
use futures_util::TryStreamExt;
use toolcrib_chain::predicate;
use toolcrib_chain::registry::EventFilter;

use crate::{Error, Onchain, ToolSource};

/// A source that can tell cheaply whether there were events.
pub trait WatchSource: ToolSource {
    /// The number of the newest block.
    fn head(&self) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Whether the registry emitted a change of the tool, or one of `predicates` an upgrade, from block `from` to block
    /// `to`, both included.
    fn touched(&self, predicates: &[Address], from: u64, to: u64) -> impl Future<Output = Result<bool, Error>> + Send;
}

impl WatchSource for Onchain {
    async fn head(&self) -> Result<u64, Error> {
        self.registry().chain().block_number().await
    }

    async fn touched(&self, predicates: &[Address], from: u64, to: u64) -> Result<bool, Error> {
        let filter = EventFilter { id: Some(self.id()), ..EventFilter::default() };
        let mut pages = std::pin::pin!(self.registry().events(from, to, filter));
        while let Some(page) = pages.try_next().await? {
            if !page.events.is_empty() {
                return Ok(true);
            }
        }
        for address in predicates {
            if !predicate::upgrades(self.registry().chain(), *address, from, to).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
