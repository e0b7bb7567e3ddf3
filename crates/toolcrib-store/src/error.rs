//! Errors of stores.
//!
//! Messages of the driver are kept if they come from the database itself. The driver's messages about a connection string are dropped,
//! since they may repeat the password.

use toolcrib_core::codes::{self, Code};

use crate::replay::{Action, State};

/// Why a store operation failed. Nothing was changed, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The setting of the database is invalid.
    #[error("the database setting is not usable: {reason}")]
    Location {
        /// Why, without repeating it.
        reason: &'static str,
    },
    /// The database cannot be opened.
    #[error("{database} cannot be opened: {detail}")]
    Open {
        /// Which database, without a password.
        database: String,
        /// What the driver says.
        detail: String,
    },
    /// Other processes hold the needed locks.
    #[error("the database is busy: {detail}")]
    Busy {
        /// What the driver says.
        detail: String,
    },
    /// The connection broke. It is unknown whether the last statement took effect.
    #[error("the connection to the database was lost: {detail}")]
    Lost {
        /// What the driver says.
        detail: String,
    },
    /// The database accepts no writes: its disk is full, read-only or fails. Reads may work, and writes work again once there is room.
    #[error("the disk of the database is full, read-only or failing: {detail}")]
    Disk {
        /// What the driver says.
        detail: String,
    },
    /// The database refused a statement.
    #[error("the database refused a statement: {detail}")]
    Database {
        /// What the driver says.
        detail: String,
    },
    /// The database contains something that this program never writes.
    #[error("the database contains an invalid {what}")]
    Corrupt {
        /// What cannot be read.
        what: &'static str,
    },
    /// The result of a statement lacks a column, which is a bug of the program.
    #[error("the result of a statement has no column {column}")]
    MissingColumn {
        /// The name of the column.
        column: &'static str,
    },
    /// A column contains another type than this program writes.
    #[error("the column {column} does not hold {expected}")]
    Column {
        /// The name of the column.
        column: &'static str,
        /// What this program expects in it.
        expected: &'static str,
    },
    /// An applied migration differs from the program's.
    #[error("migration {version} of {module} differs from the one applied to this database")]
    MigrationChanged {
        /// The module.
        module: &'static str,
        /// Its number.
        version: i64,
    },
    /// A migration removes something that older programs still use.
    #[error("migration {version} of {module} contains {word}, but migrations must only add")]
    MigrationNotAdditive {
        /// The module.
        module: &'static str,
        /// Its number.
        version: i64,
        /// The keyword.
        word: &'static str,
    },
    /// The payment's state does not allow this action.
    #[error("invalid payment state transition: a payment that is {state} cannot be {action}")]
    Transition {
        /// The action.
        action: Action,
        /// Its state.
        state: State,
    },
    /// There is no such payment.
    #[error("a payment that is not in the store cannot be {action}")]
    NotFound {
        /// The action.
        action: Action,
    },
    /// Another process has taken over the payment.
    #[error("a payment that another process has leased cannot be {action}")]
    NotHolder {
        /// The action.
        action: Action,
    },
    /// The payment was settled by another transaction.
    #[error("the payment was settled by another transaction")]
    OtherReceipt,
    /// The validity of a reservation is out of range.
    #[error("the reservation expires in {seconds} seconds, expected 1 to {most}")]
    Expiry {
        /// Its validity.
        seconds: i64,
        /// The longest validity.
        most: i64,
    },
    /// A value is larger than the store accepts.
    #[error("{what} has {length} bytes, the limit is {most}")]
    TooLarge {
        /// The value.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The limit.
        most: usize,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system returned no random bytes")]
    Random,
}

impl Error {
    /// Returns the code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Location { .. } => codes::store::LOCATION,
            Self::Open { .. } => codes::store::OPEN,
            Self::Busy { .. } => codes::store::BUSY,
            Self::Lost { .. } => codes::store::LOST,
            Self::Disk { .. } => codes::store::DISK,
            Self::Database { .. } => codes::store::DATABASE,
            Self::Corrupt { .. } | Self::Column { .. } => codes::store::CORRUPT,
            Self::MissingColumn { .. } => codes::store::COLUMN,
            Self::MigrationChanged { .. } => codes::store::MIGRATION_CHANGED,
            Self::MigrationNotAdditive { .. } => codes::store::MIGRATION_NOT_ADDITIVE,
            Self::Transition { .. } => codes::store::TRANSITION,
            Self::NotFound { .. } => codes::store::NOT_FOUND,
            Self::NotHolder { .. } => codes::store::NOT_HOLDER,
            Self::OtherReceipt => codes::store::OTHER_RECEIPT,
            Self::Expiry { .. } => codes::store::EXPIRY,
            Self::TooLarge { .. } => codes::store::TOO_LARGE,
            Self::Random => codes::store::RANDOM,
        }
    }

    /// Whether the same call may succeed later. An operator may have to make room on a disk; the program need not be restarted for it.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Lost { .. } | Self::Disk { .. })
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => {
                let code = error.code().unwrap_or_default();
                let detail = format!("{} ({code})", error.message());
                match kind(&code, error.message()) {
                    Kind::Busy => Self::Busy { detail },
                    Kind::Lost => Self::Lost { detail },
                    Kind::Disk => Self::Disk { detail },
                    Kind::Other => Self::Database { detail },
                }
            }
            sqlx::Error::PoolTimedOut => Self::Busy { detail: "timed out waiting for a free connection".to_owned() },
            sqlx::Error::Io(error) => Self::Lost { detail: error.to_string() },
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Self::Lost { detail: "the pool is closed".to_owned() },
            sqlx::Error::Protocol(detail) => Self::Lost { detail },
            sqlx::Error::Tls(error) => Self::Lost { detail: error.to_string() },
            sqlx::Error::Configuration(_) => Self::Location { reason: "the driver cannot decode it" },
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Corrupt { what: "column" },
            other => Self::Database { detail: other.to_string() },
        }
    }
}

enum Kind {
    Busy,
    Lost,
    Disk,
    Other,
}

/// Classifies a code. SQLSTATE has five characters; SQLite's codes are numbers, whose low byte is the primary one.
fn kind(code: &str, message: &str) -> Kind {
    match code {
        // PostgreSQL refuses a connection with an internal error if there is no room for its catalogue's file. This text is never
        // translated.
        "XX000" if message == "could not write init file" => Kind::Disk,
        // Serialisation failure, deadlock, lock timeout, too many connections, starting up.
        "40001" | "40P01" | "55P03" | "53300" | "57P03" => Kind::Busy,
        // Shut down by an operator, crashed, database dropped.
        "57P01" | "57P02" | "57P04" => Kind::Lost,
        // Disk full, I/O error, a server that only reads.
        "53100" | "58030" | "25006" => Kind::Disk,
        code if code.len() == 5 && code.starts_with("08") => Kind::Lost,
        code if code.len() == 5 => Kind::Other,
        code => match code.parse::<u32>().map(|number| number & 0xff) {
            // SQLITE_BUSY, SQLITE_LOCKED.
            Ok(5 | 6) => Kind::Busy,
            // SQLITE_READONLY, SQLITE_IOERR, SQLITE_FULL.
            Ok(8 | 10 | 13) => Kind::Disk,
            _ => Kind::Other,
        },
    }
}
