//! The table of jobs, and putting tools into it. Followers write it in the transaction of the events; workers lease from it.

use alloy_primitives::U256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{Bulk, Column, Transaction, Value};

use crate::Error;
use crate::model::{IdBytes, RegistryId};

/// One job for each tool: whoever asks twice gets one look. `due_at` and `leased_until` are seconds; of the jobs that are due, the lowest
/// `priority` goes first, and each priority is read in its own order. `lease` is the secret of the worker that holds the job until
/// `leased_until`.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql:
        "CREATE TABLE index_job (registry BIGINT NOT NULL, tool BYTES NOT NULL, due_at BIGINT NOT NULL, priority BIGINT NOT NULL,
        reason TEXT NOT NULL, leased_until BIGINT, lease BYTES, attempts BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (registry, tool)) WITHOUT ROWID;
    CREATE INDEX index_job_turn ON index_job (priority, due_at);
    CREATE INDEX index_job_lease ON index_job (leased_until) WHERE leased_until IS NOT NULL;",
}];

/// The priority of a tool that somebody waits for.
pub(crate) const ASKED: i64 = 0;
/// The priority of a tool that changed on the chain.
pub(crate) const CHANGED: i64 = 1;

/// A change takes the lease away: what a worker is looking at is no longer what the chain says, so its outcome must not end the job. A job
/// that is due already, that nobody holds and that is as urgent stays as it is, which spares a past with many changes most of the writing.
const ADD: Bulk = Bulk {
    table: "index_job",
    columns: &["registry", "tool", "due_at", "priority", "reason"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET
        due_at = CASE WHEN excluded.due_at < index_job.due_at THEN excluded.due_at ELSE index_job.due_at END,
        priority = CASE WHEN excluded.priority < index_job.priority THEN excluded.priority ELSE index_job.priority END,
        reason = excluded.reason, leased_until = NULL, lease = NULL, attempts = 0
        WHERE index_job.due_at > excluded.due_at OR index_job.priority > excluded.priority OR index_job.leased_until IS NOT NULL
            OR index_job.attempts <> 0 OR excluded.reason = 'upgraded'",
};

/// For tools that were never there, and so have no jobs.
const ADD_FRESH: Bulk = Bulk { conflict: "", ..ADD };
const CLEAR: &str = "DELETE FROM index_job WHERE registry = $1 AND tool > $2";

/// Asks for a look at tools whose registration changed. Each tool once.
pub(crate) async fn add(
    transaction: &mut Transaction,
    registry: RegistryId,
    tools: &[(U256, &'static str)],
    due_at: UnixTime,
) -> Result<(), Error> {
    write(transaction, &ADD, registry, tools, due_at).await
}

/// Asks for a look at tools that are new, all of them above `highest`, which was the highest id. Each tool once.
pub(crate) async fn add_fresh(
    transaction: &mut Transaction,
    registry: RegistryId,
    highest: Option<U256>,
    tools: &[(U256, &'static str)],
    due_at: UnixTime,
) -> Result<(), Error> {
    if tools.is_empty() {
        return Ok(());
    }
    // A tool that the chain took back may have been asked for at the same moment.
    let highest = highest.map(IdBytes::of);
    let highest = Value::Bytes(highest.as_ref().map_or(&[], |id| &**id));
    transaction.execute(CLEAR, &[Value::Integer(registry.0), highest]).await?;
    write(transaction, &ADD_FRESH, registry, tools, due_at).await
}

async fn write(
    transaction: &mut Transaction,
    bulk: &Bulk,
    registry: RegistryId,
    tools: &[(U256, &'static str)],
    due_at: UnixTime,
) -> Result<(), Error> {
    if tools.is_empty() {
        return Ok(());
    }
    let registries = vec![registry.0; tools.len()];
    let ids: Vec<IdBytes> = tools.iter().map(|(id, _)| IdBytes::of(*id)).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let due = vec![due_at.seconds(); tools.len()];
    let priorities = vec![CHANGED; tools.len()];
    let reasons: Vec<&str> = tools.iter().map(|(_, reason)| *reason).collect();
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&ids),
        Column::Integers(&due),
        Column::Integers(&priorities),
        Column::Texts(&reasons),
    ];
    transaction.insert_many(bulk, &columns).await?;
    Ok(())
}
