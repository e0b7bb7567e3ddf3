//! Codes of the public directory: requests that it does not take, and keys.

super::codes! {
    PARAMETER = "directory.parameter", Error, "Toolcrib" {
        "a parameter of the request cannot be read",
        "A parameter that is misread answers another question than the one that was asked, so nothing is guessed.",
        "look the parameter up in /openapi.json",
    }
    CURSOR = "directory.cursor", Error, "Toolcrib" {
        "this cursor is of another list, or of none",
        "A cursor is a place in one list. In another order, or behind other filters, that place does not exist.",
        "ask for the first page again, and change nothing but the cursor between pages",
    }
    NOT_FOUND = "directory.not_found", Error, "Toolcrib" {
        "there is nothing at this address",
        "The directory has no such path, or no registry that it follows has such a tool.",
        "look at /openapi.json for paths, and at /api/v2/registries for what is followed",
    }
    HOST = "directory.host", Error, "RFC 9112 §3.2" {
        "the request names no host, or several",
        "Whatever stands in front of the server may have gone by the other one, so such a request is not answered.",
        "send exactly one header Host",
    }
    METHOD = "directory.method", Error, "RFC 9110 §15.5.6" {
        "this address does not take that method",
        "The methods that it takes are in the header Allow.",
        "use one of the methods in Allow",
    }
    NOT_LOOKED_AT = "directory.not_looked_at", Error, "Toolcrib" {
        "nobody has looked at this tool yet",
        "Reports and evidence exist after the first verification, which new tools wait for in a queue.",
        "ask again in a minute, or ask for a verification",
    }
    BODY = "directory.body", Error, "Toolcrib limits" {
        "the body of the request cannot be read",
        "It is too large, came too slowly, or broke off.",
        "send what the operation takes and nothing else",
    }
    KEY_MISSING = "directory.key_missing", Error, "Tool Registry REST API" {
        "the request has no key",
        "This directory answers those who have a key, which it gives to everybody.",
        "get a key with POST /api/v2/auth/keys and send it in the header x-api-key",
    }
    KEY_UNKNOWN = "directory.key_unknown", Error, "Tool Registry REST API" {
        "the key is not valid here",
        "It was never given out by this directory, was revoked, or has expired.",
        "get another one with POST /api/v2/auth/keys",
    }
    KEYS_OFF = "directory.keys_off", Error, "Tool Registry REST API" {
        "this directory gives out no keys",
        "Its operator gives them out by other means.",
        "ask the operator",
    }
    NOT_ADMIN = "directory.not_admin", Error, "Toolcrib" {
        "the key may not moderate",
        "Blocking, hiding and reading reports is for the operator of the directory.",
        "use a key that was made with toolcrib directory keys issue --admin",
    }
    BLOCKED = "directory.blocked", Error, "RFC 7725" {
        "the operator of this directory blocked this tool",
        "Its content is not shown here. What the registry says about it can be read from the chain.",
        "read the notice; ask the operator if you think that it is wrong",
    }
    RATE = "directory.rate", Error, "Tool Registry REST API; RFC 6585 §4" {
        "too many requests",
        "Every key and every address has a number of requests an hour, and so has every origin that the directory is asked to look at.",
        "wait as long as Retry-After says",
    }
    BUSY = "directory.busy", Error, "Toolcrib limits" {
        "too many others are being served",
        "Long answers and waiting requests hold resources, so there is a limit on how many there are at once.",
        "try again in a few seconds",
    }
    UNAVAILABLE = "directory.unavailable", Error, "Toolcrib" {
        "this directory cannot tell at the moment",
        "Its database, its search or a chain's node did not answer in time, or the operator runs it without that part.",
        "try again later",
    }
    INTERNAL = "directory.internal", Error, "Toolcrib" {
        "the directory failed",
        "This is a fault of ours and not of the request.",
        "try again later, and tell the operator the request id",
    }
}
