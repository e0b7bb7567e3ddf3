//! Codes of verification: what evidence says about a tool as a whole.

super::codes! {
    HASH_MISMATCH = "verify.hash_mismatch", Error, check 3, "ERC-8257 §7 check 3" {
        "the served manifest is not the one that was committed onchain",
        "The hash of what the server gives differs from the hash in the registry. Whoever controls the server changed the manifest after it was registered, or the hash was made from other bytes.",
        "run `toolcrib explain hash` to learn which, then serve the committed manifest or commit the new one with `toolcrib update`",
    }
    CREATOR_MISMATCH = "verify.creator_mismatch", Error, check 4, "ERC-8257 §7 check 4" {
        "the manifest names another creator than the registry",
        "Anybody can register anybody's URL. Only the registration made by the address in `creatorAddress` is the tool's own; this one is not.",
        "look for the registration by the creator that the manifest names; creators register with that key or write their address into the manifest",
    }
    URI_CHANGED = "verify.uri_changed", Error, check 3, "ERC-8257 §7 Handling Verification Failure" {
        "the metadata URI changed while the tool was being verified",
        "The configuration was read a second time because the hash did not match, and by then it pointed elsewhere. What was fetched belongs to the old place, and there is no third try.",
        "verify again",
    }
    NO_MANIFEST = "verify.no_manifest", Error, check 1, "ERC-8257 §7 check 1" {
        "the evidence holds no fetch of the manifest",
        "The metadata URI may be fetched, but the evidence does not say what came of it, so nothing can be told about the manifest.",
        "gather evidence again",
    }
    INCONSISTENT = "verify.inconsistent_evidence", Error, check 1, "Toolcrib evidence" {
        "the evidence contradicts itself",
        "What was fetched does not belong to what was read onchain: another URL, an address that may not be connected to, or more reads than are allowed. A report about it would be worthless.",
        "gather evidence again with this version",
    }
    FORMAT = "verify.evidence_format", Error, check 1, "Toolcrib evidence" {
        "the evidence is of another format version",
        "Fields may mean something else in another version, so nothing is read from it.",
        "gather evidence again with this version, or judge it with the version that wrote it",
    }
    FROM_THE_FUTURE = "verify.evidence_from_the_future", Error, check 1, "Toolcrib evidence" {
        "the evidence was gathered in the future",
        "Its time lies more than a minute after the time it is judged at. One of the two clocks is wrong, and freshness cannot be told.",
        "set the clocks right and gather evidence again",
    }
    STALE = "verify.stale", Warning, "ERC-8257 §7 Handling Verification Failure" {
        "the evidence is older than its freshness window",
        "What was true then may not be true now. Neither a call nor a payment may rest on it.",
        "verify again before using the tool",
    }
    CONTENT_TYPE = "verify.content_type", Warning, "ERC-8257 §7 check 1" {
        "the manifest is not served as JSON",
        "Readers of this standard do not care, but caches, browsers and other clients treat the file by its Content-Type.",
        "serve it with Content-Type: application/json",
    }
    NO_CHAIN = "verify.no_chain", Hint, "ERC-8257 §7" {
        "only the checks that need no chain were made",
        "A URL names no registration, so neither the committed hash nor the creator could be compared. Nothing about this tool is verified.",
        "name the tool as eip155:<chain>/erc8257:<registry>/<id> for all four checks",
    }
    DEV_WORLD = "verify.dev_world", Hint, "Toolcrib development world" {
        "this is a tool of the development world",
        "It runs on this machine, on a local chain, behind a certificate of the local authority. It proves nothing about a public tool.",
        "publish on a public network when it is ready",
    }
    MAX_AGE = "verify.max_age_used", Hint, "ERC-8257 Manifest Freshness" {
        "the manifest shortens the freshness window",
        "Its `maxAge` is below the window in force, so a verified copy is kept for that long only.",
        "nothing needs to be done",
    }
    REREAD = "verify.config_reread", Hint, "ERC-8257 §7 Handling Verification Failure" {
        "the configuration was read twice",
        "What was served did not match the first read. An update may have been on its way, so the registry was asked once more, and never again.",
        "nothing needs to be done",
    }
}
