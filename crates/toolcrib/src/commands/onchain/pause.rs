//! `pause` and `resume`: a predicate that denies every call, and the one before it.
//!
//! The registry keeps only the newest predicate, so the one before is kept in a file: as *begun* before anything is signed, and as
//! *paused* once the transaction is mined. `resume` believes the file only while the tool has the predicate that `pause` gave it.
//! Everything else, such as a pause that was declined or a gate that was changed since, must not open a tool.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, U256};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolcrib_author::plan::Step;
use toolcrib_chain::predicate::check_registry;
use toolcrib_chain::registry::Registry;
use toolcrib_core::codes::{self, Code};

use super::work::{NOTHING_BEFORE, journal_folder};
use super::write::{Change, ToolChange};
use crate::files;
use crate::kinds::parse_address;
use crate::onchain::{Writing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `pause`.
#[derive(Args, Debug)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Deny-all predicate to use instead of the network's
    #[arg(long, value_name = "0x…")]
    pub(crate) deny_predicate: Option<String>,
}

/// What is kept about a paused tool.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct Paused {
    /// The predicate before; `null` if the tool was open to everybody. Never left out: a damaged file must not open a tool.
    #[serde(deserialize_with = "Option::deserialize")]
    former: Option<Address>,
    /// The predicate that denies every call.
    deny: Address,
}

/// Failures after which a transaction that was signed is never mined.
const NEVER_MINED: [Code; 2] = [codes::chain::REVERTED, codes::chain::REPLACED];

/// Where it is kept.
struct Memory {
    /// Of a pause that was begun.
    begun: PathBuf,
    /// Of one that was mined.
    paused: PathBuf,
}

/// Closes a tool to everybody, and keeps who decided before.
pub(crate) async fn pause(arguments: &Pause, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let deny = match &arguments.deny_predicate {
        Some(text) => parse_address(text)?,
        None => registry.chain().network().predicates.deny_all.ok_or_else(|| {
            let what = format!("the registry {} has no known deny-all predicate", registry.address());
            Failure::new(codes::cli::USAGE, what).hint("give one with --deny-predicate")
        })?,
    };
    check_registry(&registry, deny).await.map_err(failed)?;
    let former = registry.config(tool).await.map_err(failed)?.access_predicate;
    let memory = Memory::of(&change.writing, &registry, tool)?;
    if former == Some(deny) {
        // Mined, and then stopped before that was kept.
        memory.confirm(deny)?;
        printer.result("already paused\n")?;
        return Ok(Done::new(Exit::Yes, json!({ "tool": registry.reference(tool).to_string(), "paused": true })));
    }
    let begin = || memory.begin(Paused { former, deny });
    let steps = vec![Step::SetPredicate(Some(deny))];
    let work = ToolChange { verb: "pause", tool, steps, before_signing: &begin };
    let done = work.execute(&registry, wallet.as_ref(), &change.writing, printer).await;
    match &done {
        // Without a signature nothing was begun, and this does nothing.
        Ok(_) => memory.confirm(deny)?,
        Err(Stop::Failure(failure)) if NEVER_MINED.contains(&failure.code) => memory.forget()?,
        // The transaction may still be mined.
        Err(_) => {}
    }
    done
}

/// Gives a paused tool its former predicate back.
pub(crate) async fn resume(arguments: &Change, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let (registry, tool) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    let current = registry.config(tool).await.map_err(failed)?.access_predicate;
    let memory = Memory::of(&arguments.writing, &registry, tool)?;
    let Some(paused) = memory.recall()? else {
        let what = "this tool was not paused on this machine, so its former predicate is unknown";
        return Err(Failure::new(codes::author::NOT_PAUSED, what).hint("name it with `toolcrib predicate use`").into());
    };
    if current != Some(paused.deny) {
        let now = current.map_or_else(|| "open to everybody".to_owned(), |address| format!("behind {address}"));
        return Err(Failure::new(codes::author::NOT_PAUSED, format!("the tool is not paused: it is {now}")).into());
    }
    let steps = vec![Step::SetPredicate(paused.former)];
    let work = ToolChange { verb: "resume", tool, steps, before_signing: NOTHING_BEFORE };
    let done = work.execute(&registry, wallet.as_ref(), &arguments.writing, printer).await?;
    if !arguments.writing.dry_run && !arguments.writing.calldata {
        memory.forget()?;
    }
    Ok(done)
}

