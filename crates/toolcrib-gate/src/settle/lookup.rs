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

/// How far a block's time may lie before ours: one slot of the slowest chain of the table, sequencers that lag, and the clock, for which
/// gates allow a minute elsewhere too. A transfer that is older was made before the payment was taken. To take one of ours for older
/// would make its payer pay twice; the other mistake needs a nonce that was used and passed the check before the call all the same.
pub const SKEW_SECONDS: u64 = 60;

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

#[cfg(test)]
mod tests {
    use alloy_primitives::{LogData, U256};
    use serde_json::json;
    use toolcrib_chain::network::Network;
    use toolcrib_chain::rpc::{ChainConfig, NodeUrl};
    use toolcrib_core::money::Amount;

    use super::*;

    const TOKEN: Address = Address::repeat_byte(0x70);
    const PAYER: Address = Address::repeat_byte(0x01);
    const PAYEE: Address = Address::repeat_byte(0x02);
    const NONCE: B256 = B256::repeat_byte(0x0a);
    const PRICE: u64 = 10_000;

    fn receipt(status: bool, logs: &[(Address, LogData)]) -> TransactionReceipt {
        let hash = B256::repeat_byte(9);
        let logs: Vec<_> = logs
            .iter()
            .enumerate()
            .map(|(at, (address, data))| {
                json!({
                    "address": address, "topics": data.topics(), "data": data.data, "blockHash": hash, "blockNumber": "0x1",
                    "transactionHash": hash, "transactionIndex": "0x0", "logIndex": format!("{at:#x}"), "removed": false,
                })
            })
            .collect();
        serde_json::from_value(json!({
            "type": "0x2", "status": if status { "0x1" } else { "0x0" }, "cumulativeGasUsed": "0x1", "gasUsed": "0x1",
            "effectiveGasPrice": "0x1", "logsBloom": format!("0x{}", "0".repeat(512)), "logs": logs, "transactionHash": hash,
            "transactionIndex": "0x0", "blockHash": hash, "blockNumber": "0x1", "from": PAYEE, "to": TOKEN,
        }))
        .expect("a receipt")
    }

    fn used(nonce: B256) -> (Address, LogData) {
        (TOKEN, AuthorizationUsed { authorizer: PAYER, nonce }.encode_log_data())
    }

    fn moved(from: Address, to: Address, value: u64) -> (Address, LogData) {
        (TOKEN, Transfer { from, to, value: U256::from(value) }.encode_log_data())
    }

    // attack: T13
    #[test]
    fn the_transfer_follows_the_use() {
        let node = NodeUrl::parse("http://127.0.0.1:1").expect("a URL");
        let network = Network::by_id(LOCAL_CHAIN_ID).expect("listed");
        let chain = Chain::lazy(ChainConfig::new(network, vec![node]).expect("a node")).expect("not connected yet");
        let value = Amount::new(U256::from(PRICE));
        let authorization = Authorization { from: PAYER, to: PAYEE, value, valid_after: 0, valid_before: 1, nonce: NONCE };
        let trail = Trail { chain: &chain, token: TOKEN, authorization: &authorization };
        let next = B256::repeat_byte(0x0b);
        let paid = moved(PAYER, PAYEE, PRICE);
        let foreign = |(_, data): (Address, LogData)| (PAYEE, data);
        for (name, logs, is_paid) in [
            ("as signed", vec![used(NONCE), paid.clone()], true),
            ("beside others", vec![used(next), moved(PAYER, PAYEE, 1), used(NONCE), paid.clone(), moved(PAYEE, PAYER, 1)], true),
            ("with a log of another contract between", vec![used(NONCE), foreign(used(next)), paid.clone()], true),
            ("nothing", vec![], false),
            ("no transfer", vec![used(NONCE)], false),
            ("no use", vec![paid.clone()], false),
            ("use of another nonce", vec![used(next), paid.clone()], false),
            ("less", vec![used(NONCE), moved(PAYER, PAYEE, PRICE - 1)], false),
            ("to another", vec![used(NONCE), moved(PAYER, PAYER, PRICE)], false),
            ("from another", vec![used(NONCE), moved(PAYEE, PAYEE, PRICE)], false),
            ("another token's transfer", vec![used(NONCE), foreign(paid.clone())], false),
            ("another token's use", vec![foreign(used(NONCE)), paid.clone()], false),
            ("the transfer of another use", vec![used(NONCE), moved(PAYER, PAYER, 0), used(next), paid.clone()], false),
            ("a transfer that came before", vec![paid, used(NONCE), moved(PAYER, PAYER, 0)], false),
        ] {
            assert_eq!(trail.is_paid_by(&receipt(true, &logs)), is_paid, "{name}");
            assert!(!trail.is_paid_by(&receipt(false, &logs)), "{name}, failed");
        }
    }
}
