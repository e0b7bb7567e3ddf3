//! The tables of followers.

use toolcrib_store::Migration;

/// `index_event` is the event log: all other onchain data is a fold over it. `tool` is empty for upgrades of predicates, which apply to
/// the tools that have the predicate at that time.
/// `index_block` has the hashes of blocks that may still be reorganised; not every block has one.
/// `index_predicate` has the predicates that tools have or had, and the first use of each: from there on its upgrades count.
/// `index_follower` has the lease of a registry: its holder, its expiry, and how often it changed hands.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_event (registry BIGINT NOT NULL, block_number BIGINT NOT NULL, log_index BIGINT NOT NULL,
        block_hash BYTES NOT NULL, tx BYTES NOT NULL, time BIGINT NOT NULL, tool BYTES NOT NULL, kind BIGINT NOT NULL, creator BYTES,
        predicate BYTES, uri TEXT, hash BYTES, implementation BYTES, PRIMARY KEY (registry, block_number, log_index)) WITHOUT ROWID;
    CREATE TABLE index_block (registry BIGINT NOT NULL, number BIGINT NOT NULL, hash BYTES NOT NULL,
        PRIMARY KEY (registry, number)) WITHOUT ROWID;
    CREATE TABLE index_predicate (registry BIGINT NOT NULL, predicate BYTES NOT NULL, first_block BIGINT NOT NULL,
        first_log BIGINT NOT NULL, PRIMARY KEY (registry, predicate)) WITHOUT ROWID;
    CREATE TABLE index_follower (registry BIGINT NOT NULL PRIMARY KEY, owner BYTES NOT NULL, token BIGINT NOT NULL,
        until BIGINT NOT NULL) WITHOUT ROWID;",
}];

/// Indexes that reading a tool's history needs and applying events does not: see [`crate::Index::prepare_reading`].
pub(crate) const INDEXES: &[Migration] =
    &[Migration { version: 1, sql: "CREATE INDEX index_event_tool ON index_event (registry, tool, block_number, log_index);" }];
