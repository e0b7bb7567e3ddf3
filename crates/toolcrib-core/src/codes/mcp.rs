//! Codes of the Model Context Protocol: what a server of ours says to a model or its client.

super::codes! {
    UNKNOWN_TOOL = "mcp.unknown_tool", Error, "MCP 2026-07-28, Tools" {
        "this server has no tool of that name",
        "A server offers a fixed list of tools. Names are compared exactly.",
        "ask for tools/list and use one of its names",
    }
    ARGUMENTS = "mcp.arguments", Error, "MCP 2026-07-28, Tools; SEP-1303" {
        "the arguments do not fit the schema of this tool",
        "Every tool says what it takes. Nothing was done.",
        "correct the arguments as the violations say and call again",
    }
    BUSY = "mcp.busy", Error, "Toolcrib limits" {
        "too many calls are under way",
        "A server works on a limited number of calls at once, so that one client cannot take all of it.",
        "wait a moment and call again",
    }
    TIMEOUT = "mcp.timeout", Error, "Toolcrib limits" {
        "the call took too long",
        "Every call has an end. What it started may still finish; a payment that was signed stands in the ledger.",
        "look at the ledger if something was to be paid, then call again",
    }
    STATE = "mcp.state", Error, "MCP 2026-07-28, Multi Round-Trip Requests" {
        "the request state is not one that this server gave for this call",
        "A question to the user goes back and forth with a sealed state. It is good for the same client, tool and arguments, for a short time, and only as it was given.",
        "call the tool again without a state",
    }
    NOT_ASKABLE = "mcp.not_askable", Error, "MCP 2026-07-28, Elicitation" {
        "the user has to be asked, and this client cannot ask",
        "What costs money or sends data to a stranger needs the user's word. A client passes the question on by elicitation, which this one has not declared.",
        "use a client with elicitation, or allow this call in the policy file",
    }
    UNAUTHORIZED = "mcp.unauthorized", Error, "RFC 6750" {
        "the bearer token is missing or wrong",
        "A server that may spend answers only to whoever knows its token.",
        "send the token as `Authorization: Bearer …`",
    }
    TOOL_NOT_FOUND = "mcp.tool_not_found", Error, "Toolcrib directory" {
        "no such tool is in the index",
        "The directory knows the tools of the registries that it follows.",
        "check chain, registry and id; a registration of the last minute may not be indexed yet",
    }
    REFERENCE = "mcp.reference", Error, "Toolcrib directory" {
        "this names no tool, chain or account",
        "A tool is named by chain, registry and id, or by eip155:<chain>/erc8257:<registry>/<id>; an account by 0x and 40 digits.",
        "correct the argument",
    }
    LIMITED = "mcp.limited", Error, "Toolcrib limits" {
        "too many verifications were asked for",
        "Each verification makes the directory fetch from somebody's server, so they are limited for each client and in all.",
        "wait a minute; the last report is there all the same",
    }
    DIRECTORY = "mcp.directory", Error, "Toolcrib directory" {
        "the directory could not be asked, or its answer could not be read",
        "The bridge asks the directory that its settings name.",
        "check the address of the directory and whether it runs",
    }
    INTERNAL = "mcp.internal", Error, "Toolcrib" {
        "the server could not tell",
        "Something of ours failed: the database or a node. It says nothing about the tool.",
        "try again; if it stays, look at the server's log",
    }
    DECLINED = "mcp.declined", Error, "Toolcrib bridge" {
        "the user did not approve the call",
        "The user was asked and said no, or closed the question. Nothing was sent and nothing was signed.",
        "do not call again unless the user asks for it",
    }
    APPROVAL_UNKNOWN = "mcp.approval_unknown", Error, "Toolcrib bridge" {
        "there is no such approval, or it was used",
        "An approval is good for one call, for whoever it was given to, and for as long as the bridge runs.",
        "call the tool again, so that the user is asked again",
    }
    APPROVAL_EXPIRED = "mcp.approval_expired", Error, "Toolcrib bridge" {
        "the approval came too late",
        "What the user saw may no longer hold, so an answer counts for a few minutes only.",
        "call the tool again, so that the user is asked again",
    }
    APPROVAL_DIFFERS = "mcp.approval_differs", Error, "Toolcrib bridge; ERC-8257 Pricing Staleness and Payment Safety" {
        "the call is no longer the one that was approved",
        "An approval binds the manifest, the arguments, and the amount, token and recipient of the price. One of them is different now. Nothing was signed.",
        "call the tool again, so that the user sees what it is now",
    }
    APPROVALS_FULL = "mcp.approvals_full", Error, "Toolcrib limits" {
        "too many questions to the user are open",
        "Open questions are kept in memory, and a user answers one at a time.",
        "let the user answer, or wait a few minutes until they lapse",
    }
    LISTEN_PLAIN = "mcp.listen_plain", Error, "Toolcrib bridge" {
        "the bridge would be reachable from other machines without TLS",
        "Each request shows the bridge's token, which gives access to the user's wallet. Without TLS every machine on the way could read it, so plain HTTP is served on loopback addresses only.",
        "listen at 127.0.0.1 or [::1], or give a certificate with --tls-cert and --tls-key",
    }
}
