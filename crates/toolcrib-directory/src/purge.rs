//! Purges a CDN by the change feed.
//!
//! The feed is read from a cursor in the database, so each change is purged at least once, even after a crash. Each is purged **twice**:
//! at once, and again after a pause, since a node that still reads from a replica, or has not read the feed yet, may return the old state
//! to the CDN right after the first purge. The cursor advances after the second.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use toolcrib_index::feed::{self, Change};
use toolcrib_index::model::ToolKey;
use toolcrib_index::{Error, Index};
use toolcrib_store::Migration;
use toolcrib_store::database::Value;

use crate::surrogate::{ALL, keys_of_agent, keys_of_resource, keys_of_tool, tool_key};

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, sql: "CREATE TABLE directory_purge (name TEXT NOT NULL PRIMARY KEY, cursor BIGINT NOT NULL);" }];

const FIND: &str = "SELECT cursor FROM directory_purge WHERE name = $1";
const BEGIN: &str = "INSERT INTO directory_purge (name, cursor) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
/// The cursor never moves back: of two processes that purge the same cache the one ahead is right.
const ADVANCE: &str = "UPDATE directory_purge SET cursor = $2 WHERE name = $1 AND cursor < $2";

/// The maximum number of keys in one step. With more everything is purged: it costs a CDN one request instead of hundreds.
const MAX_KEYS: usize = 5_000;

/// The maximum number of steps that wait for their second purge: with more the feed is not read further.
const MAX_WAITING: usize = 1_000;

/// Longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Options of purging.
#[derive(Clone, Debug)]
pub struct PurgeOptions {
    /// The name of the cache: with several, each has its own cursor.
    pub name: String,
    /// The maximum number of keys in one request.
    pub batch: usize,
    /// The minimum time between two requests.
    pub every: Duration,
    /// The interval of polling the feed.
    pub poll: Duration,
    /// The pause before the second purge of a change: longer than any node may be behind.
    pub settle: Duration,
}

/// A client that purges a cache by surrogate keys.
pub trait TellCache: Send + Sync {
    /// Purges everything with one of these keys. The error is logged, and must not contain secrets.
    fn drop_keys(&self, keys: &[String]) -> impl Future<Output = Result<(), String>> + Send;
}

/// Follows the feed and purges a cache.
#[derive(Debug)]
pub struct Purger<T> {
    index: Index,
    cache: T,
    options: PurgeOptions,
    /// The cursor of the feed.
    cursor: i64,
    waiting: VecDeque<Step>,
    next_request: Instant,
}

/// Changes that were purged once.
#[derive(Debug)]
struct Step {
    last: i64,
    keys: BTreeSet<String>,
    again_at: Instant,
}

impl<T: TellCache> Purger<T> {
    /// Continues at the stored cursor, and the first time with the next change.
    pub async fn open(index: Index, cache: T, options: PurgeOptions) -> Result<Self, Error> {
        let database = index.database();
        database.migrate("directory.purge", MIGRATIONS).await?;
        let last = index.last_change().await?;
        database.execute(BEGIN, &[Value::Text(&options.name), Value::Integer(last)]).await?;
        let row = database.fetch_optional(FIND, &[Value::Text(&options.name)]).await?;
        let cursor = row.ok_or(Error::Corrupt { what: "cursor of a cache" })?.scalar::<i64>()?;
        Ok(Self { index, cache, options, cursor, waiting: VecDeque::new(), next_request: Instant::now() })
    }

