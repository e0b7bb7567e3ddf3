//! Codes of changes between two verifications of a tool.

super::codes! {
    HASH_COMMITTED_CHANGED = "drift.hash_committed_changed", Warning, "ERC-8257 §1 Tool Registry" {
        "the committed manifest hash changed",
        "The creator updated the tool. If you pinned the old hash or accepted the old terms, review the tool again.",
        "compare the two manifests with `toolcrib diff`",
    }
    METADATA_URI_CHANGED = "drift.metadata_uri_changed", Warning, "ERC-8257 §1 Tool Registry" {
        "the metadata URI changed",
        "The registration points to another URI. If its host changed, the tool has another origin.",
        "check that the new host belongs to the tool's creator",
    }
    SERVED_CHANGED = "drift.served_changed", Warning, "ERC-8257 Metadata URI Mutability" {
        "the served manifest changed, but the committed hash did not",
        "The content at the URI changed, and the hash onchain was not updated. Readers refuse the tool until both match again.",
        "creators: run `toolcrib update` for the new manifest, or serve the committed one; `toolcrib explain hash` names the cause",
    }
    BECAME_UNVERIFIED = "drift.became_unverified", Error, "ERC-8257 §7 Handling Verification Failure" {
        "the tool is no longer verified",
        "One of the four checks fails now. Agents must not use the tool until all four pass again.",
        "read the failing check; `toolcrib verify` shows how to fix it",
    }
    REPAIRED = "drift.repaired", Hint, "ERC-8257 §7 Consumer Verification" {
        "the tool is verified again",
        "A check failed in the previous verification, and all four pass now.",
        "nothing to do",
    }
    FAILURE_CHANGED = "drift.failure_changed", Hint, "ERC-8257 §7 Handling Verification Failure" {
        "the tool fails verification for another reason",
        "It was not verified before and still is not, but the first failing check or rule is a different one.",
        "read the failing check; `toolcrib verify` shows how to fix it",
    }
    UNREACHABLE = "drift.unreachable", Warning, "ERC-8257 §7 check 1" {
        "the manifest is no longer reachable",
        "The server served it before, and now does not answer or returns an error.",
        "try again; if you are the creator, check the server, its certificate and its DNS records",
    }
    REACHABLE = "drift.reachable", Hint, "ERC-8257 §7 check 1" {
        "the manifest is reachable again",
        "The server did not serve it in the previous verification.",
        "nothing to do",
    }
    CREATOR_CHANGED = "drift.creator_changed", Error, "ERC-8257 ToolConfig Struct" {
        "the registry names another creator",
        "The creator of a tool never changes. The registry was replaced, the RPC node returns false data, or a reorg gave the id to another registration.",
        "do not use the tool; compare with another RPC node and check the code of the registry",
    }
    PREDICATE_CHANGED = "drift.predicate_changed", Warning, "ERC-8257 §1 Tool Registry" {
        "the access predicate changed",
        "Other rules decide who may call the tool. The zero address means that anyone may.",
        "review the requirements of the new predicate",
    }
    PREDICATE_CODE_CHANGED = "drift.predicate_code_changed", Warning, "ERC-8257 Predicate Upgradeability" {
        "the code of the access predicate changed",
        "The address is the same, but other rules may apply.",
        "review the requirements again, and discard what you know about the old code",
    }
    PREDICATE_UPGRADED = "drift.predicate_upgraded", Warning, "ERC-8257 Predicate Upgradeability" {
        "the access predicate was upgraded",
        "The predicate is a proxy, and its admin replaced the implementation.",
        "review the requirements again, and discard what you know about the old code",
    }
    REQUIREMENTS_CHANGED = "drift.requirements_changed", Warning, "ERC-8257 getRequirements Is Advisory" {
        "the access requirements changed",
        "The predicate is the same, but its configuration changed.",
        "review the requirements again",
    }
    ENDPOINT_CHANGED = "drift.endpoint_changed", Warning, "ERC-8257 §2 Required Fields" {
        "the endpoint changed",
        "The manifest names another URL for calls.",
        "check that you want to send data and payments to this URL",
    }
    PRICE_CHANGED = "drift.price_changed", Warning, "ERC-8257 §3 Pricing" {
        "the price list changed",
        "Amounts, assets, recipients or protocols differ from before.",
        "compare them before the next call, and check your spending limits",
    }
    CERTIFICATE_CHANGED = "drift.certificate_changed", Hint, "ERC-8257 Origin-Binding Limitations" {
        "the server certificate changed",
        "Certificates are renewed every few weeks or months, so this alone does not indicate a takeover.",
        "compare the issuer and the names if other findings changed too",
    }
    DEREGISTERED = "drift.deregistered", Error, "ERC-8257 IToolRegistry" {
        "the creator deregistered the tool",
        "Deregistration is final: the id is never used again.",
        "look for a new registration by the same creator",
    }
    REGISTRATION_RETURNED = "drift.registration_returned", Warning, "ERC-8257 IToolRegistry" {
        "the tool is registered now, and was not before",
        "Either it was registered in between, or it had been deregistered. Deregistration is final, so in the second case a reorg happened between the two verifications, or one of the RPC nodes was wrong.",
        "if it had been deregistered, wait until the block is final, and verify again",
    }
    OLDER_BLOCK = "drift.older_block", Hint, "Toolcrib" {
        "the second verification is at an older block",
        "An RPC node that lags behind returns older state. Such differences are not drift, so nothing else is compared.",
        "verify again later, or use another RPC node",
    }
    OTHER_TOOL = "drift.other_tool", Error, "Toolcrib" {
        "the two verifications are of different tools",
        "Nothing is compared. A state file belongs to exactly one tool.",
        "use a separate state file for each tool",
    }
}
