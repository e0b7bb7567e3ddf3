//! The table of jobs, and inserting jobs. Changes on the chain come from the feed; workers lease from the table.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{Bulk, Column, Transaction};

use super::groups::{Lane, Turns};
use super::intake::Wishes;
use crate::Error;
use crate::model::{IdBytes, ToolKey};

/// One job for each tool: two requests cause one verification. `due_at` and `leased_until` are seconds; among due jobs the lowest
/// `priority` goes first, and each priority is read in its own order. `lease` is the random token of the worker that has the job until
/// `leased_until`.
///
/// `index_intake` has one row: all changes of the feed up to number `cursor` have been turned into jobs.
///
/// `due_at` is the job's slot among those of its creator and its site (`groups.rs`). A job that was requested before its slot may run up
/// to `early` seconds earlier, on free capacity. `index_group` has the last slot of each group.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: "CREATE TABLE index_job (registry BIGINT NOT NULL, tool BYTES NOT NULL, due_at BIGINT NOT NULL, priority BIGINT NOT NULL,
        reason TEXT NOT NULL, leased_until BIGINT, lease BYTES, attempts BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (registry, tool)) WITHOUT ROWID;
    CREATE INDEX index_job_turn ON index_job (priority, due_at);
    CREATE INDEX index_job_lease ON index_job (leased_until) WHERE leased_until IS NOT NULL;
    CREATE TABLE index_intake (id BIGINT NOT NULL PRIMARY KEY, cursor BIGINT NOT NULL);
    INSERT INTO index_intake (id, cursor) VALUES (1, 0);",
    },
    Migration {
        version: 2,
        sql: "ALTER TABLE index_job ADD COLUMN early BIGINT NOT NULL DEFAULT 0;
    CREATE INDEX index_job_early ON index_job (priority, due_at) WHERE early > 0;
    CREATE TABLE index_group (id BYTES NOT NULL PRIMARY KEY, turn_at BIGINT NOT NULL, slow_until BIGINT NOT NULL) WITHOUT ROWID;",
    },
];

/// The priority of a tool that a caller waits for.
pub(crate) const ASKED: i64 = 0;
/// The priority of a tool that changed on the chain.
pub(crate) const CHANGED: i64 = 1;
/// The priority of a tool whose server is slow: it is verified only on the capacity reserved for slow servers.
pub(crate) const SLOW: i64 = 4;

/// A change revokes the lease: the worker verifies an outdated registration, so its result must not complete the job. A job that is due
/// already, not leased and of the same priority stays as it is, which avoids most writes in a backfill with many changes.
const ADD: Bulk = Bulk {
    table: "index_job",
    columns: &["registry", "tool", "due_at", "early", "priority", "reason"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET
        due_at = CASE WHEN excluded.due_at < index_job.due_at THEN excluded.due_at ELSE index_job.due_at END,
        early = CASE WHEN excluded.due_at < index_job.due_at THEN excluded.due_at ELSE index_job.due_at END
            - CASE WHEN excluded.due_at - excluded.early < index_job.due_at - index_job.early THEN excluded.due_at - excluded.early
                ELSE index_job.due_at - index_job.early END,
        priority = CASE WHEN excluded.priority < index_job.priority THEN excluded.priority ELSE index_job.priority END,
        reason = excluded.reason, leased_until = NULL, lease = NULL, attempts = 0
        WHERE index_job.due_at - index_job.early > excluded.due_at - excluded.early OR index_job.priority > excluded.priority
            OR index_job.leased_until IS NOT NULL OR index_job.attempts <> 0 OR excluded.reason = 'upgraded'",
};

/// Enqueues verifications, each in the slot of its creator and its site.
pub(crate) async fn add(transaction: &mut Transaction, wishes: &Wishes, now: UnixTime) -> Result<(), Error> {
    if wishes.is_empty() {
        return Ok(());
    }
    let mut turns = Turns::read(transaction, wishes.values().map(|wish| wish.groups)).await?;
    let (mut due, mut early, mut priorities) = (Vec::new(), Vec::new(), Vec::new());
    for wish in wishes.values() {
        let lane = turns.lane(wish.groups, now);
        let turn = turns.take(wish.groups, lane, wish.due_at, now);
        due.push(turn.seconds());
        early.push(turn.since(wish.due_at));
        priorities.push(match lane {
            Lane::First => CHANGED,
            Lane::Slow => SLOW,
        });
    }
    turns.write(transaction).await?;
    let registries: Vec<i64> = wishes.keys().map(|key| key.registry.0).collect();
    let ids: Vec<IdBytes> = wishes.keys().map(ToolKey::id_bytes).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let reasons: Vec<&str> = wishes.values().map(|wish| wish.reason).collect();
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&ids),
        Column::Integers(&due),
        Column::Integers(&early),
        Column::Integers(&priorities),
        Column::Texts(&reasons),
    ];
    transaction.insert_many(&ADD, &columns).await?;
    Ok(())
}
