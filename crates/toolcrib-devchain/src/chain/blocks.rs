//! Mined blocks: sealing and lookup.
//!
//! Transactions and receipts roots and the logs bloom are real. The state root is zero: nothing here proves state, and a trie
//! over every account would cost more than the execution.

use alloy_consensus::constants::EMPTY_WITHDRAWALS;
use alloy_consensus::proofs::{calculate_receipt_root, calculate_transaction_root};
use alloy_consensus::transaction::Recovered;
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header, Receipt, ReceiptEnvelope, Transaction as _, TxEnvelope, TxType};
use alloy_eips::Encodable2718;
use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, Bloom, Log, TxKind, U256};
use alloy_rpc_types_eth::{Block, BlockTransactions, Header as RpcHeader, Log as RpcLog, Transaction, TransactionReceipt};

use super::state::Epoch;

/// A transaction with its recovered sender.
pub(crate) type Tx = Recovered<TxEnvelope>;

/// The result of a transaction.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) gas_used: u64,
    pub(crate) logs: Vec<Log>,
    pub(crate) created: Option<Address>,
}

/// A mined block with everything that RPC clients request.
#[derive(Clone, Debug)]
pub(crate) struct Mined {
    pub(crate) hash: B256,
    pub(crate) header: Header,
    pub(crate) size: usize,
    pub(crate) transactions: Vec<Tx>,
    pub(crate) receipts: Vec<TransactionReceipt>,
    /// The state after the block, including changes by tests before the next block.
    pub(crate) epoch: Epoch,
}

impl Mined {
    /// Seals a block. `header` has the fields that do not follow from the transactions.
    pub(crate) fn seal(mut header: Header, executed: Vec<(Tx, Outcome)>, epoch: Epoch) -> Self {
        let mut cumulative = 0;
        let mut bloom = Bloom::ZERO;
        let mut envelopes = Vec::with_capacity(executed.len());
        let mut transactions = Vec::with_capacity(executed.len());
        let mut outcomes = Vec::with_capacity(executed.len());
        for (tx, mut outcome) in executed {
            cumulative += outcome.gas_used;
            let receipt = Receipt {
                status: outcome.success.into(),
                cumulative_gas_used: cumulative,
                logs: std::mem::take(&mut outcome.logs),
            };
            let envelope = envelope(tx.tx_type(), receipt);
            bloom |= *envelope.logs_bloom();
            envelopes.push(envelope);
            transactions.push(tx);
            outcomes.push(outcome);
        }
        header.gas_used = cumulative;
        header.logs_bloom = bloom;
        header.transactions_root = calculate_transaction_root(&transactions);
        header.receipts_root = calculate_receipt_root(&envelopes);
        let hash = header.hash_slow();
        let size = header.size() + transactions.iter().map(|tx| tx.encode_2718_len()).sum::<usize>();

        let mut log_index = 0;
        let receipts = envelopes
            .into_iter()
            .zip(&transactions)
            .zip(outcomes)
            .enumerate()
            .map(|(index, ((envelope, tx), outcome))| {
                let tx_hash = *tx.tx_hash();
                let inner = envelope.map_logs(|log| {
                    log_index += 1;
                    RpcLog {
                        inner: log,
                        block_hash: Some(hash),
                        block_number: Some(header.number),
                        block_timestamp: Some(header.timestamp),
                        transaction_hash: Some(tx_hash),
                        transaction_index: Some(index as u64),
                        log_index: Some(log_index - 1),
                        removed: false,
                    }
                });
                TransactionReceipt {
                    inner,
                    transaction_hash: tx_hash,
                    transaction_index: Some(index as u64),
                    block_hash: Some(hash),
                    block_number: Some(header.number),
                    gas_used: outcome.gas_used,
                    effective_gas_price: tx.effective_gas_price(header.base_fee_per_gas),
                    blob_gas_used: None,
                    blob_gas_price: None,
                    from: tx.signer(),
                    to: match tx.kind() {
                        TxKind::Call(to) => Some(to),
                        TxKind::Create => None,
                    },
                    contract_address: outcome.created,
                }
            })
            .collect();
        Self { hash, header, size, transactions, receipts, epoch }
    }

