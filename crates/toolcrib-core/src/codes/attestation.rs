//! Codes of attestation reports: what a report must prove before a claim about hardware counts as verified.

super::codes! {
    UNVERIFIED_CLAIM = "attestation.unverified_claim", Warning, "ERC-8257 §5 Attestation" {
        "the report is not verified: its format is not supported",
        "Only AWS Nitro documents are verified. A report of another type may be genuine, but none of it was checked, so the tool counts as self-attested with standard execution.",
        "verify the report with the vendor's own tools, or treat the tool as self-attested",
    }
    NO_PINNED_ROOT = "attestation.no_pinned_root", Warning, "ERC-8257 §5 Attestation" {
        "the report is not verified: no root certificate of this vendor is pinned",
        "A certificate chain proves something only when it ends at a root that you chose to trust. The root in the report itself proves nothing.",
        "pin the vendor's root certificate or its SHA-256 fingerprint in the settings",
    }
    ROOT_SETTING = "attestation.root_setting", Error, "Toolcrib settings" {
        "a pinned root is neither a CA certificate nor a SHA-256 fingerprint",
        "A root is pinned as a certificate in DER or PEM, or as the 64 hex digits of the SHA-256 of its DER form.",
        "write the fingerprint as 64 hex digits, or give the certificate that the vendor publishes",
    }
    BODY_TOO_LARGE = "attestation.body_too_large", Error, "AWS Nitro attestation process §3.1" {
        "the report is larger than any attestation document",
        "A document has at most 16384 bytes, without its text encoding. Anything larger is not a report.",
        "correct the response of the attestation endpoint",
    }
    BODY_FORM = "attestation.body_form", Error, "AWS Nitro attestation process §3.1" {
        "the response does not contain an attestation document in a known form",
        "A document is read as raw bytes, as base64 or hex text, or as JSON with a base64 or hex string in a field such as `attestation_document`.",
        "return the document itself from the attestation endpoint, as application/cbor or in base64",
    }
    CBOR = "attestation.cbor", Error, "RFC 8949" {
        "the document is not strict CBOR",
        "Truncated items, lengths past the end, indefinite-length strings, duplicate keys and trailing bytes make two readers see two different documents.",
        "serve the bytes from the Nitro security module unchanged",
    }
    COSE = "attestation.cose", Error, "RFC 9052 §4.2" {
        "the document is not a `COSE_Sign1` structure",
        "A Nitro document is an array of protected headers, empty unprotected headers, a payload of 1 to 16384 bytes and a signature of 96 bytes.",
        "serve the bytes from the Nitro security module unchanged",
    }
    ALGORITHM = "attestation.algorithm", Error, "AWS Nitro attestation process §3.1" {
        "the document is not signed with ES384",
        "The security module signs with ECDSA on P-384 and SHA-384 and nothing else. A reader that lets the document choose the algorithm can be downgraded to a weaker one.",
        "serve the bytes from the Nitro security module unchanged",
    }
    DOCUMENT_FIELD = "attestation.document_field", Error, "AWS Nitro attestation process §3.2.2" {
        "a field of the document is missing, unknown or out of its bounds",
        "The vendor specifies the fields, their types and their sizes. A document that differs was not made by the security module.",
        "serve the bytes from the Nitro security module unchanged",
    }
    CHAIN_TOO_LONG = "attestation.chain_too_long", Error, "AWS Nitro attestation process §3.2.4" {
        "the document has too many certificates",
        "Each certificate costs a signature check, so a long list is a denial-of-service attempt. Genuine chains have four or five.",
        "serve the bytes from the Nitro security module unchanged",
    }
    CERTIFICATE = "attestation.certificate", Error, "RFC 5280 §4" {
        "a certificate of the chain cannot be parsed",
        "Every certificate is X.509 version 3 in DER with a P-384 key, signed by ECDSA with SHA-384.",
        "serve the bytes from the Nitro security module unchanged",
    }
    CERTIFICATE_CONSTRAINTS = "attestation.certificate_constraints", Error, "AWS Nitro attestation process §3.2.3" {
        "a certificate of the chain violates its constraints",
        "Issuers must be CA certificates with the key usage keyCertSign and a path length that allows their position; the leaf must be a non-CA certificate with the usage digitalSignature. An unknown critical extension makes a certificate unusable.",
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
        "the chain does not start at a pinned root",
        "Anyone can make a root certificate with the vendor's name. Only the pinned one is trusted.",
        "treat the report as forged; pin this root only if the vendor itself publishes it",
    }
    SIGNATURE = "attestation.signature", Error, "RFC 9052 §4.4" {
        "the signature over the document is invalid",
        "The document was changed after it was signed, or it was signed with another key than the one in its certificate.",
        "treat the report as forged",
    }
    STALE = "attestation.stale", Error, "ERC-8257 §5 Attestation" {
        "the report is too old",
        "An old report may predate a known vulnerability of its platform, or come from an enclave that no longer runs. Reports older than `attestation.maxAge`, or one hour without it, are refused.",
        "generate a new report for each request instead of caching one",
    }
    FUTURE = "attestation.future", Error, "ERC-8257 §5 Attestation" {
        "the timestamp of the report is in the future",
        "A timestamp in the future would keep a report fresh for longer than allowed. A clock skew of one minute is tolerated.",
        "correct the clock; if the clock is right, refuse the report",
    }
    NONCE = "attestation.nonce", Error, "AWS Nitro attestation process §2.2.2" {
        "the report does not contain the nonce that was sent",
        "The nonce proves that the report was made for this request. A different or missing nonce means that an older report was replayed.",
        "refuse the report, or request it without a nonce if the endpoint does not support one",
    }
    MEASUREMENT = "attestation.measurement", Error, "ERC-8257 §5 Attestation" {
        "the measurement of the enclave differs from the manifest",
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
        "Anyone can rent an enclave. Without enclaveHash even a genuine report proves only that some enclave runs, not which code it runs.",
        "publish attestation.enclaveHash",
    }
    LOG_URL = "attestation.log_url", Warning, "ERC-8257 §5 Attestation" {
        "`transparencyLogURI` is not an https URL",
        "Readers find the entry in a public log by its URL, which must be https.",
        "write the https URL of the log entry",
    }
    LOG_NOT_INDEPENDENT = "attestation.log_not_independent", Warning, "ERC-8257 §5 Attestation" {
        "the transparency log is on a host of the tool's operator",
        "A log that the operator runs can show different entries to each reader. Hosts are compared by name: equal, or one a subdomain of the other. Unrelated names of one company are not detected.",
        "publish the report in a log that an independent party runs, or treat the log as absent",
    }
    LOG_NOT_CHECKED = "attestation.log_not_checked", Hint, "ERC-8257 §5 Attestation" {
        "whether the report is in the transparency log was not checked",
        "Only the format and the host of the log's URL are checked. Whether an entry for this report exists is the operator's claim.",
        "look the entry up in the log before relying on it",
    }
}
