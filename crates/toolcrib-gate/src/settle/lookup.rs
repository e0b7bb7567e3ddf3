//! What the chain says about an authorization: whether it was used, and for what.
//!
//! A token says of a nonce only that it is used; which transfer it was used for, and when, is in the logs. Both are asked, and where
//! they do not fit each other (a node that lags, or that has forgotten) the answer is that nobody can tell. What it leaves out:
//! deciding what follows, which is the gate's.

use alloy_primitives::{Address, B256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::{BlockNumberOrTag, Filter, Log, TransactionReceipt};
use alloy_sol_types::SolEvent;
use toolcrib_chain::Error;
use toolcrib_chain::abi::IEIP3009::{AuthorizationCanceled, AuthorizationUsed, Transfer};
use toolcrib_chain::network::LOCAL_CHAIN_ID;
use toolcrib_chain::rpc::{Chain, TransportFault};
use toolcrib_chain::sign::is_used_at;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::x402::Authorization;

use super::Found;

/// How far a block's time may lie before ours: one slot of the slowest chain of the table, and a little for the clock. A transfer
/// that is older was made before the payment was taken.
pub const SKEW_SECONDS: u64 = 15;

/// Blocks behind the newest that are taken for final where a node does not know the tag `finalized`: two epochs of Ethereum.
pub const CONFIRMATIONS: u64 = 64;

/// Blocks of one question for logs: what stingy public nodes allow. One that allows less is asked for half, and half of that.
pub const LOG_WINDOW: u64 = 2_000;

/// Most questions for logs of one look-up: more than a day of blocks of two seconds.
pub const MAX_LOG_WINDOWS: u32 = 48;

/// How far back a use is looked for when it is not known since when: longer than gates take authorizations for.
const RECENT_SECONDS: u64 = 1_200;

/// An authorization on the chain that it was signed for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail<'t> {
    pub(super) chain: &'t Chain,
    pub(super) token: Address,
    pub(super) authorization: &'t Authorization,
}

/// A block, as far as it matters.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: u64,
    time: u64,
}

