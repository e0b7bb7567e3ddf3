//! Codes of usage reports, which a tool sends to a directory about a call.

super::codes! {
    NOT_JSON = "usage.not_json", Error, "Invocation guide, Usage Reporting; RFC 8259" {
        "the usage report is not well-formed JSON",
        "The body must be exactly one JSON value.",
        "send one JSON object",
    }
    DUPLICATE_KEY = "usage.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the usage report has the same key twice",
        "Readers disagree on which of two equal keys counts.",
        "keep one of the two",
    }
    TOO_LARGE = "usage.too_large", Error, "Toolcrib limits" {
        "the usage report is larger than the limit",
        "A report takes about 1 KiB.",
        "send only the fields of the report",
    }
    TOO_DEEP = "usage.too_deep", Error, "Toolcrib limits" {
        "the usage report nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "send only the fields of the report",
    }
    NOT_AN_OBJECT = "usage.not_an_object", Error, "Invocation guide, Usage Reporting" {
        "the usage report is not a JSON object",
        "A report is an object with the identity of the tool and one proof of the call.",
        "send the object itself",
    }
    FIELD_MISSING = "usage.field_missing", Error, "Invocation guide, Usage Reporting" {
        "a field of the usage report is missing",
        "A report has the tool's chain, registry and id, the duration of the call, and a proof of the call.",
        "send every required field of the report's type",
    }
    WRONG_TYPE = "usage.wrong_type", Error, "Invocation guide, Usage Reporting" {
        "a field of the usage report has the wrong JSON type",
        "Fields are never converted. Ids and amounts may be strings of decimal digits or whole numbers; everything else has one type.",
        "write the value in the type that the message names",
    }
    NULL_FIELD = "usage.null_field", Hint, "Invocation guide, Usage Reporting" {
        "a field is null instead of absent",
        "Strict readers expect a string if the field is present.",
        "leave the field out",
    }
    TYPE_UNKNOWN = "usage.type_unknown", Error, "Invocation guide, Usage Reporting" {
        "the kind of proof is unknown",
        "The kinds are eip3009_authorization for free calls and x402_settlement for paid ones.",
        "use one of the two",
    }
    TWO_PROOFS = "usage.two_proofs", Error, "Invocation guide, Usage Reporting" {
        "the usage report has two proofs",
        "verification_type selects the proof. A second one would not be checked and could mislead readers.",
        "send only the proof that verification_type names",
    }
    NUMBER = "usage.number", Error, "Invocation guide, Usage Reporting" {
        "the value is not a whole number in range",
        "Chain ids and tool ids are at least 1. Ids, values and times are decimal digits without sign, prefix or leading zeros, or JSON numbers below 2^53.",
        "write decimal digits",
    }
    TRANSACTION = "usage.transaction", Error, "Invocation guide, Paid tools" {
        "the settlement has no transaction hash",
        "A paid call is proven by the hash of the settlement transaction: 0x and 64 hexadecimal digits.",
        "report paid calls after they settled, with the transaction hash",
    }
    HEX = "usage.hex", Error, "Invocation guide, Free tools; EIP-3009" {
        "the value is not hexadecimal of the right length",
        "A nonce is 32 bytes and a signature at least 65, each as 0x and hexadecimal digits.",
        "forward the caller's values unchanged",
    }
    VALUE_NOT_ZERO = "usage.value_not_zero", Error, "Invocation guide, Free tools" {
        "the authorization in the report has a positive value",
        "Free calls are proven by a zero-value authorization. Anyone who reads the report could still settle one with a positive value.",
        "report paid calls by their transaction hash, never by their authorization",
    }
    CALLER_DIFFERS = "usage.caller_differs", Warning, "Invocation guide, Free tools" {
        "the caller is not the signer",
        "`caller_address` and `from` are the same account, except for delegated calls.",
        "report the account that signed",
    }
    NOT_REPORTED = "usage.not_reported", Warning, "Invocation guide, Usage Reporting" {
        "the call was served, but its usage was not reported",
        "The directory refused the report, or did not answer within five seconds. Reports are not retried, and they do not affect the caller's response.",
        "check the directory's URL and the API key in the settings",
    }
    TOOL_UNKNOWN = "usage.tool_unknown", Error, "Toolcrib" {
        "this directory has no such tool",
        "A report identifies a tool by its registration, or by its endpoint exactly as written in its manifest.",
        "identify the tool by chain, registry and id",
    }
    TOOL_AMBIGUOUS = "usage.tool_ambiguous", Error, "Toolcrib" {
        "several tools have this endpoint",
        "Anyone can register an endpoint again. A report that matches two tools counts for neither.",
        "identify the tool by chain, registry and id",
    }
    TOOL_NOT_LISTED = "usage.tool_not_listed", Error, "Toolcrib" {
        "the tool is not verified in this directory",
        "The recipient of a tool's payments is in its manifest, which is trusted only while all four checks pass for its current registration.",
        "read the tool's verification report, and send the usage report again once the tool verifies",
    }
    CHAIN_UNKNOWN = "usage.chain_unknown", Error, "Toolcrib" {
        "this directory does not follow that chain",
        "A payment counts only after this directory's own RPC nodes have confirmed it.",
        "report to a directory that follows the chain",
    }
    NO_PRICE = "usage.no_price", Error, "ERC-8257 §3; invocation guide, Paid tools" {
        "the tool's manifest has no price on that chain",
        "A payment counts only for a recipient and an asset that the verified manifest names on that chain.",
        "report the chain of the payment, or add the payment option to the manifest",
    }
    TOKEN_UNKNOWN = "usage.token_unknown", Error, "Toolcrib" {
        "the token is not in the built-in table",
        "A token contract emits its own logs, so a token of the tool's owner could log payments that were never made. Only tokens in the built-in table are trusted.",
        "add a payment option in USDC",
    }
    NOT_FINAL = "usage.not_final", Hint, "Toolcrib" {
        "the transaction is not final yet",
        "A reorg could still remove it. The report is kept and checked again until the transaction is final or the report expires.",
        "nothing to do; send the same report again to query its state",
    }
    NOT_FOUND = "usage.not_found", Hint, "Toolcrib" {
        "the chain does not show this transaction yet",
        "RPC nodes can lag behind. The report is kept for a limited time and checked again.",
        "check that the transaction is on the chain that the report names",
    }
    UNREACHABLE = "usage.unreachable", Hint, "Toolcrib" {
        "the chain could not be queried",
        "The directory's RPC nodes did not answer. The report is kept and checked again.",
        "nothing to do; send the same report again to query its state",
    }
    EXPIRED = "usage.expired", Error, "Toolcrib" {
        "the report expired without being proven",
        "The time is limited, because a transaction that is never mined or is on another chain would be queried for ever.",
        "report the transaction with the chain that it is on",
    }
    TOO_MANY_PENDING = "usage.too_many_pending", Error, "Toolcrib limits" {
        "too many pending reports for this tool",
        "The number of pending reports is limited, so that reports of invented transactions cannot fill the directory.",
        "send the report again once the transaction is final",
    }
    REVERTED = "usage.reverted", Error, "Toolcrib" {
        "the transaction failed",
        "A reverted transaction transfers nothing.",
        "report the transaction that settled the payment",
    }
    NO_AUTHORIZATION = "usage.no_authorization", Error, "EIP-3009; invocation guide, Paid tools" {
        "the transaction does not use an authorization of the caller",
        "A paid call is settled with an EIP-3009 authorization that the caller signed. A plain transfer does not prove a call.",
        "report the settlement transaction and the account that signed the payment",
    }
    WRONG_RECIPIENT = "usage.wrong_recipient", Error, "Invocation guide, Paid tools" {
        "the authorization paid another recipient",
        "The transfer of the authorization must go to the recipient in the tool's verified manifest.",
        "report the tool that was called, and check the recipient in its manifest",
    }
    TOO_LITTLE = "usage.too_little", Error, "Invocation guide, Paid tools" {
        "the authorization paid less than the tool's price",
        "The amount is compared with the price in the tool's verified manifest.",
        "charge the price in the manifest, or change the manifest",
    }
    OTHER_TOOL = "usage.other_tool", Error, "Toolcrib" {
        "the payment belongs to another tool",
        "Tools that share a recipient are distinguished by their price. Between different owners, the owner who is the recipient takes precedence, then the earlier registration.",
        "use a separate recipient or a different price for each tool",
    }
    TOO_EARLY = "usage.too_early", Error, "Toolcrib" {
        "the payment is older than the tool",
        "A payment from before the tool was registered was not for this tool.",
        "report only calls of the tool itself",
    }
    SELF_PAYMENT = "usage.self_payment", Error, "Toolcrib" {
        "the tool's owner paid for the call",
        "Payments from the creator or the recipient to themselves do not show usage. They are listed as activity, but neither counted nor used for ranking.",
        "nothing to do",
    }
    ALREADY_COUNTED = "usage.already_counted", Error, "Toolcrib" {
        "the payment was already counted",
        "Each authorization counts only once, and for one tool only.",
        "report each settlement once",
    }
    SIGNATURE = "usage.signature", Error, "EIP-712; EIP-3009" {
        "the signature is not the caller's",
        "The address recovered from the reported authorization must be `from`, with the EIP-712 domain of the chain's token in the built-in table.",
        "forward the caller's values unchanged, and report the chain of the signature",
    }
    SIGNED_FOR_ANOTHER = "usage.signed_for_another", Error, "Invocation guide, Free tools" {
        "the authorization has another recipient",
        "A zero-value authorization must be for the tool's creator, or for a recipient with a price of 0 in its manifest.",
        "request signatures for the creator of the tool",
    }
    OUT_OF_TIME = "usage.out_of_time", Error, "EIP-3009" {
        "the authorization is not valid now",
        "Free calls must be reported while their signature is valid, so that old signatures cannot be collected and reported later.",
        "report right after the call",
    }
}
