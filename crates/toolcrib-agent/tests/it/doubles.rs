//! Test doubles for sources.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use tokio::time::Instant;
use toolcrib_agent::evidence::{ContractRead, GatewayOutcome, OwnerOutcome, OwnerRead, Retrieval, TxtAnswer};
use toolcrib_agent::source::{ContentSource, OwnerSource, TxtSource};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::CidText;

use crate::fixture::{attempt, read_of, records};

/// A TXT source with the same response for every name.
pub(crate) struct Txt {
    pub(crate) answer: Mutex<TxtAnswer>,
    pub(crate) delay: Duration,
}

impl Txt {
    pub(crate) fn records(texts: &[&str]) -> Arc<Self> {
        Self::slow(texts, Duration::ZERO)
    }

    pub(crate) fn slow(texts: &[&str], delay: Duration) -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(records("double", texts)), delay })
    }

    pub(crate) fn set(&self, texts: &[&str]) {
        *self.answer.lock().expect("no panic") = records("double", texts);
    }
}

#[async_trait]
impl TxtSource for Txt {
    fn name(&self) -> &str {
        "double"
    }

    async fn lookup(&self, _: &AgtDomain) -> TxtAnswer {
        tokio::time::sleep(self.delay).await;
        self.answer.lock().expect("no panic").clone()
    }
}

/// A content source with given contents.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) blocks: Mutex<HashMap<String, Bytes>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) delay: Duration,
}

impl Contents {
    pub(crate) fn put(&self, cid: &str, content: &str) {
        self.blocks.lock().expect("no panic").insert(cid.to_owned(), Bytes::copy_from_slice(content.as_bytes()));
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ContentSource for Contents {
    async fn retrieve(&self, cid: &CidText, _: Instant) -> Retrieval {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        let content = self.blocks.lock().expect("no panic").get(cid.as_str()).cloned();
        let outcome = if content.is_some() { GatewayOutcome::Served } else { GatewayOutcome::NotFound };
        Retrieval { cid: cid.as_str().to_owned(), content, attempts: vec![attempt("double", outcome)] }
    }
}

/// A registry in which one account owns every name.
pub(crate) struct Holders {
    pub(crate) outcome: Mutex<OwnerOutcome>,
    pub(crate) contract: Option<ContractRead>,
    pub(crate) asked: AtomicUsize,
    pub(crate) delay: Duration,
}

impl Holders {
    pub(crate) fn new(holder: Address) -> Self {
        Self {
            outcome: Mutex::new(OwnerOutcome::Holder(holder)),
            contract: None,
            asked: AtomicUsize::new(0),
            delay: Duration::ZERO,
        }
    }

    pub(crate) fn set(&self, outcome: OwnerOutcome) {
        *self.outcome.lock().expect("no panic") = outcome;
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl OwnerSource for Holders {
    async fn holder(&self, domain: &AgtDomain, signed: Option<(B256, &[u8; 65])>) -> OwnerRead {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        let outcome = self.outcome.lock().expect("no panic").clone();
        OwnerRead { contract: signed.and(self.contract.clone()), ..read_of(domain.as_str(), outcome) }
    }
}
