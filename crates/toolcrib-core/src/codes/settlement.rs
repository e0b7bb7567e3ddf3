//! Codes of settlements: receipts of servers, and what facilitators answer.

super::codes! {
    HEADER = "settlement.header", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the receipt is not base64",
        "A receipt is JSON in standard base64, padded, in one line, of at most 16 KiB.",
        "look the payment up on the chain; the receipt tells nothing",
    }
    NOT_JSON = "settlement.not_json", Error, "x402 v1 §5.3; x402 v2 §5.3; RFC 8259" {
        "the answer about the settlement is not well-formed JSON",
        "What cannot be read says neither that money moved nor that it did not.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    DUPLICATE_KEY = "settlement.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the answer about the settlement has the same key twice",
        "Readers disagree on which of two equal keys counts.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    TOO_LARGE = "settlement.too_large", Error, "Toolcrib limits" {
        "the answer about the settlement is larger than the limit",
        "Whoever answers decides how much it sends. Readers stop at a limit that is many times what honest answers need.",
        "check the address of the facilitator",
    }
    TOO_DEEP = "settlement.too_deep", Error, "Toolcrib limits" {
        "the answer about the settlement nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "check the address of the facilitator",
    }
    NOT_AN_OBJECT = "settlement.not_an_object", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the answer about the settlement is not a JSON object",
        "Facilitators and receipts answer with an object.",
        "check the address of the facilitator",
    }
    FIELD_MISSING = "settlement.field_missing", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "a field of the answer about the settlement is missing",
        "Without success, isValid or kinds there is no answer in it.",
        "treat the outcome as unknown; check the address of the facilitator",
    }
    WRONG_TYPE = "settlement.wrong_type", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "a field of the answer about the settlement has the wrong JSON type",
        "Fields are never converted: the text \"true\" is not true.",
        "treat the outcome as unknown; check the address of the facilitator",
    }
    NULL_FIELD = "settlement.null_field", Hint, "x402 v1 §5.3; x402 v2 §5.3" {
        "a field is null instead of absent",
        "Strict readers expect a text where there is a field.",
        "leave the field out",
    }
    NO_TRANSACTION = "settlement.no_transaction", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the settlement is said to have succeeded, but names no transaction",
        "Success without a transaction cannot be checked, and says nothing that a failure could not say too.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    TRANSACTION = "settlement.transaction", Error, "x402 exact scheme on EVM" {
        "the transaction is not a hash",
        "On EVM networks a transaction is named by 0x and 64 hexadecimal digits.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    NETWORK_DIFFERS = "settlement.network_differs", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the settlement was on another network",
        "The payment was signed for one chain and cannot have moved money on another.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    PAYER_DIFFERS = "settlement.payer_differs", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the settlement names another payer",
        "The answer belongs to another payment, or the facilitator confuses them.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    AMOUNT_DIFFERS = "settlement.amount_differs", Error, "x402 exact scheme on EVM" {
        "the settlement was over another amount",
        "The scheme `exact` moves exactly what was signed for.",
        "treat the outcome as unknown, and look the authorization up on the chain",
    }
    TOO_MANY_KINDS = "settlement.too_many_kinds", Error, "Toolcrib limits" {
        "the facilitator lists more kinds of payment than the limit",
        "The kinds past the limit are not looked at.",
        "check the address of the facilitator",
    }
    REQUIREMENTS_DIFFER = "settlement.requirements_differ", Error, "x402 v1 §7; x402 v2 §7" {
        "the request to the facilitator contradicts itself",
        "The version of the payment and that of the request are the same, and the requirements are in the shape of that version.",
        "send payment and requirements of one version",
    }
    FACILITATOR_SILENT = "settlement.facilitator_silent", Warning, "x402 v1 §7; x402 v2 §7" {
        "the facilitator does not say what it settles",
        "Payments are checked and settled by the facilitator in the settings. It gave no usable answer about the kinds of payment that it takes.",
        "check the facilitator's URL and its headers, and whether it is up",
    }
    NO_SIGNERS = "settlement.no_signers", Warning, "x402 v2 §7" {
        "the facilitator announces no account that it sends transactions from",
        "A transfer that the facilitator did not name counts only if one of its announced signers sent it, because other servers may be paid to the same recipient. Without signers, a payment whose answer is lost stays unknown, and its payer gets no result.",
        "choose a facilitator that lists `signers` in `/supported`; if no other server is paid to these recipients, serve with `--sole-recipient`",
    }
    KIND_NOT_SETTLED = "settlement.kind_not_settled", Error, "x402 v1 §7; x402 v2 §7" {
        "the facilitator does not settle a kind of payment that is offered",
        "Every payment of this version, scheme and network would be refused. Clients of the other version are not concerned.",
        "choose a facilitator that serves the network, or offer another one",
    }
    NO_NODE = "settlement.no_node", Error, "Toolcrib settings" {
        "there is no node for a network that is offered",
        "Settling with a key of one's own, and looking at the chain after a facilitator, need a node of the payment's network.",
        "configure a node for the network",
    }
    ASSET_NOT_PINNED = "settlement.asset_not_pinned", Error, "Toolcrib settings" {
        "the offered token is not in the built-in table",
        "A key of one's own calls only contracts that are known: a token that somebody else chose could do anything with the gas.",
        "offer a token of the table",
    }
    RECIPIENT_NOT_ALLOWED = "settlement.recipient_not_allowed", Error, "Toolcrib settings" {
        "the recipient is not one that is settled for",
        "A key of one's own pays the gas of payments to the recipients in its settings, and of no others.",
        "add the recipient of the manifest's price to the settings",
    }
    NO_GAS = "settlement.no_gas", Error, "Toolcrib settings" {
        "the account that settles cannot pay for gas",
        "The account sends the transactions, and has less than one of them may cost.",
        "send the account some of the network's currency",
    }
    CLOCK_SKEW = "settlement.clock_skew", Warning, "Toolcrib settings" {
        "the clock of this machine and that of the chain are apart",
        "Payments are taken by one clock and settle by the other. Either is wrong, or the node lags behind its chain.",
        "set the machine's clock, for example with NTP; if it is right, use a node that is in sync",
    }
    REFUSED = "settlement.refused", Error, "x402 v1 §7; x402 v2 §7" {
        "the payment does not settle",
        "Nothing moved, and with this authorization nothing will: the account has too little, or the token refuses. The receipt's errorReason is the word for it.",
        "read errorReason in the receipt header, and sign a new authorization",
    }
    UNAVAILABLE = "settlement.unavailable", Error, "x402 v1 §7; x402 v2 §7" {
        "payments cannot be settled at present",
        "Whoever settles for this server does not answer. Nothing moved, and the authorization was not used up.",
        "send the same request again later",
    }
    UNKNOWN = "settlement.unknown", Error, "x402 v1 §7; x402 v2 §7" {
        "nobody knows yet whether the payment was settled",
        "The settlement was begun, and no answer came that says how it ended. The chain decides; until then the payment is neither taken again nor asked for again, and the output is kept for whoever paid.",
        "do not pay again; send the same request with the same payment later, with the salt or the retry token",
    }
}
