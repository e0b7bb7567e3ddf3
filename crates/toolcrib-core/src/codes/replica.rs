//! Codes of read replicas: why a web node does not read from one.

super::codes! {
    UNREACHABLE = "replica.unreachable", Error, "Toolcrib" {
        "the read replica does not answer",
        "Nothing listens there, it is starting or shutting down, or it refuses the user. Reads go to other replicas and to the primary.",
        "check that the server is up, that its pg_hba.conf lets this machine in, and that user and password are right",
    }
    SLOW = "replica.slow", Error, "Toolcrib" {
        "the read replica answers too slowly",
        "Two probes in a row ran out of time. Requests do not wait for it; it is used again after the first probe in time.",
        "look at the load, the disk and the network of that machine",
    }
    BEHIND = "replica.behind", Warning, "Toolcrib" {
        "the read replica is further behind than is allowed",
        "It has not replayed what the primary committed longer ago than the limit, by the change feed and the primary's clock.",
        "look at pg_stat_replication on the primary, and for long transactions and paused replay on the replica; --max-read-lag is the limit",
    }
    PROMOTED = "replica.promoted", Error, "Toolcrib" {
        "the read replica accepts writes: it was promoted, or never followed a server",
        "What it holds from now on is not what the primary holds.",
        "if it is the new primary, put its URL into TOOLCRIB_INDEX of all processes and restart them; otherwise make it follow again",
    }
    SCHEMA = "replica.schema", Error, "Toolcrib" {
        "the read replica has an older schema than this program needs",
        "It has not replayed a migration yet, or it is another database. Replicas are never migrated, only the primary is.",
        "wait until it has caught up, or check that its URL names the right database",
    }
    IDENTITY = "replica.identity", Error, "Toolcrib" {
        "the read replica is a replica of another database",
        "Its index was made elsewhere, so its answers would be about other tools.",
        "check the host and the database in its URL",
    }
    DIVERGED = "replica.diverged", Error, "Toolcrib" {
        "the read replica has changes that the primary does not have",
        "The primary was restored from an older state, or the replica follows another one. One of the two histories is wrong.",
        "find out which server is the primary, and make this one again with pg_basebackup",
    }
}
