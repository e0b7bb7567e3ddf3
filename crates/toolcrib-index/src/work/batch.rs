//! Verdicts of several jobs in one transaction, on PostgreSQL.
//!
//! Writing a verdict takes a dozen statements, each with a round trip. Verdicts that are ready while others are being written wait
//! ([`Batcher`]), and the next transaction writes all of them with as many statements as one verdict needs. Fencing is the same as for a
//! single verdict: the registration must be the one that was verified, and the worker must still hold the lease. When a batch fails, each
//! verdict is written alone, so that one that cannot be written does not block the others.
//!
//! Time slots of origins and the state before a verdict are read in batches as well: see `origins.rs` and `prior.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, FromRow as _, Row, Transaction, Value};

use super::batcher::Batcher;
use super::kept::{MAX_VERDICTS, Until, VerdictChange, json};
use super::origins::{Leaving, Taking};
use super::prior::{Prior, Subject};
use super::queue::Job;
use super::writing::Finding;
use crate::feed::{self, Kinds};
use crate::model::{IdBytes, ToolKey, ToolRow};
use crate::{Error, Index, objects, text_key};

/// The number of verdicts in one transaction, and of other calls in one statement: enough for statements to cost little relative to rows,
/// few enough for locks to be held for milliseconds only.
const MAX_BATCH: usize = 64;

/// Concurrent transactions of one worker: while one waits for the disk or the server, others are prepared.
const LEADERS: usize = 4;

/// Concurrent reads of one worker.
const READERS: usize = 2;

/// A verdict to write.
pub(super) struct Item {
    pub(super) job: Job,
    pub(super) row: ToolRow,
    pub(super) finding: Finding,
}

/// The result of writing a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was written.
    Written,
    /// The registration is no longer the one that was verified.
    Changed,
    /// Another worker holds the job.
    Lost,
}

/// Calls of one worker's jobs that go to the database together.
pub(super) struct Batches {
    verdicts: Batcher<Arc<Item>, Outcome>,
    pub(super) turns: Batcher<Taking, bool>,
    pub(super) leaves: Batcher<Leaving, ()>,
    pub(super) priors: Batcher<Subject, Prior>,
}

impl Default for Batches {
    fn default() -> Self {
        Self {
            verdicts: Batcher::new(MAX_BATCH, LEADERS),
            turns: Batcher::new(MAX_BATCH, 1),
            leaves: Batcher::new(MAX_BATCH, 1),
            priors: Batcher::new(MAX_BATCH, READERS),
        }
    }
}

impl Batches {
    /// Writes a verdict together with others. `None` when nothing was written and it must be written alone.
    pub(super) async fn write(&self, index: &Index, item: Arc<Item>, now: UnixTime) -> Option<Outcome> {
        self.verdicts.call(item, |items| write(index, items, now)).await
    }
}

/// Rows are found by key, whatever the planner's statistics about the size of a table. The last column is the server's time, by which
/// listings expire.
pub(super) const SETTINGS: &str = "SELECT set_config('enable_seqscan', 'off', TRUE), set_config('enable_hashjoin', 'off', TRUE),
    set_config('enable_mergejoin', 'off', TRUE), set_config('plan_cache_mode', 'force_generic_plan', TRUE),
    CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT) AS now";
/// Locks the tools whose registration is the one that was verified.
const LOCK: &str =
    "SELECT t.registry, t.tool FROM UNNEST($1::bigint[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[],
        $7::bytea[], $8::bigint[], $9::bigint[], $10::bigint[])
        AS v (registry, tool, events, uri, hash, creator, predicate, registered_block, updated_block, deregistered_block)
    JOIN index_tool t ON t.registry = v.registry AND t.tool = v.tool
    WHERE t.events = v.events AND t.uri = v.uri AND t.hash = v.hash AND t.creator = v.creator
        AND t.predicate IS NOT DISTINCT FROM v.predicate AND t.registered_block = v.registered_block
        AND t.updated_block = v.updated_block AND t.deregistered_block IS NOT DISTINCT FROM v.deregistered_block
    FOR UPDATE OF t";
