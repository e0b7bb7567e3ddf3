//! Codes of access: requirements in a manifest held against those onchain, and the answers of a tool to callers who may not.

super::codes! {
    DIFFERS_FROM_CHAIN = "access.differs_from_chain", Warning, "ERC-8257 §4; getRequirements Is Advisory" {
        "the manifest asks for something else than the predicate",
        "The access block is a hint for people, and the predicate decides. Where they differ, callers meet the wrong requirements and are refused, or the author believes in a gate that is open.",
        "rewrite the access block from what getRequirements returns, or configure the predicate, then update the registration",
    }
    DENIED = "access.denied", Error, "ERC-8257 IToolRegistry; Invocation guide, Step-by-step" {
        "the caller may not use this tool",
        "The caller proved who it is, and the tool's predicate answered no. The signature was not used up.",
        "read the requirements in the answer, meet them, and call again",
    }
    PREDICATE_MALFUNCTION = "access.predicate_malfunction", Error, "ERC-8257 IToolRegistry; Invocation guide, Step-by-step" {
        "the tool's predicate does not work",
        "It reverted, ran out of gas, or gave an answer that is no boolean. That is neither a yes nor a no, so nobody is let in; the fault is not the caller's. The signature was not used up.",
        "tell the tool's creator; the predicate must be repaired or replaced",
    }
    UNAVAILABLE = "access.unavailable", Error, "Invocation guide, Step-by-step" {
        "the tool could not ask whether the caller may use it",
        "The registry or the node that the tool asks did not answer, or the tool is not registered there. Nobody is let in on a guess. The signature was not used up.",
        "call again later",
    }
    DATA = "access.data", Error, "ERC-8257 IAccessPredicate; Toolcrib limits" {
        "the data for the predicate is not hexadecimal, or too long",
        "Some predicates need a token id, a proof or a signature beside the account. It travels as 0x and pairs of hexadecimal digits, at most 4096 bytes of it, in one header X-Tool-Access-Data.",
        "send the bytes that the predicate documents, once, in hexadecimal",
    }
    DELEGATE_FOR = "access.delegate_for", Error, "Invocation guide; delegate.xyz DelegateRegistry v2" {
        "the account that is called for cannot be read",
        "The header X-Delegate-For holds one account as 0x and 40 hexadecimal digits, once. Nobody is let in for an account that was guessed.",
        "send the account that has delegated to yours, or no such header",
    }
    NO_DELEGATION = "access.no_delegation", Error, "Toolcrib" {
        "the tool does not let anybody call for somebody else",
        "The header X-Delegate-For names an account to call for. This tool looks at the account that signed and at no other, so the header would have been of no effect.",
        "call without the header X-Delegate-For, with the account that has access",
    }
    NOT_DELEGATED = "access.not_delegated", Error, "delegate.xyz DelegateRegistry v2" {
        "the account that is called for has not delegated to the caller",
        "The delegation registry on the tool's chain was asked whether the account in X-Delegate-For has delegated everything to the account that signed, and said no. The signature was not used up.",
        "delegate from the account that has access to the one that signs, on the tool's chain, and call again",
    }
}
