//! Codes of object stores, and of the objects that an index stores there.

super::codes! {
    LOCATION = "objects.location", Error, "Toolcrib" {
        "the object store setting is not usable",
        "Objects are kept in a folder or in a bucket of an S3-compatible service. The setting is not repeated here, because it may contain a key.",
        "write file:///PATH or s3://BUCKET/PREFIX?endpoint=URL&region=NAME; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    }
    UNAVAILABLE = "objects.unavailable", Error, "Toolcrib" {
        "the object store does not answer",
        "It is unreachable, too slow, or returns server errors. New evidence is kept in the database meanwhile; evidence in the object store cannot be read.",
        "check that the endpoint is up and reachable; a restart is not needed",
    }
    REFUSED = "objects.refused", Error, "Toolcrib" {
        "the object store denies access",
        "The credentials are wrong or expired, a permission is missing, or the bucket does not exist.",
        "check the bucket, the region and the credentials; allow reading, writing, listing and deleting below the prefix",
    }
    FULL = "objects.full", Error, "Toolcrib" {
        "the object store is full or read-only",
        "Nothing was written. New evidence is kept in the database meanwhile.",
        "make room on the disk of the folder, or raise the quota of the bucket",
    }
    ABSENT = "objects.absent", Error, "Toolcrib" {
        "an object is missing",
        "The database refers to an object that the store does not have: another program removed it, or the setting now names another store.",
        "nothing to do: the tool stays listed and a new verification is queued; check the setting if this happens often",
    }
    DAMAGED = "objects.damaged", Error, "Toolcrib" {
        "an object is damaged",
        "Its hash or size differs from the one recorded in the database. None of it is used.",
        "nothing to do: the tool stays listed and a new verification is queued; check the health of the store if this happens often",
    }
    NOT_CONFIGURED = "objects.not_configured", Error, "Toolcrib" {
        "evidence is in an object store that is not configured here",
        "The database refers to evidence in an object store, but this process was started without --objects.",
        "start every process of this database with the same --objects",
    }
    SNAPSHOT_NONE = "snapshot.none", Warning, "Toolcrib" {
        "there is no search snapshot",
        "No process has published a snapshot for this database, snapshot format and embedding yet. The search index is built from the database.",
        "nothing to do: a process with --search and --objects publishes one",
    }
    SNAPSHOT_FORMAT = "snapshot.format", Warning, "Toolcrib" {
        "the search snapshot has another format",
        "It was made by another version of this program or with another embedding. The search index is built from the database.",
        "run the same version with the same embedding in every process",
    }
    SNAPSHOT_FOREIGN = "snapshot.foreign", Warning, "Toolcrib" {
        "the search snapshot belongs to another database",
        "Its database identity or its last change does not match this database, which may have been restored from a backup. The search index is built from the database.",
        "use a separate prefix for each database; the next snapshot replaces this one",
    }
    SNAPSHOT_STALE = "snapshot.stale", Warning, "Toolcrib" {
        "the search snapshot is older than the change feed",
        "The change feed no longer holds the changes that followed the snapshot. The search index is built from the database.",
        "publish snapshots more often than --keep-changes removes changes",
    }
    SNAPSHOT_DAMAGED = "snapshot.damaged", Warning, "Toolcrib" {
        "the search snapshot is damaged",
        "One of its files is missing, truncated, or has the wrong hash, or its manifest cannot be read. The search index is built from the database.",
        "nothing to do: the next snapshot replaces it",
    }
    SNAPSHOT_TOO_LARGE = "snapshot.too_large", Warning, "Toolcrib" {
        "the search snapshot is too large",
        "The size and the number of files are limited, so that a wrong manifest does not fill the disk. The search index is built from the database.",
        "check which programs write to the object store",
    }
}