    /// Runs until `stop` is done. Failures are retried.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let following = async {
            let mut pause = self.options.poll;
            loop {
                match self.step().await {
                    Ok(()) => pause = self.options.poll,
                    Err(error) => {
                        tracing::warn!(code = error.code().id(), %error, "cache not purged, retrying");
                        pause = (pause * 2).min(MAX_PAUSE);
                    }
                }
                sleep(pause).await;
            }
        };
        tokio::select! {
            () = following => {}
            () = stop => {}
        }
    }

    /// Purges what changed since the last step, and again what was purged a while ago.
    async fn step(&mut self) -> Result<(), Error> {
        while self.waiting.len() < MAX_WAITING {
            let Some((last, keys)) = self.read().await? else { break };
            self.tell(&keys).await;
            self.cursor = last;
            self.waiting.push_back(Step { last, keys, again_at: Instant::now() + self.options.settle });
        }
        while self.waiting.front().is_some_and(|step| step.again_at <= Instant::now()) {
            let Some(Step { last, keys, .. }) = self.waiting.pop_front() else { break };
            self.tell(&keys).await;
            let values = [Value::Text(&self.options.name), Value::Integer(last)];
            // A cursor that stays behind only repeats purges.
            self.index.database().execute(ADVANCE, &values).await?;
        }
        Ok(())
    }

    /// Returns the next changes: the number of the last one, and the surrogate keys that they invalidate.
    async fn read(&self) -> Result<Option<(i64, BTreeSet<String>)>, Error> {
        let (mut cursor, mut keys) = (self.cursor, BTreeSet::new());
        loop {
            let changes = match self.index.changes(cursor, feed::MAX_PAGE).await {
                Ok(changes) => changes,
                Err(Error::Forgotten { .. }) => {
                    tracing::warn!(cursor, "changes no longer kept, purging the whole cache");
                    return Ok(Some((self.index.last_change().await?, BTreeSet::from([ALL.to_owned()]))));
                }
                Err(error) => return Err(error),
            };
            let Some(newest) = changes.last() else { break };
            cursor = newest.seq;
            if keys.len() <= MAX_KEYS {
                keys.extend(self.keys_of(&changes).await?);
            } else {
                // Read to the end, and purged at once.
                cursor = self.index.last_change().await?;
                break;
            }
        }
        if keys.len() > MAX_KEYS {
            keys = BTreeSet::from([ALL.to_owned()]);
        }
        Ok((cursor > self.cursor).then_some((cursor, keys)))
    }

    async fn keys_of(&self, changes: &[Change]) -> Result<BTreeSet<String>, Error> {
        let changed: BTreeSet<ToolKey> = changes.iter().map(|change| change.key).filter(|key| !key.is_agent()).collect();
        let (resources, tools): (Vec<ToolKey>, Vec<ToolKey>) = changed.into_iter().partition(|key| key.resource().is_some());
        let views = self.index.tools(&tools).await?;
        let mut keys = BTreeSet::new();
        // Responses about a tool also show whether a facilitator lists its endpoint.
        for key in self.index.tools_beside(&resources).await? {
            keys.insert(tool_key(&self.index.reference(key).await?));
        }
        keys.extend(resources.iter().filter_map(|key| key.resource()).flat_map(keys_of_resource));
        for change in changes.iter().filter(|change| change.key.resource().is_none()) {
            if let Some(domain) = self.index.agent_of(change.key).await? {
                keys.extend(keys_of_agent(domain.as_str()));
                continue;
            }
            // Both are in key order.
            let view = views.binary_search_by_key(&change.key, |view| view.row.key).ok().map(|at| &views[at]);
            let tool = self.index.reference(change.key).await?;
            keys.extend(keys_of_tool(&tool, change.kinds, view.map(|view| view.row.creator)));
        }
        Ok(keys)
    }

    /// Purges these keys, in as many requests as needed, and retries each until it succeeds.
    async fn tell(&mut self, keys: &BTreeSet<String>) {
        let keys: Vec<String> = keys.iter().cloned().collect();
        for batch in keys.chunks(self.options.batch.max(1)) {
            let mut pause = self.options.every.max(Duration::from_millis(100));
            loop {
                sleep_until(self.next_request).await;
                self.next_request = Instant::now() + self.options.every;
                match self.cache.drop_keys(batch).await {
                    Ok(()) => break,
                    Err(reason) => {
                        tracing::warn!(keys = batch.len(), reason, "cache not purged, retrying");
                        pause = (pause * 2).min(MAX_PAUSE);
                        self.next_request = Instant::now() + pause;
                    }
                }
            }
            tracing::info!(keys = batch.len(), "cache purged");
        }
    }
}
