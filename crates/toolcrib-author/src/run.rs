//! Doing what the plan says, one transaction after the other, from wherever the journal says it stopped.

use std::time::Duration;

use alloy_primitives::U256;
use toolcrib_chain::registry::{Registry, RegistryEvent};
use toolcrib_chain::transaction::{Prepared, Signed};
use toolcrib_chain::wallet::Wallet;

use crate::Error;
use crate::journal::{Entry, Journal, State};
use crate::plan::Step;

/// How long a transaction is waited for. Blocks come every few seconds; a transaction that is not in one after this
/// long needs a person to look at it, and can be resumed.
pub const MAX_WAIT: Duration = Duration::from_secs(180);

/// What happens while a plan runs.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A transaction is about to be signed. Whoever listens may refuse by returning `false`.
    AboutToSign {
        /// Which step, counted from 0.
        index: usize,
        /// What it does.
        step: &'a Step,
        /// What will be signed.
        prepared: &'a Prepared,
    },
    /// A transaction was sent, or sent again.
    Sent {
        /// Which step.
        index: usize,
        /// What was sent.
        signed: &'a Signed,
    },
    /// Still waiting; the newest block.
    Waiting {
        /// The newest block.
        block: u64,
    },
    /// A step is done.
    Done {
        /// Which step.
        index: usize,
        /// The block.
        block: u64,
    },
}

/// Runs an entry to its end and gives the id of the tool.
///
/// Every state is on disk before the next thing happens. Interrupted at any point, the same call with the same entry
/// goes on: what was signed is sent again, what was mined is only looked up.
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
                // This transaction will never do its work. Whoever resumes may sign another one.
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

/// An entry is finished only where it was begun, and by whoever began it.
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
