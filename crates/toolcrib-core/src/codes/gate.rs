//! Codes of serving tools: what an endpoint answers when a call cannot be served, and why a server does not start.
//!
//! What is wrong with a payment is in `payment.*`, and who may not call in `access.*`.

super::codes! {
    NOT_FOUND = "gate.not_found", Error, "ERC-8257 §6" {
        "there is nothing at this path",
        "The server has tools, but neither an endpoint nor a manifest here. Paths are compared byte for byte.",
        "use the endpoint of the manifest as it is written there",
    }
    METHOD = "gate.method", Error, "Invocation guide, How It Works" {
        "the method is not allowed here",
        "Endpoints take POST with JSON, and some GET with a query. Manifests are read with GET or HEAD. The header Allow lists what is taken.",
        "use a method of the header Allow",
    }
    CONTENT_TYPE = "gate.content_type", Error, "Invocation guide, How It Works" {
        "the input is not declared as JSON",
        "The content type is neither application/json nor one that ends in +json. What is declared as a form or as text is not read as JSON on a guess.",
        "send Content-Type: application/json",
    }
    BODY_TOO_LARGE = "gate.body_too_large", Error, "Toolcrib limits" {
        "the input is larger than the tool takes",
        "Reading stops at the limit, whatever the request announces.",
        "send less, or a reference to the data instead of the data",
    }
    BODY_SLOW = "gate.body_slow", Error, "Toolcrib limits" {
        "the input did not arrive in time",
        "A connection that sends a byte now and then would hold the server's memory for as long as it likes.",
        "send the whole input at once",
    }
    BODY_BROKEN = "gate.body_broken", Error, "RFC 9112 §8" {
        "the input broke off",
        "The connection or the encoding of the body ended before the body did.",
        "send the request again",
    }
    NOT_JSON = "gate.not_json", Error, "Invocation guide, How It Works; RFC 8259; RFC 7493" {
        "the input is not one JSON value",
        "It must be strict JSON without duplicate keys, since readers disagree on which of two equal keys counts.",
        "send one JSON value that fits the manifest's inputs",
    }
    INPUT_INVALID = "gate.input_invalid", Error, "ERC-8257 §4 inputs" {
        "the input does not fit the manifest's inputs",
        "The manifest says what the tool takes, and nothing else reaches it. The violations say where the input differs.",
        "correct the input at the places that are named",
    }
    INPUT_TYPE = "gate.input_type", Error, "ERC-8257 §4 inputs" {
        "the tool cannot read the input",
        "The input fits the schema, but not the type that the tool was written with; the schema promises more than the tool takes.",
        "change the input as the message says; authors derive the schema from the type",
    }
    OUTPUT_INVALID = "gate.output_invalid", Error, "ERC-8257 §4 outputs" {
        "the tool's output does not fit the manifest's outputs",
        "The tool ran, but what it gave is not what its manifest promises, so it is withheld.",
        "tell the tool's creator; authors derive the schema from the type",
    }
    OUTPUT_TOO_LARGE = "gate.output_too_large", Error, "Toolcrib limits" {
        "the tool's output is larger than is served",
        "Callers read answers under limits of their own. One that nobody takes is not sent.",
        "ask for less; authors return pages or references",
    }
    REFUSED = "gate.refused", Error, "Toolcrib" {
        "the tool refuses this input",
        "The input fits the schema, and the tool itself says that it cannot do this.",
        "read the message, and change the input",
    }
    UNAVAILABLE = "gate.unavailable", Error, "Toolcrib" {
        "the tool cannot do this at present",
        "Something that the tool needs is not there for the moment.",
        "call again later",
    }
    FAILED = "gate.failed", Error, "Toolcrib" {
        "the tool failed",
        "The handler gave an error that is not the caller's. Its text stays with the operator, since it may hold what callers must not see.",
        "call again later, or tell the tool's creator",
    }
    PANICKED = "gate.panicked", Error, "Toolcrib" {
        "the tool stopped in the middle of the call",
        "The handler panicked. Other calls are not touched by it.",
        "tell the tool's creator",
    }
    TIMED_OUT = "gate.timed_out", Error, "Toolcrib limits" {
        "the tool took too long",
        "Every call has an end, so that a stuck one does not hold the server for good.",
        "ask for less, or call again later",
    }
    RATE_LIMITED = "gate.rate_limited", Error, "Toolcrib limits" {
        "the caller calls too often",
        "Each address and each account has its share. Nothing was looked at, and no signature was used up.",
        "wait for as long as Retry-After says",
    }
    BUSY = "gate.busy", Error, "Toolcrib limits" {
        "the server has too many calls at present",
        "The limit for all callers together is reached. No signature was used up.",
        "wait for as long as Retry-After says",
    }
    REPLAY_UNAVAILABLE = "gate.replay_unavailable", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "the server cannot look up whether the signature was used",
        "Its store does not answer. Nothing is accepted on a guess.",
        "call again later; operators look at the store",
    }
    SLUG = "gate.slug", Error, "ERC-8257 §6" {
        "the tool has no usable slug",
        "The slug is the last part of the manifest's address. Without one of your own it is made from the name.",
        "give a slug of lowercase letters, digits and hyphens",
    }
    SLUG_TWICE = "gate.slug_twice", Error, "ERC-8257 §6" {
        "two tools have the same slug",
        "Slugs are unique within an origin: there is one address for a manifest.",
        "give one of them another slug",
    }
    ENDPOINT_TWICE = "gate.endpoint_twice", Error, "Toolcrib" {
        "two tools have the same path",
        "A request must belong to one tool. Query and fragment do not tell them apart, and no endpoint is at the address of a manifest.",
        "give each tool a path of its own, and publish its manifest again",
    }
    OFF_ORIGIN = "gate.off_origin", Error, "ERC-8257 §6" {
        "the endpoint is not on the server's origin",
        "Manifest and endpoint share scheme, host and port, or nobody verifies the tool.",
        "serve the tool from the origin of its endpoint",
    }
    BYTES_DIFFER = "gate.bytes_differ", Error, "ERC-8257 §5" {
        "the bytes to serve are not those of the manifest",
        "What is served must hash to what is registered. These bytes hash to something else, or are no manifest.",
        "give the file that the manifest was read from, or none for the canonical bytes",
    }
    SCHEMA = "gate.schema", Error, "ERC-8257 §4" {
        "a schema of the manifest cannot be compiled",
        "Inputs and outputs are checked on every call, so the schemas must be usable.",
        "run `toolcrib lint` on the manifest, and correct what it finds",
    }
    PRICED = "gate.priced", Error, "Invocation guide, Paid tools" {
        "the manifest asks for money, and the gate does not",
        "Callers would be told a price and charged nothing.",
        "take the price out of the manifest, or put a gate in front that charges it",
    }
    NO_STORE = "gate.no_store", Error, "ERC-8257 Replay Resistance for Payment Protocols" {
        "a paid tool has no store for payments",
        "Memory forgets with the process, and then nobody knows which payments were taken and what they have bought. Whoever wants that for a test says so.",
        "give the server a store on SQLite or PostgreSQL",
    }
    PRICE_NOT_SERVED = "gate.price_not_served", Error, "ERC-8257 §3; x402 exact scheme on EVM" {
        "the manifest has a price that the gate cannot take",
        "A gate takes x402 in the tokens of its table. A manifest that promises another way to pay promises too much.",
        "take the entry out of the manifest, or price the call in USDC by x402",
    }
    FREE_PRICE = "gate.free_price", Error, "ERC-8257 §3" {
        "the manifest of a paid tool has a price of nothing",
        "Callers choose among the entries, so everybody would choose this one.",
        "take the entry out of the manifest, or do not ask for money",
    }
    NO_PRICE = "gate.no_price", Error, "ERC-8257 §3" {
        "the gate asks for money, and the manifest has no price",
        "Callers pay what the manifest says and nothing else, so nobody would pay.",
        "add `pricing` to the manifest, or do not ask for money",
    }
    CHALLENGE = "gate.challenge", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "no challenge can be made for this gate",
        "The 402 answer needs a token whose signing domain is known, a recipient, and a description that fits into a header.",
        "choose a chain of the built-in table for the identity, and a recipient other than the zero address",
    }
    BIND = "gate.bind", Error, "Toolcrib" {
        "the server cannot listen",
        "The address or port is taken by another program, or may not be used. No tool was served.",
        "stop the other program, or choose another port (0 takes a free one)",
    }
    HOST_TWICE = "gate.host_twice", Error, "Toolcrib" {
        "two origins have the same host",
        "Servers on one socket are told apart by the host that a request names.",
        "put the tools of one host into one server, or give the other server a socket of its own",
    }
    HOST = "gate.host", Error, "RFC 9112 §3.2" {
        "the request names no host, or several",
        "Whatever stands in front of the server may have gone by the other one, so such a request is not answered.",
        "send exactly one header Host",
    }
    MISDIRECTED = "gate.misdirected", Error, "RFC 9110 §15.5.20" {
        "the server has no tools for this host",
        "Several origins are served here, and the request names none of them, or names several at once.",
        "connect to the host of the tool's endpoint, and name that one in the header Host",
    }
    TLS_CERTIFICATE = "gate.tls_certificate", Error, "RFC 5280; RFC 7468" {
        "there is no certificate that could be used",
        "The chain is PEM text with the server's own certificate first. What was given holds none, or one that cannot be read.",
        "give the file that the authority calls the full chain",
    }
    TLS_KEY = "gate.tls_key", Error, "RFC 5208; RFC 7468" {
        "there is no private key that could be used",
        "The key is PEM text: PKCS #8, PKCS #1 or SEC 1, not encrypted, RSA, ECDSA or Ed25519.",
        "give the key file that belongs to the certificate",
    }
    TLS_MISMATCH = "gate.tls_mismatch", Error, "RFC 8446 §4.4.2" {
        "certificate and private key do not belong together",
        "No handshake could succeed with them.",
        "give both from the same request to the authority",
    }
    TLS_NAME = "gate.tls_name", Error, "RFC 6066 §3" {
        "this is no host name that a certificate could be chosen by",
        "Callers name a host in the handshake: letters, digits and hyphens between dots, no address and no port.",
        "give the host of the tool's endpoint",
    }
    AUTHORITY_UNREADABLE = "gate.authority_unreadable", Error, "Toolcrib development world" {
        "the local authority cannot be read",
        "Its files are there, but the operating system refused, or they are larger than any that would be written. No new authority was made in their place.",
        "check the permissions of the folder",
    }
    AUTHORITY_UNUSABLE = "gate.authority_unusable", Error, "RFC 5280 §4.2.1.10; Toolcrib development world" {
        "the local authority is of no use",
        "Certificate and key do not belong together, one is missing or damaged, or the certificate would vouch for hosts that are not below localhost. Nothing was overwritten.",
        "remove ca.pem and ca-key.pem from the folder; a new authority is made at the next start",
    }
    AUTHORITY_UNWRITABLE = "gate.authority_unwritable", Error, "Toolcrib development world" {
        "the local authority cannot be kept",
        "The operating system refused to write its files. An authority that is forgotten would be another one at each start.",
        "check the permissions of the folder and the free space",
    }
    AUTHORITY_HOST = "gate.authority_host", Error, "RFC 6761 §6.3; Toolcrib development world" {
        "the local authority vouches for hosts below localhost only",
        "Every other name belongs to somebody, and a certificate for it would be a forgery.",
        "serve the tool at a name such as my-tool.tool.localhost, or bring a certificate of a public authority",
    }
    OTHER_HASH = "gate.other_hash", Error, "ERC-8257 §5, §7" {
        "another manifest is registered than the one that is served",
        "Callers who verify refuse the tool. Either the registration was not updated, or the gate has the number of another tool.",
        "publish the manifest that is served, or give the gate the right number",
    }
    OTHER_CREATOR = "gate.other_creator", Error, "ERC-8257 §7" {
        "the tool was registered by somebody else than its manifest names",
        "Callers who verify refuse the tool, or the gate has the number of another tool.",
        "register with the creator's account, or give the gate the right number",
    }
    OTHER_URI = "gate.other_uri", Error, "ERC-8257 §6, §7" {
        "the tool is registered for another address than it is served at",
        "Verifiers look for the manifest at the registered address only.",
        "register the address of the manifest on this origin, or give the gate the right number",
    }
    NO_PREDICATE = "gate.no_predicate", Warning, "ERC-8257 IToolRegistry" {
        "the tool has no predicate, and the gate asks for one",
        "The registry lets everybody in. Callers sign for nothing.",
        "set the predicate, or make the gate open",
    }
    CONTRACT_CHAIN = "gate.contract_chain", Error, "ERC-1271; Toolcrib" {
        "contract accounts are taken on a chain that nothing is signed for",
        "Whether an account is a contract, and what it accepts, is asked on the chain of the token that is signed for. A node of another chain would never be asked.",
        "give a node of the chain that is signed for, or name that chain with identity_chain",
    }
    QUERY = "gate.query", Error, "Toolcrib limits; WHATWG URL application/x-www-form-urlencoded" {
        "the query cannot be read",
        "A tool that is called with GET takes its input from the query: names and values as forms encode them, in UTF-8, at most 100 of them and 8 KiB together.",
        "encode the query as forms do, or call with POST",
    }
    QUERY_TWICE = "gate.query_twice", Error, "ERC-8257 §4 inputs" {
        "a parameter is in the query more than once",
        "Only what the manifest declares as an array may be repeated. Readers disagree on which of two equal names counts.",
        "send the parameter once",
    }
    SIGN_IN_KEY = "gate.sign_in_key", Error, "Toolcrib settings" {
        "the secret of sign-in challenges cannot be used",
        "Nonces of sign-in challenges are bound with a secret, so that nothing has to be kept for challenges that nobody answers. A short secret could be guessed.",
        "set TOOLCRIB_SIGN_IN_KEY to at least 16 random bytes, such as the output of `openssl rand -hex 32`, or leave it unset for a random one",
    }
}