const COMPLETE: &str = "UPDATE index_job j SET
        due_at = CASE WHEN j.due_at = v.was_due AND j.reason = v.was_reason THEN v.due_at ELSE j.due_at END,
        priority = CASE WHEN j.due_at = v.was_due AND j.reason = v.was_reason THEN v.priority ELSE j.priority END,
        reason = CASE WHEN j.due_at = v.was_due AND j.reason = v.was_reason THEN v.reason ELSE j.reason END,
        early = CASE WHEN j.due_at = v.was_due AND j.reason = v.was_reason THEN v.early ELSE j.early END,
        attempts = v.attempts, leased_until = NULL, lease = NULL
    FROM UNNEST($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[],
        $10::bigint[]) AS v (registry, tool, lease, was_due, was_reason, due_at, priority, reason, attempts, early)
    WHERE j.registry = v.registry AND j.tool = v.tool AND j.lease = v.lease RETURNING j.registry, j.tool";
/// A tool whose listing flags do not change is not written again: it was locked above.
const LIST: &str = "UPDATE index_tool t SET listed = v.listed, access = v.access, uri_key = v.uri_key
    FROM UNNEST($1::bigint[], $2::bytea[], $3::boolean[], $4::text[], $5::bigint[]) AS v (registry, tool, listed, access, uri_key)
    WHERE t.registry = v.registry AND t.tool = v.tool
        AND (t.listed, t.access, t.uri_key) IS DISTINCT FROM (v.listed, v.access, v.uri_key)";
