//! Codes of the databases that gates, clients and indexes keep.

super::codes! {
    LOCATION = "store.location", Error, "Toolcrib" {
        "the setting names no database that can be used",
        "A database is memory, a file of SQLite or a PostgreSQL server. The setting is not repeated, since it may hold a password.",
        "write memory, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE",
    }
    OPEN = "store.open", Error, "Toolcrib" {
        "the database cannot be opened",
        "Without its store nothing that may happen only once can be done at all.",
        "check that the file is writable or that the server answers, and that user and password are right",
    }
    BUSY = "store.busy", Error, "Toolcrib" {
        "the database is busy",
        "Others held what was needed for longer than we wait. Nothing was changed.",
        "try again; if it lasts, look for a process that holds a transaction open, or allow more connections",
    }
    LOST = "store.lost", Error, "Toolcrib" {
        "the connection to the database was lost",
        "The database went away in the middle of a statement, so whether it took effect is not known. A payment counts as used until the store says otherwise.",
        "check that the server is up, then try again",
    }
    DISK = "store.disk", Error, "Toolcrib" {
        "the disk of the database is full, read-only or fails",
        "Nothing was written. What is in the database can still be read, and writing goes on by itself once there is room.",
        "make room on the disk, or mount it for writing; look at the system's log for faults of the disk",
    }
    DATABASE = "store.database", Error, "Toolcrib" {
        "the database refused a statement",
        "This is no fault of the data: the user may lack a right, or another program changed the tables.",
        "read what the database says, and set it right",
    }
    CORRUPT = "store.corrupt", Error, "Toolcrib" {
        "the database holds something that is never written",
        "Another program changed the tables, or the file is damaged. Nothing is guessed from it.",
        "restore the database from a backup",
    }
    COLUMN = "store.column", Error, "Toolcrib" {
        "the result of a statement has no such column",
        "The program reads a column that its statement does not select. This is a defect of the program and not of the database.",
        "report it with the name of the column, and use another version meanwhile",
    }
    MIGRATION_CHANGED = "store.migration_changed", Error, "Toolcrib" {
        "a migration is not the one that was applied",
        "The tables were made by another text than the one this program has under the same number, so nobody knows what they look like.",
        "use the program that made the database, or begin with an empty one",
    }
    MIGRATION_NOT_ADDITIVE = "store.migration_not_additive", Error, "Toolcrib" {
        "a migration takes something away",
        "Old and new programs run side by side while replicas are replaced. What the old ones use must stay.",
        "add a column or a table instead",
    }
    TRANSITION = "store.transition", Error, "Toolcrib" {
        "the payment is not in a state from which this leads on",
        "A payment is reserved, then settling, then settled or unknown. A step that skips one would leave nobody knowing whether money moved.",
        "read the payment's state, and go on from there",
    }
    NOT_FOUND = "store.not_found", Error, "Toolcrib" {
        "the payment is not in the store",
        "It was released, or its time is over and it was removed.",
        "let the caller sign a new payment",
    }
    NOT_HOLDER = "store.not_holder", Error, "Toolcrib" {
        "another holds the payment",
        "The lease ran out and another process took the payment over. What it decides counts.",
        "leave the payment to its new holder, or allow more time for a lease",
    }
    OTHER_RECEIPT = "store.other_receipt", Error, "Toolcrib" {
        "the payment was settled by another transaction",
        "One authorization moves money once. Two transactions that both claim to have done it cannot both be right.",
        "look both transactions up on the chain",
    }
    EXPIRY = "store.expiry", Error, "ERC-8257 Replay Protection" {
        "the reservation ends at a time that is over or too far away",
        "A nonce is kept until the authorization cannot be used any more. Without an end the store would fill up for good.",
        "refuse authorizations that are expired or valid for too long before reserving them",
    }
    TOO_LARGE = "store.too_large", Error, "Toolcrib" {
        "a value is larger than the store keeps",
        "Every column has a limit, so that the number of rows limits the size of the store.",
        "make the value shorter",
    }
    FULL = "store.full", Error, "ERC-8257 Replay Protection" {
        "the store of used payments is full",
        "A payment that cannot be written down could be used twice, so it is not accepted. Room comes back as authorizations expire.",
        "try again in a minute; operators raise the limit or lower the rate",
    }
    RANDOM = "store.random", Error, "Toolcrib" {
        "the operating system gave no random bytes",
        "Tickets must not be guessable.",
        "check the system",
    }
}
