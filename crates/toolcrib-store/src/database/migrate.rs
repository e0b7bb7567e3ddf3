//! Migrations: forward only, separate for each user of the store.
//!
//! The table `toolcrib_migration` records the applied ones, by module and number. A database that is ahead of the program is allowed:
//! migrations only add, so that old replicas continue while new ones start. An applied migration may not be edited; the hash of its text is
//! kept.

use alloy_primitives::{B256, keccak256};

use super::{Database, Engine, FromRow, Row, Value, again};
use crate::{Error, row, sql};

/// One step of a module's tables, in SQL for both engines. `BYTES` is replaced by the type that each engine names differently.
///
/// Write `BIGINT`, `TEXT`, `BYTES` and `BOOLEAN`, and nothing that removes: no `DROP`, `RENAME`, `DELETE` or `TRUNCATE`, except `DROP
/// INDEX`, which only makes an older program slower. A new column of an old table needs a default, since older programs do not set it. A
/// table with many writes and short rows may end with `WITHOUT ROWID`, which is removed for PostgreSQL: SQLite then stores the rows in the
/// primary key's tree instead of a second one. `NUMBERED` is an auto-incremented primary key: numbers follow the order of the inserts and
/// not of the commits, and may have gaps.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, counted from 1 in each module.
    pub version: i64,
    /// The statements, separated by semicolons.
    pub sql: &'static str,
}

/// Keywords that remove what an older program still uses.
const TAKING: [&str; 4] = ["DROP", "RENAME", "DELETE", "TRUNCATE"];

row! {
    /// An applied migration.
    struct Applied<'r> {
        module: &'r str,
        version: i64,
        hash: B256,
    }
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS toolcrib_migration (
    module TEXT NOT NULL, version BIGINT NOT NULL, hash BYTES NOT NULL, PRIMARY KEY (module, version))";

/// Version 0 is the row that a process locks while it migrates this module.
const HOLD: &str = "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, 0, $2)
    ON CONFLICT (module, version) DO UPDATE SET hash = excluded.hash";
pub(super) const APPLIED: &str = sql!("SELECT ", Applied::COLUMNS, " FROM toolcrib_migration WHERE version > 0");
pub(super) const RECORD: &str = "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, $2, $3)";

/// Locks the same row for a process that continues without it if another has locked it.
pub(super) const HOLD_NOW: &str =
    "SELECT version FROM toolcrib_migration WHERE module = $1 AND version = 0 FOR UPDATE SKIP LOCKED";
const HOLD_ROW: &str =
    "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, 0, $2) ON CONFLICT (module, version) DO NOTHING";

/// A module's name, and its migrations in order.
pub type Module<'m> = (&'static str, &'m [Migration]);

/// Makes sure that the row to lock exists.
pub(super) async fn hold_row(database: &Database, module: &'static str) -> Result<(), Error> {
    database.execute(HOLD_ROW, &[Value::Text(module), Value::Bytes(&[])]).await.map(drop)
}

pub(super) async fn migrate(database: &Database, modules: &[Module<'_>]) -> Result<(), Error> {
    prepare(database, modules).await?;
    // Most programs start on an up-to-date database and need no lock.
    if missing(modules, &database.fetch(APPLIED, &[]).await?)?.is_empty() {
        return Ok(());
    }
    let mut attempt = 0;
    loop {
        match apply(database, modules).await {
            Err(error) if again(&error, &mut attempt).await => {}
            done => return done,
        }
    }
}

/// Refuses migrations that remove something, and creates the table of migrations.
pub(super) async fn prepare(database: &Database, modules: &[Module<'_>]) -> Result<(), Error> {
    for (module, migration) in all(modules) {
        if let Some(word) = taking(migration.sql) {
            return Err(Error::MigrationNotAdditive { module, version: migration.version, word });
        }
    }
    let mut attempt = 0;
    while let Err(error) = table(database).await {
        // If two processes create the same table at once, PostgreSQL tells the later one that a type of that name exists.
        let collided = Error::Busy { detail: String::new() };
        let passing = if matches!(error, Error::Database { .. }) { &collided } else { &error };
        if !again(passing, &mut attempt).await {
            return Err(error);
        }
    }
    Ok(())
}

fn all<'m>(modules: &[Module<'m>]) -> impl Iterator<Item = (&'static str, &'m Migration)> {
    modules.iter().flat_map(|(module, migrations)| migrations.iter().map(|migration| (*module, migration)))
}