impl Trail<'_> {
    /// What has become of the authorization that was taken at `since`.
    pub(super) async fn look_up(&self, since: UnixTime) -> Found {
        let since = u64::try_from(since.seconds()).unwrap_or_default().saturating_sub(SKEW_SECONDS);
        self.find(since).await.unwrap_or_else(|error| unclear(&error))
    }

    /// What the authorization was used for, if that was not long ago. Says nothing about whose use it was.
    pub(super) async fn recent_use(&self) -> Option<Found> {
        let used = async {
            let head = self.newest().await?;
            match self.first_since(head.time.saturating_sub(RECENT_SECONDS), head).await? {
                Some(start) => self.used_between(start, head.number).await,
                None => Ok(None),
            }
        };
        used.await.unwrap_or_default()
    }

    /// Whether the nonce is used in the newest block. A node that does not answer says nothing against it.
    pub(super) async fn is_used(&self) -> bool {
        let Authorization { from, nonce, .. } = *self.authorization;
        toolcrib_chain::sign::is_used(self.chain, self.token, from, nonce).await.unwrap_or_default()
    }

    async fn find(&self, since: u64) -> Result<Found, Error> {
        let head = self.newest().await?;
        if !self.is_used_at(head.number).await? {
            return Ok(if self.is_over(head).await? { Found::Never } else { Found::Open });
        }
        let start = self.first_since(since, head).await?;
        if let Some(start) = start
            && let Some(found) = self.used_between(start, head.number).await?
        {
            return Ok(found);
        }
        // The last block in which a use is not ours.
        let Some(before) = start.map_or(Some(head.number), |start| start.checked_sub(1)) else { return Ok(no_log()) };
        match self.is_used_at(before).await {
            Ok(true) => Ok(Found::Spent),
            Ok(false) => Ok(no_log()),
            // The node has forgotten that state; its logs may still be there.
            Err(_) => {
                let from = before.saturating_sub(LOG_WINDOW * u64::from(MAX_LOG_WINDOWS / 2));
                let found = self.used_between(from, before).await?;
                Ok(if matches!(found, Some(Found::Settled { .. } | Found::Spent)) { Found::Spent } else { no_log() })
            }
        }
    }

    /// Whether no block to come can use it: its time is over in a final block, behind which nothing is replaced. That it is unused
    /// was seen in `head`, which comes after.
    async fn is_over(&self, head: Head) -> Result<bool, Error> {
        let end = self.authorization.valid_before;
        if head.time < end {
            return Ok(false);
        }
        if self.chain.network().is_local || self.chain.chain_id() == LOCAL_CHAIN_ID {
            return Ok(true);
        }
        let last = match self.block(BlockNumberOrTag::Finalized).await {
            Ok(Some(last)) => Some(last),
            Ok(None) | Err(Error::Refused { .. }) => match head.number.checked_sub(CONFIRMATIONS) {
                Some(number) => self.block(number.into()).await?,
                None => None,
            },
            Err(error) => return Err(error),
        };
        Ok(last.is_some_and(|last| last.time >= end && last.number <= head.number))
    }

    /// The first use from block `from` to block `to`, both included: settled as signed, or spent for something else.
    async fn used_between(&self, from: u64, to: u64) -> Result<Option<Found>, Error> {
        let (mut from, mut window) = (from, LOG_WINDOW);
        for _ in 0..MAX_LOG_WINDOWS {
            if from > to {
                return Ok(None);
            }
            let end = to.min(from.saturating_add(window - 1));
            match self.logs(from, end).await {
                Ok(Some(log)) => return self.what_for(&log).await.map(Some),
                Ok(None) => from = end.saturating_add(1),
                Err(Error::Refused { .. } | Error::Transport { fault: TransportFault::TooLarge { .. }, .. }) if window > 1 => {
                    window /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Found::Unclear { detail: "the use lies further back than logs are looked at".to_owned() }))
    }

    async fn logs(&self, from: u64, to: u64) -> Result<Option<Log>, Error> {
        let Authorization { from: payer, nonce, .. } = *self.authorization;
        let signatures = vec![AuthorizationUsed::SIGNATURE_HASH, AuthorizationCanceled::SIGNATURE_HASH];
        let filter = Filter::new().address(self.token).from_block(from).to_block(to).event_signature(signatures);
        let filter = filter.topic1(payer.into_word()).topic2(nonce);
        let logs = self.chain.provider().get_logs(&filter).await.map_err(Error::from_rpc)?;
        // A node that sends logs of others, or logs that were taken back, does not make them ours.
        let ours = |log: &Log| {
            let topics = log.topics();
            log.address() == self.token
                && !log.removed
                && log.block_number.is_some_and(|block| (from..=to).contains(&block))
                && topics.get(1) == Some(&payer.into_word())
                && topics.get(2) == Some(&nonce)
        };
        Ok(logs.into_iter().find(ours))
    }

    async fn what_for(&self, log: &Log) -> Result<Found, Error> {
        if log.topic0() != Some(&AuthorizationUsed::SIGNATURE_HASH) {
            return Ok(Found::Spent);
        }
        let Some(transaction) = log.transaction_hash else { return Ok(no_log()) };
        Ok(match self.chain.receipt(transaction).await? {
            Some(receipt) if self.is_paid_by(&receipt) => Found::Settled { transaction },
            Some(receipt) if self.is_used_by(&receipt) => Found::Spent,
            _ => Found::Unclear { detail: format!("the node has a log of {transaction}, but not its receipt") },
        })
    }

    /// Whether a transaction used the authorization for the transfer that was signed.
    ///
    /// The token's next log after the use has to be the transfer. Somewhere in the transaction is not enough: a payer could use up
    /// ten nonces for transfers of nothing and have all of them covered by one payment.
    pub(super) fn is_paid_by(&self, receipt: &TransactionReceipt) -> bool {
        let Authorization { from, to, value, .. } = *self.authorization;
        let expected = Transfer { from, to, value: value.get() };
        let mut logs = receipt.inner.logs().iter().filter(|log| log.address() == self.token);
        receipt.status()
            && logs.any(|log| self.is_use(log))
            && logs.next().and_then(decoded::<Transfer>).is_some_and(|transfer| transfer == expected)
    }

    fn is_used_by(&self, receipt: &TransactionReceipt) -> bool {
        receipt.status() && receipt.inner.logs().iter().any(|log| log.address() == self.token && self.is_use(log))
    }

    fn is_use(&self, log: &Log) -> bool {
        let Authorization { from: authorizer, nonce, .. } = *self.authorization;
        decoded::<AuthorizationUsed>(log).is_some_and(|event| event == AuthorizationUsed { authorizer, nonce })
    }

    async fn is_used_at(&self, block: u64) -> Result<bool, Error> {
        let Authorization { from, nonce, .. } = *self.authorization;
        is_used_at(self.chain, self.token, from, nonce, block).await
    }

    /// The first block that is not before `time`; `None` when even the newest is. Looks back in growing steps and then between two
    /// of them, so that what was a minute ago is found in few questions and what was a year ago in some fifty.
    async fn first_since(&self, time: u64, head: Head) -> Result<Option<u64>, Error> {
        if head.time < time {
            return Ok(None);
        }
        let (mut high, mut step) = (head.number, 1_u64);
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
        let block = self.block(number.into()).await?;
        block.map(|block| block.time).ok_or_else(|| missing("the node does not have a block that it should have"))
    }

    async fn newest(&self) -> Result<Head, Error> {
        self.block(BlockNumberOrTag::Latest).await?.ok_or_else(|| missing("the node has no block"))
    }

    async fn block(&self, which: BlockNumberOrTag) -> Result<Option<Head>, Error> {
        let block = self.chain.provider().get_block_by_number(which).await.map_err(Error::from_rpc)?;
        Ok(block.map(|block| Head { number: block.header.number, time: block.header.timestamp }))
    }
}

fn decoded<E: SolEvent>(log: &Log) -> Option<E> {
    E::decode_log_validate(&log.inner).ok().map(|log| log.data)
}

fn unclear(error: &Error) -> Found {
    Found::Unclear { detail: error.to_string() }
}

fn no_log() -> Found {
    Found::Unclear { detail: "the token says that the nonce is used, and the node shows no log of it".to_owned() }
}

fn missing(message: &str) -> Error {
    Error::Refused { rpc_code: 0, message: message.to_owned() }
}

/// The transaction of a settlement, where it is one.
pub(super) const fn settled_in(found: &Found) -> Option<B256> {
    match found {
        Found::Settled { transaction } => Some(*transaction),
        _ => None,
    }
}
