//! The tables of agents, and the statements that both the worker and the list use.

use toolcrib_store::Migration;

use super::memory;

/// `index_agent` has one row for each name that was ever listed: its queue columns, and the columns that searches read. It is small,
/// because a search reads all of it. `index_agent_document` has what is shown.
///
/// - `listed`: whether the name is in the list now. Others are kept and not resolved.
/// - `due_at`, `leased_until`, `lease`, `attempts`: the queue.
/// - `answer`: the last verdict in short form, as JSON; empty before the first. `changes` is the number of its row in
///   `index_agent_change`.
/// - `good`: verified and conformant, until `expires_at`.
/// - `newest_at`: when the content was created or first seen here, whichever is earlier.
/// - `terms`, `title`, `words`, `model`, `currency`, `price`: what filters compare, only for good agents; the name is always there.
/// - `trouble`, `trouble_at`: the last failed resolution, if it is newer than the last verdict.
///
/// `index_agent_feed` has one row, which counts changes, to invalidate cached responses.
pub(crate) const MIGRATIONS: &[Migration] = &[TABLES, memory::MIGRATION];

const TABLES: Migration = Migration {
    version: 1,
    sql: "CREATE TABLE index_agent (domain TEXT NOT NULL PRIMARY KEY, listed BOOLEAN NOT NULL DEFAULT FALSE,
        added_at BIGINT NOT NULL DEFAULT 0, due_at BIGINT NOT NULL DEFAULT 0, leased_until BIGINT, lease BYTES,
        attempts BIGINT NOT NULL DEFAULT 0, changes BIGINT NOT NULL DEFAULT 0, answer TEXT NOT NULL DEFAULT '', checked_at BIGINT,
        expires_at BIGINT NOT NULL DEFAULT 0, good BOOLEAN NOT NULL DEFAULT FALSE, newest_at BIGINT NOT NULL DEFAULT 0, digest BYTES,
        terms TEXT NOT NULL DEFAULT '', title TEXT NOT NULL DEFAULT '', words TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '', currency TEXT NOT NULL DEFAULT '', price BIGINT, trouble TEXT, trouble_at BIGINT);
    CREATE INDEX index_agent_due ON index_agent (due_at) WHERE listed;
    CREATE INDEX index_agent_lease ON index_agent (lease) WHERE lease IS NOT NULL;
    CREATE TABLE index_agent_document (domain TEXT NOT NULL PRIMARY KEY, document TEXT NOT NULL, report TEXT);
    CREATE TABLE index_agent_change (domain TEXT NOT NULL, number BIGINT NOT NULL, at BIGINT NOT NULL, answer TEXT NOT NULL,
        PRIMARY KEY (domain, number));
    CREATE TABLE index_agent_feed (id BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL);
    INSERT INTO index_agent_feed (id, last) VALUES (1, 0);",
};

/// Counts a change. The last statement before the commit: from here on other writers wait.
pub(crate) const COUNT_CHANGE: &str = "UPDATE index_agent_feed SET last = last + 1 WHERE id = 1";
/// Selects the number of changes.
pub(super) const LAST_CHANGE: &str = "SELECT last FROM index_agent_feed WHERE id = 1";