impl Memory {
    fn of(writing: &Writing, registry: &Registry, tool: U256) -> Result<Self, Failure> {
        let folder = journal_folder(writing)?.with_file_name("paused");
        let name = format!("{}-{:x}-{tool}", registry.chain().chain_id(), registry.address());
        Ok(Self { begun: folder.join(format!("{name}.begun.json")), paused: folder.join(format!("{name}.json")) })
    }

    fn begin(&self, paused: Paused) -> Result<(), Failure> {
        // An older one is of a pause that is over: the tool is not paused now.
        self.forget()?;
        let text = serde_json::to_vec(&paused).map_err(|error| unusable(&self.begun, error.into()))?;
        if let Some(folder) = self.begun.parent() {
            fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
        }
        files::write_private(&self.begun, &text).map_err(|error| unusable(&self.begun, error))
    }

    /// The tool has the predicate of the pause that was begun.
    fn confirm(&self, deny: Address) -> Result<(), Failure> {
        match read(&self.begun)? {
            Some(paused) if paused.deny == deny => {
                fs::rename(&self.begun, &self.paused).map_err(|error| unusable(&self.paused, error))
            }
            _ => Ok(()),
        }
    }

    /// What is kept. Of a pause whose end is not known, the chain shows whether it was mined.
    fn recall(&self) -> Result<Option<Paused>, Failure> {
        Ok(match read(&self.paused)? {
            Some(paused) => Some(paused),
            None => read(&self.begun)?,
        })
    }

    fn forget(&self) -> Result<(), Failure> {
        for path in [&self.begun, &self.paused] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(path, error)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<Paused>, Failure> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| {
            Failure::new(codes::author::JOURNAL, format!("{} is damaged", path.display()))
                .hint("name the former predicate with `toolcrib predicate use`")
        }),
    }
}

fn unusable(path: &Path, error: io::Error) -> Failure {
    Failure::new(codes::author::JOURNAL, format!("cannot use {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (tempfile::TempDir, Memory) {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = Memory { begun: folder.path().join("in/1.begun.json"), paused: folder.path().join("in/1.json") };
        (folder, memory)
    }

    #[test]
    fn a_damaged_memory_opens_nothing() {
        let (_folder, memory) = memory();
        let (deny, former) = (Address::repeat_byte(7), Address::repeat_byte(8));
        for kept in [Paused { former: Some(former), deny }, Paused { former: None, deny }] {
            memory.begin(kept).expect("written");
            assert_eq!(memory.recall().expect("readable"), Some(kept));
        }
        let address = json!(deny);
        for damaged in [
            String::new(),
            "{".to_owned(),
            "{}".to_owned(),
            "null".to_owned(),
            json!({ "former": null }).to_string(),
            json!({ "deny": address }).to_string(),
            json!({ "former": "0x12", "deny": address }).to_string(),
            json!({ "former": 7, "deny": address }).to_string(),
        ] {
            fs::write(&memory.begun, &damaged).expect("written");
            assert!(memory.recall().is_err(), "{damaged}");
        }
    }

    #[test]
    fn only_the_pause_that_was_begun_is_confirmed() {
        let (_folder, memory) = memory();
        let kept = Paused { former: None, deny: Address::repeat_byte(7) };
        memory.begin(kept).expect("written");
        memory.confirm(Address::repeat_byte(9)).expect("nothing to do");
        assert!(memory.begun.exists() && !memory.paused.exists(), "of another predicate");
        memory.confirm(kept.deny).expect("renamed");
        assert!(!memory.begun.exists() && memory.paused.exists());
        assert_eq!(memory.recall().expect("readable"), Some(kept));
        memory.forget().expect("removed");
        assert_eq!(memory.recall().expect("readable"), None);
    }
}
