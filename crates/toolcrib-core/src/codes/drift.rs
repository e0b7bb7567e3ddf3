//! Codes of what changed between two looks at a tool.

super::codes! {
    HASH_COMMITTED_CHANGED = "drift.hash_committed_changed", Warning, "ERC-8257 §1 Tool Registry" {
        "the registration commits to another manifest",
        "The creator updated the tool. Whoever pinned the old hash, or agreed to the old terms, has to look again.",
        "compare the two manifests with `toolcrib diff`",
    }
    METADATA_URI_CHANGED = "drift.metadata_uri_changed", Warning, "ERC-8257 §1 Tool Registry" {
        "the manifest lives at another place",
        "The registration points to another URI. If its host changed, the tool has another origin.",
        "check that the new host belongs to the tool's creator",
    }
    SERVED_CHANGED = "drift.served_changed", Warning, "ERC-8257 Metadata URI Mutability" {
        "the server serves another manifest, to which the registration does not commit",
        "The bytes behind the URI changed while the hash onchain did not follow. Readers refuse the tool until both agree again.",
        "creators: run `toolcrib update` for the new manifest, or serve the committed one; `toolcrib explain hash` names the cause",
    }
    BECAME_UNVERIFIED = "drift.became_unverified", Error, "ERC-8257 §7 Handling Verification Failure" {
        "the tool was verified and is not any more",
        "One of the four checks fails now. Agents must not use the tool until it passes again.",
        "read the failing check; `toolcrib verify` says what to do about it",
    }
    REPAIRED = "drift.repaired", Hint, "ERC-8257 §7 Consumer Verification" {
        "the tool verifies again",
        "A check failed at the last look, and all four pass now.",
        "nothing is left to do",
    }
    FAULT_CHANGED = "drift.fault_changed", Hint, "ERC-8257 §7 Handling Verification Failure" {
        "the tool fails for another reason than before",
        "It was not verified and still is not, but another check or rule is the first to fail.",
        "read the failing check; `toolcrib verify` says what to do about it",
    }
    UNREACHABLE = "drift.unreachable", Warning, "ERC-8257 §7 check 1" {
        "the manifest cannot be fetched any more",
        "The server answered before and does not now, or answers with an error.",
        "try again; creators check the server, its certificate and its name",
    }
    REACHABLE = "drift.reachable", Hint, "ERC-8257 §7 check 1" {
        "the manifest can be fetched again",
        "The server did not answer at the last look.",
        "nothing is left to do",
    }
    CREATOR_CHANGED = "drift.creator_changed", Error, "ERC-8257 ToolConfig Struct" {
        "the registry names another creator",
        "A creator never changes. The registry is not what it was, the node lies, or a reorganisation gave the id to somebody else.",
        "do not use the tool; ask another node and check the code of the registry",
    }
    PREDICATE_CHANGED = "drift.predicate_changed", Warning, "ERC-8257 §1 Tool Registry" {
        "the tool has another access predicate",
        "Other rules decide who may call it; the zero address means that everybody may.",
        "look at the requirements of the new predicate",
    }
    PREDICATE_CODE_CHANGED = "drift.predicate_code_changed", Warning, "ERC-8257 Predicate Upgradeability" {
        "the code of the access predicate changed",
        "The address is the same and other rules may apply.",
        "look at the requirements again, and trust nothing that was known about the old code",
    }
    PREDICATE_UPGRADED = "drift.predicate_upgraded", Warning, "ERC-8257 Predicate Upgradeability" {
        "the access predicate was upgraded",
        "The predicate is a proxy, and whoever controls it put another implementation behind it.",
        "look at the requirements again, and trust nothing that was known about the old code",
    }
    REQUIREMENTS_CHANGED = "drift.requirements_changed", Warning, "ERC-8257 getRequirements Is Advisory" {
        "the access predicate asks for something else",
        "The predicate is the same, but was configured anew.",
        "look at the requirements again",
    }
    ENDPOINT_CHANGED = "drift.endpoint_changed", Warning, "ERC-8257 §2 Required Fields" {
        "calls go to another endpoint",
        "The manifest names another URL to call.",
        "check that it is the URL you want to send data and payments to",
    }
    PRICE_CHANGED = "drift.price_changed", Warning, "ERC-8257 §3 Pricing" {
        "the price list changed",
        "Amounts, assets, recipients or protocols are others than before.",
        "compare them before the next call, and check spending limits",
    }
    CERTIFICATE_CHANGED = "drift.certificate_changed", Hint, "ERC-8257 Origin-Binding Limitations" {
        "the server has another certificate",
        "Certificates are renewed every few weeks or months, so this alone means little.",
        "look at issuer and names when something else changed too",
    }
    DEREGISTERED = "drift.deregistered", Error, "ERC-8257 IToolRegistry" {
        "the tool was removed by its creator",
        "Removal is final: the id is never used again.",
        "look for a new registration by the same creator",
    }
    REGISTRATION_RETURNED = "drift.registration_returned", Warning, "ERC-8257 IToolRegistry" {
        "a tool that was not registered is registered now",
        "Either it was registered since, or it had been removed. Removal is final, so in the second case the chain was reorganised between the two looks, or one of the nodes was wrong.",
        "if it had been removed, wait for the block to become final, and look again",
    }
    OLDER_BLOCK = "drift.older_block", Hint, "Toolcrib" {
        "the second look is at an older block",
        "A node that lags behind shows the past. What differs is not drift, so nothing else is compared.",
        "look again later, or use another node",
    }
    OTHER_TOOL = "drift.other_tool", Error, "Toolcrib" {
        "the two looks are at different tools",
        "Nothing is compared. A saved state belongs to the one tool that it names.",
        "use a state file of its own for each tool",
    }
}
