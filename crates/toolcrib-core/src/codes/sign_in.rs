//! Codes of signing in with a message (EIP-4361): by the x402 extension `sign-in-with-x`, or in an `Authorization: SIWE` header.

super::codes! {
    MESSAGE = "sign_in.message", Error, "EIP-4361, Message Format" {
        "the sign-in message is malformed",
        "A message has exactly one form: domain, account, statement, URI, version, chain, nonce and times, in this order and spelling. With any other form, the signer could see something else than the verifier checks.",
        "build the message with a library for EIP-4361",
    }
    HEADER = "sign_in.header", Error, "x402 extension sign-in-with-x; EIP-4361" {
        "the sign-in header cannot be read",
        "SIGN-IN-WITH-X is a base64-encoded JSON object. Authorization is `SIWE`, a space, the message as base64url without padding, a dot, and the signature in hex.",
        "send the header in this form, once",
    }
    DOMAIN = "sign_in.domain", Error, "EIP-4361, Domain Binding" {
        "the sign-in message is for another domain",
        "A message that was signed for one site must not be valid at another. The domain must be that of the configured origin, with the port unless it is 443.",
        "sign for the host of the endpoint",
    }
    URI = "sign_in.uri", Error, "EIP-4361, URI" {
        "the sign-in message is for another resource",
        "The URI must have the origin and the path of the endpoint, so that a message for one tool is not valid at another.",
        "sign for the URL of the endpoint",
    }
    CHAIN = "sign_in.chain", Error, "EIP-4361, Chain ID" {
        "the sign-in message is for another chain",
        "The account is checked on the requested chain. The same address on another chain can belong to another person.",
        "sign for one of the offered chains",
    }
    NONCE = "sign_in.nonce", Error, "EIP-4361, Nonce" {
        "the nonce was not issued by this server for this resource",
        "The server issues nonces for one resource and one point in time. A nonce that is invented, altered, or issued by another server or before a restart is not accepted.",
        "request a new challenge and sign it; operators: set the same TOOLCRIB_SIGN_IN_KEY on all servers",
    }
    EXPIRED = "sign_in.expired", Error, "EIP-4361, Expiration Time" {
        "the sign-in message is too old",
        "A message is valid for a few minutes after it was issued, and not after its expiration time.",
        "sign a new message; check the clock of this machine",
    }
    NOT_YET = "sign_in.not_yet", Error, "EIP-4361, Not Before" {
        "the sign-in message is not valid yet",
        "Its `Issued At` or `Not Before` time is in the future.",
        "check the clock of this machine",
    }
    LIFETIME = "sign_in.lifetime", Error, "Toolcrib limits" {
        "the server requests a sign-in message with a lifetime that is too long",
        "An attacker who intercepts such a message can replay it until it expires, at servers that do not record used messages. A lifetime of more than an hour is not signed.",
        "ask the operator to reduce the lifetime to a few minutes",
    }
    REPLAYED = "sign_in.replayed", Error, "EIP-4361, Replay Attacks" {
        "the sign-in message was already used",
        "A message is valid once, so that an attacker who intercepted it cannot replay it.",
        "request a new challenge and sign it",
    }
    NOT_APPROVED = "sign_in.not_approved", Error, "EIP-4361, Wallet Implementer Guidelines" {
        "the sign-in was not approved",
        "A sign-in message contains text from the server. The owner of the account must see which server it is for, and approve it.",
        "approve the prompt, or approve in advance with --sign-in",
    }
    BOUND_ONLY = "sign_in.bound_only", Error, "Toolcrib settings" {
        "sign-in messages cannot be bound to one call",
        "The gate accepts only signatures that commit to one call. A sign-in message commits to a resource and a time, but not to a call.",
        "remove one of the two settings",
    }
}
