//! Transactions in steps that can be persisted: simulate, prepare, sign, broadcast, wait.
//!
//! A signed transaction is the same each time it is sent, so a caller that stores [`Signed`] before broadcasting can be interrupted
//! at any point and resume without doing anything twice.

use std::time::Duration;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope, TypedTransaction};
use alloy_eips::eip2718::Encodable2718;
use alloy_network::TransactionBuilder;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::{TransactionReceipt, TransactionRequest};
use alloy_transport::TransportError;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::{foreign, revert_data};
use crate::registry::Revert;
use crate::rpc::Chain;
use crate::wallet::{Scope, Wallet};

/// Margin on the gas estimate in percent: state may change between estimate and execution.
pub const GAS_MARGIN_PERCENT: u64 = 20;

/// How often to look for a transaction whose nonce is used but whose receipt is missing, before concluding that another transaction has
/// replaced it. Nodes count a transaction before they return its receipt, and lag behind each other; concluding too early sends twice.
pub const REPLACED_LOOKS: u32 = 10;

/// A state-changing call to a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The contract.
    pub to: Address,
    /// Selector and arguments.
    pub data: Bytes,
    /// The native currency to send along, in wei.
    pub value: U256,
}

/// An unsigned transaction with all fields set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The chain.
    pub chain_id: u64,
    /// The sender.
    pub from: Address,
    /// The nonce.
    pub nonce: u64,
    /// The call.
    pub call: Call,
    /// The gas limit.
    pub gas_limit: u64,
    /// The maximum fee per gas.
    pub max_fee_per_gas: u128,
    /// The maximum priority fee per gas, which the block producer gets.
    pub max_priority_fee_per_gas: u128,
}

/// A signed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// Its hash.
    pub hash: B256,
    /// The bytes to send.
    pub raw: Bytes,
    /// The sender.
    pub from: Address,
    /// The nonce.
    pub nonce: u64,
}

impl Prepared {
    /// The maximum cost for the sender: all the gas at the maximum fee, and the value.
    pub fn most_cost(&self) -> U256 {
        U256::from(self.gas_limit).saturating_mul(U256::from(self.max_fee_per_gas)).saturating_add(self.call.value)
    }

    fn transaction(&self) -> TypedTransaction {
        TypedTransaction::Eip1559(TxEip1559 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_limit: self.gas_limit,
            max_fee_per_gas: self.max_fee_per_gas,
            max_priority_fee_per_gas: self.max_priority_fee_per_gas,
            to: TxKind::Call(self.call.to),
            value: self.call.value,
            access_list: Default::default(),
            input: self.call.data.clone(),
        })
    }
}

impl Chain {
    /// Executes a call without sending it. A revert is decoded.
    pub async fn simulate(&self, from: Address, call: &Call) -> Result<Bytes, Error> {
        self.provider().call(request(from, call)).await.map_err(|error| refusal(error, from, 0))
    }

    /// The gas limit of a call: the node's estimate and [`GAS_MARGIN_PERCENT`].
    pub async fn estimate(&self, from: Address, call: &Call) -> Result<u64, Error> {
        let gas = self.provider().estimate_gas(request(from, call)).await.map_err(|error| refusal(error, from, 0))?;
        Ok(gas.saturating_add(gas / 100 * GAS_MARGIN_PERCENT))
    }

    /// Sets nonce, gas and fees. Fails if the transaction would fail.
    pub async fn prepare(&self, from: Address, call: &Call) -> Result<Prepared, Error> {
        let provider = self.provider();
        let nonce = provider.get_transaction_count(from).pending().await.map_err(Error::from_rpc)?;
        let gas_limit = self.estimate(from, call).await?;
        let fees = provider.estimate_eip1559_fees().await.map_err(Error::from_rpc)?;
        let prepared = Prepared {
            chain_id: self.chain_id(),
            from,
            nonce,
            call: call.clone(),
            gas_limit,
            max_fee_per_gas: fees.max_fee_per_gas,
            max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
        };
        // Estimates are made without a gas price, so nodes do not check the balance.
        let balance = provider.get_balance(from).await.map_err(Error::from_rpc)?;
        if balance < prepared.most_cost() {
            let message = format!("the balance is {balance} wei, up to {} wei are needed", prepared.most_cost());
            return Err(Error::NoFunds { account: from, message });
        }
        Ok(prepared)
    }

