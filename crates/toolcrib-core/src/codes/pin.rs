//! Codes of pinned values.

super::codes! {
    MANIFEST_HASH_CHANGED = "pin.manifest_hash_changed", Error, "ERC-8257 Metadata URI Mutability" {
        "the manifest differs from the pinned one",
        "The hash that the registration commits to differs from the pinned one. The tool may still verify: its creator committed to a new manifest, which may have other prices, another endpoint or other inputs.",
        "read the new manifest, and pin its hash if you agree with it",
    }
}
