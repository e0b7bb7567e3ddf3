//! Codes of serving tools: how an endpoint responds if a call cannot be served, and why a server does not start.
//!
//! Problems of a payment are in `payment.*`, those of access in `access.*`.

super::codes! {
    NOT_FOUND = "gate.not_found", Error, "ERC-8257 §6" {
        "no tool or manifest at this path",
        "The server has tools, but neither an endpoint nor a manifest at this path. Paths are compared byte for byte.",
        "call the endpoint exactly as written in the manifest",
    }
    METHOD = "gate.method", Error, "Invocation guide, How It Works" {
        "the method is not allowed for this path",
        "Endpoints accept POST with JSON, and some GET with a query. Manifests are read with GET or HEAD. The header Allow lists the allowed methods.",
        "use one of these methods",
    }
    CONTENT_TYPE = "gate.content_type", Error, "Invocation guide, How It Works" {
        "the input is not declared as JSON",
        "The content type is neither application/json nor one that ends in +json. A body that is declared as a form or as text is not parsed as JSON.",
        "send Content-Type: application/json",
    }
    BODY_TOO_LARGE = "gate.body_too_large", Error, "Toolcrib limits" {
        "the input is too large",
        "Reading stops at the tool's limit, regardless of Content-Length.",
        "send a smaller input, or a reference to the data",
    }
    BODY_SLOW = "gate.body_slow", Error, "Toolcrib limits" {
        "the input did not arrive in time",
        "A client that sends single bytes slowly would occupy server memory for an unlimited time.",
        "send the whole input at once",
    }
    BODY_BROKEN = "gate.body_broken", Error, "RFC 9112 §8" {
        "the input is incomplete",
        "The connection was closed, or the transfer encoding ended, before the body was complete.",
        "send the request again",
    }
    NOT_JSON = "gate.not_json", Error, "Invocation guide, How It Works; RFC 8259; RFC 7493" {
        "the input is not a single JSON value",
        "It must be strict JSON without duplicate keys, since readers disagree on which of two equal keys counts.",
        "send one JSON value that matches the manifest's `inputs` schema",
    }
    INPUT_INVALID = "gate.input_invalid", Error, "ERC-8257 §4 inputs" {
        "the input does not match the input schema",
        "Input is validated against the manifest's `inputs` schema before it reaches the tool. The violations list the differences.",
        "correct the input at the listed positions",
    }
    INPUT_TYPE = "gate.input_type", Error, "ERC-8257 §4 inputs" {
        "the tool cannot deserialize the input",
        "The input matches the schema, but not the tool's input type: the schema accepts more than the tool does.",
        "change the input as the message says; authors: derive the schema from the type",
    }
    OUTPUT_INVALID = "gate.output_invalid", Error, "ERC-8257 §4 outputs" {
        "the tool's output does not match the output schema",
        "The tool ran, but its output violates the manifest's `outputs` schema, so it is not returned.",
        "tell the tool's creator; authors: derive the schema from the type",
    }
    OUTPUT_TOO_LARGE = "gate.output_too_large", Error, "Toolcrib limits" {
        "the tool's output is too large",
        "Callers limit the size of responses, so an output beyond the limit is not sent.",
        "request less data; authors: return pages or references",
    }
    REFUSED = "gate.refused", Error, "Toolcrib" {
        "the tool rejected the input",
        "The input matches the schema, but the tool itself reported that it cannot process it.",
        "read the message, and change the input",
    }
    UNAVAILABLE = "gate.unavailable", Error, "Toolcrib" {
        "the tool is temporarily unavailable",
        "A service that the tool depends on is not available.",
        "call again later",
    }
    FAILED = "gate.failed", Error, "Toolcrib" {
        "the tool failed",
        "The handler returned an internal error. Its text is only in the operator's log, because it may contain confidential data.",
        "call again later, or tell the tool's creator",
    }
    PANICKED = "gate.panicked", Error, "Toolcrib" {
        "the tool crashed during the call",
        "The handler panicked. Other calls are not affected.",
        "tell the tool's creator",
    }
    TIMED_OUT = "gate.timed_out", Error, "Toolcrib limits" {
        "the tool took too long",
        "Every call has a time limit, so that a call that hangs does not occupy the server for ever.",
        "request less, or call again later",
    }
    RATE_LIMITED = "gate.rate_limited", Error, "Toolcrib limits" {
        "rate limit exceeded",
        "Calls are limited for each IP address and each account. The call was not processed, and no signature was consumed.",
        "wait for as long as Retry-After says",
    }
    BUSY = "gate.busy", Error, "Toolcrib limits" {
        "too many concurrent calls",
        "The server's limit for all callers together is reached. No signature was consumed.",
        "wait for as long as Retry-After says",
    }
    REPLAY_UNAVAILABLE = "gate.replay_unavailable", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "the server cannot check whether the signature was used",
        "The replay store does not answer. Without it, no signature is accepted.",
        "call again later; operators: check the store",
    }
    SLUG = "gate.slug", Error, "ERC-8257 §6" {
        "the tool has no usable slug",
        "The slug is the last path segment of the manifest URL. By default it is derived from the name.",
        "set a slug of lowercase letters, digits and hyphens",
    }
    SLUG_TWICE = "gate.slug_twice", Error, "ERC-8257 §6" {
        "two tools have the same slug",
        "The slug is part of the manifest URL, so it must be unique within an origin.",
        "change the slug of one of them",
    }
    ENDPOINT_TWICE = "gate.endpoint_twice", Error, "Toolcrib" {
        "two tools have the same path",
        "Each request must be routed to exactly one tool. Query and fragment are not part of routing, and an endpoint cannot have the path of a manifest.",
        "use a separate path for each tool, and publish the changed manifest",
    }
    OFF_ORIGIN = "gate.off_origin", Error, "ERC-8257 §6" {
        "the endpoint is not on the server's origin",
        "The tool verifies only if its manifest and endpoint have the same scheme, host and port.",
        "serve the tool from the origin of its endpoint",
    }
    BYTES_DIFFER = "gate.bytes_differ", Error, "ERC-8257 §5" {
        "the bytes to serve are not those of the manifest",
        "The served bytes must have the registered hash. These bytes have another hash, or are not a manifest.",
        "pass the file that the manifest was read from, or none to serve the canonical bytes",
    }
    SCHEMA = "gate.schema", Error, "ERC-8257 §4" {
        "a schema of the manifest cannot be compiled",
        "Inputs and outputs are validated on every call, so the schemas must compile.",
        "run `toolcrib lint` on the manifest, and fix its findings",
    }
    PRICED = "gate.priced", Error, "Invocation guide, Paid tools" {
        "the manifest has a price, but the gate does not charge",
        "The manifest would announce a price that is not charged.",
        "remove the price from the manifest, or configure a gate that charges it",
    }
    NO_STORE = "gate.no_store", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "a paid tool has no persistent payment store",
        "An in-memory store is lost when the process ends, and with it the record of used payments and their results. It is allowed only when requested explicitly, for tests.",
        "configure a SQLite or PostgreSQL store",
    }
    PRICE_NOT_SERVED = "gate.price_not_served", Error, "ERC-8257 §3; x402 exact scheme on EVM" {
        "the manifest has a price that the gate does not support",
        "A gate accepts x402 payments in the tokens of its built-in table. The manifest announces another way to pay.",
        "remove the entry from the manifest, or price the call in USDC with x402",
    }
    FREE_PRICE = "gate.free_price", Error, "ERC-8257 §3" {
        "the manifest of a paid tool has a price of 0",
        "Callers choose one of the entries, so all would choose this one.",
        "remove the entry from the manifest, or do not charge",
    }
    NO_PRICE = "gate.no_price", Error, "ERC-8257 §3" {
        "the gate charges, but the manifest has no price",
        "Callers pay only the price in the manifest, so they would refuse to pay.",
        "add `pricing` to the manifest, or do not charge",
    }
    CHALLENGE = "gate.challenge", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "no 402 challenge can be built for this gate",
        "The 402 response needs a token whose EIP-712 domain is known, a recipient, and a description that fits into a header.",
        "for identity, choose a chain of the built-in table and a recipient other than the zero address",
    }
    BIND = "gate.bind", Error, "Toolcrib" {
        "the server cannot listen",
        "Another program uses the address or port, or it may not be used. No tool was served.",
        "stop the other program, or choose another port (0 takes a free one)",
    }
    HOST_TWICE = "gate.host_twice", Error, "Toolcrib" {
        "two origins have the same host",
        "Requests on one socket are routed by their Host header.",
        "put the tools of one host into one server, or use a separate socket for the other server",
    }
    HOST = "gate.host", Error, "RFC 9112 §3.2" {
        "the request has no Host header, or several",
        "A proxy in front of the server may have used another one of them, so the request is refused (request smuggling).",
        "send exactly one Host header",
    }
    MISDIRECTED = "gate.misdirected", Error, "RFC 9110 §15.5.20" {
        "the server has no tools for this host",
        "The server has several origins, and the request names none of them, or contradicts itself about the host.",
        "connect to the host of the tool's endpoint, and send the same host in the Host header",
    }
    TLS_CERTIFICATE = "gate.tls_certificate", Error, "RFC 5280; RFC 7468" {
        "no usable TLS certificate",
        "The chain is a PEM file with the leaf certificate first. The file has no certificate, or one that cannot be parsed.",
        "pass the full chain file from the certificate authority",
    }
    TLS_KEY = "gate.tls_key", Error, "RFC 5208; RFC 7468" {
        "no usable private key",
        "The key must be an unencrypted PEM file in PKCS #8, PKCS #1 or SEC 1 form, for RSA, ECDSA or Ed25519.",
        "pass the key file that belongs to the certificate",
    }
    TLS_MISMATCH = "gate.tls_mismatch", Error, "RFC 8446 §4.4.2" {
        "certificate and private key do not match",
        "A TLS handshake with them would fail.",
        "pass a certificate and a key from the same signing request",
    }
    TLS_NAME = "gate.tls_name", Error, "RFC 6066 §3" {
        "this is not a host name for TLS",
        "Clients send a host name (SNI) in the handshake: labels of letters, digits and hyphens, no IP address and no port.",
        "use the host of the tool's endpoint",
    }
    AUTHORITY_UNREADABLE = "gate.authority_unreadable", Error, "Toolcrib development environment" {
        "the local certificate authority cannot be read",
        "Its files exist, but the operating system refused to read them, or they are too large. They were not replaced.",
        "check the permissions of the folder",
    }
    AUTHORITY_UNUSABLE = "gate.authority_unusable", Error, "RFC 5280 §4.2.1.10; Toolcrib development environment" {
        "the local certificate authority is not usable",
        "Certificate and key do not match, one is missing or damaged, or the certificate is not restricted to hosts below localhost. Nothing was overwritten.",
        "remove ca.pem and ca-key.pem from the folder; a new authority is created at the next start",
    }
    AUTHORITY_UNWRITABLE = "gate.authority_unwritable", Error, "Toolcrib development environment" {
        "the local certificate authority cannot be saved",
        "The operating system refused to write its files. Without them a new authority would be created at each start.",
        "check the permissions of the folder and the free space",
    }
    AUTHORITY_HOST = "gate.authority_host", Error, "RFC 6761 §6.3; Toolcrib development environment" {
        "the local certificate authority issues only for hosts below localhost",
        "Other names can belong to other people, so the authority is restricted to names below localhost.",
        "serve the tool at a name such as my-tool.tool.localhost, or use a certificate of a public authority",
    }
    OTHER_HASH = "gate.other_hash", Error, "ERC-8257 §5, §7" {
        "the registered manifest hash differs from the served manifest",
        "Callers that verify refuse the tool. The registration was not updated, or the gate is configured with the id of another tool.",
        "publish the served manifest, or configure the right tool id",
    }
    OTHER_CREATOR = "gate.other_creator", Error, "ERC-8257 §7" {
        "the tool was registered by another account than its manifest names",
        "Callers that verify refuse the tool, or the gate is configured with the id of another tool.",
        "register with the creator's account, or configure the right tool id",
    }
    OTHER_URI = "gate.other_uri", Error, "ERC-8257 §6, §7" {
        "the registered metadata URI differs from the URL of the served manifest",
        "Verifiers fetch the manifest only from the registered URI.",
        "register the URL of the manifest on this origin, or configure the right tool id",
    }
    NO_PREDICATE = "gate.no_predicate", Warning, "ERC-8257 IToolRegistry" {
        "the gate checks a predicate, but the tool has none",
        "The registry grants everyone access, so the signatures of callers have no purpose.",
        "set the predicate, or make the gate open",
    }
    CONTRACT_CHAIN = "gate.contract_chain", Error, "ERC-1271; Toolcrib" {
        "contract accounts are configured for a chain that is not used for signatures",
        "The signature of a contract account is checked on the chain of the signed token. A node of another chain would never be used.",
        "configure an RPC node for the chain of the signatures, or set that chain with identity_chain",
    }
    QUERY = "gate.query", Error, "Toolcrib limits; WHATWG URL application/x-www-form-urlencoded" {
        "the query string is not valid",
        "A tool that is called with GET takes its input from the query string: form-encoded UTF-8 names and values, at most 100 of them and 8 KiB in total.",
        "encode the query as application/x-www-form-urlencoded, or call with POST",
    }
    QUERY_TWICE = "gate.query_twice", Error, "ERC-8257 §4 inputs" {
        "a query parameter is repeated",
        "Only parameters that the manifest declares as arrays may be repeated. Readers disagree on which of two equal names counts.",
        "send the parameter once",
    }
    SIGN_IN_KEY = "gate.sign_in_key", Error, "Toolcrib settings" {
        "the secret for sign-in challenges is not usable",
        "Nonces of sign-in challenges are authenticated with a secret, so that the server does not have to store open challenges. A short secret could be guessed.",
        "set TOOLCRIB_SIGN_IN_KEY to at least 16 random bytes, such as the output of `openssl rand -hex 32`, or leave it unset for a random one",
    }
}
