//! Codes of the agent rules: `.agt` manifests and the TXT records that point to them.

super::codes! {
    VERSION_UNSUPPORTED = "agent.version_unsupported", Error, ".agt 1.0 §2 Required fields" {
        "the agt version is not 1.0",
        "Other drafts use the same field with other rules, above all for signing: 2.0 signs a hash, 3.0 lives in another registry. Reading one draft by the rules of another would call forgeries genuine.",
        "write \"agt\": \"1.0\", follow the rules of that version, and sign again",
    }
    LARGE = "agent.large", Warning, ".agt 1.0 Security Considerations" {
        "the manifest is larger than every reader must accept",
        "Readers must accept 64 KiB and may refuse more. Toolcrib reads up to 256 KiB.",
        "shorten the schemas, or move long texts to a page and link it",
    }
    FIELD_TYPO = "agent.field_typo", Hint, ".agt 1.0 §2" {
        "an unknown field looks like a misspelt one",
        "Unknown fields are legal: they are kept, signed and ignored. A misspelt field is ignored as well, which is seldom meant.",
        "correct the name of the field",
    }
    TOO_MANY_ENTRIES = "agent.too_many_entries", Error, "Toolcrib limits" {
        "a list has more entries than a manifest of 64 KiB can hold",
        "Every reader must accept 64 KiB, which has room for fewer than 6000 of the shortest entries. Longer lists are not checked.",
        "list only what the agent really offers",
    }
    DUPLICATE_ENTRY = "agent.duplicate_entry", Warning, ".agt 1.0 §2 Protocols, Capabilities" {
        "an entry appears twice",
        "The specification does not say which of two equal entries counts, so readers differ.",
        "keep one of the two",
    }

    DOMAIN_MALFORMED = "agent.domain_malformed", Error, ".agt 1.0 §2 Required fields; Freename FNS names" {
        "the domain is not a .agt name in its canonical form",
        "A name is one label and `agt`, in lower case, with Unicode written as an `xn--` label and without a trailing dot. The token id is a hash of exactly these bytes: another spelling is another token.",
        "write the name as `label.agt`",
    }
    DOMAIN_IDN = "agent.domain_idn", Hint, ".agt 1.0 §2 Required fields" {
        "the domain displays as Unicode text",
        "Letters of different scripts can look alike. Two names that look the same are two tokens with two owners.",
        "compare the `xn--` form when it matters which name is meant",
    }
    DOMAIN_MISMATCH = "agent.domain_mismatch", Error, ".agt 1.0 §2 Required fields" {
        "the manifest belongs to another domain",
        "A manifest counts only for the domain it names. Otherwise a genuine manifest of one agent could be served under the name of another.",
        "point the TXT record at the manifest of this very domain",
    }

    OWNER_MALFORMED = "agent.owner_malformed", Error, ".agt 1.0 §2 Required fields; EIP-55" {
        "the owner is not an address",
        "An address is 0x and 40 hexadecimal digits. Names and shortened addresses are not resolved.",
        "write the full address of the wallet that holds the name",
    }
    OWNER_CHECKSUM = "agent.owner_checksum", Error, ".agt 1.0 §2 Required fields; EIP-55" {
        "the upper and lower case letters of the owner do not fit its checksum",
        "Mixed case carries a checksum. When it does not fit, a digit may be wrong, so readers refuse the manifest. For the same reason this is not fixed automatically.",
        "copy the address again from the wallet that holds the name",
    }
    OWNER_NOT_CHECKSUMMED = "agent.owner_not_checksummed", Error, ".agt 1.0 §2 Required fields; EIP-55" {
        "the owner is written without the EIP-55 checksum",
        "The specification asks for checksummed hexadecimal. Producers must write it so; readers compare the 20 bytes and only warn.",
        "write the checksummed form (toolcrib lint --fix does it), then sign again",
    }
    OWNER_ZERO = "agent.owner_zero", Error, ".agt 1.0 §2 Required fields" {
        "the owner is the zero address",
        "The zero address has no private key, so no signature can match it.",
        "write the address of the wallet that holds the name",
    }

    CREATED_AT_MALFORMED = "agent.created_at_malformed", Error, ".agt 1.0 §2 Required fields; RFC 3339 §5.6" {
        "`created_at` is not a timestamp",
        "The field is an ISO 8601 timestamp. Toolcrib reads the profile of RFC 3339, which has one meaning everywhere.",
        "write it like 2026-05-01T18:00:00Z",
    }
    CREATED_AT_NO_OFFSET = "agent.created_at_no_offset", Error, ".agt 1.0 §2 Required fields; RFC 3339 §4.4" {
        "`created_at` has no time zone offset",
        "A local time without offset means a different moment in every place.",
        "end it with Z or an offset such as +02:00",
    }
    CREATED_IN_FUTURE = "agent.created_in_future", Warning, ".agt 1.0 §2 Required fields" {
        "`created_at` lies in the future",
        "Readers that guard against old manifests remember the highest created_at of a name. One in the future would make every honest update look old.",
        "sign again with the current time",
    }

    UNSIGNED = "agent.unsigned", Error, ".agt 1.0 §4 Signing" {
        "the manifest is not signed",
        "Readers accept a manifest only with the signature of the wallet that holds the name. An unsigned manifest is a draft.",
        "sign the output of `toolcrib canon --for-signing` (personal_sign) with the wallet that holds the name, and put the result in `signature`",
    }
    SIGNATURE_PLACEHOLDER = "agent.signature_placeholder", Error, ".agt 1.0 §4 Signing" {
        "the signature is a placeholder",
        "Examples show shortened signatures. A shortened signature cannot be checked.",
        "sign the output of `toolcrib canon --for-signing` with the wallet",
    }
    SIGNATURE_MALFORMED = "agent.signature_malformed", Error, ".agt 1.0 §4 Signing; EIP-191" {
        "the signature is not 0x and 130 hexadecimal digits",
        "personal_sign returns 65 bytes: r, s and v.",
        "copy the signature exactly as the wallet returned it",
    }
    SIGNATURE_COMPACT = "agent.signature_compact", Error, ".agt 1.0 §4 Signing; EIP-2098" {
        "the signature is in the compact 64-byte form",
        "EIP-2098 folds v into s. The specification asks for the result of personal_sign, which has 65 bytes; other readers refuse anything else.",
        "write the signature in the 65-byte form",
    }
    SIGNATURE_V = "agent.signature_v", Error, ".agt 1.0 §4 Signing; EIP-191" {
        "the last byte of the signature is not 0, 1, 27 or 28",
        "The recovery id of a message signature has two values, with or without 27 added. Values from 35 on belong to transactions; lenient readers would accept one signature in many spellings.",
        "sign the message with personal_sign",
    }
    SIGNATURE_HIGH_S = "agent.signature_high_s", Error, ".agt 1.0 §4 Signing; EIP-2" {
        "the s value of the signature is in the upper half",
        "For each signature (r, s) a second valid one with n - s can be computed without the key. Only the lower s is accepted, so that a signed document cannot be altered.",
        "sign again with a wallet that produces low-s signatures",
    }
    SIGNATURE_RANGE = "agent.signature_range", Error, ".agt 1.0 §4 Signing; SEC 1 §4.1.4" {
        "r or s of the signature is zero or not below the order of the curve",
        "Such a signature is never valid.",
        "sign the output of `toolcrib canon --for-signing` with the wallet",
    }
    SIGNATURE_UPPERCASE = "agent.signature_uppercase", Hint, ".agt 1.0 §4 Signing" {
        "the signature is written in upper case",
        "The bytes are the same in either case, and the signature itself is not signed. Wallets write lower case, and some readers compare the text.",
        "write it in lower case",
    }

    NAME_LENGTH = "agent.name_length", Error, ".agt 1.0 §2 Optional identity fields" {
        "the name is longer than 100 characters",
        "Characters are Unicode code points, as in JSON Schema.",
        "shorten the name",
    }
    DESCRIPTION_LENGTH = "agent.description_length", Error, ".agt 1.0 §2 Optional identity fields" {
        "the description is longer than 280 characters",
        "Characters are Unicode code points, as in JSON Schema.",
        "shorten the description, and put the rest on the website",
    }

    ID_MALFORMED = "agent.id_malformed", Error, ".agt 1.0 §3, §7" {
        "an id is not lowercase and hyphenated",
        "Ids are compared byte by byte. An id is groups of lowercase letters and digits, joined by single hyphens.",
        "write it like my-protocol",
    }
    ID_NEAR_MISS = "agent.id_near_miss", Hint, ".agt 1.0 §2, §3, §7" {
        "a custom id differs from a known one by a letter or two",
        "Custom ids are legal, but searches do not find a misspelt one.",
        "use the known id, if it is what you mean",
    }
    ENDPOINT_PLAINTEXT = "agent.endpoint_plaintext", Warning, ".agt 1.0 §2 Protocols; Security Considerations" {
        "an endpoint is not encrypted",
        "Anyone on the network path can read and change requests and responses, credentials included. HTTPS is strongly recommended.",
        "serve it with TLS and write https:// or wss://",
    }
    ENDPOINT_SCHEME = "agent.endpoint_scheme", Error, ".agt 1.0 §2 Protocols" {
        "an endpoint does not fit its protocol",
        "mcp, a2a and http are spoken over https; ws over wss; grpc over https. A caller would not know how to connect, and some schemes run code.",
        "write an https:// endpoint (wss:// for ws)",
    }
    ENDPOINT_UNUSUAL = "agent.endpoint_unusual", Hint, ".agt 1.0 §2 Protocols" {
        "an endpoint has an unusual scheme for its protocol",
        "Some callers do not accept it.",
        "write wss:// for ws and https:// for everything else",
    }
    ENDPOINT_STALE_CARD = "agent.endpoint_stale_card", Hint, "A2A 1.0 Agent discovery" {
        "an a2a endpoint uses the old path of agent cards",
        "Agent cards moved from /.well-known/agent.json to /.well-known/agent-card.json. Current clients look only there.",
        "serve the card at /.well-known/agent-card.json and name that path",
    }
    AUTH_CREDENTIAL = "agent.auth_credential", Warning, ".agt 1.0 §2 Protocols; Security Considerations" {
        "auth looks like a credential",
        "`auth` names a scheme: none, bearer, oauth2, signed-nonce or a custom name. The manifest is public for ever, and so is every secret in it.",
        "name the scheme only; if this is a real secret, revoke it now",
    }
    TEXT_EMPTY = "agent.text_empty", Warning, ".agt 1.0 §2" {
        "an optional text is empty",
        "Readers may show an empty line for it.",
        "write a text, or leave the field out",
    }

    CAPABILITY_DESCRIPTION_LENGTH = "agent.capability_description_length", Error, ".agt 1.0 §2 Capabilities" {
        "the description of a capability is longer than 200 characters",
        "Characters are Unicode code points, as in JSON Schema.",
        "shorten the description",
    }

    PRICING_MODEL = "agent.pricing_model", Error, ".agt 1.0 §2 Pricing" {
        "the pricing model is not known",
        "There are four models: free, freemium, paid and contact.",
        "use one of the four",
    }
    PAID_MISSING = "agent.paid_missing", Error, ".agt 1.0 §2 Pricing" {
        "the prices are missing",
        "With the models paid and freemium, the object `paid` states the price.",
        "add \"paid\": {\"currency\": …, \"amount\": …, \"unit\": …}",
    }
    PAID_UNUSED = "agent.paid_unused", Warning, ".agt 1.0 §2 Pricing" {
        "prices are given, but the model does not charge",
        "`paid` has a meaning only with the models paid and freemium. Readers may show a price that is not charged.",
        "change the model, or leave `paid` out",
    }
    FREE_TIER_UNUSED = "agent.free_tier_unused", Hint, ".agt 1.0 §2 Pricing" {
        "`free_tier` is given, but the model is not freemium",
        "`free_tier` describes the free part of the model freemium. Readers ignore it otherwise.",
        "change the model to freemium, or leave `free_tier` out",
    }
    AMOUNT_MALFORMED = "agent.amount_malformed", Error, ".agt 1.0 §2 Pricing" {
        "the amount is not a plain decimal number",
        "An amount is digits and at most one point, as a string: no sign, no exponent, no leading zeros, no thousands separator, no currency sign.",
        "write it like \"0.01\"",
    }
    CURRENCY_MALFORMED = "agent.currency_malformed", Error, ".agt 1.0 §2 Pricing" {
        "the currency is neither an ISO 4217 code nor a token symbol",
        "A currency is one short word such as USD or USDC.",
        "write the code or symbol alone",
    }
    CURRENCY_CASE = "agent.currency_case", Hint, ".agt 1.0 §2 Pricing; ISO 4217" {
        "the currency code is not in upper case",
        "ISO 4217 codes are upper case. In lower case it can be read as the symbol of a token.",
        "write the code in upper case, if a national currency is meant",
    }
    UNIT_MALFORMED = "agent.unit_malformed", Error, ".agt 1.0 §2 Pricing" {
        "the unit is not a single word",
        "Known units are per_request, per_token_in, per_token_out, per_minute, per_month and per_session. A custom unit is one short word.",
        "use a known unit, or one custom word",
    }
    CHAIN_MALFORMED = "agent.chain_malformed", Error, ".agt 1.0 §2 Pricing; CAIP-2" {
        "the chain is neither a name, a number nor a CAIP-2 identifier",
        "The specification asks for an EIP-155 identifier, but its examples are names. Toolcrib reads \"polygon\", \"137\" and \"eip155:137\".",
        "write it like eip155:137",
    }

    TXT_TOO_MUCH = "agent.txt_too_much", Error, "Toolcrib limits" {
        "the domain has more TXT records than the limit",
        "A DNS answer holds 64 KiB at most. A second pointer could be beyond the limit, so none of the records is used.",
        "remove TXT records that are not needed",
    }
    TXT_NOT_UTF8 = "agent.txt_not_utf8", Warning, ".agt 1.0 §1" {
        "a TXT record of the agent is not UTF-8",
        "Its text cannot be read, so the record is ignored.",
        "write the record again as UTF-8",
    }
    TXT_KEY = "agent.txt_key", Warning, ".agt 1.0 §1, §8" {
        "a TXT record resembles an agent record, but its key is not exact",
        "Keys are lower case and start the record, without spaces before or after. Any other spelling is ignored.",
        "correct the key",
    }
    POINTER_NOT_IPFS = "agent.pointer_not_ipfs", Error, ".agt 1.0 §1" {
        "the manifest pointer is not ipfs://",
        "Only a content address (CID) identifies the exact bytes. The content behind web URLs and IPNS names can change, so they are refused. Readers do not fall back to legacy records.",
        "publish the manifest to IPFS and write agt-manifest=ipfs://<cid>",
    }
    POINTER_CID = "agent.pointer_cid", Error, ".agt 1.0 §1" {
        "the manifest pointer has no valid CID",
        "The pointer is exactly ipfs:// and a CIDv1: no spaces, no placeholder, no truncated text. A broken pointer is refused. Readers do not fall back to legacy records.",
        "write the CID that publishing printed",
    }
    POINTER_CID_V0 = "agent.pointer_cid_v0", Error, ".agt 1.0 §1" {
        "the manifest pointer is a CID of version 0",
        "CIDs that start with Qm are version 0; the specification asks for version 1.",
        "write the version 1 form of the same CID: `ipfs cid base32 <cid>` prints it",
    }
    POINTER_PATH = "agent.pointer_path", Error, ".agt 1.0 §1" {
        "something follows the CID in the manifest pointer",
        "The CID identifies the manifest itself, so a path, query or fragment is not allowed.",
        "publish the file alone instead of a folder, and write its CID",
    }
    POINTER_AMBIGUOUS = "agent.pointer_ambiguous", Error, ".agt 1.0 §1" {
        "the domain has several different manifest pointers",
        "DNS returns records in any order, so readers would see different agents under one name. None of them is used.",
        "keep one agt-manifest record",
    }
    POINTER_WITH_LEGACY = "agent.pointer_with_legacy", Warning, ".agt 1.0 §1" {
        "the domain has a manifest pointer and legacy records",
        "A domain must not have both. Readers must prefer the pointer; old ones may not.",
        "remove the legacy agt-* records",
    }
    LEGACY = "agent.legacy", Warning, ".agt 1.0 §8" {
        "the agent is described by unsigned legacy records",
        "Legacy records are not signed: anyone who controls the DNS of the name can write them. They are read for old names only.",
        "move to a signed manifest; `toolcrib agt migrate` drafts one from the records",
    }
    LEGACY_VERSION = "agent.legacy_version", Warning, ".agt 1.0 §8" {
        "agt-version is not exactly 1",
        "Legacy records are read only beside the record agt-version=1.",
        "migrate to a signed manifest instead of repairing legacy records",
    }
    LEGACY_VALUE = "agent.legacy_value", Warning, ".agt 1.0 §8" {
        "a legacy record has a value that cannot be used",
        "The record is ignored; the others are used.",
        "correct it when migrating",
    }
    LEGACY_REPEATED = "agent.legacy_repeated", Warning, ".agt 1.0 §8" {
        "a legacy record that may appear once appears twice",
        "The first one is used. DNS returns records in any order, so another reader may use the other.",
        "keep one of the two",
    }
    LEGACY_ENDPOINT = "agent.legacy_endpoint", Warning, ".agt 1.0 §8" {
        "a legacy endpoint belongs to no declared protocol",
        "An agt-endpoint-X record needs agt-protocol=X. The protocol is treated as declared.",
        "declare the protocol when migrating",
    }

    // TXT sources and TXT writers.
    TXT_SETTING = "agent.txt_setting", Error, "Toolcrib settings" {
        "a TXT source cannot be used as written",
        "Sources are dns, dns:udp://…, dns:tcp://…, dns:tls://…, dns:https://…, freename, doh-json:https://…, fns and file:….",
        "correct the source in the settings",
    }
    DNSSEC_ANCHOR = "agent.dnssec_anchor", Error, "RFC 4034 §2" {
        "a DNSSEC trust anchor is not a DNSKEY record",
        "A trust anchor is the public key of a zone, as `dig DNSKEY` prints it: name, DNSKEY, flags, protocol, algorithm and key.",
        "write the record on one line: agt. DNSKEY 257 3 13 <base64>",
    }
    DNS_TIMEOUT = "agent.dns_timeout", Error, "Toolcrib limits" {
        "no name server answered in time",
        "Packets get lost, and servers can be slow. A timeout proves nothing about the name.",
        "try again, or use another server",
    }
    DNS_UNREACHABLE = "agent.dns_unreachable", Error, "RFC 1035 §4.2; RFC 7858; RFC 8484" {
        "no connection to a name server could be made",
        "The server is down, the address is wrong, a firewall is in the way, or its certificate is not valid for its name.",
        "check the address and the name of the server",
    }
    DNS_REFUSED = "agent.dns_refused", Error, "RFC 1035 §4.1.1" {
        "the name server refused the query",
        "The server does not answer this client, or not for this name. That proves nothing about the name.",
        "use a server that answers for .agt names",
    }
    DNS_SERVER_FAILURE = "agent.dns_server_failure", Error, "RFC 1035 §4.1.1" {
        "the name server reports a server error",
        "SERVFAIL and similar codes mean that the server could not resolve the name. Validating resolvers also return SERVFAIL for bogus DNSSEC signatures.",
        "try again, or use another server",
    }
    DNS_MALFORMED = "agent.dns_malformed", Error, "RFC 1035 §4" {
        "the answer of the name server cannot be used",
        "The message does not decode, answers another query, or breaks the CNAME rules. None of it is used.",
        "use another server",
    }
    DNS_TRUNCATED = "agent.dns_truncated", Error, "RFC 7766 §5" {
        "the name server truncated its answer",
        "A query whose answer is truncated over UDP is repeated over TCP. An answer that is truncated over TCP may lack the pointer, so it is not used.",
        "use another server, or remove TXT records that are not needed",
    }
    DNS_ALIASES = "agent.dns_aliases", Error, "RFC 1034 §3.6.2" {
        "the name has too many aliases",
        "At most eight CNAME records are followed. Longer chains are loops or mistakes.",
        "put the TXT record on the name itself",
    }
    DNSSEC_BOGUS = "agent.dnssec_bogus", Error, "RFC 4035 §5" {
        "the DNSSEC signatures of the answer are invalid",
        "The name is below a trust anchor, but no valid chain of signatures leads from the anchor to its records. The answer was altered, or the zone is misconfigured.",
        "check the trust anchor and the signatures of the zone",
    }
    DNSSEC_REQUIRED = "agent.dnssec_required", Error, "RFC 4035 §5" {
        "the answer is not secured by DNSSEC, and the settings require it",
        "No trust anchor covers the name, or the zone is provably unsigned.",
        "add the trust anchor of the zone, or do not require DNSSEC",
    }
    TXT_ANSWER_MALFORMED = "agent.txt_answer_malformed", Error, "Freename resolver API; DNS JSON" {
        "the answer of a TXT source does not match its API",
        "Other JSON, other types or missing fields could hide records, so the answer is not used.",
        "use another source, and check the address of this one",
    }
    TXT_ANSWER_OTHER_NAME = "agent.txt_answer_other_name", Error, "Freename resolver API; DNS JSON" {
        "a TXT source answered for another name",
        "Records of another name would point to another agent.",
        "use another source",
    }
    TXT_ANSWER_STATUS = "agent.txt_answer_status", Error, "RFC 9110 §15" {
        "a TXT source answered with an error status",
        "The source is overloaded, requires a key, or is not at this address. That proves nothing about the name.",
        "try again later, or use another source",
    }
    FNS_RECORDS_MALFORMED = "agent.fns_records_malformed", Error, "Freename FNS records" {
        "the records of the name onchain cannot be read",
        "The contract returned bytes that do not decode, more than the size limit, or a number of values that differs from the number of keys.",
        "check the address and the chain of the registry",
    }
    TXT_FILE = "agent.txt_file", Error, "Toolcrib limits" {
        "a file of TXT records cannot be read",
        "The file is missing, is not UTF-8, or is larger than one DNS answer (64 KiB).",
        "check the path of the file",
    }
    TXT_WRITE_PLAN = "agent.txt_write_plan", Error, ".agt 1.0 §1" {
        "the requested change of TXT records is not allowed",
        "A name has one manifest pointer and no legacy records beside it. A change that would leave both is refused before any update is sent.",
        "remove the legacy records in the same change",
    }
    TXT_UPDATE_FAILED = "agent.txt_update_failed", Error, "RFC 2136; RFC 8945" {
        "the name server rejected the update",
        "The TSIG key is unknown or wrong, the clocks differ by more than five minutes, the zone is not the one of the name, or the records changed meanwhile.",
        "check the zone and the TSIG key, compare the records, and try again",
    }
    TXT_COMMAND_FAILED = "agent.txt_command_failed", Error, "Toolcrib settings" {
        "the command that changes TXT records failed",
        "It could not be started, took too long, wrote too much output, or exited with a non-zero status. The records may or may not have changed.",
        "check the records and the output of the command",
    }
    TXT_READ_BACK = "agent.txt_read_back", Error, ".agt 1.0 §1" {
        "the TXT records differ from those that were written",
        "The update was accepted, but reading the name again returned other records. Another program may have changed them.",
        "check the records of the name, and write them again",
    }

    CID_MALFORMED = "agent.cid_malformed", Error, ".agt 1.0 §1; CIDv1" {
        "the CID cannot be parsed",
        "A CID is a multibase prefix followed, in that base, by the version, the codec, the hash function and the digest. Readers could interpret any other text differently.",
        "copy the CID exactly as publishing printed it",
    }
    CID_NOT_CANONICAL = "agent.cid_not_canonical", Error, ".agt 1.0 §1; CIDv1" {
        "the CID is not in its canonical form",
        "Each CID has exactly one text form in each base. Some readers ignore stray bits or bytes after the digest, others refuse them.",
        "copy the CID exactly as publishing printed it",
    }
    CID_CODEC = "agent.cid_codec", Error, ".agt 1.0 §1; CIDv1" {
        "the CID has a codec that a manifest cannot have",
        "A manifest is a file, so its CID has the codec raw or dag-pb. An IPNS key (libp2p-key) can point to other content later; dag-json and dag-cbor encode data structures, not the bytes of the signed file.",
        "add the manifest to IPFS as a file, and write the CID of that file",
    }
    CID_HASH_WEAK = "agent.cid_hash_weak", Error, ".agt 1.0 §1" {
        "the hash of the CID does not protect the content",
        "The minimum is a full SHA-256 digest. Collisions for sha1 and md5 can be computed, a truncated digest is easier to match, and the identity function is not a hash.",
        "add the manifest to IPFS again with the default hash, sha2-256",
    }
    CID_HASH_UNSUPPORTED = "agent.cid_hash_unsupported", Error, ".agt 1.0 §1; Toolcrib limits" {
        "the hash function of the CID is not supported",
        "Toolcrib checks sha2-256, sha2-512, sha3-256, sha3-512, blake2b-256 and blake3. Content that cannot be checked is never accepted.",
        "add the manifest to IPFS again with the default hash, sha2-256",
    }
    CONTENT_NOT_A_FILE = "agent.content_not_a_file", Error, ".agt 1.0 §1; UnixFS" {
        "the CID names something other than a file",
        "The pointer must hold the CID of the manifest itself. Folders, sharded folders and symbolic links are not followed.",
        "publish the file alone instead of a folder, and write its CID",
    }
    CONTENT_MALFORMED = "agent.content_malformed", Error, "dag-pb; UnixFS" {
        "the blocks of the file are malformed",
        "The blocks match their hashes, but they are not valid UnixFS nodes: fields are missing, repeated or out of order. Readers would disagree about the content of the file.",
        "add the manifest to IPFS again with a common importer",
    }
    CONTENT_SIZE_MISMATCH = "agent.content_size_mismatch", Error, "UnixFS" {
        "the sizes in the blocks of the file are wrong",
        "Each node declares how many bytes its links hold. Readers rely on these sizes to stop early, so a file with wrong sizes is refused.",
        "add the manifest to IPFS again with a common importer",
    }
    CONTENT_TOO_LARGE = "agent.content_too_large", Error, ".agt 1.0 Security Considerations" {
        "the content is larger than allowed",
        "Readers must accept 64 KiB and may refuse more. Toolcrib reads 64 KiB by default and 256 KiB at most.",
        "shorten the manifest, or allow larger content in the settings",
    }
    CONTENT_TOO_MANY_BLOCKS = "agent.content_too_many_blocks", Error, "Toolcrib limits" {
        "the file has more than 64 blocks",
        "A manifest of the largest size is one block under the defaults of every importer. The limit of 64 leaves room for unusual chunk sizes.",
        "add the manifest to IPFS again with the default chunk size",
    }
    CONTENT_TOO_DEEP = "agent.content_too_deep", Error, "Toolcrib limits" {
        "the file has too many levels of links",
        "A manifest of the largest size needs one level at most.",
        "add the manifest to IPFS again with a common importer",
    }
    BLOCK_TOO_LARGE = "agent.block_too_large", Error, "Toolcrib limits" {
        "a block is larger than 2 MiB",
        "IPFS nodes do not exchange larger blocks.",
        "add the manifest to IPFS again with a common importer",
    }
    BLOCK_MISMATCH = "agent.block_mismatch", Error, ".agt 1.0 §4 Verification, step 2" {
        "the bytes do not match the hash of their CID",
        "The hash binds the content to the pointer. A source that serves other bytes is broken or hostile, so the bytes are not used.",
        "use another gateway or file, and report the one that served other bytes",
    }
    GATEWAY_ANSWER = "agent.gateway_answer", Error, "IPFS trustless gateway specification" {
        "a gateway returned something other than a block",
        "A trustless gateway answers `?format=raw` with the bytes of a block. A web page usually means a wrong URL, a sign-in page or a discontinued service.",
        "check the URL of the gateway, or remove it from the settings",
    }
    ARCHIVE_MALFORMED = "agent.archive_malformed", Error, "CARv1" {
        "the archive cannot be read",
        "A CARv1 file is a header followed by sections, each with a CID and its block. A truncated or malformed archive is refused as a whole.",
        "export the blocks again",
    }
    FILE_UNREADABLE = "agent.file_unreadable", Error, "Toolcrib limits" {
        "the file cannot be read",
        "It is missing, not a regular file, not readable for this user, or larger than the limit.",
        "check the path and its permissions",
    }
    PUBLISH_DENIED = "agent.publish_denied", Error, "IPFS Pinning Service API; Kubo RPC" {
        "the service rejects the access token",
        "The token is missing, wrong, expired, or lacks the permission to publish.",
        "check the token in the settings of the service",
    }
    PUBLISH_ANSWER = "agent.publish_answer", Error, "IPFS Pinning Service API; Kubo RPC" {
        "the answer of the service does not match its API",
        "The answer does not prove that the file is published. Its body is not shown, because it may contain the token.",
        "check the URL of the service, and try again later",
    }
    PUBLISH_OTHER_CID = "agent.publish_other_cid", Error, ".agt 1.0 §4 Verification, step 2" {
        "the service published other content",
        "The service returned a CID that differs from that of the file. A pointer with that CID would lead readers to other content.",
        "do not use the CID that the service returned; publish with another service",
    }
    PUBLISH_FAILED = "agent.publish_failed", Error, "IPFS Pinning Service API; Kubo RPC" {
        "the service could not pin the file",
        "A pinning service that is given a CID has to find the blocks on the network first.",
        "make sure that a node serves the blocks, or upload them with the RPC of a node",
    }
    PUBLISH_PENDING = "agent.publish_pending", Error, "IPFS Pinning Service API" {
        "the service has not pinned the file yet",
        "The request was accepted and may still succeed. Until it does, readers may not find the file.",
        "check the pin request at the service, or try again later",
    }

    // The verification of a name.
    NOT_FOUND = "agent.not_found", Error, ".agt 1.0 §5" {
        "the name does not exist",
        "Every source of TXT records that answered reported that the name does not exist.",
        "check the spelling of the name, and that the sources resolve names under .agt",
    }
    NOT_AN_AGENT = "agent.not_an_agent", Error, ".agt 1.0 §5" {
        "the name has no agent records",
        "A name belongs to an agent if it has the TXT record agt-manifest=ipfs://<cid>, or the legacy record agt-version=1.",
        "publish a manifest and add the record, if the name is yours",
    }
    TXT_UNANSWERED = "agent.txt_unanswered", Warning, ".agt 1.0 §5" {
        "a source of TXT records did not answer",
        "A timeout or an error of a source proves nothing about the name. If no source answers, there is no verdict.",
        "try again later, or use another source",
    }
    TXT_DISAGREE = "agent.txt_disagree", Error, ".agt 1.0 §1" {
        "sources of TXT records disagree about the agent",
        "Names under .agt are served by several systems that can hold different records for one name. There is no rule for which one is right, so none is used.",
        "make the records the same in every system, or configure only the source that you trust",
    }
    TXT_NOT_SECURE = "agent.txt_not_secure", Error, "RFC 4035 §4.3" {
        "an answer with TXT records is not secured by DNSSEC",
        "The policy requires DNSSEC and the answer has no chain of signatures to a trust anchor, or the signatures are invalid. Such an answer is not used.",
        "sign the zone and configure its trust anchor, or do not require DNSSEC: the manifest is verified without it",
    }
    EVIDENCE_UNUSABLE = "agent.evidence_unusable", Error, "Toolcrib evidence" {
        "the evidence is inconsistent",
        "Parts of an evidence file belong to another name, CID, chain or format. Nothing can be concluded from it.",
        "gather the evidence again",
    }
    CONTENT_TAMPERED = "agent.content_tampered", Error, ".agt 1.0 §4 Verification, step 2" {
        "a gateway served bytes that do not match the hash of the CID",
        "Gateways are not trusted: content is used only if its hash is the one in the CID.",
        "use another gateway, and do not use this one again",
    }
    CONTENT_REFUSED = "agent.content_refused", Error, ".agt 1.0 §1" {
        "the CID does not identify a manifest file",
        "The blocks match the CID, but they are a folder, too large or too deeply linked. Every honest gateway serves the same.",
        "publish the manifest as a single file and point the record at its CID",
    }
    CONTENT_UNAVAILABLE = "agent.content_unavailable", Error, ".agt 1.0 §4 Verification, step 1" {
        "the manifest could not be retrieved",
        "No gateway served the content of the CID. That proves nothing about the manifest.",
        "try again later or with other gateways; if the name is yours, pin the content",
    }
    CONTENT_MISMATCH = "agent.content_mismatch", Error, ".agt 1.0 §4 Verification, step 2" {
        "the content does not match the hash of its CID",
        "The bytes in the evidence are not those that the TXT record points to.",
        "gather the evidence again",
    }
    CONTENT_UNCHECKED = "agent.content_unchecked", Error, ".agt 1.0 §4 Verification, step 2" {
        "the content cannot be compared with its CID",
        "The CID is the hash of blocks that the evidence does not contain, so saved evidence alone cannot prove the content.",
        "resolve the name again instead of judging the saved evidence",
    }
    SIGNATURE_UNRECOVERABLE = "agent.signature_unrecoverable", Error, ".agt 1.0 §4 Verification, step 4" {
        "no signer can be recovered from the signature",
        "The signature is well-formed, but no public key can be recovered from it.",
        "sign the output of `toolcrib canon --for-signing` with the wallet",
    }
    SIGNER_NOT_OWNER = "agent.signer_not_owner", Error, ".agt 1.0 §4 Verification, step 5" {
        "the owner did not sign the manifest",
        "The address recovered from the signature differs from the `owner` field: another key signed, or the manifest was changed after it was signed.",
        "sign the manifest as it is with the wallet of the owner",
    }
    CONTRACT_SIGNATURE = "agent.contract_signature", Warning, "ERC-1271; extension of .agt 1.0 §4" {
        "a contract accepted the signature (ERC-1271 extension)",
        "The specification requires an ECDSA signature by the owner's key. Here the owner is a contract that accepts the signature (ERC-1271). Your policy allows that; other readers refuse it.",
        "hold the name with an externally owned account, if every reader should accept the manifest",
    }
    CONTRACT_UNANSWERED = "agent.contract_unanswered", Error, "ERC-1271; extension of .agt 1.0 §4" {
        "the call to the contract that holds the name failed, so the signature is unchecked",
        "No RPC node returned the contract's answer. That proves nothing about the signature.",
        "try again later, or use another RPC node",
    }
    NOT_MINTED = "agent.not_minted", Error, ".agt 1.0 §4 Verification, step 7" {
        "the name has no holder onchain",
        "The token of the name has no owner in the registry: it was never minted, or was burned. A manifest for such a name proves nothing.",
        "register the name, or check its spelling",
    }
    HOLDER_NOT_OWNER = "agent.holder_not_owner", Error, ".agt 1.0 §4 Verification, step 8" {
        "the owner in the manifest does not hold the name onchain",
        "Only the holder of the token can publish for the name. After a transfer the manifest of the former holder is invalid.",
        "sign and publish a manifest with the wallet of the current holder",
    }
    REGISTRY_ANSWER = "agent.registry_answer", Error, ".agt 1.0 §4 Verification, step 7" {
        "the answer of the name registry is not usable",
        "No contract is deployed at the registry's address, or it did not return an address. The RPC node may be wrong, so this proves nothing about the name.",
        "check the RPC node and the registry settings",
    }
    HOLDER_UNKNOWN = "agent.holder_unknown", Error, ".agt 1.0 §4 Verification, step 7" {
        "the holder of the name could not be read",
        "No RPC node answered, or the nodes disagree. Without the holder a manifest is not verified.",
        "try again later, or use another RPC node for Polygon",
    }
    ONCHAIN_SKIPPED = "agent.onchain_skipped", Warning, ".agt 1.0 Resolution" {
        "the holder was not checked onchain, so the manifest is unverified",
        "A preview may skip this check and must say so. A former owner of the name can still sign manifests that pass every other check.",
        "resolve the name with an RPC node for Polygon before you rely on the manifest",
    }
    ROLLBACK = "agent.rollback", Warning, ".agt 1.0 Updating" {
        "the manifest is older than one verified before",
        "An attacker who controls the TXT record can point it at an old manifest with a valid signature, for example one that names endpoints which are no longer under the owner's control.",
        "ask the owner; if the rollback is intended, sign the content again with the current time",
    }
    CREATED_AT_REUSED = "agent.created_at_reused", Warning, ".agt 1.0 Updating" {
        "the manifest changed, but its `created_at` did not",
        "Two manifests with the same `created_at` cannot be ordered, so a rollback to the older one would go unnoticed.",
        "sign each version with the current time",
    }
    DOWNGRADE = "agent.downgrade", Warning, ".agt 1.0 §8" {
        "the name had a signed manifest and now has legacy records only",
        "An attacker who removes the pointer makes readers use unsigned records. A name that moved to a manifest is not expected to go back.",
        "ask the owner before you use the legacy records",
    }
    OWNER_CHANGED = "agent.owner_changed", Hint, ".agt 1.0 §2 Required fields" {
        "the owner of the name changed since the last verification",
        "The name was transferred. The new owner proved control of it; decide whether you trust the new owner.",
        "review everything that you use under this name",
    }
    FILE_ONLY = "agent.file_only", Hint, ".agt 1.0 §4 Verification" {
        "the manifest comes from a file, so TXT records were not checked",
        "Whether the name points to this manifest is unknown.",
        "resolve the name to check its TXT records",
    }
    MEMORY_DAMAGED = "agent.memory_damaged", Error, "Toolcrib state" {
        "the record of verified names cannot be read",
        "The file was altered or damaged. It is not replaced by an empty one, because that would remove the rollback protection of every name.",
        "restore the file from a backup, or remove it if you accept that",
    }
    MEMORY_UNUSABLE = "agent.memory_unusable", Error, "Toolcrib state" {
        "the record of verified names cannot be used",
        "The file cannot be opened, written or locked, or other users have access to it.",
        "check the permissions of the file and its folder",
    }
    MEMORY_BUSY = "agent.memory_busy", Error, "Toolcrib state" {
        "another process holds the lock of the record of verified names",
        "A writer holds the lock for milliseconds. This lock was held so long that its holder must be hanging or suspended. The verification was not recorded.",
        "end the process that holds the lock file, and resolve the name again",
    }
    MEMORY_FULL = "agent.memory_full", Error, "Toolcrib limits" {
        "the record of verified names is full",
        "The number of names is limited. Recorded names stay; a new one is not protected against rollback.",
        "use a separate file for each purpose",
    }

    BRIDGE_OPTION = "agent.bridge_option", Error, "bridge options" {
        "an option of the export or import is missing or not usable",
        "Some formats need values that are not in the manifest: the namespace in a registry, a version, the kind of an endpoint. They are never guessed.",
        "set the named option",
    }
    BRIDGE_NO_ENDPOINT = "agent.bridge_no_endpoint", Error, "A2A 1.0 §4.4.1; MCP registry server.json; AID §2" {
        "the manifest has no endpoint that the target format supports",
        "The target format describes where an agent is reached. Without an endpoint the document would be useless or invalid.",
        "add a protocol with a public https endpoint to the manifest, or choose another format",
    }
    BRIDGE_NO_SKILLS = "agent.bridge_no_skills", Error, "A2A 1.0 §4.4.1" {
        "the manifest has no capabilities, and an Agent Card needs skills",
        "A card has at least one skill; validators refuse a card without any. Toolcrib does not invent a skill from the name of the agent.",
        "add a capability to the manifest, or choose another format",
    }
    BRIDGE_ENDPOINT = "agent.bridge_endpoint", Warning, "bridge rules for URLs" {
        "a URL is left out",
        "Exported documents are public. Readers cannot use a URL without TLS or on a private or reserved host, and a URL with credentials reveals a secret.",
        "publish a public https URL without credentials",
    }
    BRIDGE_DROPPED = "agent.bridge_dropped", Hint, "bridge mapping" {
        "a field has no counterpart in the other format",
        "The formats describe different things. Each field that cannot be converted is reported, so that nothing is lost unnoticed.",
        "nothing to do: readers find the field in the original document",
    }
    BRIDGE_SHORTENED = "agent.bridge_shortened", Warning, "limits of the other format" {
        "a text is shortened to the limit of the other format",
        "Readers of the other format refuse a longer text.",
        "write a shorter text, if the lost part matters",
    }
    BRIDGE_FILLED = "agent.bridge_filled", Hint, "bridge mapping" {
        "a required field of the other format was filled in",
        "The other format requires the field, and the source document has no value for it.",
        "set the option or the field, if the value is wrong",
    }
    BRIDGE_A2A_KIND = "agent.bridge_a2a_kind", Warning, ".agt 1.0 §3; A2A 1.0 §8" {
        "it is unknown whether the a2a endpoint serves an Agent Card or takes calls",
        "The specification does not say whether the endpoint of a2a is the URL of an Agent Card or the URL that takes calls. Readers that expect one cannot use the other.",
        "state the kind of the endpoint in the options",
    }
    BRIDGE_UNREADABLE = "agent.bridge_unreadable", Error, "A2A 1.0 §4.4.1; ERC-8004 registration file" {
        "the document to import cannot be used",
        "An import accepts strict JSON of a known document type, within fixed limits. Any other document is refused as a whole.",
        "check the document with a validator of its format",
    }
    BRIDGE_UNPROVEN = "agent.bridge_unproven", Warning, "bridge mapping" {
        "the imported document is not verified",
        "An import copies the content of a document. It does not check its signatures or the registrations it names, and none of them proves who holds the .agt name.",
        "check every field of the draft before you sign it",
    }

    TOOL_CREATOR_DIFFERS = "agent.tool_creator_differs", Warning, ".agt 1.0 §2 Protocols; ERC-8257 §3" {
        "a registered tool at an endpoint of the agent has another creator",
        "The agent and the tool name the same endpoint, but different wallets signed for them. Either the agent uses a tool of another creator, or one of the two claims an endpoint that it does not run.",
        "ask the operator of the endpoint which of the two is right",
    }
    TOOL_NOT_VERIFIED = "agent.tool_not_verified", Warning, ".agt 1.0 §4; ERC-8257 §7" {
        "the agent and a registered tool at its endpoint are not both verified",
        "The owner of the agent and the creator of the tool can be compared, but the comparison proves something only if both documents are verified.",
        "verify both before you rely on it",
    }
    TOO_MANY_TOOLS = "agent.too_many_tools", Warning, "Toolcrib limits" {
        "too many tools to compare with one agent",
        "The number of tools is limited, so that a hostile index cannot make the comparison slow. Tools beyond the limit are not compared.",
        "compare the rest in a second run",
    }

    // The index's list of names.
    NOT_LISTED = "agent.not_listed", Error, "Toolcrib" {
        "the name is not in the list of this directory",
        "A directory resolves only the names that its operator lists. It is not a resolver for arbitrary names.",
        "resolve the name yourself, or ask the operator to list it",
    }
    LIST_LINE = "agent.list_line", Warning, "Toolcrib" {
        "a line of the list of names is not a .agt name",
        "The line is ignored, and the others are used.",
        "write one name per line, such as exampleagent.agt; # begins a comment",
    }
    LIST_TOO_LARGE = "agent.list_too_large", Error, "Toolcrib limits" {
        "the list of names is too large",
        "Every name is verified again at regular intervals, so the list is limited. A list beyond the limit is refused as a whole; using a part of it would drop names silently.",
        "split the list, and run an index with its own database for each part",
    }
}
