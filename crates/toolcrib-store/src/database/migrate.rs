//! Migrations: forward only, each user of the store its own.
//!
//! The table `toolcrib_migration` says which were applied, by module and number. A database that is ahead of the program is fine:
//! migrations only add, so that old replicas go on while new ones start. What was applied may not be edited afterwards; the hash of
//! its text is kept.

use alloy_primitives::{B256, keccak256};

use super::{Database, Engine, FromRow, Row, Value, again};
use crate::{Error, row, sql};

/// One step of a module's tables, in SQL that both engines take. `BYTES` stands for the type that each calls otherwise.
///
/// Write `BIGINT`, `TEXT`, `BYTES` and `BOOLEAN`, and nothing that takes away: no `DROP`, `RENAME`, `DELETE` or `TRUNCATE`, but for
/// `DROP INDEX`, which makes an older program slower and no more. A new column of an old table needs a default, since older programs do
/// not mention it. A table that is written much and whose rows are short may end with `WITHOUT ROWID`, which PostgreSQL does not get to
/// see: SQLite then keeps it in its key, and not in a second tree beside. `NUMBERED` is a primary key that counts up by itself: numbers are
/// given in the order of the inserts and not of the commits, and some are missing.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, counted from 1 in each module.
    pub version: i64,
    /// The statements, separated by semicolons.
    pub sql: &'static str,
}

/// Words that take away what an older program still uses.
const TAKING: [&str; 4] = ["DROP", "RENAME", "DELETE", "TRUNCATE"];

row! {
    /// A migration that was applied.
    struct Applied<'r> {
        module: &'r str,
        version: i64,
        hash: B256,
    }
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS toolcrib_migration (
    module TEXT NOT NULL, version BIGINT NOT NULL, hash BYTES NOT NULL, PRIMARY KEY (module, version))";

/// Version 0 is the row that whoever migrates this module holds meanwhile.
const HOLD: &str = "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, 0, $2)
    ON CONFLICT (module, version) DO UPDATE SET hash = excluded.hash";
pub(super) const APPLIED: &str = sql!("SELECT ", Applied::COLUMNS, " FROM toolcrib_migration WHERE version > 0");
pub(super) const RECORD: &str = "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, $2, $3)";

/// The same row for those who go on without it when another holds it.
pub(super) const HOLD_NOW: &str =
    "SELECT version FROM toolcrib_migration WHERE module = $1 AND version = 0 FOR UPDATE SKIP LOCKED";
const HOLD_ROW: &str =
    "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, 0, $2) ON CONFLICT (module, version) DO NOTHING";

/// A module's name, and its migrations in order.
pub type Module<'m> = (&'static str, &'m [Migration]);

/// Sees that there is a row to hold.
pub(super) async fn hold_row(database: &Database, module: &'static str) -> Result<(), Error> {
    database.execute(HOLD_ROW, &[Value::Text(module), Value::Bytes(&[])]).await.map(drop)
}

pub(super) async fn migrate(database: &Database, modules: &[Module<'_>]) -> Result<(), Error> {
    prepare(database, modules).await?;
    // Most programs start on a database that is ready: they wait for nobody.
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

/// Refuses what takes something away, and makes the table of migrations.
pub(super) async fn prepare(database: &Database, modules: &[Module<'_>]) -> Result<(), Error> {
    for (module, migration) in all(modules) {
        if let Some(word) = taking(migration.sql) {
            return Err(Error::MigrationNotAdditive { module, version: migration.version, word });
        }
    }
    let mut attempt = 0;
    while let Err(error) = table(database).await {
        // Two that make the same table at once: PostgreSQL tells the later one that a type of that name exists.
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

/// Those that were not applied, in order. An error when one that was has another text by now.
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

/// The first word that takes something away. `ON DELETE` is a rule of a new table.
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
    // In one order everywhere: two that migrate wait for each other instead of stopping each other.
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
