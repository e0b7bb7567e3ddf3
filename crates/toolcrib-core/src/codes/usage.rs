//! Codes of usage reports: what a tool tells a directory about a call.

super::codes! {
    NOT_JSON = "usage.not_json", Error, "Invocation guide, Usage Reporting; RFC 8259" {
        "the usage report is not well-formed JSON",
        "The body is one JSON value and nothing else.",
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
        "send the fields of the report and nothing else",
    }
    TOO_DEEP = "usage.too_deep", Error, "Toolcrib limits" {
        "the usage report nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "send the fields of the report and nothing else",
    }
    NOT_AN_OBJECT = "usage.not_an_object", Error, "Invocation guide, Usage Reporting" {
        "the usage report is not a JSON object",
        "A report is an object with the key of the tool and one proof of the call.",
        "send the object itself",
    }
    FIELD_MISSING = "usage.field_missing", Error, "Invocation guide, Usage Reporting" {
        "a field of the usage report is missing",
        "A report names the tool by chain, registry and id, says how long the call took, and proves it.",
        "send every field of the report's type",
    }
    WRONG_TYPE = "usage.wrong_type", Error, "Invocation guide, Usage Reporting" {
        "a field of the usage report has the wrong JSON type",
        "Fields are never converted. Ids and amounts may be strings of decimal digits or whole numbers; everything else has one type.",
        "write the value in the type that is named",
    }
    NULL_FIELD = "usage.null_field", Hint, "Invocation guide, Usage Reporting" {
        "a field is null instead of absent",
        "Strict readers expect a text where there is a field.",
        "leave the field out",
    }
    TYPE_UNKNOWN = "usage.type_unknown", Error, "Invocation guide, Usage Reporting" {
        "the kind of proof is unknown",
        "There are eip3009_authorization for calls without a price and x402_settlement for paid ones.",
        "use one of the two",
    }
    TWO_PROOFS = "usage.two_proofs", Error, "Invocation guide, Usage Reporting" {
        "the usage report has a proof of the other kind too",
        "verification_type says which proof counts. A second one is unchecked and misleads readers.",
        "send the proof of the type that is named, and no other",
    }
    NUMBER = "usage.number", Error, "Invocation guide, Usage Reporting" {
        "this is not a whole number in range",
        "Chain numbers and tool ids are at least 1. Ids, values and times are decimal digits without sign, prefix or leading zeros, or JSON numbers below 2^53.",
        "write decimal digits",
    }
    TRANSACTION = "usage.transaction", Error, "Invocation guide, Paid tools" {
        "the settlement names no transaction",
        "A paid call is proven by the transaction that moved the money: 0x and 64 hexadecimal digits.",
        "report paid calls only after they settled, with the transaction's hash",
    }
    HEX = "usage.hex", Error, "Invocation guide, Free tools; EIP-3009" {
        "this is not hexadecimal of the right length",
        "A nonce is 32 bytes and a signature at least 65, each as 0x and hexadecimal digits.",
        "forward what the caller sent",
    }
    VALUE_NOT_ZERO = "usage.value_not_zero", Error, "Invocation guide, Free tools" {
        "the authorization in the report is over money",
        "Calls without a price are proven by a signature over zero. One over more could still be cashed by whoever reads the report.",
        "report paid calls by their transaction, never by their authorization",
    }
    CALLER_DIFFERS = "usage.caller_differs", Warning, "Invocation guide, Free tools" {
        "the caller is not who signed",
        "caller_address and from are the same account, unless somebody was called for.",
        "report the account that signed",
    }
    NOT_REPORTED = "usage.not_reported", Warning, "Invocation guide, Usage Reporting" {
        "the call was served, but its usage was not reported",
        "The directory refused the report, or did not answer within five seconds. Reports are not repeated, and the caller's answer is the same with and without them.",
        "look whether the directory's URL and the key in the settings are right",
    }
    TOOL_UNKNOWN = "usage.tool_unknown", Error, "Toolcrib" {
        "this directory has no such tool",
        "A report names a tool by its registration, or by the endpoint of its manifest as it is written there.",
        "name the tool by chain, registry and id",
    }
    TOOL_AMBIGUOUS = "usage.tool_ambiguous", Error, "Toolcrib" {
        "several tools have this endpoint",
        "Anybody can register an endpoint again. A report that could mean two tools counts for neither.",
        "name the tool by chain, registry and id",
    }
    TOOL_NOT_LISTED = "usage.tool_not_listed", Error, "Toolcrib" {
        "the tool is not verified here",
        "Whom a tool is paid through is in its manifest, which counts only while all four checks pass for what the registry says now.",
        "look at the tool's report, and repeat the usage report when it is verified again",
    }
    CHAIN_UNKNOWN = "usage.chain_unknown", Error, "Toolcrib" {
        "this directory does not follow that chain",
        "A payment is believed only after this directory's own nodes have shown it.",
        "report to a directory that follows the chain",
    }
    NO_PRICE = "usage.no_price", Error, "ERC-8257 §3; invocation guide, Paid tools" {
        "the tool's manifest has no price on that chain",
        "A payment counts for the recipient and the asset that the verified manifest names, on the chain that it names them for.",
        "report the chain that was paid on, or put the payment option into the manifest",
    }
    TOKEN_UNKNOWN = "usage.token_unknown", Error, "Toolcrib" {
        "the tool is paid in a token that nobody vouches for",
        "A token writes its own logs, so one that the tool's owner made could tell of payments that nobody made. Tokens of the pinned table alone are believed.",
        "offer a payment option in USDC too",
    }
    NOT_FINAL = "usage.not_final", Hint, "Toolcrib" {
        "the transaction is not final yet",
        "It may still be replaced. The report is kept, and judged again until it is final or its time is over.",
        "nothing to do; the same report may be sent again to ask",
    }
    NOT_FOUND = "usage.not_found", Hint, "Toolcrib" {
        "the chain does not show this transaction yet",
        "Nodes lag. The report is kept for a while, and judged again.",
        "look whether the transaction is on the chain that the report names",
    }
    UNREACHABLE = "usage.unreachable", Hint, "Toolcrib" {
        "the chain could not be asked",
        "The directory's nodes did not answer. The report is kept, and judged again.",
        "nothing to do; the same report may be sent again to ask",
    }
    EXPIRED = "usage.expired", Error, "Toolcrib" {
        "the report was kept for as long as reports are, and never proven",
        "A transaction that is never mined, or is on another chain, would be asked for for ever.",
        "report the transaction on the chain where it is",
    }
    TOO_MANY_PENDING = "usage.too_many_pending", Error, "Toolcrib limits" {
        "too many reports of this tool wait to be proven",
        "Whoever invents transactions must not fill the directory.",
        "send the report again after the transaction is final",
    }
    REVERTED = "usage.reverted", Error, "Toolcrib" {
        "the transaction failed",
        "A transaction that was reverted moved nothing.",
        "report the transaction that settled the payment",
    }
    NO_AUTHORIZATION = "usage.no_authorization", Error, "EIP-3009; invocation guide, Paid tools" {
        "the transaction uses no authorization of the caller",
        "A paid call is settled by an authorization that the caller signed. A plain transfer is no call.",
        "report the settlement's transaction and the account that signed the payment",
    }
    WRONG_RECIPIENT = "usage.wrong_recipient", Error, "Invocation guide, Paid tools" {
        "the authorization paid somebody else",
        "The transfer that belongs to the authorization has to go to the recipient in the tool's verified manifest.",
        "name the tool that was called, and the recipient in its manifest",
    }
    TOO_LITTLE = "usage.too_little", Error, "Invocation guide, Paid tools" {
        "the authorization paid less than the tool's price",
        "The amount is held against the price in the tool's verified manifest.",
        "charge what the manifest says, or change the manifest",
    }
    OTHER_TOOL = "usage.other_tool", Error, "Toolcrib" {
        "the payment belongs to another tool",
        "Tools that share a recipient are told apart by their price; between owners, the one who is the recipient comes first, then who registered first.",
        "give each tool its own recipient or its own price",
    }
    TOO_EARLY = "usage.too_early", Error, "Toolcrib" {
        "the payment is older than the tool",
        "What a recipient was paid before the tool was registered was paid for something else.",
        "report calls of the tool itself",
    }
    SELF_PAYMENT = "usage.self_payment", Error, "Toolcrib" {
        "the tool's owner paid for the call",
        "What creator and recipient pay themselves says nothing about use. It is shown as activity, and neither counted nor ranked.",
        "nothing to do",
    }
    ALREADY_COUNTED = "usage.already_counted", Error, "Toolcrib" {
        "the payment was counted before",
        "Each authorization counts once, for one tool, ever.",
        "report each settlement once",
    }
    SIGNATURE = "usage.signature", Error, "EIP-712; EIP-3009" {
        "the signature is not the caller's",
        "It has to recover to the account in from, over the authorization as it is reported, in the domain of the chain's pinned token.",
        "forward what the caller sent, and name the chain it was signed for",
    }
    SIGNED_FOR_ANOTHER = "usage.signed_for_another", Error, "Invocation guide, Free tools" {
        "the authorization is for somebody else",
        "A signature over nothing is for the tool's creator, or for a recipient that the tool asks for nothing.",
        "ask callers to sign for the creator of the tool",
    }
    OUT_OF_TIME = "usage.out_of_time", Error, "EIP-3009" {
        "the authorization is not valid now",
        "Calls without a price are reported while their signature is valid, so that old ones cannot be collected.",
        "report right after the call",
    }
}
