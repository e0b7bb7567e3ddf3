//! Codes of the ERC-8257 tool manifest.

super::codes! {
    TYPE_MISSING = "tool.type_missing", Error, "ERC-8257 §2 Required Fields" {
        "`type` is missing",
        "The type names the schema version that a manifest follows. Readers refuse a manifest without one.",
        "add \"type\": \"https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1\" (toolcrib lint --fix does it)",
    }
    TYPE_PLACEHOLDER = "tool.type_placeholder", Error, "ERC-8257 §2 Required Fields" {
        "`type` is a placeholder from before the ERC had its number",
        "Early drafts and old SDK versions used eip-XXXX or eip-8257 URLs. Readers do not accept them.",
        "write https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1, then update the hash onchain",
    }
    TYPE_UNKNOWN = "tool.type_unknown", Error, "ERC-8257 §2 Required Fields" {
        "`type` is not a known manifest type",
        "Readers refuse a manifest of an unknown type, because its fields could have other meanings. The match is exact.",
        "write https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
    }
    FOREIGN_SHAPE = "tool.foreign_shape", Error, "ERC-8257 §2 Required Fields" {
        "the fields are those of another tool format",
        "Names such as url, inputSchema and outputSchema come from other tool descriptions. Here the fields are endpoint, inputs and outputs.",
        "rename url to endpoint, inputSchema to inputs and outputSchema to outputs, and add type and creatorAddress",
    }
    NAME_LENGTH = "tool.name_length", Error, "ERC-8257 §2 Required Fields" {
        "`name` is empty or too long",
        "A name has 1 to 128 Unicode code points. Code points are counted, not bytes and not UTF-16 units, so 128 emoji fit.",
        "choose a name of 1 to 128 characters",
    }
    NAME_CONTROL = "tool.name_control", Error, "ERC-8257 §2 Required Fields" {
        "`name` contains a control character",
        "Control characters (general category Cc, line breaks and tabs included) can hide or forge text in lists and terminals.",
        "remove the control character",
    }
    DESCRIPTION_LENGTH = "tool.description_length", Error, "ERC-8257 §2 Required Fields" {
        "`description` is empty or too long",
        "A description has 1 to 500 Unicode code points.",
        "shorten it to 500 characters, and put the rest on a web page",
    }
    DESCRIPTION_CONTROL = "tool.description_control", Error, "ERC-8257 §2 Required Fields" {
        "a description contains a control character",
        "The only control characters allowed in a description are line feed, carriage return and tab.",
        "remove the control character",
    }
    TEMPLATE_TEXT = "tool.template_text", Warning, "Toolcrib lint" {
        "the text contains a template placeholder",
        "Placeholders such as TODO, YOUR_NAME or ${VAR} are published when a build does not fill them in, and the hash onchain then commits to them.",
        "replace the placeholder before publishing",
    }
    VERSION_NOT_SEMVER = "tool.version_not_semver", Warning, "ERC-8257 §2 Optional Fields" {
        "`version` is not a semantic version",
        "The field is meant for semantic versions such as 1.0.0. Clients that sort or compare versions will not understand this one.",
        "write MAJOR.MINOR.PATCH",
    }
    IMAGE_LENGTH = "tool.image_length", Error, "ERC-8257 §2 Optional Fields" {
        "an image URL is too long",
        "An image URL has at most 2,048 bytes after normalisation. Images inlined as data: URLs usually break this.",
        "host the image and link it with https",
    }
    IMAGE_SCHEME = "tool.image_scheme", Error, "ERC-8257 Rendering Manifest Content" {
        "an image URL uses a scheme that must not be rendered",
        "javascript:, file:, vbscript: and data:text/html can run script or read local files. Pages must show a placeholder instead of such an icon. Readers keep the tool; producers must not publish it.",
        "host the image and link it with https",
    }
    IMAGE_UNSUITABLE = "tool.image_unsuitable", Warning, "ERC-8257 Rendering Manifest Content" {
        "careful user interfaces do not show this image URL",
        "Interfaces that follow the rendering rules drop plain http, blob:, SVG in data: and unusual schemes; https and ipfs are safe choices.",
        "host the image and link it with https",
    }
    TAGS_COUNT = "tool.tags_count", Error, "ERC-8257 §2 Optional Fields" {
        "there are more than 16 tags",
        "A manifest has at most 16 tags.",
        "keep the 16 that describe the tool best",
    }
    TAG_GRAMMAR = "tool.tag_grammar", Error, "ERC-8257 §2 Optional Fields" {
        "a tag has characters or a length that tags may not have",
        "A tag has 1 to 32 characters: lowercase letters, digits and hyphens, with a letter or digit at both ends. Dots, spaces and upper case are not allowed.",
        "write the tag in lower case with hyphens",
    }
    TAG_DUPLICATE = "tool.tag_duplicate", Error, "ERC-8257 §2 Optional Fields" {
        "a tag occurs twice",
        "Readers must refuse a manifest with repeated tags.",
        "remove the second one",
    }
    CREATOR_GRAMMAR = "tool.creator_grammar", Error, check 4, "ERC-8257 §7 creatorAddress Field" {
        "`creatorAddress` is not an address",
        "A creator is 0x followed by 40 lowercase hex digits. ENS names and other forms cannot be compared with the registry.",
        "write the address that will call registerTool, in lower case",
    }
    CREATOR_ZERO = "tool.creator_zero", Error, check 4, "ERC-8257 §7 creatorAddress Field" {
        "`creatorAddress` is the zero address",
        "The zero address cannot send a transaction, so the tool can never verify. It does not mean \"anyone\".",
        "write the address that will call registerTool",
    }
    CREATOR_PLACEHOLDER = "tool.creator_placeholder", Error, "ERC-8257 §7 creatorAddress Field" {
        "`creatorAddress` looks like a placeholder",
        "Burn addresses and repeated patterns come from templates and unset environment variables. No one can sign for them. Readers only warn.",
        "write the address that will call registerTool",
    }
    CREATOR_EXAMPLE = "tool.creator_example", Hint, "ERC-8257 §7 creatorAddress Field" {
        "`creatorAddress` is an address from an example",
        "Templates and documentation use this address. It must be replaced before publishing: the manifest verifies only with the address that calls registerTool.",
        "write the address that will call registerTool",
    }
    HEX_UPPERCASE = "tool.hex_uppercase", Error, check 3, "ERC-8257 §2 Canonical Manifest Bytes" {
        "a hex field has upper-case digits",
        "Canonicalisation does not change case, so a checksummed address gives another hash than a lowercase one. Readers must refuse upper case in hex fields and must not fold it by themselves.",
        "write the value in lower case (toolcrib lint --fix does it)",
    }
    PRICING_SHAPE = "tool.pricing_shape", Error, "ERC-8257 §3 Pricing" {
        "`pricing` is not a list of payment options",
        "pricing is either absent or a non-empty array of objects with amount, asset, recipient and protocol. An object, null or a list of anything else is refused.",
        "wrap the option in square brackets, or leave pricing out for a free tool",
    }
    PRICING_EMPTY = "tool.pricing_empty", Error, "ERC-8257 §3 Pricing" {
        "`pricing` is an empty list",
        "A free tool has no pricing field at all. An empty list must be refused.",
        "remove the field, or add the missing entry (toolcrib lint --fix does not decide this)",
    }
    PRICING_COUNT = "tool.pricing_count", Error, "ERC-8257 Manifest Parser Hardening" {
        "there are more than 32 payment options",
        "Readers must refuse more than 32 pricing entries.",
        "keep the options that callers use",
    }
    PRICING_CHAIN_MISMATCH = "tool.pricing_chain_mismatch", Error, "ERC-8257 §3 Pricing" {
        "`asset` and `recipient` are on different chains",
        "A payment happens on one chain: the text before the slash of asset must equal the text before the last colon of recipient, byte for byte.",
        "use the recipient's account on the asset's chain",
    }
    RECIPIENT_IS_CREATOR = "tool.recipient_is_creator", Hint, "Toolcrib lint" {
        "payments go to the address that registers the tool",
        "This is legal, but the deployer's key is often not the wallet that should receive payments, and the 402 response of the endpoint must name the same recipient.",
        "check that the endpoint asks for payment to this address",
    }
    PROTOCOL_EMPTY = "tool.protocol_empty", Error, "ERC-8257 §3 Pricing" {
        "`protocol` is empty",
        "`protocol` names the payment protocol and is matched byte for byte. An empty name matches nothing.",
        "write the protocol that the endpoint uses, such as x402",
    }
    PROTOCOL_UNUSUAL = "tool.protocol_unusual", Hint, "ERC-8257 §3 Pricing" {
        "`protocol` is not one that clients commonly know",
        "Clients pick the first entry whose protocol they support and treat all others as \"pricing unknown\". Known names are x402, mpp, erc20-transfer and native-transfer, with hyphens.",
        "use a common name if it applies",
    }
    ACCESS_OPEN = "tool.access_open", Error, "ERC-8257 §4 Access" {
        "an open tool has an `access` block",
        "An access block lists requirements. Open tools have none, and a block without requirements must be refused.",
        "leave access out for open tools",
    }
    ACCESS_LOGIC = "tool.access_logic", Error, "ERC-8257 §4 Access" {
        "`access.logic` is neither AND nor OR",
        "`logic` states whether all requirements or any one of them must be met. It has no default and is case-sensitive.",
        "write \"AND\" or \"OR\"",
    }
    ACCESS_EMPTY = "tool.access_empty", Error, "ERC-8257 §4 Access" {
        "`access.requirements` is empty",
        "An access block must have at least one requirement.",
        "list the requirements, or leave access out for open tools",
    }
    ACCESS_COUNT = "tool.access_count", Error, "ERC-8257 Manifest Parser Hardening" {
        "there are more than 256 access requirements",
        "Readers must refuse more than 256 requirements. The same limit applies to requirements read from the predicate onchain.",
        "summarise the requirements",
    }
    KIND_GRAMMAR = "tool.kind_grammar", Error, "ERC-8257 §4 Access" {
        "a requirement's `kind` is not four bytes of hex",
        "kind is 0x followed by eight lowercase hex digits: the interface id of a requirement type.",
        "write the four bytes that the predicate reports",
    }
    KIND_UNKNOWN_SENTINEL = "tool.kind_sentinel", Warning, "ERC-8257 getRequirements Is Advisory" {
        "a requirement has kind 0x00000000",
        "Composite predicates use this value onchain for a term that could not be read. In a manifest it has no meaning.",
        "write the kind that the predicate reports",
    }
    DATA_GRAMMAR = "tool.data_grammar", Error, "ERC-8257 §4 Access" {
        "a requirement's `data` is not hex bytes",
        "data is 0x followed by an even number of lowercase hex digits; 0x alone is allowed.",
        "write the ABI-encoded payload in hex",
    }
    DATA_LENGTH = "tool.data_length", Error, "ERC-8257 Manifest Parser Hardening" {
        "a requirement's `data` is longer than 4,096 bytes",
        "The limit applies to decoded bytes and equals the limit for the same data onchain.",
        "shorten the payload; use a Merkle root for large sets",
    }
    DATA_LAYOUT = "tool.data_layout", Warning, "ERC-8257 Marker Interfaces" {
        "a requirement's `data` does not match its `kind`",
        "Every known kind has a fixed layout: one address for an ERC-721 holding, address and token id for ERC-1155, address and tier for a subscription, address and amount for an ERC-20 balance, and so on. Agents cannot decode this one.",
        "encode the payload with abi.encode as the kind prescribes",
    }
    LABEL_LENGTH = "tool.label_length", Error, "ERC-8257 §4 Access" {
        "a requirement's `label` is longer than 256 bytes",
        "The limit counts UTF-8 bytes, so that the same label fits onchain.",
        "shorten the label",
    }
    LINK_LENGTH = "tool.link_length", Error, "ERC-8257 §4 Access" {
        "a link or its name is longer than 2,048 bytes",
        "Keys and values of links have the same limit as the other URL fields.",
        "shorten it",
    }
    LINK_NOT_HTTPS = "tool.link_not_https", Error, "ERC-8257 §4 Access" {
        "a link is not an https URL",
        "Readers must refuse a manifest whose links use any other scheme.",
        "link an https page",
    }
    TIER_UNKNOWN = "tool.tier_unknown", Error, "ERC-8257 §5 Trust Tiers" {
        "`verifiability.tier` is not a known tier",
        "The tiers are self-attested, hardware-attested and verifiable. Anything else counts as self-attested.",
        "write one of the three",
    }
    TIER_INCONSISTENT = "tool.tier_inconsistent", Error, "ERC-8257 §5 Trust Tiers" {
        "the declared tier is not supported by the other fields",
        "The fields attestation, reproducibleBuild and execution must support the tier. Readers flag the manifest and use the lower tier; producers must not claim a tier without these fields.",
        "add what the tier needs, or declare the tier that the fields support",
    }
    EXECUTION_UNKNOWN = "tool.execution_unknown", Error, "ERC-8257 §5 Execution Tiers" {
        "`verifiability.execution` is not a known environment",
        "The values are standard, tee and e2ee, or a vendor's reverse-DNS name. Readers treat anything else as standard.",
        "write standard, tee or e2ee, and move prose to verifiability.description",
    }
    VERIFIABILITY_DESCRIPTION_LENGTH = "tool.verifiability_description_length", Error, "ERC-8257 §5 Verifiability Fields" {
        "`verifiability.description` is empty or too long",
        "It has 1 to 500 Unicode code points, like the description of the tool.",
        "shorten it, or leave it out",
    }
    DATA_RETENTION_UNKNOWN = "tool.data_retention_unknown", Warning, "ERC-8257 §5 Data Retention Policies" {
        "`dataRetention` is not a known policy",
        "The policies are full, metadata-only, ephemeral and none. Readers ignore any other value.",
        "write one of the four, or leave the field out",
    }
    SOURCE_VISIBILITY_UNKNOWN = "tool.source_visibility_unknown", Warning, "ERC-8257 §5 Source Visibility" {
        "`sourceVisibility` is not a known value",
        "The values are open-source, audited and proprietary. Readers ignore any other value.",
        "write one of the three, or leave the field out",
    }
    ATTESTATION_IGNORED = "tool.attestation_ignored", Warning, "ERC-8257 §5 Attestation" {
        "`attestation` has no effect without an isolated environment",
        "Readers ignore an attestation when `execution` is standard or unknown to them.",
        "leave attestation out, or declare the environment that it attests",
    }
    ATTESTATION_MISSING = "tool.attestation_missing", Warning, "ERC-8257 §5 Attestation" {
        "an isolated environment is declared without `attestation`",
        "Without a report the claim cannot be checked, so it counts as self-attested.",
        "add attestation with its type and endpoint",
    }
    ATTESTATION_MAX_AGE = "tool.attestation_max_age", Error, "ERC-8257 §5 Attestation" {
        "`attestation.maxAge` is not a whole number of seconds",
        "maxAge is a non-negative integer; readers reject older reports.",
        "write seconds as a number, such as 3600",
    }
    MEASUREMENT_GRAMMAR = "tool.measurement_grammar", Error, "ERC-8257 §5 Attestation, Reproducible Build" {
        "a measurement is not hex bytes",
        "enclaveHash and buildHash are 0x followed by an even, non-zero number of lowercase hex digits.",
        "write the measurement in hex",
    }
    LOG_NOT_INDEPENDENT = "tool.log_not_independent", Warning, "ERC-8257 §5 Attestation" {
        "the transparency log is on the tool's own host",
        "A log proves something only if an independent party runs it.",
        "use a public log",
    }
    UNKNOWN_SUBFIELD = "tool.unknown_subfield", Warning, "ERC-8257 §5 Verifiability Fields" {
        "a field inside a defined object is not one that the ERC defines",
        "It is hashed, but readers ignore it. Often it is a misspelt field, whose value then has no effect.",
        "use the defined name, or move the value to a namespaced top-level extension",
    }
    EXTENSION_BARE = "tool.extension_bare", Warning, "ERC-8257 §2 Unknown Fields and Extensions" {
        "an extension field has no namespace",
        "Bare names may collide with fields that the ERC adds later. They are hashed and otherwise ignored.",
        "prefix it with a reversed domain name, such as io.example.category",
    }
    EXTENSION_X = "tool.extension_x", Hint, "ERC-8257 §2 Unknown Fields and Extensions" {
        "an extension field uses the x- prefix",
        "x- names are tolerated; reverse-DNS names are preferred.",
        "prefix it with a reversed domain name instead",
    }
    FIELD_LOOKALIKE = "tool.field_lookalike", Warning, "ERC-8257 §2 Unknown Fields and Extensions" {
        "an unknown field looks like a defined one",
        "Only the exact names have a meaning. A field that differs in case or by a letter is hashed and ignored, which is rarely intended.",
        "use the defined name, or remove the field",
    }
    SELF_REFERENCE = "tool.self_reference", Warning, "Toolcrib lint" {
        "the manifest contains its own tool id or hash",
        "The tool id is known only after registration, and a hash cannot contain itself. Such a field forces an extra update or is wrong from the start.",
        "remove the field; readers get both from the registry",
    }
    MAX_AGE_IGNORED = "tool.max_age_ignored", Warning, "ERC-8257 Manifest Freshness" {
        "`maxAge` is not a whole number of seconds and is ignored",
        "maxAge shortens the time for which readers may cache a verified manifest. Only a non-negative integer is used.",
        "write seconds as a number, such as 60",
    }
    SCHEMA_PREFILLED = "tool.schema_prefilled", Hint, "ERC-8257 Schema default and const Injection" {
        "the schema sets a value with `default` or `const`",
        "`default` and `const` let a manifest choose arguments that the user has not seen. Agents must show them, and must not send them to a paid or state-changing tool without consent.",
        "describe the usual value in the description instead",
    }
    DUPLICATE_REGISTRATION = "tool.duplicate_registration", Warning, "ERC-8257 Front-Running Tool Registration" {
        "the same manifest or endpoint is registered elsewhere",
        "Anyone can register any URI. Only the creator that the manifest names passes the checks, so a second registration is a copy, a move to another chain, or a mistake.",
        "use the registration that verifies; creators remove the ones they do not need",
    }
}
