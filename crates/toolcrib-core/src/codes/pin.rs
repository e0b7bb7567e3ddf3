//! Codes of values that a user pinned.

super::codes! {
    MANIFEST_HASH_CHANGED = "pin.manifest_hash_changed", Error, "ERC-8257 Metadata URI Mutability" {
        "the manifest is not the pinned one",
        "The hash that the registration commits to differs from the one that was pinned. The tool may verify all the same: its creator committed to another manifest, with other prices, endpoint or inputs.",
        "read the new manifest; pin its hash if you agree with it",
    }
}
