//! Codes of the index: followers, workers, the change feed and search.

super::codes! {
    CURSOR = "index.cursor", Error, "Toolcrib" {
        "the cursor does not match this query",
        "A cursor is a position in the results of one search. It is not valid with other words, filters or another sort order.",
        "request the first page again, and change only the cursor between pages",
    }
    EMBEDDING = "index.embedding", Error, "Toolcrib" {
        "the embedding files cannot be used",
        "The folder must contain a known package with matching hashes (wordllama 0.4.0.post1), or one vector file (*.safetensors, one matrix of 16 or 32 bit floats) and its tokenizer (tokenizer.json).",
        "install the package again, point to a folder with both files, or remove the folder or the setting: search works without an embedding",
    }
    CURSOR_EXPIRED = "index.cursor_expired", Error, "Toolcrib" {
        "the changes after this cursor are no longer kept",
        "The change feed keeps a limited history. After this cursor, changes were removed that a consumer has not seen.",
        "read all data again, from an export or page by page, and continue from the cursor that comes with it",
    }
    CURSOR_AHEAD = "index.cursor_ahead", Error, "Toolcrib" {
        "the cursor is beyond the last change",
        "The feed never issued this cursor: it belongs to another directory, or the database was restored from an older backup. The changes in between are unknown.",
        "read all data again, from an export or page by page, and continue from the `cursor` of this response",
    }
    EXPIRY_HELD = "index.expiry_held", Warning, "Toolcrib" {
        "too many listings would expire at once",
        "More than a tenth of all listings would expire within an hour, but the newest block of no chain is that recent. The cause is a wrong clock or a stalled follower, so nothing was expired.",
        "check the clock of the database and the followers; if the clock is right, run `toolcrib index expire`",
    }
    EXPORT_VERSION = "index.export_version", Error, "Toolcrib" {
        "the file is not a readable index export",
        "The first line of an export states its format and version. Newer versions of Toolcrib write newer formats.",
        "import it with a version of Toolcrib at least as new as the one that wrote it",
    }
    EXPORT_DAMAGED = "index.export_damaged", Error, "Toolcrib" {
        "the export is damaged",
        "Every line has a checksum over itself and all lines before it, and the last line states the number of lines. Nothing was imported.",
        "export again, or use another copy",
    }
    IMPORT_CONFLICT = "index.import_conflict", Error, "Toolcrib" {
        "the index already has other data under the same ids",
        "Registries have numeric ids, which all other tables refer to. An export can be imported into an empty index, or into the one it was made from.",
        "import into an empty database",
    }
    FILE = "index.file", Error, "Toolcrib" {
        "a file of the index could not be read or written",
        "A backup is written to a new file that only its owner can read.",
        "check the path and its permissions; an existing file is never overwritten",
    }
    NOT_READY = "index.not_ready", Error, "Toolcrib" {
        "search is not ready yet",
        "The full-text index is built from the database when a process starts without one, or when its files are damaged. Until then results would be empty although tools exist.",
        "try again after the seconds in Retry-After; lists and single tools are served meanwhile",
    }
    SEARCH = "index.search", Error, "Toolcrib" {
        "the search index failed",
        "The full-text index could not be read or written. All of its data is also in the database.",
        "check for a full or read-only disk, then restart; or remove the folder to rebuild the index",
    }
    SEARCH_LOCKED = "index.search_locked", Error, "Toolcrib" {
        "the search index is in use by another process",
        "Each process has its own full-text index. Two processes that write to one folder would overwrite each other's changes.",
        "use a separate folder for each process, or none to keep the index in memory",
    }
    INCONSISTENT = "index.inconsistent", Warning, "Toolcrib" {
        "the answers of an RPC node are inconsistent",
        "A block was missing, had another parent than expected, or its logs belonged to another block. Lagging nodes and reorgs cause this; it is usually temporary.",
        "wait; if it persists, use another RPC node for this chain",
    }
    INCOMPLETE = "index.incomplete", Error, "Toolcrib" {
        "an RPC node omits logs",
        "Tool ids are consecutive, the registry counts its tools, and the bloom filter of a block header shows which events can be in its logs. The logs from the node are incomplete by these checks, and neither another node nor another query returned the rest. The index does not advance past the gap.",
        "add a second node with --rpc-url, or replace the node; if logs for the first ids were never returned, --from-block is too high",
    }
    LEASE_LOST = "index.lease_lost", Warning, "Toolcrib" {
        "another process took over following this registry",
        "One process at a time follows a registry and writes its events. This one did not renew its lease in time, so another process took over.",
        "nothing to do: no data is lost; if it happens often, the machine or the database is too slow for the lease",
    }
}
