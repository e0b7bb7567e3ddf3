//! Codes of verification: what evidence says about a tool as a whole.

super::codes! {
    HASH_MISMATCH = "verify.hash_mismatch", Error, check 3, "ERC-8257 §7 check 3" {
        "the served manifest does not match the hash onchain",
        "The hash of the served manifest differs from the hash in the registry. The manifest was changed on the server after it was registered, or the hash was computed from other bytes.",
        "find the cause with `toolcrib explain hash`, then serve the committed manifest, or commit the new one with `toolcrib update`",
    }
    CREATOR_MISMATCH = "verify.creator_mismatch", Error, check 4, "ERC-8257 §7 check 4" {
        "the creator in the manifest differs from the registry",
        "Anyone can register any URL. Only a registration by the address in `creatorAddress` is genuine, and this one is by another address.",
        "use the registration by the creator that the manifest names; creators: register with that key, or write your address into the manifest",
    }
    URI_CHANGED = "verify.uri_changed", Error, check 3, "ERC-8257 §7 Handling Verification Failure" {
        "the metadata URI changed while the tool was being verified",
        "The registration was read a second time because the hash did not match, and the URI had changed. The fetched manifest belongs to the old URI, and there is no third attempt.",
        "verify again",
    }
    NO_MANIFEST = "verify.no_manifest", Error, check 1, "ERC-8257 §7 check 1" {
        "the evidence has no fetch of the manifest",
        "The metadata URI is allowed, but the evidence has no result of fetching it, so the manifest cannot be judged.",
        "gather evidence again",
    }
    INCONSISTENT = "verify.inconsistent_evidence", Error, check 1, "Toolcrib evidence" {
        "the evidence contradicts itself",
        "The fetch does not match the reads onchain: it has another URL, an address that is not allowed, or too many reads. No verdict is possible.",
        "gather evidence again with this version",
    }
    FORMAT = "verify.evidence_format", Error, check 1, "Toolcrib evidence" {
        "the evidence has another format version",
        "Fields may have another meaning in another version, so the evidence is not read.",
        "gather evidence again with this version, or judge it with the version that wrote it",
    }
    FROM_THE_FUTURE = "verify.evidence_from_the_future", Error, check 1, "Toolcrib evidence" {
        "the timestamp of the evidence is in the future",
        "It is more than a minute later than the time of the check. One of the two clocks is wrong, so the age of the evidence is unknown.",
        "correct the clocks, and gather evidence again",
    }
    STALE = "verify.stale", Warning, "ERC-8257 §7 Handling Verification Failure" {
        "the evidence is older than its freshness window",
        "The facts may have changed since. Do not call or pay on the basis of this evidence.",
        "verify again before using the tool",
    }
    CONTENT_TYPE = "verify.content_type", Warning, "ERC-8257 §7 check 1" {
        "the manifest is not served as JSON",
        "ERC-8257 readers ignore the Content-Type, but caches, browsers and other clients depend on it.",
        "serve it with Content-Type: application/json",
    }
    NO_CHAIN = "verify.no_chain", Hint, "ERC-8257 §7" {
        "only the checks without a chain were made",
        "A URL does not identify a registration, so neither the committed hash nor the creator could be compared. The tool is not verified.",
        "pass eip155:<chain>/erc8257:<registry>/<id> to make all four checks",
    }
    DEV_ENVIRONMENT = "verify.dev_environment", Hint, "Toolcrib development environment" {
        "the tool runs in the local development environment",
        "It uses a local chain and a certificate of the local certificate authority, so the result does not apply to a public tool.",
        "publish the tool on a public network when it is ready",
    }
    MAX_AGE = "verify.max_age_used", Hint, "ERC-8257 Manifest Freshness" {
        "the manifest shortens the freshness window",
        "Its `maxAge` is below the configured window, so a verified copy is cached only for `maxAge`.",
        "nothing to do",
    }
    REREAD = "verify.config_reread", Hint, "ERC-8257 §7 Handling Verification Failure" {
        "the registration was read twice",
        "The served manifest did not match the first read. An update may have been in progress, so the registry was read one more time.",
        "nothing to do",
    }
}
