//! Accounts and storage with their history.
//!
//! Every value keeps its versions, each with the epoch that wrote it: a block writes in one epoch, and so does a test
//! that sets a balance between two blocks. The current value is the last version, older ones are found by bisection, and a rollback
//! removes exactly what was written since. The state is never copied as a whole, so snapshots and reorgs cost only what they undo.

use std::convert::Infallible;

use alloy_primitives::map::{AddressMap, B256Map, HashMap};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use revm::DatabaseRef;
use revm::bytecode::Bytecode;
use revm::state::{AccountInfo, EvmState};
use serde::{Deserialize, Serialize};

use super::blocks::Blocks;

/// A point in the history of the state.
pub(crate) type Epoch = u64;

/// The fields of an account without storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) balance: U256,
    pub(crate) nonce: u64,
    pub(crate) code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { balance: U256::ZERO, nonce: 0, code_hash: KECCAK256_EMPTY }
    }
}

type Versions<T> = Vec<(Epoch, T)>;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Entry {
    account: Versions<Option<Account>>,
    slots: HashMap<U256, Versions<U256>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Key {
    Account(Address),
    Slot(Address, U256),
}

/// All accounts with their history.
#[derive(Debug, Default)]
pub(crate) struct State {
    epoch: Epoch,
    entries: AddressMap<Entry>,
    codes: B256Map<Bytecode>,
    /// The undo log: what was written, in order, once for each key and epoch.
    written: Vec<(Epoch, Key)>,
}

impl State {
    /// The current epoch.
    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Starts a new epoch: later writes can be rolled back separately.
    pub(crate) const fn begin(&mut self) -> Epoch {
        self.epoch += 1;
        self.epoch
    }

    /// Rolls back everything written after `epoch`.
    pub(crate) fn rewind(&mut self, epoch: Epoch) {
        while let Some(&(written, key)) = self.written.last() {
            if written <= epoch {
                break;
            }
            self.written.pop();
            match key {
                Key::Account(address) => {
                    if let Some(entry) = self.entries.get_mut(&address) {
                        entry.account.pop();
                    }
                }
                Key::Slot(address, slot) => {
                    if let Some(versions) = self.entries.get_mut(&address).and_then(|entry| entry.slots.get_mut(&slot)) {
                        versions.pop();
                    }
                }
            }
        }
        self.epoch = epoch;
    }

    /// The account at `epoch`; an unused account is empty.
    pub(crate) fn account(&self, address: Address, epoch: Epoch) -> Account {
        self.existing(address, epoch).unwrap_or_default()
    }

    /// The code of the account at `epoch`.
    pub(crate) fn code(&self, address: Address, epoch: Epoch) -> Bytes {
        let hash = self.account(address, epoch).code_hash;
        self.codes.get(&hash).map(|code| code.original_bytes()).unwrap_or_default()
    }

    /// A storage slot at `epoch`.
    pub(crate) fn slot(&self, address: Address, slot: U256, epoch: Epoch) -> U256 {
        self.entries
            .get(&address)
            .and_then(|entry| entry.slots.get(&slot))
            .and_then(|versions| at(versions, epoch))
            .unwrap_or_default()
    }

    /// Changes an account in the current epoch.
    pub(crate) fn update(&mut self, address: Address, change: impl FnOnce(&mut Account)) {
        let mut account = self.account(address, self.epoch);
        change(&mut account);
        self.write_account(address, Some(account));
    }

    /// Replaces the code of an account in the current epoch.
    pub(crate) fn set_code(&mut self, address: Address, code: Bytes) {
        let hash = if code.is_empty() { KECCAK256_EMPTY } else { keccak256(&code) };
        if !code.is_empty() {
            self.keep_code(hash, || Bytecode::new_raw(code));
        }
        self.update(address, |account| account.code_hash = hash);
    }

    /// Writes a storage slot in the current epoch.
    pub(crate) fn set_slot(&mut self, address: Address, slot: U256, value: U256) {
        if self.slot(address, slot, self.epoch) == value {
            return;
        }
        let versions = self.entries.entry(address).or_default().slots.entry(slot).or_default();
        if push(versions, self.epoch, value) {
            self.written.push((self.epoch, Key::Slot(address, slot)));
        }
    }

    /// Writes the changes of a transaction.
    pub(crate) fn commit(&mut self, changes: EvmState) {
        for (address, account) in changes {
            if !account.is_touched() {
                continue;
            }
            // Since EIP-6780 only an account created in the same transaction can be removed; EIP-161 removes touched empty ones.
            if account.is_selfdestructed() || account.is_empty() {
                self.clear_slots(address);
                self.write_account(address, None);
                continue;
            }
            if account.is_created() {
                self.clear_slots(address);
            }
            let info = account.info;
            if let Some(code) = info.code
                && !code.is_empty()
            {
                self.keep_code(info.code_hash, || code);
            }
            self.write_account(address, Some(Account { balance: info.balance, nonce: info.nonce, code_hash: info.code_hash }));
            for (slot, value) in account.storage {
                if value.is_changed() {
                    self.set_slot(address, slot, value.present_value);
                }
            }
        }
    }

    fn existing(&self, address: Address, epoch: Epoch) -> Option<Account> {
        self.entries.get(&address).and_then(|entry| at(&entry.account, epoch)).flatten()
    }

    fn write_account(&mut self, address: Address, account: Option<Account>) {
        if self.existing(address, self.epoch) == account {
            return;
        }
        let versions = &mut self.entries.entry(address).or_default().account;
        if push(versions, self.epoch, account) {
            self.written.push((self.epoch, Key::Account(address)));
        }
    }

    fn clear_slots(&mut self, address: Address) {
        let Some(entry) = self.entries.get(&address) else { return };
        let slots: Vec<U256> = entry.slots.keys().copied().collect();
        for slot in slots {
            self.set_slot(address, slot, U256::ZERO);
        }
    }

    fn keep_code(&mut self, hash: B256, code: impl FnOnce() -> Bytecode) {
        self.codes.entry(hash).or_insert_with(code);
    }
}

/// The last version written at or before `epoch`.
fn at<T: Copy>(versions: &Versions<T>, epoch: Epoch) -> Option<T> {
    let end = versions.partition_point(|(written, _)| *written <= epoch);
    versions.get(end.checked_sub(1)?).map(|(_, value)| *value)
}

/// Writes a version in `epoch`. Returns true if this is its first write here.
fn push<T>(versions: &mut Versions<T>, epoch: Epoch, value: T) -> bool {
    match versions.last_mut() {
        Some((written, last)) if *written == epoch => {
            *last = value;
            false
        }
        _ => {
            versions.push((epoch, value));
            true
        }
    }
}

/// The state at one epoch, as a database for the EVM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) blocks: &'a Blocks,
    pub(crate) epoch: Epoch,
}

