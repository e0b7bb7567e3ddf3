//! Submitting transactions to the pool, and mining blocks.

use std::time::Duration;

use alloy_consensus::transaction::Recovered;
use alloy_consensus::{Header, Transaction as _, TxEnvelope};
use alloy_eips::Decodable2718;
use alloy_primitives::{B256, U256, keccak256};
use revm::database_interface::WrapDatabaseRef;
use revm::handler::validation::validate_initial_tx_gas;

use super::blocks::{Mined, Outcome, Tx};
use super::{Chain, Event, Rejection, evm};
use crate::limits::{BLOCK_GAS, MAX_NONCE_GAP};

/// When blocks are mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mining {
    /// A block for every transaction, at once.
    Auto,
    /// A block at every interval, empty or not.
    Interval(Duration),
    /// Only on request.
    Manual,
}

impl Chain {
    /// Decodes and submits a raw transaction.
    pub(crate) fn send_raw(&mut self, raw: &[u8]) -> Result<B256, Rejection> {
        self.send(decode(raw)?)
    }

    /// Submits a transaction, and mines it if automine is on.
    pub(crate) fn send(&mut self, tx: Tx) -> Result<B256, Rejection> {
        let hash = *tx.tx_hash();
        self.check(&tx)?;
        self.pool.add(tx)?;
        self.revision += 1;
        self.filters.on_pending(hash);
        self.events.push(Event::Pending(hash));
        if self.mining == Mining::Auto {
            // A transaction that fills a nonce gap makes those behind it ready; each round mines at least one or stops.
            while self.pool.len() > 0 {
                let before = self.pool.len();
                if self.is_idle() {
                    break;
                }
                self.mine();
                if self.pool.len() == before {
                    break;
                }
            }
        }
        Ok(hash)
    }

    /// Mines a block of the pool's transactions, empty or not.
    pub(crate) fn mine(&mut self) -> B256 {
        let parent = self.head().header.timestamp;
        let timestamp = self.clock.take_next(parent);
        self.mine_at(timestamp, None)
    }

    /// The initial header of the next block.
    pub(crate) fn next_header(&self) -> Header {
        let parent = self.head();
        let number = parent.header.number + 1;
        let mut seed = [0; 48];
        seed[..32].copy_from_slice(parent.hash.as_slice());
        seed[32..40].copy_from_slice(&number.to_be_bytes());
        seed[40..].copy_from_slice(&self.forks.to_be_bytes());
        Header {
            parent_hash: parent.hash,
            number,
            timestamp: self.clock.upcoming(parent.header.timestamp),
            gas_limit: BLOCK_GAS,
            base_fee_per_gas: Some(self.next_base_fee()),
            beneficiary: self.config.coinbase,
            mix_hash: keccak256(seed),
            ..Mined::blank_header()
        }
    }

    /// Mines a block at `timestamp` with the given transactions, or with those in the pool.
    pub(super) fn mine_at(&mut self, timestamp: u64, given: Option<Vec<Tx>>) -> B256 {
        let header = Header { timestamp, ..self.next_header() };
        let epoch = self.state.begin();
        let executed = match given {
            Some(list) => self.execute_given(&header, list),
            None => self.execute_pool(&header),
        };
        for (tx, _) in &executed {
            self.pool.remove(*tx.tx_hash());
        }
        let senders: Vec<_> = executed.iter().map(|(tx, _)| tx.signer()).collect();
        for sender in senders {
            let nonce = self.state.account(sender, epoch).nonce;
            self.pool.forget_below(sender, nonce);
        }
        let block = Mined::seal(header, executed, epoch);
        let hash = block.hash;
        self.filters.on_block(&block);
        self.events.push(Event::Block { header: Box::new(block.rpc_header()), logs: block.logs().cloned().collect() });
        self.blocks.push(block);
        self.revision += 1;
        hash
    }

    fn is_idle(&self) -> bool {
        let epoch = self.state.epoch();
        self.pool.ready(self.next_base_fee(), |sender| self.state.account(sender, epoch).nonce).pop().is_none()
    }

    fn execute_pool(&mut self, header: &Header) -> Vec<(Tx, Outcome)> {
        // Take the pool out while reading it, so that the state can be written.
        let mut pool = std::mem::take(&mut self.pool);
        let epoch = self.state.epoch();
        let mut executed = Vec::new();
        let mut dropped = Vec::new();
        let mut left = header.gas_limit;
        let mut ready = pool.ready(header.base_fee_per_gas.unwrap_or_default(), |sender| self.state.account(sender, epoch).nonce);
        while let Some(tx) = ready.pop() {
            // A transaction that does not fit waits for the next block, and so do all later ones of its sender.
            if tx.gas_limit() > left {
                continue;
            }
            match self.execute(header, tx) {
                Ok(outcome) => {
                    left -= outcome.gas_used.min(left);
                    ready.advance(tx);
                    executed.push((tx.clone(), outcome));
                }
                Err(_) => dropped.push(*tx.tx_hash()),
            }
        }
        for hash in dropped {
            pool.remove(hash);
        }
        self.pool = pool;
        executed
    }

