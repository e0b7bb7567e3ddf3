//! Codes of the hash explainer: why what is served does not have the hash that is committed onchain.

super::codes! {
    UNEXPLAINED = "hash.unexplained", Error, check 3, "ERC-8257 §7 Consumer Verification" {
        "no known cause gives the committed hash",
        "What is served was hashed in every way that is known to have been mistaken for the right one, and so were all versions at hand. None of them gives the hash that is onchain, so the content itself is another one.",
        "look at the differences to the nearest version; if what is served is meant, commit its hash with `toolcrib update`",
    }
    EMPTY_BODY = "hash.empty_body", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends nothing",
        "The answer has no bytes, or only spaces and line ends. Such an answer often comes from a function that crashed or from a file that was not deployed.",
        "deploy the manifest as a static file at its well-known path",
    }
    ERROR_PAGE = "hash.error_page", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends a web page instead of the manifest",
        "The answer is HTML: the page of an application that answers every path, of a host that asks visitors to wait or log in, or of an error that is sent with status 200.",
        "deploy the manifest as a static file at its well-known path, and take that path out of rewrites",
    }
    ERROR_OBJECT = "hash.error_object", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends an error message in JSON instead of the manifest",
        "The answer is a JSON object that tells of an error and has no field of a manifest.",
        "make the well-known path answer with the manifest; a static file is the safest",
    }
    NOT_A_MANIFEST = "hash.not_a_manifest", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "the server sends something that is no JSON object",
        "The answer cannot be read as a JSON object, so it has no hash that could be compared.",
        "serve the manifest itself; `toolcrib lint` says what is wrong with a file",
    }
    TOO_LARGE = "hash.too_large", Error, check 3, "ERC-8257 Manifest Parser Hardening" {
        "the server sends more than a manifest may have",
        "Readers stop at one mebibyte, so nobody will see the end of this answer.",
        "serve the manifest itself, below the limit",
    }
    SERVES_OTHER_TOOL = "hash.serves_other_tool", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the server sends the manifest of another tool",
        "What is served is equal to the file of another tool. This happens when one route serves all slugs, or when files were copied.",
        "serve each tool's own manifest at its own path",
    }
    ZERO = "hash.zero", Error, check 3, "ERC-8257 §1 Tool Registry" {
        "the committed hash is zero",
        "A registry accepts no zero hash. One that reads as zero belongs to a tool that was deregistered or never registered.",
        "check the id and the chain of the tool",
    }
    PLACEHOLDER = "hash.placeholder", Error, check 3, "ERC-8257 §1 Tool Registry" {
        "the committed hash is a placeholder",
        "The value is a small number or one byte repeated. No document with such a hash is known, nor will one be found.",
        "commit the hash of the manifest with `toolcrib update`",
    }
    OF_NOTHING = "hash.of_nothing", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the committed hash is that of nothing",
        "It is the hash of no bytes, of an empty object or of null. Usually the manifest had not been read yet when it was hashed.",
        "commit the hash of the manifest with `toolcrib update`",
    }
    OF_URI = "hash.of_uri", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the committed hash is that of the address, not of the manifest",
        "It is the hash of the text of metadataURI. The registry wants the hash of what is found there.",
        "commit the hash of the manifest with `toolcrib update`",
    }
    OLDER_VERSION = "hash.older_version", Error, check 3, "ERC-8257 §8 Manifest Hash Commitment" {
        "the committed hash is that of another version of this manifest",
        "The manifest was changed after its hash was committed. Readers refuse it until both agree again.",
        "commit the new hash with `toolcrib update`, or serve the committed version again",
    }
    OTHER_TOOL = "hash.other_tool", Error, check 3, "ERC-8257 §6 Origin-Binding" {
        "the committed hash is that of another tool's manifest",
        "The file of another tool was hashed when this one was registered or updated.",
        "commit the hash of this tool's manifest with `toolcrib update`",
    }
    LOCAL_FILE = "hash.local_file", Error, check 3, "ERC-8257 §8 Manifest Hash Commitment" {
        "the committed hash is that of the local file, which is not what is served",
        "The commitment is right, but the server does not send this file: it was not deployed, a cache keeps the old one, or the server makes the manifest anew with other settings.",
        "deploy the local file, and look again once caches have expired",
    }
    RAW_BYTES = "hash.raw_bytes", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the bytes of the file were hashed as they are",
        "The hash is taken of the canonical form of RFC 8785, not of the file: readers do not see the same layout.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    LINE_ENDS = "hash.line_ends", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the file was hashed with other line ends or another end",
        "The bytes were hashed as they are, and a checkout, an editor or a server changed the line ends or the last one since. The canonical form has none of these.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    BYTE_ORDER_MARK = "hash.byte_order_mark", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash was taken with, or without, a byte-order mark",
        "A mark at the start of the file is refused by readers that follow the standard and dropped by others, so the two do not agree on the content.",
        "save the file as UTF-8 without byte-order mark",
    }
    PRETTY_PRINTED = "hash.pretty_printed", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "indented JSON was hashed instead of the canonical form",
        "A program printed the manifest with indentation and the result was hashed.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    MINIFIED = "hash.minified", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "JSON without spaces, but in the order of the file, was hashed",
        "JSON.stringify keeps the order of the members. The canonical form sorts them, so that everybody gets the same bytes.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    ROOT_SORTED = "hash.root_sorted", Error, check 3, "RFC 8785 §3.2.3" {
        "only the outer fields were sorted before hashing",
        "The canonical form sorts the members of every object, also of those inside.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    ROOT_NAMES = "hash.root_names", Error, check 3, "RFC 8785 §3.2.3" {
        "fields inside were lost while sorting",
        "A list of names as second argument of JSON.stringify is a filter for every level: of the objects inside only members remain whose names the manifest has outside, too.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    PYTHON = "hash.python", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the output of json.dumps was hashed",
        "Python puts spaces after commas and colons, escapes what is not ASCII and writes 1.0 where the canonical form has 1, each unless told otherwise.",
        "hash the RFC 8785 form, for instance with `toolcrib hash`, and commit it with `toolcrib update`",
    }
    FINAL_NEWLINE = "hash.final_newline", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the canonical form was hashed with a line end after it",
        "Many programs print a line end after their result; it went into the hash.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    NUMBERS = "hash.numbers", Error, check 3, "RFC 8785 §3.2.2.3" {
        "numbers were hashed as they are spelled in the file",
        "1.0, 1e0 and 1 are one number and have one canonical form. The program that made the hash kept the spelling, or spelled them its own way.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    FIELDS_STRIPPED = "hash.fields_stripped", Error, check 3, "ERC-8257 §2 Unknown Fields and Extensions" {
        "unknown fields were left out of the hash",
        "Unknown fields belong to the manifest and are hashed. Some clients, among them tool-sdk before 0.18, dropped them first.",
        "commit the hash of the whole manifest with `toolcrib update`",
    }
    TYPE_INJECTED = "hash.type_injected", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "a type was added to the manifest before it was hashed",
        "The manifest that is served has no type. Some clients, among them tool-sdk before 0.18, filled it in before hashing.",
        "serve the manifest with the type in it",
    }
    TYPE_PLACEHOLDER = "hash.type_placeholder", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "the manifest was hashed with another type",
        "Drafts of the standard and its templates had other texts in type. One of both, the served manifest or the hashed one, has such a text.",
        "serve the manifest with the type of version 1; if its hash is another one, commit it with `toolcrib update`",
    }
    TYPE_REMOVED = "hash.type_removed", Error, check 3, "ERC-8257 §2 Tool Manifest" {
        "the manifest was hashed without its type",
        "The type is part of the manifest and is hashed like every other field.",
        "commit the hash of the whole manifest with `toolcrib update`",
    }
    HEX_CASE = "hash.hex_case", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "an address was hashed in another spelling",
        "Manifests write addresses in lower case. Wallets and explorers show them with capital letters as a checksum, and nothing is changed before hashing.",
        "serve the manifest with addresses in lower case; if its hash is another one, commit it with `toolcrib update`",
    }
    UNICODE_FORM = "hash.unicode_form", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "a text was hashed in another Unicode form",
        "The same letter can be one character or a letter with an accent after it. The standard asks for NFC and nothing is changed before hashing.",
        "serve the manifest in NFC (`toolcrib lint --fix` writes it); if its hash is another one, commit it with `toolcrib update`",
    }
    DUPLICATE_KEYS = "hash.duplicate_keys", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the manifest has a field twice, and the last was hashed",
        "Most programs keep the last of equal fields without a word. Readers that follow the standard refuse the manifest.",
        "remove the repeated fields",
    }
    SHA256 = "hash.sha256", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash function was SHA-256 instead of keccak256",
        "The content is right, the hash function is not.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    SHA3_256 = "hash.sha3_256", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash function was SHA3-256 instead of keccak256",
        "The standard SHA3-256 and the keccak256 of Ethereum differ in one byte of padding, and libraries give one the name of the other.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    HEX_TEXT = "hash.hex_text", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hexadecimal text of the bytes was hashed instead of the bytes",
        "Some libraries take a text that begins with 0x as bytes and others as text; here one was taken for the other.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    TWICE = "hash.twice", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the hash was hashed once more",
        "A function that hashes was given a value that was a hash already, as bytes or as text.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
    ABI_ENCODED = "hash.abi_encoded", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "the text was wrapped by abi.encode before it was hashed",
        "The hash is taken of the canonical bytes themselves, without offset, length and padding.",
        "commit the hash that `toolcrib hash` prints, with `toolcrib update`",
    }
}
