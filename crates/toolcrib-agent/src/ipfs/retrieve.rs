//! Shared code of content sources: the walk over a source's blocks, and the report of its result.

use std::collections::HashMap;
use std::time::Duration;

use alloy_primitives::Bytes;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes::Code;

use super::cid::{Cid, CidError};
use super::dag::{Walk, WalkError, WalkLimits};
use super::pack;
use crate::evidence::{GatewayAttempt, GatewayOutcome, Retrieval};

/// The name of the attempt that reports a CID without a request.
pub const NOT_ASKED: &str = "not asked";

/// The result of a source: the content, or another outcome.
pub(super) type Ended = Result<Vec<u8>, GatewayOutcome>;

/// A walk over one source. Blocks that were made from a complete file are kept until they are wanted.
#[derive(Debug)]
pub(super) struct Retriever {
    walk: Walk,
    made: HashMap<Cid, Vec<u8>>,
}

/// Why bytes were rejected.
#[derive(Debug)]
pub(super) enum Untaken {
    /// They are neither the block nor a file with its CID.
    Mismatch(Cid),
    /// The block is genuine, but cannot be used.
    Refused(GatewayOutcome),
}

impl Retriever {
    pub(super) fn new(root: Cid, limits: WalkLimits) -> Self {
        Self { walk: Walk::new(root, limits), made: HashMap::new() }
    }

    /// Uses the available blocks, and returns the next one that the source must supply; `None` when the content is complete.
    pub(super) fn wanted(&mut self) -> Result<Option<Cid>, GatewayOutcome> {
        loop {
            let Some(wanted) = self.walk.wanted().cloned() else { return Ok(None) };
            let Some(block) = self.made.remove(&wanted) else { return Ok(Some(wanted)) };
            self.walk.supply(&block).map_err(refused)?;
        }
    }

    /// Supplies the wanted block, or the file that it is the root of.
    pub(super) fn take(&mut self, wanted: &Cid, bytes: &[u8]) -> Result<(), Untaken> {
        match self.walk.supply(bytes) {
            Ok(()) => Ok(()),
            Err(WalkError::Mismatch { .. }) => match pack::repack(wanted, bytes) {
                Some(packed) => {
                    self.made.extend(packed.into_blocks().into_iter().map(|block| (block.cid, block.bytes)));
                    Ok(())
                }
                None => Err(Untaken::Mismatch(wanted.clone())),
            },
            Err(error @ WalkError::Refused(_)) => Err(Untaken::Refused(refused(error))),
        }
    }

    /// The content, after [`wanted`](Self::wanted) returned `None`.
    pub(super) fn finish(self) -> Vec<u8> {
        self.walk.finish().unwrap_or_default()
    }
}

fn refused(error: WalkError) -> GatewayOutcome {
    match error {
        WalkError::Mismatch { block } => GatewayOutcome::Tampered { block: block.to_string() },
        WalkError::Refused(error) => GatewayOutcome::Refused { code: error.code().id().to_owned(), reason: error.to_string() },
    }
}

/// The outcome of a source that cannot be used.
pub(super) fn unreachable(code: Code, message: impl Into<String>) -> GatewayOutcome {
    GatewayOutcome::Unreachable { code: code.id().to_owned(), message: message.into() }
}

/// The report of an unsupported CID, for which no request is made.
pub(super) fn refused_cid(cid: &CidText, error: &CidError) -> Retrieval {
    let outcome = GatewayOutcome::Refused { code: error.code().id().to_owned(), reason: error.to_string() };
    let attempt = GatewayAttempt { gateway: NOT_ASKED.to_owned(), outcome, bytes: 0, millis: 0 };
    Retrieval { cid: cid.as_str().to_owned(), content: None, attempts: vec![attempt] }
}

/// The report of a single source.
pub(super) fn single(cid: &CidText, gateway: String, ended: Ended, bytes: u64, took: Duration) -> Retrieval {
    let (outcome, content) = match ended {
        Ok(content) => (GatewayOutcome::Served, Some(Bytes::from(content))),
        Err(outcome) => (outcome, None),
    };
    let attempts = vec![GatewayAttempt { gateway, outcome, bytes, millis: millis(took) }];
    Retrieval { cid: cid.as_str().to_owned(), content, attempts }
}

pub(super) fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
