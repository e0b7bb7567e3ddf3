//! Codes of the index: followers, workers, the change feed and search.

super::codes! {
    CURSOR = "index.cursor", Error, "Toolcrib" {
        "this cursor is of another search, or of none",
        "A cursor is a place among the hits of one search. With other words, filters or another order that place does not exist.",
        "ask for the first page again, and change nothing but the cursor between pages",
    }
    EMBEDDING = "index.embedding", Error, "Toolcrib" {
        "the embedding file cannot be used",
        "The folder must hold a known package with the hashes that it has (wordllama 0.4.0.post1), or one file of vectors (*.safetensors, one matrix of 16 or 32 bit numbers) and the tokenizer that goes with it (tokenizer.json).",
        "install the package again, point to a folder with both files, or remove the folder or the setting: search works without",
    }
    FORGOTTEN = "index.forgotten", Error, "Toolcrib" {
        "the changes after this cursor are no longer kept",
        "The change feed keeps a limited past. Whoever has been away for longer cannot know what changed meanwhile.",
        "read everything again, from an export or page by page, and go on from the cursor that comes with it",
    }
    CURSOR_AHEAD = "index.cursor_ahead", Error, "Toolcrib" {
        "this cursor is beyond the last change",
        "The feed never gave out this number: the cursor is of another directory, or the database was restored from an older backup. What changed in between is not known.",
        "read everything again, from an export or page by page, and go on from the `cursor` of this answer",
    }
    EXPIRY_HELD = "index.expiry_held", Warning, "Toolcrib" {
        "too many listings would end at once",
        "More than a tenth of all listings seem to be over within an hour, and no chain's newest block agrees that it is that late. A clock that is wrong looks like this, and so does a follower that stands still.",
        "check the clock of the database and the followers; if the time is right, run `toolcrib index expire`",
    }
    EXPORT_VERSION = "index.export_version", Error, "Toolcrib" {
        "this is no export of an index that this program can read",
        "The first line of an export says what it is and in which version. Newer programs write newer versions.",
        "read it with a program at least as new as the one that wrote it",
    }
    EXPORT_DAMAGED = "index.export_damaged", Error, "Toolcrib" {
        "the export is damaged",
        "Every line carries a checksum over itself and all lines before it, and the last one says how many there are. Nothing was imported.",
        "export again, or take another copy",
    }
    IMPORT_CONFLICT = "index.import_conflict", Error, "Toolcrib" {
        "the index already holds something else under these numbers",
        "Registries are numbered, and all other tables use the numbers. An export fits an empty index, or the one that it was made from.",
        "import into an empty database",
    }
    FILE = "index.file", Error, "Toolcrib" {
        "a file of the index could not be read or written",
        "A backup is made in a new file, for its owner alone.",
        "look at the path and its rights; a file that is there is never overwritten",
    }
    NOT_READY = "index.not_ready", Error, "Toolcrib" {
        "search is not ready yet",
        "The index of words is built from the database when a process starts without one, or when its files were damaged. Until then an answer would be empty although tools exist.",
        "try again after as many seconds as Retry-After says; lists and single tools are served meanwhile",
    }
    SEARCH = "index.search", Error, "Toolcrib" {
        "the search index failed",
        "The index of words beside the database could not be read or written. It holds nothing that the database does not have.",
        "look for a full or read-only disk; then start again, or remove the folder: the index is made anew",
    }
    SEARCH_LOCKED = "index.search_locked", Error, "Toolcrib" {
        "the search index is in use by another process",
        "Every process that searches keeps an index of words of its own. Two that write into one folder would undo each other's work.",
        "give each process a folder of its own, or none: then the index is kept in memory",
    }
    INCONSISTENT = "index.inconsistent", Warning, "Toolcrib" {
        "the answers of a node do not fit together",
        "A block was missing, its parent was another, or its logs were of another block. Nodes that are behind and chains that change their mind look like this, and it passes.",
        "wait; if it stays, use another node for this chain",
    }
    INCOMPLETE = "index.incomplete", Error, "Toolcrib" {
        "a node leaves logs out",
        "Tool ids are consecutive, the registry counts its tools, and a block's header says which events its logs can have. What the node gave does not add up, and neither another node nor another question gave the rest. The index is not advanced over the gap.",
        "add a second node with --rpc-url, or replace the node; if no log was ever given for the first ids, --from-block is too late",
    }
    LEASE_LOST = "index.lease_lost", Warning, "Toolcrib" {
        "another process follows this registry now",
        "One process at a time writes what a registry's chain says. This one did not renew its lease in time, so another took over.",
        "nothing is lost; if it happens often, the machine or the database is too slow for the lease",
    }
}
