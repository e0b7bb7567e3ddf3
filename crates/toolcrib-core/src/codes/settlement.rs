//! Codes of settlements: receipts of servers, and responses of facilitators.

super::codes! {
    HEADER = "settlement.header", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the receipt is not valid base64",
        "A receipt is JSON in standard base64 with padding, in one line, of at most 16 KiB.",
        "ignore the receipt, and check the payment onchain",
    }
    NOT_JSON = "settlement.not_json", Error, "x402 v1 §5.3; x402 v2 §5.3; RFC 8259" {
        "the settlement response is not well-formed JSON",
        "An unreadable response proves neither that the payment settled nor that it did not.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    DUPLICATE_KEY = "settlement.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the settlement response has the same key twice",
        "Readers disagree on which of two equal keys counts.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    TOO_LARGE = "settlement.too_large", Error, "Toolcrib limits" {
        "the settlement response is larger than the limit",
        "The response is untrusted input. The limit is many times what honest responses need.",
        "check the address of the facilitator",
    }
    TOO_DEEP = "settlement.too_deep", Error, "Toolcrib limits" {
        "the settlement response nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "check the address of the facilitator",
    }
    NOT_AN_OBJECT = "settlement.not_an_object", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the settlement response is not a JSON object",
        "Facilitator responses and receipts are JSON objects.",
        "check the address of the facilitator",
    }
    FIELD_MISSING = "settlement.field_missing", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "a field of the settlement response is missing",
        "Without `success`, `isValid` or `kinds` the response has no result.",
        "treat the outcome as unknown; check the address of the facilitator",
    }
    WRONG_TYPE = "settlement.wrong_type", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "a field of the settlement response has the wrong JSON type",
        "Fields are never converted: the string \"true\" is not the boolean true.",
        "treat the outcome as unknown; check the address of the facilitator",
    }
    NULL_FIELD = "settlement.null_field", Hint, "x402 v1 §5.3; x402 v2 §5.3" {
        "a field is null instead of absent",
        "Strict readers expect a string if the field is present.",
        "leave the field out",
    }
    NO_TRANSACTION = "settlement.no_transaction", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "a successful settlement without a transaction hash",
        "A success cannot be checked without its transaction, so it proves nothing.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    TRANSACTION = "settlement.transaction", Error, "x402 exact scheme on EVM" {
        "the transaction is not a hash",
        "On EVM networks a transaction hash is 0x and 64 hexadecimal digits.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    NETWORK_DIFFERS = "settlement.network_differs", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the settlement was on another network",
        "The payment was signed for one chain and cannot settle on another.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    PAYER_DIFFERS = "settlement.payer_differs", Error, "x402 v1 §5.3; x402 v2 §5.3" {
        "the settlement names another payer",
        "The response belongs to another payment, or the facilitator mixed up payments.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    AMOUNT_DIFFERS = "settlement.amount_differs", Error, "x402 exact scheme on EVM" {
        "the settlement has another amount",
        "The scheme `exact` transfers exactly the signed amount.",
        "treat the outcome as unknown, and check the authorization onchain",
    }
    TOO_MANY_KINDS = "settlement.too_many_kinds", Error, "Toolcrib limits" {
        "the facilitator lists too many payment kinds",
        "Kinds beyond the limit are ignored.",
        "check the address of the facilitator",
    }
    REQUIREMENTS_DIFFER = "settlement.requirements_differ", Error, "x402 v1 §7; x402 v2 §7" {
        "payment and requirements have different x402 versions",
        "The payment, the request to the facilitator and the requirements must have the same x402 version.",
        "send payment and requirements of one version",
    }
    KINDS_UNKNOWN = "settlement.kinds_unknown", Warning, "x402 v1 §7; x402 v2 §7" {
        "the facilitator does not list its payment kinds",
        "The facilitator in the settings verifies and settles payments. Its response about supported kinds was missing or not usable.",
        "check the facilitator's URL and headers, and whether it is up",
    }
    NO_SIGNERS = "settlement.no_signers", Warning, "x402 v2 §7" {
        "the facilitator lists no signers",
        "Other servers may be paid to the same recipient, so a transfer that the facilitator did not report counts only if one of its listed signers sent it. Without signers, a payment whose response is lost stays unknown, and its payer gets no result.",
        "choose a facilitator that lists `signers` in `/supported`; if no other server uses these recipients, serve with `--sole-recipient`",
    }
    KIND_NOT_SETTLED = "settlement.kind_not_settled", Error, "x402 v1 §7; x402 v2 §7" {
        "the facilitator does not support an offered payment kind",
        "Every payment of this version, scheme and network would be refused. Clients of the other x402 version are not affected.",
        "choose a facilitator that supports the network, or offer another network",
    }
    NO_NODE = "settlement.no_node", Error, "Toolcrib settings" {
        "no RPC node is configured for an offered network",
        "Settling with your own key, and checking the chain after a facilitator, need an RPC node for the payment's network.",
        "configure an RPC node for the network",
    }
    ASSET_NOT_PINNED = "settlement.asset_not_pinned", Error, "Toolcrib settings" {
        "the offered token is not in the built-in table",
        "Your own settlement key calls only known contracts: an unknown token contract could waste its gas.",
        "offer a token of the built-in table",
    }
    RECIPIENT_NOT_ALLOWED = "settlement.recipient_not_allowed", Error, "Toolcrib settings" {
        "the recipient is not on the settlement allow list",
        "Your own settlement key pays gas only for payments to the recipients in the settings.",
        "add the recipient of the manifest's price to the settings",
    }
    NO_GAS = "settlement.no_gas", Error, "Toolcrib settings" {
        "the settlement account cannot pay for gas",
        "The account sends the settlement transactions, and its balance is below the possible cost of one.",
        "fund the account with the network's native currency",
    }
    CLOCK_SKEW = "settlement.clock_skew", Warning, "Toolcrib settings" {
        "the clock of this machine differs from the chain's time",
        "Payments are accepted by the machine's clock but settle by the chain's. Either the clock is wrong, or the RPC node lags behind.",
        "set the machine's clock, for example with NTP; if it is right, use an RPC node that is in sync",
    }
    REFUSED = "settlement.refused", Error, "x402 v1 §7; x402 v2 §7" {
        "the payment cannot settle",
        "No money moved, and this authorization will never settle: the payer's balance is too low, or the token rejects it. The receipt's errorReason names the cause.",
        "read errorReason in the receipt header, and sign a new authorization",
    }
    UNAVAILABLE = "settlement.unavailable", Error, "x402 v1 §7; x402 v2 §7" {
        "payments cannot be settled at the moment",
        "The facilitator or the RPC node for settlement does not answer. No money moved, and the authorization was not consumed.",
        "send the same request again later",
    }
    UNKNOWN = "settlement.unknown", Error, "x402 v1 §7; x402 v2 §7" {
        "the outcome of the settlement is unknown",
        "The settlement was started, but no response stated its outcome. The chain decides. Until then no other payment is accepted or requested for the call, and its output is kept for the payer.",
        "do not pay again; send the same request with the same payment later, with the salt or the retry token",
    }
}
