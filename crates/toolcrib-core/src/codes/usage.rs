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
}
