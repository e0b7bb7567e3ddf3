//! Codes of read replicas: why a web node does not read from one.

super::codes! {
    UNREACHABLE = "replica.unreachable", Error, "Toolcrib" {
        "the read replica does not answer",
        "The server is not running, is starting or shutting down, or rejects the user. Reads use other replicas and the primary.",
        "check that the server is up, that its pg_hba.conf allows this machine, and that user and password are right",
    }
    SLOW = "replica.slow", Error, "Toolcrib" {
        "the read replica answers too slowly",
        "Two consecutive probes timed out. Requests do not wait for the replica; it is used again after the first probe that succeeds in time.",
        "check the load, the disk and the network of that machine",
    }
    BEHIND = "replica.behind", Warning, "Toolcrib" {
        "the read replica lags too far behind",
        "Its replication lag, measured with the change feed and the primary's clock, exceeds the limit.",
        "check pg_stat_replication on the primary, and long transactions and paused replay on the replica; --max-read-lag sets the limit",
    }
    PROMOTED = "replica.promoted", Error, "Toolcrib" {
        "the read replica accepts writes: it was promoted, or never followed a server",
        "From now on its data can diverge from that of the primary.",
        "if it is the new primary, set its URL as TOOLCRIB_INDEX of all processes and restart them; otherwise configure it as a standby again",
    }
    SCHEMA = "replica.schema", Error, "Toolcrib" {
        "the read replica has an older schema than this program needs",
        "It has not replayed a migration yet, or it is another database. Only the primary is migrated, never a replica.",
        "wait until it has caught up, or check that its URL names the right database",
    }
    IDENTITY = "replica.identity", Error, "Toolcrib" {
        "the read replica belongs to another database",
        "Its index identity differs, so it would return other tools.",
        "check the host and the database in its URL",
    }
    DIVERGED = "replica.diverged", Error, "Toolcrib" {
        "the read replica has changes that the primary does not have",
        "The primary was restored from an older state, or the replica follows another primary. One of the two histories is wrong.",
        "find out which server is the primary, and recreate the replica with pg_basebackup",
    }
}
