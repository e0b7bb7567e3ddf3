//! The tables of the Bazaar.

use toolcrib_store::Migration;

/// `index_bazaar_facilitator` has a row for each facilitator that was ever configured: its queue columns, and the result of the last walk.
/// `key` is a hash of the URL, which may contain a secret; `origin` is what is shown.
///
/// `index_bazaar_resource` has a row for each resource, with its columns for the queue of probes.
/// - `identity`: the hash of URL and tool name. `id` is its public number, which is never reused.
/// - `endpoint_key`: the start of the hash of the URL, only for resources that are called by a plain HTTP request.
/// - `listed`: whether a facilitator lists it. Others are kept for a while, so that a resource that returns has the same number.
/// - `method`: how it may be probed; empty for resources that are not.
/// - `probe`: the result of the last probe, as JSON.
///
/// `index_bazaar_entry` has which facilitator lists which resource, with its claim. `missed` counts the complete walks since then that did
/// not find it.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_bazaar_facilitator (id NUMBERED, key BYTES NOT NULL, origin TEXT NOT NULL, due_at BIGINT NOT NULL,
        leased_until BIGINT, lease BYTES, walk BIGINT NOT NULL DEFAULT 0, attempts BIGINT NOT NULL DEFAULT 0, walked_at BIGINT,
        completed_at BIGINT, items BIGINT NOT NULL DEFAULT 0, skipped BIGINT NOT NULL DEFAULT 0, total BIGINT,
        outcome TEXT NOT NULL DEFAULT '');
    CREATE UNIQUE INDEX index_bazaar_facilitator_key ON index_bazaar_facilitator (key);
    CREATE TABLE index_bazaar_resource (id NUMBERED, identity BYTES NOT NULL, url TEXT NOT NULL, tool_name TEXT NOT NULL DEFAULT '',
        endpoint_key BIGINT, first_seen_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, listed BOOLEAN NOT NULL DEFAULT FALSE,
        method TEXT NOT NULL DEFAULT '', due_at BIGINT NOT NULL, leased_until BIGINT, lease BYTES, attempts BIGINT NOT NULL DEFAULT 0,
        probe TEXT);
    CREATE UNIQUE INDEX index_bazaar_resource_identity ON index_bazaar_resource (identity);
    CREATE INDEX index_bazaar_resource_newest ON index_bazaar_resource (first_seen_at, id) WHERE listed;
    CREATE INDEX index_bazaar_resource_due ON index_bazaar_resource (due_at) WHERE listed;
    CREATE INDEX index_bazaar_resource_endpoint ON index_bazaar_resource (endpoint_key) WHERE listed;
    CREATE INDEX index_bazaar_resource_gone ON index_bazaar_resource (updated_at) WHERE NOT listed;
    CREATE TABLE index_bazaar_entry (facilitator BIGINT NOT NULL, resource BIGINT NOT NULL, walk BIGINT NOT NULL, seen_at BIGINT NOT NULL,
        missed BIGINT NOT NULL DEFAULT 0, missing_since BIGINT, claim TEXT NOT NULL, PRIMARY KEY (facilitator, resource));
    CREATE INDEX index_bazaar_entry_resource ON index_bazaar_entry (resource);
    CREATE INDEX index_bazaar_entry_seen ON index_bazaar_entry (seen_at);",
}];
