//! A tool on the chain whose reads are counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::U256;
use toolcrib_core::caip::ToolRef;
use toolcrib_judge::evidence::{ChainReads, ConfigRead};
use toolcrib_verify::{Error, Onchain, ToolSource};

use toolcrib_testkit::registry::RegistryChain;

/// A tool on the chain that counts reads, and can change before each one.
pub(crate) struct Counted<'a> {
    inner: Onchain,
    reads: AtomicUsize,
    before: Box<dyn Fn(usize) + Send + Sync + 'a>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(ledger: &RegistryChain, id: U256, before: impl Fn(usize) + Send + Sync + 'a) -> Self {
        Self { inner: Onchain::new(ledger.registry.clone(), id), reads: AtomicUsize::new(0), before: Box::new(before) }
    }

    /// Number of reads of the configuration.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl ToolSource for Counted<'_> {
    fn tool(&self) -> ToolRef {
        self.inner.tool()
    }

    async fn config(&self) -> Result<ConfigRead, Error> {
        (self.before)(self.reads.fetch_add(1, Ordering::SeqCst));
        self.inner.config().await
    }

    async fn details(&self, reads: ChainReads) -> Result<ChainReads, Error> {
        self.inner.details(reads).await
    }
}
