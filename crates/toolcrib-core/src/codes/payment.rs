//! Codes of payments: problems of the header with which a caller pays or proves its identity.
//!
//! Amounts have their own codes (`amount.*`), and so have the formats of signatures (`chain.signature_*`). Networks and addresses use the
//! codes of challenges (`x402.*`).

super::codes! {
    HEADER_TOO_LONG = "payment.header_too_long", Error, "Toolcrib limits" {
        "the payment header is longer than 16 KiB",
        "A payment takes about 1 KiB. Common servers and proxies refuse more than 16 KiB of headers, so a longer header is not decoded.",
        "remove extensions and other fields that the payment does not need",
    }
    HEADER_TWICE = "payment.header_twice", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the payment header is repeated",
        "A request has one payment. Two programs that read a repeated header could each use a different one.",
        "send one payment, in one header",
    }
    BOTH_HEADERS = "payment.both_headers", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the request has both payment headers",
        "X-PAYMENT is x402 version 1, PAYMENT-SIGNATURE is version 2. With both, one could be verified and the other settled.",
        "send the header of the version of the challenge",
    }
    BASE64 = "payment.base64", Error, "x402 v1 HTTP transport; RFC 4648 §4" {
        "the payment header is not base64",
        "The header is JSON in base64 with the standard alphabet and padding, in one line. Other encodings are refused, so that each payment has exactly one encoding.",
        "encode the JSON with standard base64, padded, in one line",
    }
    NOT_JSON = "payment.not_json", Error, "x402 v1 §5.2; x402 v2 §5.2; RFC 8259" {
        "the payment is not well-formed JSON",
        "The decoded header must be exactly one JSON value.",
        "send one JSON object",
    }
    DUPLICATE_KEY = "payment.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the payment has the same key twice",
        "Readers disagree on which of two equal keys counts, so verification and settlement could use different values.",
        "keep one of the two",
    }
    TOO_LARGE = "payment.too_large", Error, "Toolcrib limits" {
        "the payment is larger than the limit",
        "Payments are untrusted input. The limit is many times what honest payments need.",
        "remove extensions and other fields that the payment does not need",
    }
    TOO_DEEP = "payment.too_deep", Error, "Toolcrib limits" {
        "the payment nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "flatten its extensions",
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
        "Fields are never converted. `value` and times are strings of decimal digits, because JSON numbers lose precision.",
        "write the value in the type that the message names",
    }
    VERSION = "payment.version", Error, "x402 v1 §5.2; x402 v2 §5.2" {
        "the version of the payment does not match its header",
        "X-PAYMENT carries x402Version 1, PAYMENT-SIGNATURE carries x402Version 2, each as a JSON number. The two versions name their fields differently, so the version is not guessed.",
        "write the version number that belongs to the header",
    }
    SCHEME = "payment.scheme", Error, "x402 v1 §6; x402 v2 §6" {
        "the payment scheme is not `exact`",
        "Only the scheme `exact` is supported: payments of exactly the price.",
        "choose an offer with the scheme `exact`",
    }
    METHOD = "payment.method", Error, "x402 exact scheme on EVM" {
        "the payment does not carry an EIP-3009 authorization",
        "Permit2, delegations and transactions of other networks are not supported.",
        "sign a TransferWithAuthorization of the token",
    }
    NETWORK = "payment.network", Error, "x402 exact scheme on EVM" {
        "the payment is not on an EVM network",
        "EIP-3009 authorizations exist on EVM networks only.",
        "choose an offer on an EVM network",
    }
    TIME = "payment.time", Error, "EIP-3009; x402 exact scheme on EVM" {
        "the time is not a whole number of seconds",
        "validAfter and validBefore are decimal digits without sign, prefix, spaces or leading zeros, and fit into 64 bits. Lenient readers accept an empty string as zero.",
        "write the Unix time in seconds as decimal digits",
    }
    NONCE = "payment.nonce", Error, "EIP-3009" {
        "the nonce is not 32 bytes",
        "A nonce is 0x and 64 hexadecimal digits. It makes an authorization valid for a single use.",
        "send 32 random bytes in hexadecimal",
    }
    SIGNATURE = "payment.signature", Error, "EIP-3009; ERC-1271" {
        "the signature is not 65 bytes or more in hexadecimal",
        "Signatures of externally owned accounts are 65 bytes: r, s and v. Those of contract accounts may be longer, up to a limit.",
        "send 0x and the signature in hexadecimal",
    }
    FROM_ZERO_ADDRESS = "payment.from_zero_address", Error, "EIP-3009" {
        "the payer is the zero address",
        "In many libraries a failed signature recovery yields the zero address, so it is never accepted as payer.",
        "sign with your own account",
    }
    NO_MATCHING_OFFER = "payment.no_matching_offer", Error, "x402 v1 §6; x402 v2 §6" {
        "the payment matches none of the offers",
        "A payment must match an offer of the challenge in scheme, network, asset, amount, payTo, timeout and extra. The price may have changed since the challenge was issued.",
        "read the new challenge, compare it with the manifest, and sign one of its offers",
    }
    NETWORK_DIFFERS = "payment.network_differs", Error, "x402 v1 §6; x402 v2 §6" {
        "the payment is for another network",
        "An authorization for one chain is not valid on another.",
        "sign for the network in the offer",
    }
    ASSET_DIFFERS = "payment.asset_differs", Error, "x402 v2 §6" {
        "the payment is in another asset",
        "Anyone can deploy a token. Only the token in the offer is accepted.",
        "sign for the asset in the offer",
    }
    PAY_TO_DIFFERS = "payment.pay_to_differs", Error, "x402 exact scheme on EVM; invocation guide" {
        "the payment has another recipient",
        "The recipient (`to`) of the authorization is not the payTo of the offer. It was signed for another tool.",
        "sign for the payTo in the offer",
    }
    VALUE_DIFFERS = "payment.value_differs", Error, "x402 exact scheme on EVM" {
        "the payment is not exactly the price",
        "The value must equal the price: less does not pay the call, and an overpayment would not be refunded.",
        "sign for the amount in the offer",
    }
    VALUE_MISSING = "payment.value_missing", Error, "x402 exact scheme on EVM" {
        "the value of the payment is zero, but the tool has a price",
        "A zero-value authorization proves the caller's identity. It does not pay.",
        "sign for the amount in the offer",
    }
    VALUE_NOT_ZERO = "payment.value_not_zero", Error, "Invocation guide, Key Concepts" {
        "the value is not zero, but the call is free",
        "A call without a price takes a zero-value authorization. An authorization over a positive value could be settled by anyone who sees it, so it is refused and not stored.",
        "sign for the value 0",
    }
    TIMEOUT_DIFFERS = "payment.timeout_differs", Error, "x402 v2 §6" {
        "the accepted offer has another timeout",
        "Version 2 repeats the chosen offer unchanged.",
        "repeat the offer unchanged",
    }
    EXTRA_DIFFERS = "payment.extra_differs", Error, "x402 v2 §6" {
        "the accepted offer has another extra",
        "Version 2 repeats the chosen offer unchanged. `extra` may have additional fields, but its original ones must be equal.",
        "repeat the offer unchanged",
    }
    NOT_YET = "payment.not_yet", Error, "EIP-3009; Toolcrib limits" {
        "the authorization is not valid yet",
        "The token contract rejects the authorization before validAfter, so it could not settle.",
        "set validAfter to 0, or check the clock",
    }
    EXPIRED = "payment.expired", Error, "EIP-3009; Toolcrib limits" {
        "the authorization has expired",
        "The token contract rejects it after validBefore, or would by the time it settles.",
        "get a new challenge and sign again; check the clock",
    }
    TOO_LONG_VALID = "payment.too_long_valid", Error, "Toolcrib limits" {
        "the authorization stays valid for too long",
        "Every authorization is stored until it expires, to prevent replay. One that is valid for years would have to be stored for years.",
        "set validBefore to ten minutes from now",
    }
    WINDOW_EMPTY = "payment.window_empty", Error, "EIP-3009" {
        "the authorization is never valid",
        "validBefore is not after validAfter, so the token contract never accepts it.",
        "set validAfter to 0 and validBefore to ten minutes from now",
    }
    SALT = "payment.salt", Error, "Toolcrib bound nonce" {
        "the salt of the nonce is not 32 bytes",
        "A salt is 0x and 64 hexadecimal digits, in a single header.",
        "send the salt that the nonce was derived from",
    }
    SALT_MISSING = "payment.salt_missing", Error, "Toolcrib bound nonce" {
        "the nonce is bound to a call, and its salt is missing",
        "A nonce with the prefix of bound nonces is valid for one tool, one request and one body. Without the salt the binding cannot be checked, so the payment is refused.",
        "send the salt in the header X-Tool-Nonce-Salt",
    }
    NONCE_OTHER_CALL = "payment.nonce_other_call", Error, "Toolcrib bound nonce" {
        "the nonce is bound to another call",
        "The nonce is derived from tool, chain, method, URL, body and salt. At least one of them differs from what was signed.",
        "sign for this exact request, and send its body unchanged",
    }
    NONCE_UNBOUND = "payment.nonce_unbound", Error, "Toolcrib bound nonce" {
        "the nonce is not bound to this call",
        "This tool accepts only payments whose nonce commits to the tool and the request, so that they cannot be used at another tool.",
        "derive the nonce from the call and a salt, and send the salt in the header X-Tool-Nonce-Salt",
    }
    REPLAYED = "payment.replayed", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "the payment was already used",
        "An authorization is valid for one call, regardless of version and header. This one was used, or another call is using it right now.",
        "sign a new authorization with a new nonce",
    }
    PENDING = "payment.pending", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "the payment is being used by another call",
        "The first call with this payment is still in progress, or has just ended.",
        "wait for as long as Retry-After says, then send the same request again",
    }
    ID_MALFORMED = "payment.id_malformed", Error, "x402 payment-identifier" {
        "the payment identifier is malformed",
        "An identifier has 16 to 128 letters, digits, hyphens and underscores.",
        "send a valid identifier in extensions[\"payment-identifier\"].info.id, or none",
    }
    ID_IN_USE = "payment.id_in_use", Error, "x402 payment-identifier" {
        "the payment identifier belongs to another payment",
        "An identifier names one operation. This payer already used it with another payment. This payment was not charged.",
        "send the first payment again, byte for byte, to get its result, or use a new identifier for a new operation",
    }
    RETRY_TOKEN = "payment.retry_token", Error, "Toolcrib retries" {
        "the retry token is not 32 bytes",
        "A retry token is 0x and 64 hexadecimal digits, in a single header, as received with the first response.",
        "send the token of the first response in the header X-Tool-Retry-Token, or none",
    }
    REFERENCE = "payment.reference", Error, "Toolcrib bound nonce" {
        "the nonce is bound to a call, but the tool reference is missing",
        "The server is not configured with its registry and tool id, so the caller must name the tool that the nonce was derived for, as one tool reference.",
        "send the tool reference in the header X-Tool-Reference",
    }
}
