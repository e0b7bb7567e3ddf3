//! Migrations: forward only, each user of the store its own.
//!
//! The table `toolcrib_migration` says which were applied, by module and number. A database that is ahead of the program is fine:
//! migrations only add, so that old replicas go on while new ones start. What was applied may not be edited afterwards; the hash of
//! its text is kept.

use alloy_primitives::keccak256;

use super::{Database, Engine, Value, again};
use crate::Error;

/// One step of a module's tables, in SQL that both engines take. `BYTES` stands for the type that each calls otherwise.
///
/// Write `BIGINT`, `TEXT`, `BYTES` and `BOOLEAN`, and nothing that takes away: no `DROP`, `RENAME`, `DELETE` or `TRUNCATE`. A new
/// column of an old table needs a default, since older programs do not mention it. A table that is written much and whose rows are short
/// may end with `WITHOUT ROWID`, which PostgreSQL does not get to see: SQLite then keeps it in its key, and not in a second tree beside.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, counted from 1 in each module.
    pub version: i64,
    /// The statements, separated by semicolons.
    pub sql: &'static str,
}

/// Words that take away what an older program still uses.
const TAKING: [&str; 4] = ["DROP", "RENAME", "DELETE", "TRUNCATE"];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS toolcrib_migration (
    module TEXT NOT NULL, version BIGINT NOT NULL, hash BYTES NOT NULL, PRIMARY KEY (module, version))";

/// Version 0 is the row that whoever migrates this module holds meanwhile.
const HOLD: &str = "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, 0, $2)
    ON CONFLICT (module, version) DO UPDATE SET hash = excluded.hash";
const APPLIED: &str = "SELECT version, hash FROM toolcrib_migration WHERE module = $1 AND version > 0 ORDER BY version";
const RECORD: &str = "INSERT INTO toolcrib_migration (module, version, hash) VALUES ($1, $2, $3)";

pub(super) async fn migrate(database: &Database, module: &'static str, migrations: &[Migration]) -> Result<(), Error> {
    for migration in migrations {
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
    let mut attempt = 0;
    loop {
        match apply(database, module, migrations).await {
            Err(error) if again(&error, &mut attempt).await => {}
            done => return done,
        }
    }
}

/// The first word that takes something away. `ON DELETE` is a rule of a new table.
fn taking(sql: &str) -> Option<&'static str> {
    let mut before = "";
    for word in sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
        if let Some(taking) = TAKING.iter().find(|taking| word.eq_ignore_ascii_case(taking) && !before.eq_ignore_ascii_case("ON"))
        {
            return Some(taking);
        }
        before = word;
    }
    None
}

async fn table(database: &Database) -> Result<(), Error> {
    let mut transaction = database.begin().await?;
    transaction.run(spelled(TABLE, database.engine())).await?;
    transaction.commit().await
}

async fn apply(database: &Database, module: &'static str, migrations: &[Migration]) -> Result<(), Error> {
    let mut transaction = database.begin().await?;
    transaction.execute(HOLD, &[Value::Text(module), Value::Bytes(&[])]).await?;
    let applied = transaction.fetch(APPLIED, &[Value::Text(module)]).await?;
    for migration in migrations {
        let hash = keccak256(migration.sql);
        let mut same = None;
        for row in &applied {
            if row.integer(0)? == migration.version {
                same = Some(row.bytes(1)? == hash.as_slice());
            }
        }
        match same {
            Some(true) => {}
            Some(false) => return Err(Error::MigrationChanged { module, version: migration.version }),
            None => {
                transaction.run(spelled(migration.sql, database.engine())).await?;
                let values = [Value::Text(module), Value::Integer(migration.version), Value::Bytes(hash.as_slice())];
                transaction.execute(RECORD, &values).await?;
            }
        }
    }
    transaction.commit().await
}

fn spelled(sql: &str, engine: Engine) -> String {
    match engine {
        Engine::Sqlite => sql.replace(" BYTES", " BLOB"),
        Engine::Postgres => sql.replace(" BYTES", " BYTEA").replace(" WITHOUT ROWID", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_adds_is_a_migration() {
        assert_eq!(taking("CREATE TABLE a (b BYTES REFERENCES c(d) ON DELETE CASCADE, dropped BIGINT)"), None);
        assert_eq!(taking("ALTER TABLE a ADD COLUMN b BIGINT NOT NULL DEFAULT 0"), None);
        assert_eq!(taking("drop table a"), Some("DROP"));
        assert_eq!(taking("ALTER TABLE a\nRENAME COLUMN b TO c"), Some("RENAME"));
        assert_eq!(taking("INSERT INTO a VALUES (1);DELETE FROM a"), Some("DELETE"));
        assert_eq!(taking("TRUNCATE a"), Some("TRUNCATE"));
    }
}
