//! Codes of payments: what is wrong with the header that a caller pays or proves itself with.
//!
//! Amounts have codes of their own (`amount.*`), and so have the shapes of signatures (`chain.signature_*`). Networks and
//! addresses are written as in challenges (`x402.*`).

super::codes! {
    HEADER_TOO_LONG = "payment.header_too_long", Error, "Toolcrib limits" {
        "the payment header is longer than 16 KiB",
        "A payment takes about 1 KiB. Common servers and proxies refuse more than 16 KiB of headers, and nothing beyond that is decoded.",
        "drop extensions and other fields that the payment does not need",
    }
    HEADER_TWICE = "payment.header_twice", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the payment header is there more than once",
        "One request carries one payment. Two parties that read the header could each take another one of them.",
        "send one payment, in one header",
    }
    BOTH_HEADERS = "payment.both_headers", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "both payment headers are there",
        "X-PAYMENT is version 1, PAYMENT-SIGNATURE is version 2. With both, a proxy and the server could check one and settle the other.",
        "send the header of the version whose challenge you answer",
    }
    BASE64 = "payment.base64", Error, "x402 v1 HTTP transport; RFC 4648 §4" {
        "the payment header is not base64",
        "The header carries JSON in base64 with the standard alphabet and padding, in one line. Every other spelling is refused, so that one payment has one spelling.",
        "encode the JSON with standard base64, padded, in one line",
    }
    NOT_JSON = "payment.not_json", Error, "x402 v1 §5.2; x402 v2 §5.2; RFC 8259" {
        "the payment is not well-formed JSON",
        "The decoded header is one JSON value and nothing else.",
        "send one JSON object",
    }
    DUPLICATE_KEY = "payment.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the payment has the same key twice",
        "Readers disagree on which of two equal keys counts, so the one that checks the value and the one that settles could see different ones.",
        "keep one of the two",
    }
    TOO_LARGE = "payment.too_large", Error, "Toolcrib limits" {
        "the payment is larger than the limit",
        "A stranger decides how much is sent. Readers stop at a limit that is many times what honest payments need.",
        "drop extensions and other fields that the payment does not need",
    }
    TOO_DEEP = "payment.too_deep", Error, "Toolcrib limits" {
        "the payment nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "flatten the extensions in it",
    }
    NOT_AN_OBJECT = "payment.not_an_object", Error, "x402 v1 §5.2; x402 v2 §5.2" {
        "the payment is not a JSON object",
        "A payment is an object with x402Version and payload.",
        "send the object itself",
    }
    FIELD_MISSING = "payment.field_missing", Error, "x402 v1 §5.2; x402 v2 §5.2; EIP-3009" {
        "a field of the payment is missing",
        "Every field of the authorization is part of what was signed, so none has a default.",
        "send every field",
    }
    WRONG_TYPE = "payment.wrong_type", Error, "x402 v1 §5.2; x402 v2 §5.2" {
        "a field of the payment has the wrong JSON type",
        "Fields are never converted. Value and times are strings of decimal digits, because JSON numbers lose digits.",
        "write the value in the type that is named",
    }
    VERSION = "payment.version", Error, "x402 v1 §5.2; x402 v2 §5.2" {
        "the version of the payment does not fit its header",
        "X-PAYMENT carries x402Version 1, PAYMENT-SIGNATURE carries x402Version 2, each as a plain number. Guessing would mean reading fields under the names of the other version.",
        "write the number of the version that the header stands for",
    }
    SCHEME = "payment.scheme", Error, "x402 v1 §6; x402 v2 §6" {
        "the payment is not of the scheme `exact`",
        "Only payments of exactly the price are taken here.",
        "choose an offer with the scheme `exact`",
    }
    METHOD = "payment.method", Error, "x402 exact scheme on EVM" {
        "the payment does not carry an EIP-3009 authorization",
        "Permit2, delegations and transactions of other networks move money in ways that are not supported here.",
        "sign a TransferWithAuthorization of the token",
    }
    NETWORK = "payment.network", Error, "x402 exact scheme on EVM" {
        "the payment is not on an EVM network",
        "EIP-3009 authorizations exist on EVM networks only.",
        "choose an offer on an EVM network",
    }
    TIME = "payment.time", Error, "EIP-3009; x402 exact scheme on EVM" {
        "the time is not a whole number of seconds",
        "validAfter and validBefore are decimal digits without sign, prefix, blanks or leading zeros, and fit into 64 bits. Lenient readers take an empty text for zero.",
        "write seconds since 1970 as decimal digits",
    }
    NONCE = "payment.nonce", Error, "EIP-3009" {
        "the nonce is not 32 bytes",
        "It is 0x and 64 hexadecimal digits. The nonce is what makes an authorization good for one use.",
        "send 32 random bytes in hexadecimal",
    }
    SIGNATURE = "payment.signature", Error, "EIP-3009; ERC-1271" {
        "the signature is not 65 bytes or more in hexadecimal",
        "Signatures of accounts are 65 bytes: r, s and v. Those of contract wallets may be longer, up to a limit.",
        "send 0x and the signature in hexadecimal",
    }
    FROM_NOBODY = "payment.from_nobody", Error, "EIP-3009" {
        "the payer is the zero address",
        "Failed recovery of a signature yields the zero address in many libraries, so it must never be anybody.",
        "sign with your own account",
    }
    NO_MATCHING_OFFER = "payment.no_matching_offer", Error, "x402 v1 §6; x402 v2 §6" {
        "the payment meets none of the offers",
        "A payment has to repeat an offer of the challenge: scheme, network, asset, amount, payee, timeout and extra. Prices may have changed since the challenge was read.",
        "read the new challenge, compare it with the manifest, and sign for one of its offers",
    }
    NETWORK_DIFFERS = "payment.network_differs", Error, "x402 v1 §6; x402 v2 §6" {
        "the payment is for another network",
        "An authorization on one chain is worth nothing on another.",
        "sign for the network of the offer",
    }
    ASSET_DIFFERS = "payment.asset_differs", Error, "x402 v2 §6" {
        "the payment is in another asset",
        "Anybody can deploy a token. Only the one that the offer names counts.",
        "sign for the asset of the offer",
    }
    PAY_TO_DIFFERS = "payment.pay_to_differs", Error, "x402 exact scheme on EVM; invocation guide" {
        "the payment is to another account",
        "An authorization names its recipient. One made out to somebody else was meant for another tool.",
        "sign for the payee of the offer",
    }
    VALUE_DIFFERS = "payment.value_differs", Error, "x402 exact scheme on EVM" {
        "the payment is not exactly the price",
        "Paying less is no payment, and what is paid too much would not come back.",
        "sign for the amount of the offer",
    }
    VALUE_MISSING = "payment.value_missing", Error, "x402 exact scheme on EVM" {
        "the payment is of nothing, but there is a price",
        "A signature over zero proves who calls. It does not pay.",
        "sign for the amount of the offer",
    }
    VALUE_NOT_ZERO = "payment.value_not_zero", Error, "Invocation guide, Key Concepts" {
        "money was signed for where only identity is asked",
        "A call without a price takes a signature over zero. One over more could be cashed by whoever sees it, so it is refused instead of kept.",
        "sign for the value 0",
    }
    TIMEOUT_DIFFERS = "payment.timeout_differs", Error, "x402 v2 §6" {
        "the accepted offer has another timeout",
        "Version 2 sends the chosen offer back as it was made.",
        "send the offer back unchanged",
    }
    EXTRA_DIFFERS = "payment.extra_differs", Error, "x402 v2 §6" {
        "the accepted offer has another extra",
        "Version 2 sends the chosen offer back as it was made; extra may have more in it, but nothing else and nothing less.",
        "send the offer back unchanged",
    }
    NOT_YET = "payment.not_yet", Error, "EIP-3009; Toolcrib limits" {
        "the authorization is not valid yet",
        "The token refuses it before its time, and so would every settlement.",
        "set validAfter to 0, or check the clock",
    }
    EXPIRED = "payment.expired", Error, "EIP-3009; Toolcrib limits" {
        "the authorization has expired",
        "The token refuses it, or would by the time that it settles.",
        "read a new challenge and sign again; check the clock",
    }
    TOO_LONG_VALID = "payment.too_long_valid", Error, "Toolcrib limits" {
        "the authorization stays valid for too long",
        "Every authorization is remembered until it expires, so that nobody uses it twice. One that is good for years would have to be remembered for years.",
        "set validBefore to ten minutes from now",
    }
    WINDOW_EMPTY = "payment.window_empty", Error, "EIP-3009" {
        "the authorization is never valid",
        "validBefore is not after validAfter, so there is no second in which the token takes it.",
        "set validAfter to 0 and validBefore to ten minutes from now",
    }
    SALT = "payment.salt", Error, "Toolcrib bound nonce" {
        "the salt of the nonce is not 32 bytes",
        "It is 0x and 64 hexadecimal digits, in one header.",
        "send the salt that the nonce was made with",
    }
    SALT_MISSING = "payment.salt_missing", Error, "Toolcrib bound nonce" {
        "the nonce is bound to a call, and its salt is missing",
        "A nonce that starts with the mark of bound ones is good for one tool, one request and one body. Without the salt nobody can tell which, so a copy from elsewhere cannot pass either.",
        "send the salt in the header X-Tool-Nonce-Salt",
    }
    NONCE_OTHER_CALL = "payment.nonce_other_call", Error, "Toolcrib bound nonce" {
        "the nonce is bound to another call",
        "Tool, chain, method, URL, body and salt together make the nonce. At least one of them is not what was signed for.",
        "sign for this very request; send its body unchanged",
    }
    NONCE_UNBOUND = "payment.nonce_unbound", Error, "Toolcrib bound nonce" {
        "the nonce is not bound to this call",
        "This tool takes only payments whose nonce commits to the tool and the request, so that none can be taken elsewhere.",
        "make the nonce from the call and a salt, and send the salt in the header X-Tool-Nonce-Salt",
    }
    REPLAYED = "payment.replayed", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "the payment was used before",
        "An authorization is good for one call, in whatever version and header it comes. This one was used, or another call is using it right now.",
        "sign a new authorization with a new nonce",
    }
    PENDING = "payment.pending", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "the payment is being used by another call",
        "The call that it came with first is still under way, or was a moment ago.",
        "wait for as long as Retry-After says, then send the same request again",
    }
    ID_MALFORMED = "payment.id_malformed", Error, "x402 payment-identifier" {
        "the payment identifier is not one",
        "An identifier has 16 to 128 letters, digits, hyphens and underscores.",
        "send an identifier of that form in extensions[\"payment-identifier\"].info.id, or none",
    }
    ID_IN_USE = "payment.id_in_use", Error, "x402 payment-identifier" {
        "another payment has this payment identifier",
        "An identifier stands for one operation. Another payment of this payer came with it before, and nothing was charged for this one.",
        "send the first payment again, byte for byte, to get its answer; or use a new identifier for a new operation",
    }
    RETRY_TOKEN = "payment.retry_token", Error, "Toolcrib retries" {
        "the retry token is not 32 bytes",
        "It is 0x and 64 hexadecimal digits, in one header, as it was given with the first answer.",
        "send the token of the first answer in the header X-Tool-Retry-Token, or none",
    }
    REFERENCE = "payment.reference", Error, "Toolcrib bound nonce" {
        "the nonce is bound to a call, and the tool that it is for is not named",
        "The server was not told which tool of which registry it is, so the caller names the one that was signed for. The header holds one tool reference.",
        "send the tool reference in the header X-Tool-Reference",
    }
}
