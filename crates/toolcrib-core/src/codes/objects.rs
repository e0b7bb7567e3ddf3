//! Codes of object stores, and of what an index keeps in them.

super::codes! {
    LOCATION = "objects.location", Error, "Toolcrib" {
        "the setting names no object store that can be used",
        "Objects are kept in a folder or in a bucket of a service that speaks S3. The setting is not repeated, since it may hold a key.",
        "write file:///PATH or s3://BUCKET/PREFIX?endpoint=URL&region=NAME; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    }
    UNAVAILABLE = "objects.unavailable", Error, "Toolcrib" {
        "the object store does not answer",
        "It is away, too slow, or answers with errors of its own. New evidence is kept in the database meanwhile; what is in the object store cannot be read.",
        "check that the endpoint is up and can be reached; nothing has to be started again",
    }
    REFUSED = "objects.refused", Error, "Toolcrib" {
        "the object store refuses",
        "Credentials are wrong or expired, a right is missing, or the bucket does not exist.",
        "check the bucket, the region and the credentials; reading, writing, listing and deleting below the prefix must be allowed",
    }
    FULL = "objects.full", Error, "Toolcrib" {
        "the object store is full or read-only",
        "Nothing was written. New evidence is kept in the database meanwhile.",
        "make room on the disk of the folder, or raise the quota of the bucket",
    }
    ABSENT = "objects.absent", Error, "Toolcrib" {
        "an object is missing",
        "The database refers to an object that the store does not have: it was removed by others, or the store is another one than at the time.",
        "nothing has to be done: the tool stays listed, and a new verification was asked for; check the setting if it happens often",
    }
    DAMAGED = "objects.damaged", Error, "Toolcrib" {
        "an object is damaged",
        "Its hash or size is not the one that was written down. Nothing of it is used.",
        "nothing has to be done: the tool stays listed, and a new verification was asked for; look for faults of the store if it happens often",
    }
    UNSET = "objects.unset", Error, "Toolcrib" {
        "evidence is in an object store that this process was not given",
        "The database says that evidence is kept as objects, and no --objects was given.",
        "give every process of this database the same --objects",
    }
    SNAPSHOT_NONE = "snapshot.none", Warning, "Toolcrib" {
        "there is no search snapshot",
        "No process has published one yet for this database, this format and this embedding. Search is built from the database.",
        "nothing has to be done; a process with --search and --objects publishes one",
    }
    SNAPSHOT_FORMAT = "snapshot.format", Warning, "Toolcrib" {
        "the search snapshot is of another format",
        "Another version of this program or another embedding made it. Search is built from the database.",
        "run the same version with the same embedding everywhere",
    }
    SNAPSHOT_FOREIGN = "snapshot.foreign", Warning, "Toolcrib" {
        "the search snapshot is of another database",
        "Its identity or its last change is not one of this database, which may have been restored from a backup. Search is built from the database.",
        "give each database a prefix of its own; the next snapshot replaces this one",
    }
    SNAPSHOT_STALE = "snapshot.stale", Warning, "Toolcrib" {
        "the search snapshot is older than the change feed",
        "Changes after it are no longer kept one by one. Search is built from the database.",
        "check that snapshots are published more often than --keep-changes forgets",
    }
    SNAPSHOT_DAMAGED = "snapshot.damaged", Warning, "Toolcrib" {
        "the search snapshot is damaged",
        "A file of it is missing, cut off, or has another hash, or the manifest cannot be read. Search is built from the database.",
        "nothing has to be done; the next snapshot replaces it",
    }
    SNAPSHOT_TOO_LARGE = "snapshot.too_large", Warning, "Toolcrib" {
        "the search snapshot is larger than is fetched",
        "Size and number of files have a limit, so that a wrong manifest does not fill a disk. Search is built from the database.",
        "check who writes to the object store",
    }
}
