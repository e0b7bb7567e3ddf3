//! Codes of the Model Context Protocol: what Toolcrib's server reports to a model or its client.

super::codes! {
    UNKNOWN_TOOL = "mcp.unknown_tool", Error, "MCP 2026-07-28, Tools" {
        "this server has no tool of that name",
        "A server offers a fixed list of tools. Names are compared exactly.",
        "request tools/list and use one of its names",
    }
    ARGUMENTS = "mcp.arguments", Error, "MCP 2026-07-28, Tools; SEP-1303" {
        "the arguments do not match the schema of this tool",
        "Arguments are validated against the tool's input schema. Nothing was done.",
        "correct the arguments as the violations describe, and call again",
    }
    BUSY = "mcp.busy", Error, "Toolcrib limits" {
        "too many concurrent calls",
        "The server limits concurrent calls, so that one client cannot use all of its capacity.",
        "wait a moment and call again",
    }
    TIMEOUT = "mcp.timeout", Error, "Toolcrib limits" {
        "the call took too long",
        "Every call has a time limit. Work that it started may still finish; a payment that was signed is in the ledger.",
        "check the ledger if the call involved a payment, then call again",
    }
    STATE = "mcp.state", Error, "MCP 2026-07-28, Multi Round-Trip Requests" {
        "the request state is not valid for this call",
        "A prompt to the user carries a sealed state. It is valid only unchanged, for the same client, tool and arguments, and for a short time.",
        "call the tool again without a request state",
    }
    ELICITATION_UNSUPPORTED = "mcp.elicitation_unsupported", Error, "MCP 2026-07-28, Elicitation" {
        "the call needs the user's confirmation, and this client does not support elicitation",
        "Calls that cost money or send data to an untrusted server need the user's confirmation. It is requested by elicitation, which this client has not declared.",
        "use a client with elicitation, or allow this call in the policy file",
    }
    UNAUTHORIZED = "mcp.unauthorized", Error, "RFC 6750" {
        "the bearer token is missing or wrong",
        "A server that can spend money requires a bearer token.",
        "send the token as `Authorization: Bearer …`",
    }
    TOOL_NOT_FOUND = "mcp.tool_not_found", Error, "Toolcrib directory" {
        "the tool is not in the index",
        "The directory has only the tools of the registries that it follows.",
        "check chain, registry and id; a registration of the last minutes may not be indexed yet",
    }
    REFERENCE = "mcp.reference", Error, "Toolcrib directory" {
        "not a valid tool, chain or account reference",
        "A tool is named by chain, registry and id, or by eip155:<chain>/erc8257:<registry>/<id>; an account by 0x and 40 digits.",
        "correct the argument",
    }
    LIMITED = "mcp.limited", Error, "Toolcrib limits" {
        "too many verifications requested",
        "Each verification makes the directory fetch from another server, so verifications are limited per client and in total.",
        "wait a minute; the last report is still available",
    }
    DIRECTORY = "mcp.directory", Error, "Toolcrib directory" {
        "the request to the directory failed",
        "The bridge uses the directory in its settings. It could not be reached, or its response could not be read.",
        "check the URL of the directory and whether it is running",
    }
    INTERNAL = "mcp.internal", Error, "Toolcrib" {
        "internal server error",
        "The server's database or an RPC node failed. That proves nothing about the tool.",
        "try again; if it persists, check the server's log",
    }
    DECLINED = "mcp.declined", Error, "Toolcrib bridge" {
        "the user did not approve the call",
        "The user declined or dismissed the prompt. Nothing was sent and nothing was signed.",
        "do not call again unless the user asks for it",
    }
    APPROVAL_UNKNOWN = "mcp.approval_unknown", Error, "Toolcrib bridge" {
        "the approval does not exist or was already used",
        "An approval is valid for one call of one client, while the bridge is running.",
        "call the tool again, so that the user is asked again",
    }
    APPROVAL_EXPIRED = "mcp.approval_expired", Error, "Toolcrib bridge" {
        "the approval has expired",
        "The data that the user saw may be outdated, so an approval is valid for a few minutes only.",
        "call the tool again, so that the user is asked again",
    }
    APPROVAL_DIFFERS = "mcp.approval_differs", Error, "Toolcrib bridge; ERC-8257 Pricing Staleness and Payment Safety" {
        "the call differs from the approved one",
        "An approval binds the manifest, the arguments, and the amount, token and recipient of the price. One of them is different now. Nothing was signed.",
        "call the tool again, so that the user sees the new terms",
    }
    APPROVALS_FULL = "mcp.approvals_full", Error, "Toolcrib limits" {
        "too many prompts are waiting for the user",
        "Open prompts are kept in memory, and a user answers one at a time.",
        "let the user answer, or wait a few minutes until they expire",
    }
    LISTEN_PLAIN = "mcp.listen_plain", Error, "Toolcrib bridge" {
        "the bridge would be reachable from other machines without TLS",
        "Each request contains the bridge's token, which gives access to the user's wallet. Without TLS it could be read on the network, so plain HTTP is served on loopback addresses only.",
        "listen on 127.0.0.1 or [::1], or pass a certificate with --tls-cert and --tls-key",
    }
}