    /// Signs the transaction. Nothing is sent.
    pub async fn sign(&self, wallet: &dyn Wallet, prepared: &Prepared) -> Result<Signed, Error> {
        if prepared.chain_id != self.chain_id() {
            return Err(Error::WrongChain {
                node: "of this connection".to_owned(),
                expected: prepared.chain_id,
                got: self.chain_id(),
            });
        }
        let cleared = Scope::of(self).await?.clear(wallet)?;
        let transaction = prepared.transaction();
        let signature = wallet.sign_transaction(&transaction, cleared).await?;
        signature.check(transaction.signature_hash(), prepared.from)?;
        let envelope: TxEnvelope = transaction.into_signed(Signature::from(signature)).into();
        let raw: Bytes = envelope.encoded_2718().into();
        Ok(Signed { hash: keccak256(&raw), raw, from: prepared.from, nonce: prepared.nonce })
    }

    /// Sends the transaction. Sending one that the node already has is not an error.
    pub async fn broadcast(&self, signed: &Signed) -> Result<(), Error> {
        let Err(error) = self.provider().send_raw_transaction(&signed.raw).await else { return Ok(()) };
        let is_known = error.as_error_resp().is_some_and(|payload| {
            let message = payload.message.to_ascii_lowercase();
            message.contains("already known") || message.contains("already imported") || message.contains("known transaction")
        });
        if is_known || self.receipt(signed.hash).await?.is_some() {
            Ok(())
        } else {
            Err(refusal(error, signed.from, signed.nonce))
        }
    }

    /// The receipt of a mined transaction.
    pub async fn receipt(&self, hash: B256) -> Result<Option<TransactionReceipt>, Error> {
        self.provider().get_transaction_receipt(hash).await.map_err(Error::from_rpc)
    }

    /// Waits until a transaction is mined. Calls `progress` with the newest block number after each poll.
    pub async fn wait(
        &self,
        signed: &Signed,
        most: Duration,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<TransactionReceipt, Error> {
        let pause = if self.is_loopback() { Duration::from_millis(50) } else { Duration::from_secs(2) };
        let deadline = tokio::time::Instant::now() + most;
        let mut missed = 0;
        loop {
            if let Some(receipt) = self.receipt(signed.hash).await? {
                return if receipt.status() { Ok(receipt) } else { Err(Error::Failed { hash: signed.hash }) };
            }
            let used = self.provider().get_transaction_count(signed.from).await.map_err(Error::from_rpc)?;
            // The nonce is used, but this transaction may have been mined between the two requests.
            missed = if used > signed.nonce { missed + 1 } else { 0 };
            if missed > REPLACED_LOOKS {
                return Err(Error::Replaced { hash: signed.hash, account: signed.from, nonce: signed.nonce });
            }
            // Once the nonce is used, a few more polls decide.
            if missed == 0 && tokio::time::Instant::now() >= deadline {
                return Err(Error::NotMined { hash: signed.hash, seconds: most.as_secs() });
            }
            progress(self.block_number().await?);
            tokio::time::sleep(pause).await;
        }
    }

    /// Prepares, signs, sends and waits, for callers without a journal.
    pub async fn send(&self, wallet: &dyn Wallet, call: &Call, most: Duration) -> Result<TransactionReceipt, Error> {
        let prepared = self.prepare(wallet.address(), call).await?;
        let signed = self.sign(wallet, &prepared).await?;
        self.broadcast(&signed).await?;
        self.wait(&signed, most, |_| {}).await
    }
}

fn request(from: Address, call: &Call) -> TransactionRequest {
    TransactionRequest::default().with_from(from).with_to(call.to).with_input(call.data.clone()).with_value(call.value)
}

/// Classifies a node's error about a transaction. Nodes agree on these phrases, not on error codes.
fn refusal(error: TransportError, account: Address, nonce: u64) -> Error {
    let TransportError::ErrorResp(payload) = &error else { return Error::from_rpc(error) };
    if let Some(data) = revert_data(payload) {
        return Error::Reverted(Revert::decode(&data));
    }
    let lower = payload.message.to_ascii_lowercase();
    let message = foreign(&payload.message);
    if lower.contains("insufficient funds") || lower.contains("gas required exceeds allowance") {
        Error::NoFunds { account, message }
    } else if lower.contains("nonce too low") {
        Error::NonceTooLow { account, nonce }
    } else if lower.contains("underpriced") || lower.contains("less than block base fee") {
        Error::Underpriced { message }
    } else {
        Error::from_rpc(error)
    }
}
