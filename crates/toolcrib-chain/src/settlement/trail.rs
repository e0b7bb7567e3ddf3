//! Tracking one authorization on its chain.

use alloy_primitives::{Address, B256};
use alloy_provider::Provider as _;
use alloy_rpc_types_eth::{Filter, Log};
use alloy_sol_types::SolEvent as _;
use toolcrib_x402::Authorization;

use super::finality::{Block, block_at, last_final, missing, newest_block};
use super::receipt::{pays, uses};
use crate::Error;
use crate::abi::IEIP3009::{AuthorizationCanceled, AuthorizationUsed};
use crate::rpc::{Chain, TransportFault};

/// Number of blocks in one log request: what strict public nodes allow. If a node allows less, it is halved repeatedly.
pub const LOG_WINDOW: u64 = 2_000;

/// Maximum number of log requests in one search: more than a day of two-second blocks.
pub const MAX_LOG_WINDOWS: u32 = 48;

/// An authorization with its chain and token.
#[derive(Clone, Copy, Debug)]
pub struct Trail<'t> {
    /// The chain.
    pub chain: &'t Chain,
    /// The token.
    pub token: Address,
    /// The authorization.
    pub authorization: &'t Authorization,
}

/// Where the search for the use of an authorization starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchFrom {
    /// After this block, in which the nonce was unused.
    After(u64),
    /// At the first block with this Unix timestamp or later: for records without a block. Clocks and chains differ, so allow a margin.
    Time(u64),
}

/// The outcome of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizationOutcome {
    /// The signed transfer was executed.
    Settled {
        /// In this transaction.
        transaction: B256,
        /// The account that sent it.
        sender: Address,
        /// Whether its block is final.
        is_final: bool,
    },
    /// It is unused and still valid, or the block that used it is not final.
    Open,
    /// It expired unused, in a final block.
    Expired,
    /// The payer cancelled it, in a final block.
    Cancelled,
    /// It was used before the search began, or for another transfer, in a final block.
    UsedElsewhere,
    /// The node's responses contradict each other.
    Unclear {
        /// Why, for the operator.
        detail: String,
    },
}

/// What one transaction proves about an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionProof {
    /// It executed the signed transfer.
    Pays {
        /// In this block.
        block: u64,
        /// The account that sent it.
        sender: Address,
    },
    /// The node does not have it in a block.
    Missing,
    /// It was mined and reverted.
    Failed,
    /// It succeeded, but did not execute the signed transfer with this authorization.
    Other,
}