impl DatabaseRef for View<'_> {
    type Error = Infallible;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.state.existing(address, self.epoch).map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            code: Some(self.state.codes.get(&account.code_hash).cloned().unwrap_or_default()),
            ..Default::default()
        }))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, Infallible> {
        Ok(self.state.codes.get(&code_hash).cloned().unwrap_or_default())
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, Infallible> {
        Ok(self.state.slot(address, index, self.epoch))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Infallible> {
        Ok(self.blocks.at(number).map(|block| block.hash).unwrap_or_default())
    }
}

/// The serialised state.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedState {
    epoch: Epoch,
    accounts: Vec<(Address, Versions<Option<Account>>)>,
    slots: Vec<(Address, U256, Versions<U256>)>,
    codes: Vec<Bytes>,
    written: Vec<(Epoch, Key)>,
}

impl State {
    pub(crate) fn save(&self) -> SavedState {
        let mut accounts = Vec::with_capacity(self.entries.len());
        let mut slots = Vec::new();
        for (address, entry) in &self.entries {
            accounts.push((*address, entry.account.clone()));
            slots.extend(entry.slots.iter().map(|(slot, versions)| (*address, *slot, versions.clone())));
        }
        let codes = self.codes.values().map(Bytecode::original_bytes).collect();
        SavedState { epoch: self.epoch, accounts, slots, codes, written: self.written.clone() }
    }

    pub(crate) fn load(saved: SavedState) -> Self {
        let mut state = Self { epoch: saved.epoch, written: saved.written, ..Self::default() };
        for (address, account) in saved.accounts {
            state.entries.entry(address).or_default().account = account;
        }
        for (address, slot, versions) in saved.slots {
            state.entries.entry(address).or_default().slots.insert(slot, versions);
        }
        for code in saved.codes {
            state.keep_code(keccak256(&code), || Bytecode::new_raw(code));
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Address = Address::repeat_byte(7);

    #[test]
    fn every_epoch_keeps_its_own_values() {
        let mut state = State::default();
        let first = state.begin();
        state.update(WHO, |account| account.balance = U256::from(1));
        state.set_slot(WHO, U256::ZERO, U256::from(10));
        let second = state.begin();
        state.update(WHO, |account| account.balance = U256::from(2));
        state.update(WHO, |account| account.balance = U256::from(3));
        state.set_slot(WHO, U256::ZERO, U256::ZERO);
        state.set_code(WHO, Bytes::from_static(&[0x60]));

        assert_eq!(state.account(WHO, 0), Account::default());
        assert_eq!(state.account(WHO, first).balance, U256::from(1));
        assert_eq!(state.account(WHO, second).balance, U256::from(3));
        assert_eq!(state.slot(WHO, U256::ZERO, first), U256::from(10));
        assert_eq!(state.slot(WHO, U256::ZERO, second), U256::ZERO);
        assert_eq!(state.code(WHO, first), Bytes::new());
        assert_eq!(state.code(WHO, second), Bytes::from_static(&[0x60]));

        state.rewind(first);
        assert_eq!(state.account(WHO, state.epoch()).balance, U256::from(1));
        assert_eq!(state.slot(WHO, U256::ZERO, state.epoch()), U256::from(10));
        state.rewind(0);
        assert_eq!(state.account(WHO, state.epoch()), Account::default());
        assert!(state.written.is_empty());
    }

    #[test]
    fn a_saved_state_can_still_go_back() {
        let mut state = State::default();
        let first = state.begin();
        state.update(WHO, |account| account.nonce = 1);
        state.begin();
        state.update(WHO, |account| account.nonce = 2);
        state.set_slot(WHO, U256::from(5), U256::MAX);
        let json = serde_json::to_vec(&state.save()).unwrap();
        let mut state = State::load(serde_json::from_slice(&json).unwrap());
        assert_eq!(state.account(WHO, state.epoch()).nonce, 2);
        assert_eq!(state.slot(WHO, U256::from(5), state.epoch()), U256::MAX);
        state.rewind(first);
        assert_eq!(state.account(WHO, state.epoch()).nonce, 1);
        assert_eq!(state.slot(WHO, U256::from(5), state.epoch()), U256::ZERO);
    }
}
