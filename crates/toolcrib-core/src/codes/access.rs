//! Codes of access: requirements in a manifest compared with those onchain, and responses of a tool to callers without access.

super::codes! {
    DIFFERS_FROM_CHAIN = "access.differs_from_chain", Warning, "ERC-8257 §4; getRequirements Is Advisory" {
        "the access block of the manifest differs from the predicate",
        "The access block is informational; the predicate decides. Where they differ, callers meet the wrong requirements and are refused, or the tool is open although its author believes it is gated.",
        "rewrite the access block from what getRequirements returns, or configure the predicate, then update the registration",
    }
    DENIED = "access.denied", Error, "ERC-8257 IToolRegistry; Invocation guide, Step-by-step" {
        "access denied: the caller does not meet the tool's requirements",
        "The caller's identity was verified, and the tool's access predicate returned false. The signature was not consumed and can be used again.",
        "read the requirements in the response, meet them, and call again",
    }
    PREDICATE_MALFUNCTION = "access.predicate_malfunction", Error, "ERC-8257 IToolRegistry; Invocation guide, Step-by-step" {
        "the tool's access predicate failed",
        "It reverted, ran out of gas, or returned something other than a boolean. That is neither a yes nor a no, so access is refused. The caller did nothing wrong. The signature was not consumed.",
        "tell the tool's creator; the predicate must be fixed or replaced",
    }
    UNAVAILABLE = "access.unavailable", Error, "Invocation guide, Step-by-step" {
        "the tool could not check access",
        "The RPC node or the registry did not answer, or the tool is not registered there. Without an answer access is refused. The signature was not consumed.",
        "call again later",
    }
    DATA = "access.data", Error, "ERC-8257 IAccessPredicate; Toolcrib limits" {
        "the data for the predicate is not hexadecimal, or too long",
        "Some predicates need a token id, a proof or a signature in addition to the account. It is sent as 0x-prefixed hexadecimal, at most 4096 bytes, in a single X-Tool-Access-Data header.",
        "send the bytes that the predicate documents, once, in hexadecimal",
    }
    DELEGATE_FOR = "access.delegate_for", Error, "Invocation guide; delegate.xyz DelegateRegistry v2" {
        "the header X-Delegate-For is malformed",
        "The header X-Delegate-For holds one account as 0x and 40 hexadecimal digits, and appears once. A malformed value is refused, not guessed.",
        "send the account that has delegated to yours, or leave the header out",
    }
    NO_DELEGATION = "access.no_delegation", Error, "Toolcrib" {
        "the tool does not support delegation",
        "The header X-Delegate-For names the account on whose behalf the call is made. This tool checks only the account that signed, so the header would have had no effect.",
        "call without the header X-Delegate-For, and sign with the account that has access",
    }
    NOT_DELEGATED = "access.not_delegated", Error, "delegate.xyz DelegateRegistry v2" {
        "the account in X-Delegate-For has not delegated to the caller",
        "According to the delegation registry on the tool's chain, the account in X-Delegate-For has not delegated all rights to the account that signed. The signature was not consumed.",
        "delegate from the account that has access to the one that signs, on the tool's chain, and call again",
    }
}
