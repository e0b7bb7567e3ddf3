//! Codes of attestation reports: what a report must be before a claim about hardware counts as verified.

super::codes! {
    UNVERIFIED_CLAIM = "attestation.unverified_claim", Warning, "ERC-8257 §5 Attestation" {
        "the report is an unverified claim: its format is not verified here",
        "Only AWS Nitro documents are verified. A report of another type may be true, but nothing in it was checked, so the tool counts as self-attested on ordinary servers.",
        "verify the report with the vendor's own tools, or treat the tool as self-attested",
    }
    NO_PINNED_ROOT = "attestation.no_pinned_root", Warning, "ERC-8257 §5 Attestation" {
        "no root certificate of this vendor is pinned, so the report stays a claim",
        "A chain of certificates proves something only when it ends at a root that you chose to trust. Nobody can choose it for you, least of all the report.",
        "pin the vendor's root certificate or its SHA-256 fingerprint in the settings",
    }
    ROOT_SETTING = "attestation.root_setting", Error, "Toolcrib settings" {
        "a pinned root is neither a CA certificate nor a SHA-256 fingerprint",
        "A root is pinned as a certificate in DER or PEM, or as the 64 hex digits of the SHA-256 of its DER form.",
        "write the fingerprint as 64 hex digits, or give the certificate that the vendor publishes",
    }
    BODY_TOO_LARGE = "attestation.body_too_large", Error, "AWS Nitro attestation process §3.1" {
        "the report is larger than any attestation document",
        "A document has at most 16384 bytes, whatever text it is wrapped in. More is not a report.",
        "correct what the attestation endpoint answers",
    }
    BODY_FORM = "attestation.body_form", Error, "AWS Nitro attestation process §3.1" {
        "the answer holds no attestation document in a known form",
        "A document is read as raw bytes, as base64 or hex text, or as JSON with it as a base64 or hex string in a field such as `attestation_document`.",
        "let the attestation endpoint answer with the document itself, as application/cbor or in base64",
    }
    CBOR = "attestation.cbor", Error, "RFC 8949" {
        "the document is not the strict CBOR that attestation documents are made of",
        "Cut-off items, lengths past the end, strings in pieces, keys that occur twice and bytes after the end let two readers see two documents.",
        "serve the bytes of the security module unchanged",
    }
    COSE = "attestation.cose", Error, "RFC 9052 §4.2" {
        "the document is not a `COSE_Sign1` structure",
        "A Nitro document is an array of protected headers, empty unprotected headers, a payload of 1 to 16384 bytes and a signature of 96 bytes.",
        "serve the bytes of the security module unchanged",
    }
    ALGORITHM = "attestation.algorithm", Error, "AWS Nitro attestation process §3.1" {
        "the document is not signed with ES384",
        "The security module signs with ECDSA on P-384 and SHA-384 and nothing else. A reader that lets the document choose can be led to a weaker algorithm.",
        "serve the bytes of the security module unchanged",
    }
    DOCUMENT_FIELD = "attestation.document_field", Error, "AWS Nitro attestation process §3.2.2" {
        "a field of the document is missing, unknown or out of its bounds",
        "The vendor lists the fields, their types and their sizes. Whatever differs was not made by the security module.",
        "serve the bytes of the security module unchanged",
    }
    CHAIN_TOO_LONG = "attestation.chain_too_long", Error, "AWS Nitro attestation process §3.2.4" {
        "the document carries more certificates than any genuine chain",
        "Each certificate costs the reader a signature check, so a long list is a way to waste its time. Genuine chains have four or five.",
        "serve the bytes of the security module unchanged",
    }
    CERTIFICATE = "attestation.certificate", Error, "RFC 5280 §4" {
        "a certificate of the chain cannot be read",
        "Every certificate is X.509 version 3 in DER with a P-384 key, signed by ECDSA with SHA-384.",
        "serve the bytes of the security module unchanged",
    }
    CERTIFICATE_CONSTRAINTS = "attestation.certificate_constraints", Error, "AWS Nitro attestation process §3.2.3" {
        "a certificate of the chain is used for what it does not allow",
        "Issuers must be authorities that may sign certificates and may stand so far from the end of the chain; the last certificate must be for signing and be no authority. Critical extensions that are not understood forbid the use.",
        "treat the report as forged unless the vendor explains it",
    }
    CERTIFICATE_VALIDITY = "attestation.certificate_validity", Error, "RFC 5280 §6.1.3" {
        "a certificate of the chain is expired or not yet valid",
        "Each certificate must be valid when the document was made and now. The security module's own certificate lives for about three hours.",
        "fetch a fresh report; check the clock if every report fails",
    }
    CHAIN = "attestation.chain", Error, "RFC 5280 §6.1.3" {
        "the certificates do not form a chain",
        "Each certificate must name the one before it as its issuer and carry its signature.",
        "treat the report as forged",
    }
    ROOT_UNKNOWN = "attestation.root_unknown", Error, "AWS Nitro attestation process §3.2.4" {
        "the chain does not begin at a pinned root",
        "Anybody can make a root certificate with the vendor's name on it. Only the pinned one counts.",
        "treat the report as forged; pin this root only if the vendor itself publishes it",
    }
    SIGNATURE = "attestation.signature", Error, "RFC 9052 §4.4" {
        "the signature over the document is wrong",
        "The document was changed after it was signed, or it was signed with another key than the one in its certificate.",
        "treat the report as forged",
    }
    STALE = "attestation.stale", Error, "ERC-8257 §5 Attestation" {
        "the report is too old",
        "An old report may come from before its platform was found to be broken, or from an enclave that no longer runs. Reports older than `attestation.maxAge`, or one hour without it, are refused.",
        "let the endpoint make a new report for each request instead of keeping one",
    }
    FUTURE = "attestation.future", Error, "ERC-8257 §5 Attestation" {
        "the report is from the future",
        "A date ahead of the clock would make a report stay fresh for longer than allowed. One minute is tolerated.",
        "set the clock right; refuse the report if it is right",
    }
    NONCE = "attestation.nonce", Error, "AWS Nitro attestation process §2.2.2" {
        "the report does not carry the nonce that was sent",
        "A nonce shows that the report was made for this request. Another one, or none, means that an older report was served again.",
        "refuse the report, or ask without a nonce if the endpoint knows none",
    }
    MEASUREMENT = "attestation.measurement", Error, "ERC-8257 §5 Attestation" {
        "the enclave runs something else than the manifest says",
        "For Nitro, `attestation.enclaveHash` is PCR0, the SHA-384 measurement of the enclave image: 48 bytes. The report has another value.",
        "publish the measurement of the running image as enclaveHash, or refuse the tool",
    }
    DEBUG_MODE = "attestation.debug_mode", Error, "AWS Nitro Enclaves user guide" {
        "the enclave runs in debug mode",
        "In debug mode all measurements are zero and the operator can read the enclave's console, so the report proves nothing about the code.",
        "start the enclave without debug mode",
    }
    NOT_PINNED = "attestation.not_pinned", Warning, "ERC-8257 §5 Attestation" {
        "the manifest names no measurement to compare the report with",
        "Everybody can rent an enclave. Without enclaveHash even a genuine report shows only that some enclave runs somewhere, not which code it runs.",
        "publish attestation.enclaveHash",
    }
    LOG_URL = "attestation.log_url", Warning, "ERC-8257 §5 Attestation" {
        "`transparencyLogURI` is not an https URL",
        "The entry in a public log is found by its URL, which must be https.",
        "write the https URL of the log entry",
    }
    LOG_NOT_INDEPENDENT = "attestation.log_not_independent", Warning, "ERC-8257 §5 Attestation" {
        "the transparency log is on a host of the tool's operator",
        "A log that the operator runs can show a different past to each reader. Hosts are compared by name: the same one, or one below the other. Two names of one company that share neither are not seen.",
        "enter the report in a log that somebody else runs, or count the log as absent",
    }
    LOG_NOT_CHECKED = "attestation.log_not_checked", Hint, "ERC-8257 §5 Attestation" {
        "whether the report is in the transparency log was not checked",
        "Only the shape and the host of the log's URL are looked at. That an entry exists, and that it is for this report, remains the operator's claim.",
        "look the entry up in the log before relying on it",
    }
}
