//! Codes of signing in with a message (EIP-4361): by the x402 extension `sign-in-with-x`, or in an `Authorization: SIWE` header.

super::codes! {
    MESSAGE = "sign_in.message", Error, "EIP-4361, Message Format" {
        "the sign-in message is malformed",
        "A message has one form: domain, account, statement, URI, version, chain, nonce and times, in this order and spelling. Anything else could be shown to the signer in one way and checked in another.",
        "build the message with a library for EIP-4361",
    }
    HEADER = "sign_in.header", Error, "x402 extension sign-in-with-x; EIP-4361" {
        "the sign-in header cannot be read",
        "SIGN-IN-WITH-X holds base64 of a JSON object. Authorization holds `SIWE`, a space, the message as base64url without padding, a dot, and the signature in hex.",
        "write the header in that form, once",
    }
    DOMAIN = "sign_in.domain", Error, "EIP-4361, Domain Binding" {
        "the sign-in message is for another domain",
        "A message that was signed for one site must not let anybody in at another. The domain is that of the configured origin, with the port unless it is 443.",
        "sign for the host of the endpoint",
    }
    URI = "sign_in.uri", Error, "EIP-4361, URI" {
        "the sign-in message is for another resource",
        "The URI must have the origin and the path of the endpoint, so that a message for one tool is worth nothing at another.",
        "sign for the URL of the endpoint",
    }
    CHAIN = "sign_in.chain", Error, "EIP-4361, Chain ID" {
        "the sign-in message is for another chain",
        "The account is looked at on the chain that was asked for. An account of the same address on another chain may belong to somebody else.",
        "sign for a chain that is offered",
    }
    NONCE = "sign_in.nonce", Error, "EIP-4361, Nonce" {
        "the nonce was not issued here for this resource and time",
        "Nonces are made by the server, for one resource and one moment. One that is invented, changed, issued by another server or before a restart is not accepted.",
        "ask for a new challenge and sign that; operators of several servers give them the same TOOLCRIB_SIGN_IN_KEY",
    }
    EXPIRED = "sign_in.expired", Error, "EIP-4361, Expiration Time" {
        "the sign-in message is too old",
        "A message is good for a few minutes after it was issued, and not after the expiration time that it names.",
        "sign a new message; check the clock of this machine",
    }
    NOT_YET = "sign_in.not_yet", Error, "EIP-4361, Not Before" {
        "the sign-in message is not valid yet",
        "It was issued in the future, or names a time before which it is not valid.",
        "check the clock of this machine",
    }
    LIFETIME = "sign_in.lifetime", Error, "Toolcrib limits" {
        "the server asks for a sign-in message that is good for too long",
        "Whoever reads such a message on its way can use it until it expires, at servers that do not remember what was used. More than an hour is not signed.",
        "tell the operator to ask for a few minutes",
    }
    REPLAYED = "sign_in.replayed", Error, "EIP-4361, Replay Attacks" {
        "the sign-in message was used before",
        "A message lets its signer in once. Somebody who has read it must not be able to use it again.",
        "ask for a new challenge and sign that",
    }
    NOT_APPROVED = "sign_in.not_approved", Error, "EIP-4361, Wallet Implementer Guidelines" {
        "nobody agreed to sign in",
        "A sign-in message holds text of the server. Whoever owns the account has to see for whom it is, and agree.",
        "agree when asked, or beforehand with --sign-in",
    }
    BOUND_ONLY = "sign_in.bound_only", Error, "Toolcrib settings" {
        "sign-in messages cannot be bound to one call",
        "The gate takes only signatures that commit to one call. A sign-in message names a resource and a time, and nothing of the call.",
        "leave out one of the two settings",
    }
}