    fn execute_given(&mut self, header: &Header, list: Vec<Tx>) -> Vec<(Tx, Outcome)> {
        let mut left = header.gas_limit;
        let mut executed = Vec::with_capacity(list.len());
        for tx in list {
            if tx.gas_limit() <= left
                && let Ok(outcome) = self.execute(header, &tx)
            {
                left -= outcome.gas_used.min(left);
                executed.push((tx, outcome));
            }
        }
        executed
    }

    fn execute(&mut self, header: &Header, tx: &Tx) -> Result<Outcome, Rejection> {
        let env = evm::signed_env(tx);
        let view = WrapDatabaseRef(self.view(self.state.epoch()));
        let done = evm::run(view, evm::strict(&self.config), evm::block_env(header), env)
            .map_err(|error| evm::refusal(&evm::signed_env(tx), error))?;
        self.state.commit(done.state);
        Ok(evm::outcome(done.result))
    }

    /// Validates a transaction before execution.
    fn check(&self, tx: &Tx) -> Result<(), Rejection> {
        let (sender, hash) = (tx.signer(), *tx.tx_hash());
        if tx.is_eip4844() {
            return Err(Rejection::Type("blob transactions (type 3) are not taken by this development chain"));
        }
        if self.pool.get(hash).is_some() || self.blocks.transaction(hash).is_some() {
            return Err(Rejection::AlreadyKnown);
        }
        // Legacy transactions may be without a chain id; all others have one.
        if let Some(have) = tx.chain_id()
            && have != self.config.chain_id
        {
            return Err(Rejection::ChainId { have, want: self.config.chain_id });
        }
        let limit = BLOCK_GAS.min(evm::MAX_TX_GAS);
        if tx.gas_limit() > limit {
            return Err(Rejection::GasLimit { have: tx.gas_limit(), limit });
        }
        let env = evm::signed_env(tx);
        validate_initial_tx_gas(&env, evm::SPEC, false, false, evm::MAX_TX_GAS, None)
            .map_err(|error| evm::refusal(&env, error))?;
        let account = self.state.account(sender, self.state.epoch());
        let (given, expected) = (tx.nonce(), account.nonce);
        if given < expected {
            return Err(Rejection::NonceTooLow { sender, given, expected });
        }
        if given - expected > MAX_NONCE_GAP {
            return Err(Rejection::NonceTooHigh { sender, given, expected });
        }
        let cap = tx.max_fee_per_gas();
        if let Some(tip) = tx.max_priority_fee_per_gas()
            && tip > cap
        {
            return Err(Rejection::TipAboveFeeCap { tip, cap });
        }
        let base_fee = self.next_base_fee();
        if cap < u128::from(base_fee) && self.mining == Mining::Auto {
            return Err(Rejection::FeeCapTooLow { sender, cap, base_fee });
        }
        let want = U256::from(tx.gas_limit()).saturating_mul(U256::from(cap)).saturating_add(tx.value());
        if account.balance < want {
            return Err(Rejection::InsufficientFunds { sender, have: account.balance, want });
        }
        if tx.is_eip7702() && tx.authorization_list().is_none_or(<[_]>::is_empty) {
            return Err(Rejection::Invalid("EIP-7702 transaction with empty auth list".into()));
        }
        if tx.is_create() && tx.input().len() > revm::primitives::eip3860::MAX_INITCODE_SIZE {
            return Err(Rejection::Invalid("max initcode size exceeded".into()));
        }
        if !delegates_or_empty(&self.state.code(sender, self.state.epoch())) {
            return Err(Rejection::Invalid(format!("sender not an eoa: address {sender}")));
        }
        Ok(())
    }
}

/// EIP-3607 and EIP-7702: a sender must have no code, or a delegation.
fn delegates_or_empty(code: &[u8]) -> bool {
    code.is_empty() || (code.len() == 23 && code.starts_with(&[0xef, 0x01, 0x00]))
}

/// Decodes a raw transaction and recovers its sender.
pub(crate) fn decode(raw: &[u8]) -> Result<Tx, Rejection> {
    let mut rest = raw;
    let envelope = TxEnvelope::decode_2718(&mut rest).map_err(|error| Rejection::Encoding(error.to_string()))?;
    if !rest.is_empty() {
        return Err(Rejection::Encoding("bytes after the transaction".into()));
    }
    let signer = evm::signer_of(envelope.signature(), envelope.signature_hash());
    let signer = signer.map_err(|error| Rejection::Signature(error.to_string()))?;
    Ok(Recovered::new_unchecked(envelope, signer))
}