impl Trail<'_> {
    /// Returns what a transaction with a reported hash proves about the authorization, in one request. Its block may not be final.
    pub async fn proof_in(&self, transaction: B256) -> Result<TransactionProof, Error> {
        let receipt = self.chain.receipt(transaction).await?;
        // Ignore the receipt of another transaction.
        let receipt = receipt.filter(|receipt| receipt.transaction_hash == transaction);
        Ok(match receipt.and_then(|receipt| Some((receipt.block_number?, receipt))) {
            None => TransactionProof::Missing,
            Some((block, receipt)) if pays(&receipt, self.token, self.authorization) => {
                TransactionProof::Pays { block, sender: receipt.from }
            }
            Some((_, receipt)) if !receipt.status() => TransactionProof::Failed,
            Some(_) => TransactionProof::Other,
        })
    }

    /// Returns whether the node has a transaction, mined or pending.
    pub async fn is_known(&self, transaction: B256) -> Result<bool, Error> {
        let found = self.chain.provider().get_transaction_by_hash(transaction).await.map_err(Error::from_rpc)?;
        Ok(found.is_some())
    }

    /// Finds the outcome of the authorization.
    pub async fn find(&self, from: SearchFrom) -> Result<AuthorizationOutcome, Error> {
        let newest = newest_block(self.chain).await?;
        if !self.is_used_at(newest.number).await? {
            return Ok(if self.is_expired(newest).await? { AuthorizationOutcome::Expired } else { AuthorizationOutcome::Open });
        }
        let start = match from {
            SearchFrom::After(block) => Some(block.saturating_add(1)).filter(|start| *start <= newest.number),
            SearchFrom::Time(time) => self.first_since(time, newest).await?,
        };
        if let Some(start) = start {
            match self.first_log(start, newest.number).await? {
                Search::Found(log) => return self.judge(&log, newest).await,
                Search::TooFar => return Ok(unclear("the nonce was used before the range of logs that is searched")),
                Search::Nothing => {}
            }
        }
        // The nonce is used, but there is no log since `start`.
        let Some(before) = start.map_or(Some(newest.number), |start| start.checked_sub(1)) else { return Ok(no_log()) };
        let is_used_before = match self.is_used_at(before).await {
            Ok(is_used) => is_used,
            // The node has pruned that state; the logs may still exist.
            Err(_) => {
                let from = before.saturating_sub(LOG_WINDOW * u64::from(MAX_LOG_WINDOWS / 2));
                matches!(self.first_log(from, before).await?, Search::Found(_))
            }
        };
        if !is_used_before {
            return Ok(no_log());
        }
        self.if_final(before, newest, AuthorizationOutcome::UsedElsewhere).await
    }

    /// Returns the newest block if the nonce is unused in it, `None` if it is used.
    pub async fn unused_in(&self) -> Result<Option<Block>, Error> {
        let newest = newest_block(self.chain).await?;
        Ok((!self.is_used_at(newest.number).await?).then_some(newest))
    }

    /// Whether no future block can use it: its validity has ended in a final block. `newest`, which is later, showed that it
    /// is unused.
    async fn is_expired(&self, newest: Block) -> Result<bool, Error> {
        let end = self.authorization.valid_before;
        if newest.time < end {
            return Ok(false);
        }
        Ok(last_final(self.chain, newest).await?.is_some_and(|last| last.time >= end))
    }

    /// Returns `outcome` if the block is final, and `Open` otherwise.
    async fn if_final(&self, number: u64, newest: Block, outcome: AuthorizationOutcome) -> Result<AuthorizationOutcome, Error> {
        Ok(if self.is_final(number, newest).await? { outcome } else { AuthorizationOutcome::Open })
    }

    async fn is_final(&self, number: u64, newest: Block) -> Result<bool, Error> {
        Ok(last_final(self.chain, newest).await?.is_some_and(|last| number <= last.number))
    }

    /// The first use or cancellation from block `from` to block `to`, both included.
    async fn first_log(&self, from: u64, to: u64) -> Result<Search, Error> {
        let (mut from, mut window) = (from, LOG_WINDOW);
        for _ in 0..MAX_LOG_WINDOWS {
            if from > to {
                return Ok(Search::Nothing);
            }
            let end = to.min(from.saturating_add(window - 1));
            match self.logs(from, end).await {
                Ok(Some(log)) => return Ok(Search::Found(Box::new(log))),
                Ok(None) => from = end.saturating_add(1),
                Err(Error::Refused { .. } | Error::Transport { fault: TransportFault::TooLarge { .. }, .. }) if window > 1 => {
                    window /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Search::TooFar)
    }

    async fn logs(&self, from: u64, to: u64) -> Result<Option<Log>, Error> {
        let Authorization { from: payer, nonce, .. } = *self.authorization;
        let signatures = [AuthorizationUsed::SIGNATURE_HASH, AuthorizationCanceled::SIGNATURE_HASH];
        let filter = Filter::new().address(self.token).from_block(from).to_block(to).event_signature(signatures.to_vec());
        let filter = filter.topic1(payer.into_word()).topic2(nonce);
        let logs = self.chain.provider().get_logs(&filter).await.map_err(Error::from_rpc)?;
        // Drop logs that were not requested, and removed logs.
        let is_ours = |log: &Log| {
            let topics = log.topics();
            log.address() == self.token
                && !log.removed
                && log.block_number.is_some_and(|block| (from..=to).contains(&block))
                && topics.first().is_some_and(|topic| signatures.contains(topic))
                && topics.get(1..) == Some(&[payer.into_word(), nonce])
        };
        Ok(logs.into_iter().find(is_ours))
    }

    async fn judge(&self, log: &Log, newest: Block) -> Result<AuthorizationOutcome, Error> {
        let (Some(transaction), Some(number)) = (log.transaction_hash, log.block_number) else { return Ok(no_log()) };
        if log.topic0() == Some(&AuthorizationCanceled::SIGNATURE_HASH) {
            return self.if_final(number, newest, AuthorizationOutcome::Cancelled).await;
        }
        let receipt = self.chain.receipt(transaction).await?;
        let receipt = receipt.filter(|receipt| receipt.transaction_hash == transaction && receipt.block_number == Some(number));
        match receipt {
            Some(receipt) if pays(&receipt, self.token, self.authorization) => {
                let is_final = self.is_final(number, newest).await?;
                Ok(AuthorizationOutcome::Settled { transaction, sender: receipt.from, is_final })
            }
            Some(receipt) if uses(&receipt, self.token, self.authorization) => {
                self.if_final(number, newest, AuthorizationOutcome::UsedElsewhere).await
            }
            _ => Ok(unclear(&format!("the RPC node has a log of {transaction}, but not its receipt"))),
        }
    }

    /// The first block at `time` or later; `None` if the newest is earlier. Steps back in growing distances and then bisects, so that a
    /// minute ago takes few requests and a year ago about fifty.
    async fn first_since(&self, time: u64, newest: Block) -> Result<Option<u64>, Error> {
        if newest.time < time {
            return Ok(None);
        }
        let (mut high, mut step) = (newest.number, 1_u64);
        let mut low = loop {
            if high == 0 {
                return Ok(Some(0));
            }
            let number = high.saturating_sub(step);
            if self.time_of(number).await? < time {
                break number;
            }
            (high, step) = (number, step.saturating_mul(2));
        };
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.time_of(middle).await? < time { low = middle } else { high = middle }
        }
        Ok(Some(high))
    }

    async fn time_of(&self, number: u64) -> Result<u64, Error> {
        let block = block_at(self.chain, number).await?;
        block.map(|block| block.time).ok_or_else(|| missing("the RPC node lacks a block that it should have"))
    }
}

/// The result of a log search.
enum Search {
    Found(Box<Log>),
    Nothing,
    /// The range takes more requests than the limit.
    TooFar,
}

fn unclear(detail: &str) -> AuthorizationOutcome {
    AuthorizationOutcome::Unclear { detail: detail.to_owned() }
}

fn no_log() -> AuthorizationOutcome {
    unclear("the token reports the nonce as used, but the RPC node has no log of it")
}