    /// The fields of a header that are the same in every block.
    pub(crate) fn blank_header() -> Header {
        Header {
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            withdrawals_root: Some(EMPTY_WITHDRAWALS),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(0),
            parent_beacon_block_root: Some(B256::ZERO),
            requests_hash: Some(alloy_eips::eip7685::EMPTY_REQUESTS_HASH),
            ..Header::default()
        }
    }

    /// Every log of the block, in order.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &RpcLog> {
        self.receipts.iter().flat_map(|receipt| receipt.inner.logs())
    }

    /// The header in RPC format.
    pub(crate) fn rpc_header(&self) -> RpcHeader {
        RpcHeader {
            hash: self.hash,
            inner: self.header.clone(),
            total_difficulty: Some(U256::ZERO),
            size: Some(U256::from(self.size)),
        }
    }

    /// The transaction at `index` in RPC format.
    pub(crate) fn rpc_transaction(&self, index: usize) -> Option<Transaction> {
        let tx = self.transactions.get(index)?;
        Some(Transaction {
            inner: tx.clone(),
            block_hash: Some(self.hash),
            block_number: Some(self.header.number),
            transaction_index: Some(index as u64),
            effective_gas_price: Some(tx.effective_gas_price(self.header.base_fee_per_gas)),
            block_timestamp: Some(self.header.timestamp),
        })
    }

    /// The block in RPC format, with full transactions or their hashes.
    pub(crate) fn rpc_block(&self, whole: bool) -> Block {
        let transactions = if whole {
            BlockTransactions::Full((0..self.transactions.len()).filter_map(|index| self.rpc_transaction(index)).collect())
        } else {
            BlockTransactions::Hashes(self.transactions.iter().map(|tx| *tx.tx_hash()).collect())
        };
        Block { header: self.rpc_header(), uncles: Vec::new(), transactions, withdrawals: Some(Default::default()) }
    }
}

fn envelope(kind: TxType, receipt: Receipt) -> ReceiptEnvelope {
    let receipt = receipt.with_bloom();
    match kind {
        TxType::Legacy => ReceiptEnvelope::Legacy(receipt),
        TxType::Eip2930 => ReceiptEnvelope::Eip2930(receipt),
        TxType::Eip1559 => ReceiptEnvelope::Eip1559(receipt),
        TxType::Eip4844 => ReceiptEnvelope::Eip4844(receipt),
        TxType::Eip7702 => ReceiptEnvelope::Eip7702(receipt),
    }
}

/// The chain of blocks from genesis. Never empty after construction.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    list: Vec<Mined>,
    numbers: B256Map<u64>,
    places: B256Map<(u64, usize)>,
}

impl Blocks {
    /// The newest block.
    pub(crate) fn head(&self) -> &Mined {
        self.list.last().expect("a chain has a genesis block")
    }

    /// The newest block, to update its epoch.
    pub(crate) fn head_mut(&mut self) -> &mut Mined {
        self.list.last_mut().expect("a chain has a genesis block")
    }

    /// All blocks, genesis first.
    pub(crate) fn all(&self) -> &[Mined] {
        &self.list
    }

    /// The block with this number.
    pub(crate) fn at(&self, number: u64) -> Option<&Mined> {
        self.list.get(usize::try_from(number).ok()?)
    }

    /// The block with this hash.
    pub(crate) fn by_hash(&self, hash: B256) -> Option<&Mined> {
        self.at(*self.numbers.get(&hash)?)
    }

    /// The block of a mined transaction, and its index in it.
    pub(crate) fn transaction(&self, hash: B256) -> Option<(&Mined, usize)> {
        let (number, index) = *self.places.get(&hash)?;
        Some((self.at(number)?, index))
    }

    /// Appends a block.
    pub(crate) fn push(&mut self, block: Mined) {
        self.numbers.insert(block.hash, block.header.number);
        for (index, tx) in block.transactions.iter().enumerate() {
            self.places.insert(*tx.tx_hash(), (block.header.number, index));
        }
        self.list.push(block);
    }

    /// Removes and returns every block after `number`, newest first.
    pub(crate) fn truncate(&mut self, number: u64) -> Vec<Mined> {
        let mut removed = Vec::new();
        while self.list.len() as u64 > number + 1 {
            let Some(block) = self.list.pop() else { break };
            self.numbers.remove(&block.hash);
            for tx in &block.transactions {
                self.places.remove(tx.tx_hash());
            }
            removed.push(block);
        }
        removed
    }
}
