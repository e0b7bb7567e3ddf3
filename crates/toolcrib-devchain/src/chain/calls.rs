//! Read-only execution: `eth_call` and `eth_estimateGas`.

use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_eth::state::StateOverride;
use revm::bytecode::Bytecode;
use revm::context::result::{ExecutionResult, HaltReason, InvalidTransaction, ResultAndState};
use revm::database::{CacheDB, DatabaseRef as _};
use revm::database_interface::WrapDatabaseRef;

use super::state::View;
use super::{Chain, Point, Rejection, evm};
use crate::limits::{BLOCK_GAS, CALL_GAS};

/// Gas of a transfer to an account without code.
const TRANSFER_GAS: u64 = 21_000;

/// The gas stipend that a call with value gives to its target.
const CALL_STIPEND: u64 = 2_300;

impl Chain {
    /// Executes a call and returns its return data.
    pub(crate) fn call(&self, request: &TransactionRequest, at: &Point, overrides: StateOverride) -> Result<Bytes, Rejection> {
        let gas = request.gas.unwrap_or(CALL_GAS).min(CALL_GAS);
        evm::answer(self.simulate(request, gas, at, &overrides)?)
    }

    /// The minimum gas with which a transaction succeeds, within a percent or two.
    pub(crate) fn estimate_gas(
        &self,
        request: &TransactionRequest,
        at: &Point,
        overrides: StateOverride,
    ) -> Result<u64, Rejection> {
        let mut high = request.gas.filter(|gas| *gas >= TRANSFER_GAS).unwrap_or(u64::MAX).min(BLOCK_GAS).min(evm::MAX_TX_GAS);

        // The sender's balance limits the gas.
        let sender = request.from.unwrap_or_default();
        let price = request.max_fee_per_gas.or(request.gas_price).unwrap_or_default();
        if price > 0 {
            let balance = overrides.get(&sender).and_then(|account| account.balance);
            let have = balance.unwrap_or_else(|| self.balance(sender, at));
            let value = request.value.unwrap_or_default();
            let Some(left) = have.checked_sub(value) else {
                return Err(Rejection::InsufficientFunds { sender, have, want: value });
            };
            high = high.min(u64::try_from(left / U256::from(price)).unwrap_or(u64::MAX));
        }

        let plain = request.input.input().is_none_or(|data| data.is_empty())
            && request.authorization_list.is_none()
            && request.access_list.is_none();
        if let Some(TxKind::Call(to)) = request.to
            && plain
            && overrides.is_empty()
            && high >= TRANSFER_GAS
            && self.code(to, at).is_empty()
            && self.simulate(request, TRANSFER_GAS, at, &overrides).is_ok_and(|result| result.is_success())
        {
            return Ok(TRANSFER_GAS);
        }

        let first = self.simulate(request, high, at, &overrides)?;
        let (used, refunded) = match &first {
            ExecutionResult::Success { gas, .. } => (gas.tx_gas_used(), gas.inner_refunded()),
            ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. } => return Err(Rejection::Allowance(high)),
            _ => return Err(evm::answer(first).err().unwrap_or(Rejection::Allowance(high))),
        };
        let mut low = used.saturating_sub(1);
        // A call keeps back a 64th of its gas from the callee (EIP-150), so slightly more than was used is usually enough.
        let guess = (used + refunded + CALL_STIPEND).saturating_mul(64) / 63;
        if guess < high {
            if self.suffices(request, guess, at, &overrides) { high = guess } else { low = guess }
        }
        while low + 1 < high && (high - low) > high / 64 {
            // Most transactions need little more than they use, so bisect near the low end first.
            let middle = (low + (high - low) / 2).min(low.saturating_mul(2));
            if self.suffices(request, middle, at, &overrides) { high = middle } else { low = middle }
        }
        Ok(high)
    }

    /// Returns the cold accounts and slots that a transaction accesses, its gas with this access list,
    /// and the error if it fails.
    pub(crate) fn access_list(
        &self,
        mut request: TransactionRequest,
        at: &Point,
        overrides: &StateOverride,
    ) -> Result<(AccessList, u64, Option<Rejection>), Rejection> {
        let gas = request.gas.unwrap_or(CALL_GAS).min(CALL_GAS);
        request.access_list = None;
        let from = request.from.unwrap_or_default();
        let to = match request.to {
            Some(TxKind::Call(to)) => to,
            _ => from.create(request.nonce.unwrap_or_else(|| self.state.account(from, at.epoch).nonce)),
        };
        let touched = self.run(&request, gas, at, overrides)?.state;
        let is_warm = |address: &Address| {
            *address == from || *address == to || *address == at.header.beneficiary || is_precompile(*address)
        };
        let mut list: Vec<AccessListItem> = touched
            .into_iter()
            .map(|(address, account)| {
                let mut storage_keys: Vec<B256> = account.storage.into_keys().map(B256::from).collect();
                storage_keys.sort_unstable();
                AccessListItem { address, storage_keys }
            })
            .filter(|item| !item.storage_keys.is_empty() || !is_warm(&item.address))
            .collect();
        list.sort_unstable_by_key(|item| item.address);
        let list = AccessList(list);
        request.access_list = Some(list.clone());
        let result = self.simulate(&request, gas, at, overrides)?;
        let used = result.tx_gas_used();
        Ok((list, used, evm::answer(result).err()))
    }

    fn suffices(&self, request: &TransactionRequest, gas: u64, at: &Point, overrides: &StateOverride) -> bool {
        self.simulate(request, gas, at, overrides).is_ok_and(|result| result.is_success())
    }

    fn simulate(
        &self,
        request: &TransactionRequest,
        gas: u64,
        at: &Point,
        overrides: &StateOverride,
    ) -> Result<ExecutionResult, Rejection> {
        self.run(request, gas, at, overrides).map(|done| done.result)
    }

    fn run(
        &self,
        request: &TransactionRequest,
        gas: u64,
        at: &Point,
        overrides: &StateOverride,
    ) -> Result<ResultAndState, Rejection> {
        let tx = evm::call_env(request, gas, self.config.chain_id);
        let (cfg, block) = (evm::lenient(&self.config), evm::block_env(&at.header));
        let view = self.view(at.epoch);
        let done = if overrides.is_empty() {
            evm::run(WrapDatabaseRef(view), cfg, block, tx.clone())
        } else {
            evm::run(overridden(view, overrides)?, cfg, block, tx.clone())
        };
        match done {
            Ok(done) => Ok(done),
            Err(InvalidTransaction::CallGasCostMoreThanGasLimit { .. } | InvalidTransaction::GasFloorMoreThanGasLimit { .. })
                if request.gas.is_none() =>
            {
                Err(Rejection::Allowance(gas))
            }
            Err(error) => Err(evm::refusal(&tx, error)),
        }
    }
}

