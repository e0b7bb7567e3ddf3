//! Executes a plan, one transaction after the other, from the step where the journal says that it stopped.

use std::time::Duration;

use alloy_primitives::U256;
use toolcrib_chain::registry::{Registry, RegistryEvent};
use toolcrib_chain::transaction::{Prepared, Signed};
use toolcrib_chain::wallet::Wallet;

use crate::Error;
use crate::journal::{Entry, Journal, State};
use crate::plan::Step;

/// How long to wait for a transaction. Blocks come every few seconds; a transaction that is not mined by then
/// needs attention, and can be resumed.
pub const MAX_WAIT: Duration = Duration::from_secs(180);

/// Progress events of a plan.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A transaction is about to be signed. Return `false` to decline.
    AboutToSign {
        /// The index of the step, from 0.
        index: usize,
        /// The step.
        step: &'a Step,
        /// The unsigned transaction.
        prepared: &'a Prepared,
    },
    /// A transaction was sent, or sent again.
    Sent {
        /// The index of the step.
        index: usize,
        /// The signed transaction.
        signed: &'a Signed,
    },
    /// Still waiting for a receipt.
    Waiting {
        /// The newest block.
        block: u64,
    },
    /// A step is done.
    Done {
        /// The index of the step.
        index: usize,
        /// The block of the transaction.
        block: u64,
    },
}

/// Executes an entry to its end and returns the id of the tool.
///
/// Every state is written to disk before the next action. After an interruption at any point, the same call with the same entry
/// resumes: signed transactions are sent again, mined ones are only looked up.
pub async fn run(
    registry: &Registry,
    wallet: &dyn Wallet,
    journal: &Journal,
    entry: &mut Entry,
    mut listen: impl FnMut(Event<'_>) -> bool + Send,
) -> Result<U256, Error> {
    check_belongs(registry, wallet, entry)?;
    let chain = registry.chain();
    for index in 0..entry.steps.len() {
        let signed = match &entry.steps[index].state {
            State::Done { .. } => continue,
            State::Signed(signed) => signed.clone(),
            State::Waiting => {
                let step = entry.steps[index].step.clone();
                let call = step.call(registry, entry.tool)?;
                let prepared =
                    chain.prepare(entry.signer, &call).await.map_err(|error| registry.explain_refusal(&call, error))?;
                if !listen(Event::AboutToSign { index, step: &step, prepared: &prepared }) {
                    return Err(Error::Declined);
                }
                let signed = chain.sign(wallet, &prepared).await?;
                entry.steps[index].state = State::Signed(signed.clone());
                journal.save(entry)?;
                signed
            }
        };
        chain.broadcast(&signed).await?;
        listen(Event::Sent { index, signed: &signed });
        let receipt = chain.wait(&signed, MAX_WAIT, |block| {
            listen(Event::Waiting { block });
        });
        let receipt = match receipt.await {
            Ok(receipt) => receipt,
            Err(error @ (toolcrib_chain::Error::Failed { .. } | toolcrib_chain::Error::Replaced { .. })) => {
                // This transaction will never be mined successfully, so the step may be signed again.
                entry.steps[index].state = State::Waiting;
                journal.save(entry)?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        if matches!(entry.steps[index].step, Step::Register { .. }) {
            let registered = receipt.inner.logs().iter().filter(|log| log.address() == registry.address()).find_map(|log| {
                match RegistryEvent::decode(log) {
                    Ok(Some(RegistryEvent::Registered { id, .. })) => Some(id),
                    _ => None,
                }
            });
            entry.tool = Some(registered.ok_or(Error::NoRegistration { hash: signed.hash })?);
        }
        let block = receipt.block_number.unwrap_or_default();
        entry.steps[index].state = State::Done { hash: signed.hash, block };
        journal.save(entry)?;
        listen(Event::Done { index, block });
    }
    entry.tool.ok_or(Error::NoTool)
}

/// Checks that an entry is resumed with the chain, registry and signer that it was started with.
fn check_belongs(registry: &Registry, wallet: &dyn Wallet, entry: &Entry) -> Result<(), Error> {
    let (chain_id, address) = (registry.chain().chain_id(), registry.address());
    if (entry.chain_id, entry.registry, entry.signer) == (chain_id, address, wallet.address()) {
        return Ok(());
    }
    Err(Error::OtherWork {
        id: entry.id.clone(),
        expected: format!("chain {}, registry {}, signer {}", entry.chain_id, entry.registry, entry.signer),
        got: format!("chain {chain_id}, registry {address}, signer {}", wallet.address()),
    })
}
