//! Codes of the index: followers, workers, the change feed and search.

super::codes! {
    FORGOTTEN = "index.forgotten", Error, "Toolcrib" {
        "the changes after this cursor are no longer kept",
        "The change feed keeps a limited past. Whoever has been away for longer cannot know what changed meanwhile.",
        "read everything again, from an export or page by page, and go on from the cursor that comes with it",
    }
    INCONSISTENT = "index.inconsistent", Warning, "Toolcrib" {
        "the answers of a node do not fit together",
        "A block was missing, its parent was another, or its logs were of another block. Nodes that are behind and chains that change their mind look like this, and it passes.",
        "wait; if it stays, use another node for this chain",
    }
    LEASE_LOST = "index.lease_lost", Warning, "Toolcrib" {
        "another process follows this registry now",
        "One process at a time writes what a registry's chain says. This one did not renew its lease in time, so another took over.",
        "nothing is lost; if it happens often, the machine or the database is too slow for the lease",
    }
}
