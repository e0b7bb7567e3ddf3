//! Codes of the index: followers, workers, the change feed and search.

super::codes! {
    FORGOTTEN = "index.forgotten", Error, "Toolcrib" {
        "the changes after this cursor are no longer kept",
        "The change feed keeps a limited past. Whoever has been away for longer cannot know what changed meanwhile.",
        "read everything again, from an export or page by page, and go on from the cursor that comes with it",
    }
}
