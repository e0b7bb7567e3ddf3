//! Codes of the public directory: rejected requests, and API keys.

super::codes! {
    PARAMETER = "directory.parameter", Error, "Toolcrib" {
        "a request parameter is not valid",
        "An invalid parameter is refused rather than ignored, because ignoring it would answer a different query.",
        "look the parameter up in /openapi.json",
    }
    CURSOR = "directory.cursor", Error, "Toolcrib" {
        "the cursor does not match this query",
        "A cursor is a position in the results of one query. It is not valid with other filters or another sort order.",
        "request the first page again, and change only the cursor between pages",
    }
    NOT_FOUND = "directory.not_found", Error, "Toolcrib" {
        "not found",
        "The directory has no such path, or no registry that it follows has such a tool.",
        "see /openapi.json for the paths, and /api/v2/registries for the registries",
    }
    HOST = "directory.host", Error, "RFC 9112 §3.2" {
        "the request has no Host header, or several",
        "A proxy in front of the server may have used another one of them, so the request is refused (request smuggling).",
        "send exactly one Host header",
    }
    METHOD = "directory.method", Error, "RFC 9110 §15.5.6" {
        "the method is not allowed for this path",
        "The header Allow lists the allowed methods.",
        "use one of these methods",
    }
    NOT_VERIFIED_YET = "directory.not_verified_yet", Error, "Toolcrib" {
        "the tool has not been verified yet",
        "Reports and evidence exist after the first verification. New tools wait for it in a queue.",
        "try again in a minute, or request a verification",
    }
    BODY = "directory.body", Error, "Toolcrib limits" {
        "the request body cannot be read",
        "It is too large, arrived too slowly, or is incomplete.",
        "send the body that /openapi.json describes for the operation",
    }
    KEY_MISSING = "directory.key_missing", Error, "Tool Registry REST API" {
        "the request has no API key",
        "This directory requires an API key, which anyone can get.",
        "get a key with POST /api/v2/auth/keys and send it in the header x-api-key",
    }
    KEY_UNKNOWN = "directory.key_unknown", Error, "Tool Registry REST API" {
        "the API key is not valid",
        "It was not issued by this directory, was revoked, or has expired.",
        "get a new one with POST /api/v2/auth/keys",
    }
    KEYS_OFF = "directory.keys_off", Error, "Tool Registry REST API" {
        "this directory does not issue API keys over HTTP",
        "Its operator issues them in another way.",
        "ask the operator for a key",
    }
    NOT_ADMIN = "directory.not_admin", Error, "Toolcrib" {
        "the API key lacks the permission to moderate",
        "Only the operator of the directory may block and hide tools and read abuse reports.",
        "use a key that was issued with `toolcrib directory keys issue --admin`",
    }
    BLOCKED = "directory.blocked", Error, "RFC 7725" {
        "the operator of this directory blocked this tool",
        "Its content is not shown here. Its registration can still be read from the chain.",
        "read the notice; contact the operator if you think it is wrong",
    }
    RATE = "directory.rate", Error, "Tool Registry REST API; RFC 6585 §4" {
        "too many requests",
        "Requests per hour are limited for every key and every address, and so are requested verifications for every origin.",
        "wait as long as Retry-After says",
    }
    BUSY = "directory.busy", Error, "Toolcrib limits" {
        "the server is busy",
        "The number of concurrent long responses and waiting requests is limited.",
        "try again in a few seconds",
    }
    UNAVAILABLE = "directory.unavailable", Error, "Toolcrib" {
        "the directory is temporarily unavailable",
        "Its database, its search index or an RPC node did not answer in time, or this function is not enabled.",
        "try again later",
    }
    INTERNAL = "directory.internal", Error, "Toolcrib" {
        "internal server error",
        "The directory failed; the request was not the cause.",
        "try again later, and report the request id to the operator",
    }
}