/// Returns the missing migrations, in order. An error if an applied one has another text by now.
pub(super) fn missing<'m>(modules: &[Module<'m>], applied: &[Row]) -> Result<Vec<(&'static str, &'m Migration)>, Error> {
    let mut missing = Vec::new();
    for (module, migration) in all(modules) {
        let mut is_applied = false;
        for applied in Applied::from_rows(applied) {
            let applied = applied?;
            if applied.module == module && applied.version == migration.version {
                if applied.hash != keccak256(migration.sql) {
                    return Err(Error::MigrationChanged { module, version: migration.version });
                }
                is_applied = true;
            }
        }
        if !is_applied {
            missing.push((module, migration));
        }
    }
    Ok(missing)
}

/// Returns the first keyword that removes something. `ON DELETE` is a rule of a new table.
fn taking(sql: &str) -> Option<&'static str> {
    let is = |word: Option<&&str>, other: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(other));
    let words: Vec<_> = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let takes = |at: usize, taking: &str| {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        is(words.get(at), taking) && !is(before, "ON") && !(taking == "DROP" && is(words.get(at + 1), "INDEX"))
    };
    (0..words.len()).find_map(|at| TAKING.into_iter().find(|taking| takes(at, taking)))
}

async fn table(database: &Database) -> Result<(), Error> {
    let mut transaction = database.begin().await?;
    transaction.run(spelled(TABLE, database.engine())).await?;
    transaction.commit().await
}

async fn apply(database: &Database, modules: &[Module<'_>]) -> Result<(), Error> {
    let mut transaction = database.begin().await?;
    if database.engine() == Engine::Postgres {
        // An index over many rows takes longer than a request may.
        transaction.execute("SET LOCAL statement_timeout = 0", &[]).await?;
    }
    // In a fixed order, so that two processes that migrate wait for each other instead of deadlocking.
    let mut names: Vec<&str> = modules.iter().map(|(module, _)| *module).collect();
    names.sort_unstable();
    for module in names {
        transaction.execute(HOLD, &[Value::Text(module), Value::Bytes(&[])]).await?;
    }
    for (module, migration) in missing(modules, &transaction.fetch(APPLIED, &[]).await?)? {
        transaction.run(spelled(migration.sql, database.engine())).await?;
        let hash = keccak256(migration.sql);
        let values = [Value::Text(module), Value::Integer(migration.version), Value::Bytes(hash.as_slice())];
        transaction.execute(RECORD, &values).await?;
    }
    transaction.commit().await
}

fn spelled(sql: &str, engine: Engine) -> String {
    match engine {
        Engine::Sqlite => sql.replace(" BYTES", " BLOB").replace(" NUMBERED", " INTEGER PRIMARY KEY AUTOINCREMENT"),
        Engine::Postgres => {
            let sql = sql.replace(" BYTES", " BYTEA").replace(" WITHOUT ROWID", "");
            sql.replace(" NUMBERED", " BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_adds_is_a_migration() {
        assert_eq!(taking("CREATE TABLE a (b BYTES REFERENCES c(d) ON DELETE CASCADE, dropped BIGINT)"), None);
        assert_eq!(taking("ALTER TABLE a ADD COLUMN b BIGINT NOT NULL DEFAULT 0"), None);
        assert_eq!(taking("CREATE TABLE a (b BIGINT);\nDROP INDEX c;"), None);
        assert_eq!(taking("drop table a"), Some("DROP"));
        assert_eq!(taking("ALTER TABLE a\nRENAME COLUMN b TO c"), Some("RENAME"));
        assert_eq!(taking("INSERT INTO a VALUES (1);DELETE FROM a"), Some("DELETE"));
        assert_eq!(taking("TRUNCATE a"), Some("TRUNCATE"));
    }
}