/// The precompiles up to Prague, which are always warm.
fn is_precompile(address: Address) -> bool {
    let bytes = address.as_slice();
    bytes[..19].iter().all(|byte| *byte == 0) && (1..=0x11).contains(&bytes[19])
}

fn overridden<'a>(view: View<'a>, overrides: &StateOverride) -> Result<CacheDB<View<'a>>, Rejection> {
    let mut db = CacheDB::new(view);
    for (address, change) in overrides {
        if change.move_precompile_to.is_some() {
            return Err(Rejection::Parameter("movePrecompileToAddress is not supported".into()));
        }
        let Ok(info) = view.basic_ref(*address);
        let mut info = info.unwrap_or_default();
        if let Some(balance) = change.balance {
            info.balance = balance;
        }
        if let Some(nonce) = change.nonce {
            info.nonce = nonce;
        }
        if let Some(code) = &change.code {
            info.set_code(Bytecode::new_raw(code.clone()));
        }
        db.insert_account_info(*address, info);
        let word = |word: &alloy_primitives::B256| U256::from_be_bytes(word.0);
        match (&change.state, &change.state_diff) {
            (Some(_), Some(_)) => {
                return Err(Rejection::Parameter(format!("account {address} has both 'state' and 'stateDiff'")));
            }
            (Some(whole), None) => {
                let storage = whole.iter().map(|(slot, value)| (word(slot), word(value))).collect();
                let Ok(()) = db.replace_account_storage(*address, storage);
            }
            (None, Some(diff)) => {
                for (slot, value) in diff {
                    let Ok(()) = db.insert_account_storage(*address, word(slot), word(value));
                }
            }
            (None, None) => {}
        }
    }
    Ok(db)
}
