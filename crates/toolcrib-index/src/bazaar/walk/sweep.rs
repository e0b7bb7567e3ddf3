//! The end of a walk: recording which resources were missing, and unlisting them.

use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_store::database::Value;

use super::writing::spread;
use super::{CatalogueFollower, Lease, MAX_RETRY_AFTER, WalkEnd, WalkState};
use crate::bazaar::model::ResourceView;
use crate::bazaar::options::MISSED_WALKS;
use crate::feed::{self, Kinds};
use crate::work::pace::grown;
use crate::{Error, Index};

/// The number of entries that one transaction deletes.
const PART: i64 = 500;

const FINISH: &str =
    "UPDATE index_bazaar_facilitator SET due_at = $4, leased_until = NULL, lease = NULL, attempts = $5, walked_at = $6,
    completed_at = COALESCE($7, completed_at), items = $8, skipped = $9, total = $10, outcome = $11
    WHERE id = $1 AND lease = $2 AND walk = $3";
const MISSED: &str = "UPDATE index_bazaar_entry SET missed = missed + 1, missing_since = COALESCE(missing_since, $3)
    WHERE facilitator = $1 AND walk < $2";
const DROP: &str =
    "DELETE FROM index_bazaar_entry WHERE (facilitator, resource) IN (SELECT facilitator, resource FROM index_bazaar_entry
    WHERE (missed >= $1 AND missing_since <= $2) OR seen_at <= $3 ORDER BY facilitator, resource LIMIT $4) RETURNING resource";
const FORGET: &str = "DELETE FROM index_bazaar_resource WHERE NOT listed AND updated_at <= $1
    AND NOT EXISTS (SELECT 1 FROM index_bazaar_entry e WHERE e.resource = index_bazaar_resource.id)";

impl CatalogueFollower {
    /// Records how a walk ended, releases the lease, and unlists resources that are gone. Does nothing when another process has the lease.
    pub(super) async fn finish(&self, lease: &Lease<'_>, state: &mut WalkState) -> Result<(), Error> {
        let now = self.clock.now();
        let (pause, attempts, outcome) = match state.walk.end {
            WalkEnd::Interrupted => return Ok(()),
            WalkEnd::Complete => (spread(lease, self.options.interval), 0, ""),
            WalkEnd::Early(code) if is_end_of_list(code) => (spread(lease, self.options.interval), 0, code.id()),
            WalkEnd::Early(code) => {
                let wait = state.retry_after.unwrap_or_default().clamp(0, MAX_RETRY_AFTER);
                let pause = grown(self.options.retry, lease.attempts, self.options.interval);
                (pause.max(wait), lease.attempts.saturating_add(1), code.id())
            }
        };
        let is_complete = state.walk.end == WalkEnd::Complete;
        let count = |count: usize| Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
        let values = [
            Value::Integer(lease.id),
            Value::Bytes(&self.token),
            Value::Integer(lease.walk),
            Value::Integer(now.plus(pause).seconds()),
            Value::Integer(i64::from(attempts)),
            Value::Integer(now.seconds()),
            Value::OptionalInteger(is_complete.then_some(now.seconds())),
            count(state.walk.items),
            count(state.walk.skipped),
            Value::OptionalInteger(state.total.and_then(|total| i64::try_from(total).ok())),
            Value::Text(outcome),
        ];
        let mut transaction = self.index.database().begin().await?;
        if transaction.execute(FINISH, &values).await? == 0 {
            transaction.rollback().await?;
            state.walk.end = WalkEnd::Interrupted;
            return Ok(());
        }
        if is_complete {
            let values = [lease.id, lease.walk, now.seconds()].map(Value::Integer);
            transaction.execute(MISSED, &values).await?;
        }
        transaction.commit().await?;
        state.walk.removed = self.sweep(now).await?;
        Ok(())
    }

    /// Deletes entries that are gone for long enough, of all facilitators: one that is no longer configured is not walked.
    async fn sweep(&self, now: UnixTime) -> Result<usize, Error> {
        let before = |seconds: i64| now.seconds().saturating_sub(seconds);
        let values = [MISSED_WALKS, before(self.options.grace), before(self.options.stale), PART].map(Value::Integer);
        let mut removed = 0;
        loop {
            let dropped = drop_part(&self.index, &values, now).await?;
            removed += dropped.unlisted;
            if dropped.entries < PART as usize {
                break;
            }
        }
        self.index.database().execute(FORGET, &[Value::Integer(before(self.options.keep))]).await?;
        Ok(removed)
    }
}

/// Whether a walk that ended for this reason has read all that is available, so that another one at once would not read more.
fn is_end_of_list(code: Code) -> bool {
    [codes::bazaar::REPEATS, codes::bazaar::TOTAL, codes::bazaar::TOO_MANY].contains(&code)
}

struct Dropped {
    entries: usize,
    unlisted: usize,
}

async fn drop_part(index: &Index, values: &[Value<'_>], now: UnixTime) -> Result<Dropped, Error> {
    let mut transaction = index.database().begin().await?;
    let entries = transaction.fetch(DROP, values).await?;
    let mut ids = entries.iter().map(|row| Ok(row.scalar()?)).collect::<Result<Vec<i64>, Error>>()?;
    ids.sort_unstable();
    ids.dedup();
    let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let mut unlisted = Vec::new();
    if !ids.is_empty() {
        // If another facilitator lists it at the same moment, that facilitator's next walk lists it again.
        let sql = format!(
            "UPDATE index_bazaar_resource SET listed = FALSE, updated_at = $1 WHERE listed AND id IN ({list})
            AND NOT EXISTS (SELECT 1 FROM index_bazaar_entry e WHERE e.resource = index_bazaar_resource.id) RETURNING id"
        );
        let rows = transaction.fetch_made(sql, &[Value::Integer(now.seconds())]).await?;
        unlisted = rows.iter().map(|row| Ok(row.scalar()?)).collect::<Result<Vec<i64>, Error>>()?;
        // Of a resource that others list as well, another claim may be shown from now on.
        let kinds = |id: &i64| if unlisted.contains(id) { Kinds::DELISTED } else { Kinds::FACTS };
        let events: Vec<_> = ids.iter().map(|id| (ResourceView::key_of(*id), kinds(id))).collect();
        feed::record(&mut transaction, &events, now).await?;
    }
    transaction.commit().await?;
    Ok(Dropped { entries: entries.len(), unlisted: unlisted.len() })
}