const LISTING: Bulk = Bulk {
    table: "index_listing",
    columns: &["registry", "tool", "checked_at", "endpoint_key", "document"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET checked_at = excluded.checked_at, endpoint_key = excluded.endpoint_key,
        document = excluded.document",
};
const WATCH: Bulk = Bulk {
    table: "index_watch",
    columns: &["registry", "tool", "expires_at", "looks", "memory"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET expires_at = excluded.expires_at, looks = excluded.looks,
        memory = excluded.memory",
};
const REPORT: Bulk = Bulk {
    table: "index_report",
    columns: &["registry", "tool", "at", "document"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET at = excluded.at, document = excluded.document",
};
const EVIDENCE: Bulk = Bulk {
    table: "index_evidence",
    columns: &["registry", "tool", "kind", "at", "verified", "bytes"],
    conflict: "ON CONFLICT (registry, tool, kind) DO UPDATE SET at = excluded.at, verified = excluded.verified, bytes = excluded.bytes",
};
/// Keeps the evidence of the last successful verification next to that of a failed one; after a successful one both are the same.
const KEEP_VERIFIED: &str = "INSERT INTO index_evidence (registry, tool, kind, at, verified, bytes)
    SELECT e.registry, e.tool, 1, e.at, e.verified, e.bytes FROM UNNEST($1::bigint[], $2::bytea[], $3::boolean[]) AS v (registry, tool, verified)
    JOIN index_evidence e ON e.registry = v.registry AND e.tool = v.tool AND e.kind = 0 WHERE e.verified AND NOT v.verified
    ON CONFLICT (registry, tool, kind) DO UPDATE SET at = excluded.at, verified = excluded.verified, bytes = excluded.bytes";
const FORGET_VERIFIED: &str = "DELETE FROM index_evidence e USING UNNEST($1::bigint[], $2::bytea[], $3::boolean[])
    AS v (registry, tool, verified) WHERE e.registry = v.registry AND e.tool = v.tool AND e.kind = 1 AND v.verified";
/// The columns of [`VerdictChange::read`], the number of the verdict, and its tool.
const LAST_VERDICTS: &str =
    "SELECT l.at, l.verdict, l.conformant, l.failed_check, l.step, l.code, l.hash, l.number, v.registry, v.tool
    FROM UNNEST($1::bigint[], $2::bytea[]) AS v (registry, tool) CROSS JOIN LATERAL (SELECT * FROM index_verdict i
        WHERE i.registry = v.registry AND i.tool = v.tool ORDER BY i.number DESC LIMIT 1) AS l";
const VERDICT: Bulk = Bulk {
    table: "index_verdict",
    columns: &["registry", "tool", "number", "at", "verdict", "conformant", "failed_check", "step", "code", "hash"],
    conflict: "",
};
const CUT_VERDICTS: &str = "DELETE FROM index_verdict WHERE registry = $1 AND tool = $2 AND number <= $3";

/// Writes verdicts, sorted by key.
async fn write(index: &Index, items: Vec<Arc<Item>>, now: UnixTime) -> Result<Vec<Outcome>, Error> {
    // Sorted by key, as followers lock them.
    let mut sorted: Vec<&Item> = items.iter().map(|item| &**item).collect();
    sorted.sort_by_key(|item| item.job.key);
    let mut transaction = index.database().begin().await?;
    let rows = transaction.fetch(SETTINGS, &[]).await?;
    let server_now = rows.first().ok_or(Error::Corrupt { what: "batch: no time" })?.get("now")?;
    let locked = keys_of(&lock(&mut transaction, &sorted).await?)?;
    let current: Vec<&Item> = sorted.into_iter().filter(|item| locked.contains(&item.job.key)).collect();
    let held = if current.is_empty() { HashSet::new() } else { keys_of(&complete(&mut transaction, &current).await?)? };
    let ours: Vec<&Item> = current.into_iter().filter(|item| held.contains(&item.job.key)).collect();
    if ours.is_empty() {
        transaction.rollback().await?;
    } else {
        keep(&mut transaction, &ours, server_now).await?;
        add_verdicts(&mut transaction, &ours).await?;
        let changes: Vec<(ToolKey, Kinds)> = ours
            .iter()
            .filter(|item| item.finding.kinds != Kinds::default())
            .map(|item| (item.job.key, item.finding.kinds))
            .collect();
        feed::record(&mut transaction, &changes, now).await?;
        transaction.commit().await?;
    }
    let outcome = |item: &Arc<Item>| match (locked.contains(&item.job.key), held.contains(&item.job.key)) {
        (false, _) => Outcome::Changed,
        (true, false) => Outcome::Lost,
        (true, true) => Outcome::Written,
    };
    Ok(items.iter().map(outcome).collect())
}

fn keys_of(rows: &[Row]) -> Result<HashSet<ToolKey>, Error> {
    ToolKey::from_rows(rows).map(|key| Ok(key?)).collect()
}

/// The keys of items as columns.
struct Keys {
    registries: Vec<i64>,
    ids: Vec<IdBytes>,
}

impl Keys {
    fn of(items: &[&Item]) -> Self {
        Self {
            registries: items.iter().map(|item| item.job.key.registry.0).collect(),
            ids: items.iter().map(|item| item.job.key.id_bytes()).collect(),
        }
    }

    fn ids(&self) -> Vec<&[u8]> {
        self.ids.iter().map(|id| &**id).collect()
    }
}

fn column<'i, T>(items: &[&'i Item], of: impl Fn(&'i Item) -> T) -> Vec<T> {
    items.iter().map(|item| of(item)).collect()
}

/// Block and event numbers come from columns of this type.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

async fn lock(transaction: &mut Transaction, items: &[&Item]) -> Result<Vec<Row>, Error> {
    let keys = Keys::of(items);
    let columns = [
        Column::Integers(&keys.registries),
        Column::Bytes(&keys.ids()),
        Column::Integers(&column(items, |item| number(item.row.events))),
        Column::Texts(&column(items, |item| item.row.metadata_uri.as_str())),
        Column::Bytes(&column(items, |item| item.row.manifest_hash.as_slice())),
        Column::Bytes(&column(items, |item| item.row.creator.as_slice())),
        Column::OptionalBytes(&column(items, |item| item.row.predicate.as_ref().map(|predicate| predicate.as_slice()))),
        Column::Integers(&column(items, |item| number(item.row.registered.block))),
        Column::Integers(&column(items, |item| number(item.row.updated.block))),
        Column::OptionalIntegers(&column(items, |item| item.row.deregistered.map(|at| number(at.block)))),
    ];
    Ok(transaction.fetch_columns(LOCK, &columns).await?)
}

async fn complete(transaction: &mut Transaction, items: &[&Item]) -> Result<Vec<Row>, Error> {
    let keys = Keys::of(items);
    let nexts = items.iter().map(|item| item.finding.next.ok_or(Error::Corrupt { what: "batch: a job without a next one" }));
    let nexts: Vec<_> = nexts.collect::<Result<_, _>>()?;
    let next = |of: fn(&super::queue::Next) -> i64| nexts.iter().map(of).collect::<Vec<i64>>();
    let columns = [
        Column::Integers(&keys.registries),
        Column::Bytes(&keys.ids()),
        Column::Bytes(&column(items, |item| item.job.token().as_slice())),
        Column::Integers(&column(items, |item| item.job.due_at)),
        Column::Texts(&column(items, |item| item.job.word.as_str())),
        Column::Integers(&next(|next| next.due_at.seconds())),
        Column::Integers(&next(|next| next.priority)),
        Column::Texts(&nexts.iter().map(|next| next.reason.as_str()).collect::<Vec<_>>()),
        Column::Integers(&next(|next| i64::from(next.attempts))),
        Column::Integers(&next(|next| next.early)),
    ];
    Ok(transaction.fetch_columns(COMPLETE, &columns).await?)
}

/// Writes listing, memory, report and evidence.
async fn keep(transaction: &mut Transaction, items: &[&Item], server_now: i64) -> Result<(), Error> {
    let keys = Keys::of(items);
    let ids = keys.ids();
    let (registries, ids) = (Column::Integers(&keys.registries), Column::Bytes(&ids));
    let listed = [
        registries,
        ids,
        Column::Booleans(&column(items, |item| item.finding.until != Until::Never)),
        Column::Texts(&column(items, |item| item.finding.listing.access.kind.as_str())),
        Column::Integers(&column(items, |item| text_key(&item.row.metadata_uri))),
    ];
    transaction.fetch_columns(LIST, &listed).await?;
    let documents = items.iter().map(|item| json(&item.finding.listing)).collect::<Result<Vec<_>, _>>()?;
    let listings = [
        registries,
        ids,
        Column::Integers(&column(items, |item| item.finding.listing.checked_at.seconds())),
        Column::OptionalIntegers(&column(items, |item| item.finding.endpoint_key)),
        Column::Texts(&documents.iter().map(String::as_str).collect::<Vec<_>>()),
    ];
    transaction.insert_many(&LISTING, &listings).await?;
    crate::usage::note_many(transaction, &column(items, |item| (item.job.key, &item.finding.listing))).await?;
    let memories = items.iter().map(|item| json(&item.finding.watch.memory)).collect::<Result<Vec<_>, _>>()?;
    let watches = [
        registries,
        ids,
        Column::Integers(&column(items, |item| item.finding.until.seconds(server_now))),
        Column::Bytes(&column(items, |item| item.finding.watch.looks.as_slice())),
        Column::Texts(&memories.iter().map(String::as_str).collect::<Vec<_>>()),
    ];
    transaction.insert_many(&WATCH, &watches).await?;
    let times = column(items, |item| item.finding.kept.at.seconds());
    let puts: Vec<_> = items.iter().filter_map(|item| item.finding.kept.object).collect();
    let claimed = objects::claim_many(transaction, &puts).await?;
    let rows: Vec<_> = items
        .iter()
        .map(|item| {
            let kept = &item.finding.kept;
            kept.row(kept.object.map(|put| put.reference).filter(|reference| claimed.contains(reference)).as_ref())
        })
        .collect();
    let documents: Vec<&str> = rows.iter().map(|(_, report)| &**report).collect();
    let reports = [registries, ids, Column::Integers(&times), Column::Texts(&documents)];
    transaction.insert_many(&REPORT, &reports).await?;
    let verified = column(items, |item| item.finding.kept.is_verified);
    for (sql, is_needed) in [(FORGET_VERIFIED, verified.contains(&true)), (KEEP_VERIFIED, verified.contains(&false))] {
        if is_needed {
            transaction.fetch_columns(sql, &[registries, ids, Column::Booleans(&verified)]).await?;
        }
    }
    let evidence = [
        registries,
        ids,
        Column::Integers(&vec![0; items.len()]),
        Column::Integers(&times),
        Column::Booleans(&verified),
        Column::Bytes(&rows.iter().map(|(evidence, _)| &**evidence).collect::<Vec<_>>()),
    ];
    transaction.insert_many(&EVIDENCE, &evidence).await?;
    Ok(())
}

/// Adds to the histories of tools whose verdict changed.
async fn add_verdicts(transaction: &mut Transaction, items: &[&Item]) -> Result<(), Error> {
    let keys = Keys::of(items);
    let mut last = HashMap::with_capacity(items.len());
    for row in transaction.fetch_columns(LAST_VERDICTS, &[Column::Integers(&keys.registries), Column::Bytes(&keys.ids())]).await?
    {
        last.insert(ToolKey::from_row(&row)?, (VerdictChange::read(&row)?, row.get::<i64>("number")?));
    }
    let (mut changed, mut changes, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        let change = VerdictChange::of(&item.finding.listing, item.finding.listing.checked_at);
        let number = match last.get(&item.job.key) {
            Some((last, _)) if last.is_same(&change) => continue,
            Some((_, number)) => number + 1,
            None => 1,
        };
        changed.push(*item);
        changes.push(change);
        numbers.push(number);
    }
    if changed.is_empty() {
        return Ok(());
    }
    let keys = Keys::of(&changed);
    let failed = |of: fn(&crate::listing::Failure) -> &str| {
        changes.iter().map(|change| change.failed.as_ref().map(of)).collect::<Vec<Option<&str>>>()
    };
    let columns = [
        Column::Integers(&keys.registries),
        Column::Bytes(&keys.ids()),
        Column::Integers(&numbers),
        Column::Integers(&changes.iter().map(|change| change.at.seconds()).collect::<Vec<_>>()),
        Column::Texts(&changes.iter().map(|change| change.verdict.as_str()).collect::<Vec<_>>()),
        Column::Booleans(&changes.iter().map(|change| change.conformant).collect::<Vec<_>>()),
        Column::OptionalIntegers(
            &changes
                .iter()
                .map(|change| change.failed.as_ref().and_then(|failed| failed.check).map(i64::from))
                .collect::<Vec<_>>(),
        ),
        Column::OptionalTexts(&failed(|failed| &failed.step)),
        Column::OptionalTexts(&failed(|failed| &failed.code)),
        Column::Bytes(&changes.iter().map(|change| change.manifest_hash.as_slice()).collect::<Vec<_>>()),
    ];
    transaction.insert_many(&VERDICT, &columns).await?;
    for (item, number) in changed.iter().zip(numbers).filter(|(_, number)| *number > MAX_VERDICTS) {
        let id = item.job.key.id_bytes();
        let values = [Value::Integer(item.job.key.registry.0), Value::Bytes(&id), Value::Integer(number - MAX_VERDICTS)];
        transaction.execute(CUT_VERDICTS, &values).await?;
    }
    Ok(())
}
