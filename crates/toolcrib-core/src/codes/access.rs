//! Codes of access requirements in a manifest, held against those onchain.

super::codes! {
    DIFFERS_FROM_CHAIN = "access.differs_from_chain", Warning, "ERC-8257 §4; getRequirements Is Advisory" {
        "the manifest asks for something else than the predicate",
        "The access block is a hint for people, and the predicate decides. Where they differ, callers meet the wrong requirements and are refused, or the author believes in a gate that is open.",
        "rewrite the access block from what getRequirements returns, or configure the predicate, then update the registration",
    }
}
