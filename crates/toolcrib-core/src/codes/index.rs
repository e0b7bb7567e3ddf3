//! Codes of the index: followers, workers, the change feed and search.

super::codes! {
    FORGOTTEN = "index.forgotten", Error, "Toolcrib" {
        "the changes after this cursor are no longer kept",
        "The change feed keeps a limited past. Whoever has been away for longer cannot know what changed meanwhile.",
        "read everything again, from an export or page by page, and go on from the cursor that comes with it",
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
}
