//! Codes of the strict JSON reader.

super::codes! {
    TOO_LARGE = "json.too_large", Error, check 3, "ERC-8257 Manifest Parser Hardening" {
        "the document is larger than the limit",
        "A creator controls the bytes that consumers parse. Readers stop at 1 MiB and never parse a prefix. For agent manifests, other readers may refuse more than 64 KiB.",
        "shrink the document: move long texts to a page and link it, and remove generated schemas that are not used",
    }
    EMPTY = "json.empty", Error, check 3, "RFC 8259 §2" {
        "the document is empty",
        "An empty or all-whitespace document is not JSON. Servers often send one when a route is misconfigured.",
        "check that the file was written and that the route serves it",
    }
    BOM = "json.bom", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the document starts with a byte-order mark",
        "Bytes EF BB BF before the JSON change what is hashed. Readers must refuse them instead of stripping them, so the tool stays unverified.",
        "save the file as UTF-8 without BOM",
    }
    INVALID_UTF8 = "json.invalid_utf8", Error, check 3, "RFC 8259 §8.1" {
        "the document is not valid UTF-8",
        "JSON that travels between systems is UTF-8. Other bytes cannot be canonicalised.",
        "save the file as UTF-8",
    }
    SYNTAX = "json.syntax", Error, check 3, "RFC 8259" {
        "the document is not well-formed JSON",
        "The reader accepts exactly RFC 8259: no comments, no trailing commas, no single quotes, no NaN.",
        "correct the text at the marked position",
    }
    TRAILING_BYTES = "json.trailing_bytes", Error, check 3, "RFC 8259 §2" {
        "there is data after the JSON value",
        "A document is exactly one JSON value. Lenient readers would ignore the bytes after it, and they are not part of the hash.",
        "remove everything after the closing brace",
    }
    TOO_DEEP = "json.too_deep", Error, check 3, "Toolcrib limits" {
        "the document nests too deeply",
        "Deep nesting exhausts the stack of recursive readers. 64 levels are enough for every schema within the limits of ERC-8257. Readers of tool manifests only warn up to 10,000 levels, because those limits apply to schemas only.",
        "flatten the structure, or name repeated parts under $defs",
    }
    TOO_MANY_VALUES = "json.too_many_values", Error, check 3, "Toolcrib limits" {
        "the document contains too many values",
        "A parsed value takes more memory than its text, so a small file of tiny values can exhaust memory. 32,768 values and keys are three times what the limits of ERC-8257 allow for schemas. Readers of tool manifests only warn, because those limits apply to schemas only.",
        "move long lists out of the manifest, or write them as one string",
    }
    DUPLICATE_KEY = "json.duplicate_key", Error, check 3, "RFC 8785 §3.1 (I-JSON)" {
        "an object has the same key twice",
        "Readers disagree on which of two equal keys counts, so two readers could see two different manifests under one hash. Keys are compared after unescaping.",
        "keep one of the two",
    }
    LONE_SURROGATE = "json.lone_surrogate", Error, check 3, "RFC 8785 §3.2.2.2 (I-JSON)" {
        "a string contains half of a surrogate pair",
        "An escape such as \\ud800 without its other half is not a character and has no UTF-8 form, so the document has no canonical bytes.",
        "write the character itself, or both halves of the pair",
    }
    NUMBER_OVERFLOW = "json.number_overflow", Error, check 3, "RFC 8785 §3.2.2.3" {
        "a number is too large for a double",
        "Canonical JSON numbers are IEEE 754 doubles. This one would become infinite, which JSON cannot express.",
        "write the value as a string",
    }
    NUMBER_UNDERFLOW = "json.number_underflow", Warning, "RFC 8785 §3.2.2.3" {
        "a number is so small that it becomes zero",
        "Canonical JSON numbers are IEEE 754 doubles. The digits written here are lost in the hash.",
        "write the value as a string, or write 0",
    }
    NUMBER_IMPRECISE = "json.number_imprecise", Error, "RFC 7493 §2.2 (I-JSON)" {
        "an integer lies beyond 2^53 and loses digits",
        "Canonical JSON numbers are doubles: integers beyond plus or minus 9007199254740991 are rounded, so two different texts share one hash. Readers only warn; producers must not emit such a number.",
        "write the value as a string",
    }
    NOT_NFC = "json.not_nfc", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "a string is not in Unicode Normalization Form C",
        "The same visible text can be composed in several ways, with different hashes. Readers must refuse anything but NFC and must not normalise by themselves.",
        "normalise the text to NFC (toolcrib lint --fix does it)",
    }
    KEY_NOT_NFC = "json.key_not_nfc", Error, "ERC-8257 §2 Canonical Manifest Bytes" {
        "an object key is not in Unicode Normalization Form C",
        "The rule covers string values only, but a key in another form misleads readers that compare keys. Producers must not emit one; readers only warn, because the hash is unaffected.",
        "write the key in NFC, here and wherever it is referred to",
    }
    UNASSIGNED = "json.unassigned_character", Warning, "ERC-8257 §2 Canonical Manifest Bytes" {
        "a string contains an unassigned Unicode code point",
        "A later Unicode version may give it a decomposition. Readers with newer tables would then reject the text as not NFC.",
        "use an assigned character",
    }
    INVISIBLE = "json.invisible_character", Warning, "Toolcrib" {
        "a displayed text contains invisible or bidirectional control characters",
        "Zero-width and bidirectional control characters make text look different from what it is. Toolcrib escapes them on display; other programs may not.",
        "remove them",
    }
}
