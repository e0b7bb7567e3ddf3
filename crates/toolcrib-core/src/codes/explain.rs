//! Codes of the hash explainer: why the served manifest does not have the hash that is committed onchain.

super::codes! {
    UNEXPLAINED = "hash.unexplained", Error, check 3, "ERC-8257 §7 Consumer Verification" {
        "no known mistake explains the committed hash",
        "The served content and all available versions were hashed with every known mistake. None gives the hash onchain, so the content itself is different.",
        "compare with the nearest version; if the served content is intended, commit its hash with `toolcrib update`",
    }
    EMPTY_BODY = "hash.empty_body", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends an empty body",
        "The body has no bytes, or only white space. Often a serverless function crashed, or the file was not deployed.",
        "deploy the manifest as a static file at its well-known path",
    }
    ERROR_PAGE = "hash.error_page", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends a web page instead of the manifest",
        "The body is HTML: a single-page application that serves every path, a login or waiting page of the host, or an error page with status 200.",
        "deploy the manifest as a static file at its well-known path, and exclude that path from rewrites",
    }
    ERROR_OBJECT = "hash.error_object", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends an error message in JSON instead of the manifest",
        "The body is a JSON object that describes an error and has no manifest field.",
        "serve the manifest at the well-known path, preferably as a static file",
    }
    NOT_A_MANIFEST = "hash.not_a_manifest", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "the server sends something other than a JSON object",
        "The body is not a JSON object, so it has no canonical hash to compare.",
        "serve the manifest itself; check the file with `toolcrib lint`",
    }
    TOO_LARGE = "hash.too_large", Error, check 3, "ERC-8257 Manifest Parser Hardening" {
        "the server sends more than the size limit of a manifest",
        "Readers stop at 1 MiB, so no reader gets the complete body.",
        "serve the manifest itself, below the limit",
    }
    SERVES_OTHER_TOOL = "hash.serves_other_tool", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends the manifest of another tool",
        "The served content equals the file of another tool. This happens when one route serves all slugs, or when files were copied.",
        "serve each tool's own manifest at its own path",
    }
    ZERO = "hash.zero", Error, check 3, "ERC-8257 §1 Tool Registry" {
        "the committed hash is zero",
        "A registry does not accept a zero hash. Reading zero means that the tool was deregistered or never registered.",
        "check the id and the chain of the tool",
    }
    PLACEHOLDER = "hash.placeholder", Error, check 3, "ERC-8257 §1 Tool Registry" {
        "the committed hash is a placeholder",
        "The value is a small number or one repeated byte. Finding a document with such a hash is infeasible.",
        "commit the hash of the manifest with `toolcrib update`",
    }
    OF_EMPTY_INPUT = "hash.of_empty_input", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the committed hash is that of an empty input",
        "It is the hash of zero bytes, of an empty object or of null. Usually the manifest had not been loaded when it was hashed.",
        "commit the hash of the manifest with `toolcrib update`",
    }
    OF_URI = "hash.of_uri", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the committed hash is that of the metadata URI, not of the manifest",
        "It is the hash of the text of metadataURI. The registry needs the hash of the manifest at that URI.",
        "commit the hash of the manifest with `toolcrib update`",
    }
    OLDER_VERSION = "hash.older_version", Error, check 3, "ERC-8257 §8 Manifest Hash Commitment" {
        "the committed hash is that of another version of this manifest",
        "The manifest was changed after its hash was committed. Readers refuse it until both match again.",
        "commit the new hash with `toolcrib update`, or serve the committed version again",
    }
    OTHER_TOOL = "hash.other_tool", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the committed hash is that of another tool's manifest",
        "The file of another tool was hashed when this one was registered or updated.",
        "commit the hash of this tool's manifest with `toolcrib update`",
    }
    LOCAL_FILE = "hash.local_file", Error, check 3, "ERC-8257 §8 Manifest Hash Commitment" {
        "the committed hash is that of the local file, but another one is served",
        "The commitment is right, but the server sends another file: this one was not deployed, a cache holds the old one, or the server generates the manifest with other settings.",
        "deploy the local file, and check again once caches have expired",
    }
    RAW_BYTES = "hash.raw_bytes", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the raw bytes of the file were hashed",
        "The hash is computed over the canonical form of RFC 8785, not over the file, so that the layout does not matter.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    LINE_ENDS = "hash.line_ends", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the file was hashed with other line endings",
        "The raw bytes were hashed, and a checkout, an editor or a server has changed the line endings or the final newline since. The canonical form has none of these.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    BYTE_ORDER_MARK = "hash.byte_order_mark", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "a byte-order mark was added or removed before hashing",
        "Readers that follow the standard refuse a byte-order mark, other readers drop it, so they disagree about the content.",
        "save the file as UTF-8 without byte-order mark",
    }
    PRETTY_PRINTED = "hash.pretty_printed", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "indented JSON was hashed instead of the canonical form",
        "A program printed the manifest with indentation and the result was hashed.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    MINIFIED = "hash.minified", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "minified JSON with unsorted keys was hashed",
        "JSON.stringify keeps the order of the keys. The canonical form sorts them, so that the bytes are unique.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    ROOT_SORTED = "hash.root_sorted", Error, check 3, "RFC 8785 §3.2.3" {
        "only the top-level keys were sorted before hashing",
        "The canonical form sorts the keys of every object, nested ones included.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    ROOT_NAMES = "hash.root_names", Error, check 3, "RFC 8785 §3.2.3" {
        "nested fields were lost while sorting",
        "An array as second argument of JSON.stringify filters the keys at every level: nested objects keep only keys that also exist at the top level.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    PYTHON = "hash.python", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the output of json.dumps was hashed",
        "By default, Python puts spaces after commas and colons, escapes non-ASCII characters, and writes 1.0 where the canonical form has 1.",
        "hash the RFC 8785 form, for instance with `toolcrib hash`, and commit it with `toolcrib update`",
    }
    FINAL_NEWLINE = "hash.final_newline", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the canonical form was hashed with a trailing newline",
        "Many programs print a newline after their result, and it became part of the hash.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    NUMBERS = "hash.numbers", Error, check 3, "RFC 8785 §3.2.2.3" {
        "numbers were hashed as they are spelled in the file",
        "1.0, 1e0 and 1 are the same number and have one canonical form. The program that computed the hash kept the original spelling, or used another one.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    FIELDS_STRIPPED = "hash.fields_stripped", Error, check 3, "ERC-8257 §2 Unknown Fields and Extensions" {
        "unknown fields were left out of the hash",
        "Unknown fields belong to the manifest and are hashed. Some clients, such as tool-sdk before 0.18, removed them before hashing.",
        "commit the hash of the whole manifest with `toolcrib update`",
    }
    TYPE_INJECTED = "hash.type_injected", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "a `type` was added to the manifest before it was hashed",
        "The served manifest has no `type`. Some clients, such as tool-sdk before 0.18, filled it in before hashing.",
        "serve the manifest with its `type`",
    }
    TYPE_PLACEHOLDER = "hash.type_placeholder", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "the manifest was hashed with another `type`",
        "Drafts of the standard and its templates used other values for `type`. Either the served manifest or the hashed one has such a value.",
        "serve the manifest with the type of version 1; if the hash changes, commit it with `toolcrib update`",
    }
    TYPE_REMOVED = "hash.type_removed", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "the manifest was hashed without its `type`",
        "The type is part of the manifest and is hashed like every other field.",
        "commit the hash of the whole manifest with `toolcrib update`",
    }
    HEX_CASE = "hash.hex_case", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "an address was hashed in another spelling",
        "Addresses in manifests are lowercase. Wallets and explorers show them in mixed case as a checksum, and the case is not changed before hashing.",
        "serve the manifest with addresses in lower case; if the hash changes, commit it with `toolcrib update`",
    }
    UNICODE_FORM = "hash.unicode_form", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "a text was hashed in another Unicode form",
        "The same letter can be one code point or a base letter with a combining accent. The standard requires NFC, and texts are not normalised before hashing.",
        "serve the manifest in NFC (`toolcrib lint --fix` writes it); if the hash changes, commit it with `toolcrib update`",
    }
    DUPLICATE_KEYS = "hash.duplicate_keys", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the manifest has duplicate keys, and the last one was hashed",
        "Most programs silently keep the last of two equal keys. Readers that follow the standard refuse the manifest.",
        "remove the repeated fields",
    }
    SHA256 = "hash.sha256", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash function was SHA-256 instead of keccak256",
        "The content is right, but the hash function is wrong.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    SHA3_256 = "hash.sha3_256", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash function was SHA3-256 instead of keccak256",
        "The standard SHA3-256 and the keccak256 of Ethereum differ in one byte of padding, and some libraries call one by the name of the other.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    HEX_TEXT = "hash.hex_text", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hexadecimal text of the bytes was hashed instead of the bytes",
        "Some libraries decode a string that begins with 0x to bytes, others hash its text; here the text was hashed.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    TWICE = "hash.twice", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash was hashed again",
        "A hash function was applied to a value that was already a hash, as bytes or as text.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    ABI_ENCODED = "hash.abi_encoded", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the text was encoded with abi.encode before it was hashed",
        "The hash is computed over the canonical bytes themselves, without offset, length and padding.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
}
