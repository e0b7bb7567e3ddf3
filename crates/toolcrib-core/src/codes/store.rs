//! Codes of the databases of gates, clients and indexes.

super::codes! {
    LOCATION = "store.location", Error, "Toolcrib" {
        "the database setting is not usable",
        "A database is memory, a SQLite file or a PostgreSQL server. The setting is not repeated here, because it may contain a password.",
        "write memory, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE",
    }
    OPEN = "store.open", Error, "Toolcrib" {
        "the database cannot be opened",
        "The database guarantees that operations such as a payment happen only once, so nothing is done without it.",
        "check that the file is writable or that the server answers, and that user and password are right",
    }
    BUSY = "store.busy", Error, "Toolcrib" {
        "the database is busy",
        "Other connections held the needed locks for longer than the timeout. Nothing was changed.",
        "try again; if it persists, look for a process with an open transaction, or allow more connections",
    }
    LOST = "store.lost", Error, "Toolcrib" {
        "the connection to the database was lost",
        "The connection was closed during a statement, so it is unknown whether the statement took effect. A payment counts as used until the store shows otherwise.",
        "check that the server is up, then try again",
    }
    DISK = "store.disk", Error, "Toolcrib" {
        "the disk of the database is full, read-only or failing",
        "Nothing was written. The database can still be read, and writing resumes automatically once there is space.",
        "free space on the disk, or mount it writable; check the system log for disk errors",
    }
    DATABASE = "store.database", Error, "Toolcrib" {
        "the database refused a statement",
        "The data is not the cause: the database user may lack a permission, or another program changed the tables.",
        "read the error of the database, and correct its cause",
    }
    CORRUPT = "store.corrupt", Error, "Toolcrib" {
        "the database contains invalid data",
        "Toolcrib never writes such values: another program changed the tables, or the file is damaged. They are not interpreted.",
        "restore the database from a backup",
    }
    COLUMN = "store.column", Error, "Toolcrib" {
        "the result of a statement has no such column",
        "The program reads a column that its statement does not select. This is a defect of the program and not of the database.",
        "report it with the name of the column, and use another version meanwhile",
    }
    MIGRATION_CHANGED = "store.migration_changed", Error, "Toolcrib" {
        "a migration differs from the applied one",
        "The tables were created by other SQL than this program has under the same migration number, so their schema is unknown.",
        "use the version of Toolcrib that created the database, or start with an empty one",
    }
    MIGRATION_NOT_ADDITIVE = "store.migration_not_additive", Error, "Toolcrib" {
        "a migration is not additive",
        "It removes or changes tables or columns. During a rolling upgrade old and new versions run side by side, so the tables and columns of the old version must stay.",
        "add a column or a table instead",
    }
    TRANSITION = "store.transition", Error, "Toolcrib" {
        "invalid payment state transition",
        "A payment is reserved, then settling, then settled or unknown. If a state were skipped, it would be unknown whether money moved.",
        "read the payment's state, and continue from there",
    }
    NOT_FOUND = "store.not_found", Error, "Toolcrib" {
        "the payment is not in the store",
        "It was released, or it expired and was removed.",
        "ask the caller to sign a new payment",
    }
    NOT_HOLDER = "store.not_holder", Error, "Toolcrib" {
        "payment is leased by another process",
        "The lease expired, and another process took the payment over. The result of that process is the valid one.",
        "leave the payment to that process, or configure a longer lease",
    }
    OTHER_RECEIPT = "store.other_receipt", Error, "Toolcrib" {
        "the payment was settled by another transaction",
        "An authorization settles exactly once, so only one of two claimed transactions can be right.",
        "check both transactions onchain",
    }
    EXPIRY = "store.expiry", Error, "ERC-8257 Replay Protection" {
        "the expiry of the reservation is in the past or too far in the future",
        "A nonce is stored until its authorization expires. Without an expiry the store would fill up.",
        "refuse authorizations that are expired or valid for too long, before reserving them",
    }
    TOO_LARGE = "store.too_large", Error, "Toolcrib" {
        "a value is too large for the store",
        "Every column has a size limit, so that the number of rows limits the size of the store.",
        "shorten the value",
    }
    FULL = "store.full", Error, "ERC-8257 Replay Protection" {
        "the store of used payments is full",
        "A payment that cannot be recorded could be replayed, so it is not accepted. Space becomes free as authorizations expire.",
        "try again in a minute; operators: raise the limit or lower the rate limits",
    }
    RANDOM = "store.random", Error, "Toolcrib" {
        "the operating system returned no random bytes",
        "Random bytes are needed for tokens that must not be guessable.",
        "check the system's random number generator",
    }
}
