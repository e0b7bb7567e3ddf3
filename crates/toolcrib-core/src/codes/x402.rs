//! Codes of x402 messages: problems of the challenge that an endpoint responds with.
//!
//! Amounts have their own codes (`amount.*`), because manifests have amounts too.

super::codes! {
    HEADER_TOO_LONG = "x402.header_too_long", Error, "x402 v2 HTTP transport" {
        "the payment header is longer than 16 KiB",
        "Common servers and proxies refuse requests and responses with more than 16 KiB of headers, so a longer header is not decoded.",
        "shorten descriptions, remove extensions or offer fewer networks",
    }
    HEADER_TWICE = "x402.header_twice", Error, "x402 v2 HTTP transport" {
        "the payment header is repeated",
        "HTTP libraries join repeated headers with a comma, which is not base64, so clients cannot decode any of them.",
        "send the header once, with all offers in it",
    }
    HEADER_NAME = "x402.header_name", Warning, "x402 v2 HTTP transport" {
        "the challenge is in a non-standard header",
        "The header of version 2 is called PAYMENT-REQUIRED. Some clients also look for X-PAYMENT-REQUIRED; most do not.",
        "send the challenge as PAYMENT-REQUIRED",
    }
    BASE64 = "x402.base64", Error, "x402 v2 HTTP transport; RFC 4648 §4" {
        "the payment header is not base64",
        "Headers carry JSON in base64 with the standard alphabet and padding. Common clients refuse the URL-safe alphabet, missing padding, line breaks and plain JSON.",
        "encode the JSON with standard base64, padded, in one line",
    }
    NOT_JSON = "x402.not_json", Error, "x402 v1 §5; x402 v2 §5; RFC 8259" {
        "the challenge is not well-formed JSON",
        "Clients parse the whole text as one JSON value and fail otherwise.",
        "send one JSON object",
    }
    DUPLICATE_KEY = "x402.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the challenge has the same key twice",
        "Readers disagree on which of two equal keys counts, so the check of the price and the signature could use different values.",
        "keep one of the two",
    }
    TOO_LARGE = "x402.too_large", Error, "Toolcrib limits" {
        "the challenge is larger than the limit",
        "Challenges are untrusted input. The limit is many times what honest challenges need.",
        "shorten descriptions and schemas, or offer fewer networks",
    }
    TOO_DEEP = "x402.too_deep", Error, "Toolcrib limits" {
        "the challenge nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "flatten its schemas",
    }
    NOT_AN_OBJECT = "x402.not_an_object", Error, "x402 v1 §5; x402 v2 §5" {
        "the challenge is not a JSON object",
        "A challenge is an object with x402Version and accepts.",
        "send the object itself",
    }
    FIELD_MISSING = "x402.field_missing", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "a field of the challenge is missing",
        "Without it a payer does not know what to sign, or a reference client refuses the whole list of offers because of this one.",
        "send every field of the version's payment requirements; an empty description is better than none",
    }
    WRONG_TYPE = "x402.wrong_type", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "a field of the challenge has the wrong JSON type",
        "Fields are never converted: amounts and token versions are strings, times are whole numbers.",
        "write the value in the type that the message names",
    }
    NULL_FIELD = "x402.null_field", Warning, "x402 v1 §5.1" {
        "a field is null instead of absent",
        "Reference clients of version 1 refuse null where they expect a string or an object, and with it the whole list of offers. The example in the specification uses null and does not work with them.",
        "leave the field out, or send an empty string where the field is required",
    }
    VERSION_MISSING = "x402.version_missing", Warning, "x402 v1 §5; x402 v2 §5" {
        "the challenge has no x402Version",
        "Reference clients read x402Version first and fail without it.",
        "add \"x402Version\": 1 to a body, \"x402Version\": 2 to a PAYMENT-REQUIRED header",
    }
    VERSION_UNKNOWN = "x402.version_unknown", Error, "x402 v1 §5; x402 v2 §5" {
        "the version of the challenge is unknown",
        "The versions are 1 and 2, written as JSON numbers. The string \"2\" is not the number 2.",
        "write the number 1 in a body, the number 2 in a PAYMENT-REQUIRED header",
    }
    V2_IN_BODY = "x402.v2_in_body", Warning, "x402 v2 HTTP transport" {
        "a challenge of version 2 is in the body",
        "Clients of version 2 read only the PAYMENT-REQUIRED header; clients of version 1 read the body and refuse version 2.",
        "send version 2 in the header and version 1 in the body",
    }
    V1_IN_HEADER = "x402.v1_in_header", Error, "x402 v1 HTTP transport" {
        "a challenge of version 1 is in the header",
        "Clients interpret PAYMENT-REQUIRED as version 2. Version 1 is sent as a JSON body.",
        "send version 1 in the body and version 2 in the header",
    }
    V1_MISSING = "x402.v1_missing", Hint, "x402 v1 HTTP transport" {
        "the challenge has version 2 only",
        "Clients of version 1 read the body and fail when it has no challenge. One response can carry both versions.",
        "repeat the offers in the body, in the format of version 1",
    }
    V2_MISSING = "x402.v2_missing", Hint, "x402 v2 HTTP transport" {
        "the challenge has version 1 only",
        "Current clients understand both versions, but version 1 lacks names for many networks, and has no extensions.",
        "add a PAYMENT-REQUIRED header with the same offers in the format of version 2",
    }
    VERSIONS_DISAGREE = "x402.versions_disagree", Error, "x402 v2 HTTP transport" {
        "the two versions of the challenge differ",
        "The caller's library decides which one is read, so callers would pay different prices or recipients.",
        "generate both from the same settings",
    }
    STATUS = "x402.status", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the challenge has a status other than 402",
        "Clients read a challenge only from a response with status 402. With any other status they report a failure, or treat the challenge as the tool's output.",
        "respond with 402",
    }
    NO_OFFERS = "x402.no_offers", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "the challenge has no offers",
        "`accepts` must list at least one offer, or the call cannot be paid.",
        "list at least one offer, or do not respond with 402 if neither payment nor identity is required",
    }
    TOO_MANY_OFFERS = "x402.too_many_offers", Error, "Toolcrib limits" {
        "the challenge has more than 32 offers",
        "A manifest states at most 32 prices, so no honest challenge needs more. Offers beyond the limit are ignored.",
        "offer fewer networks and assets",
    }
    SCHEME_UNKNOWN = "x402.scheme_unknown", Warning, "x402 v1 §6; x402 v2 §6" {
        "the payment scheme is not `exact`",
        "Few clients support another scheme, and clients of version 1 refuse the whole list of offers because of one.",
        "also offer the scheme `exact`, and remove other schemes from version 1",
    }
    AMOUNT_NAME = "x402.amount_name", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "the amount has the name of the other version",
        "The field is called maxAmountRequired in version 1 and amount in version 2. Clients read only the name of their version.",
        "rename the field",
    }
    AMOUNT_TWICE = "x402.amount_twice", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "amount and maxAmountRequired are both present and differ",
        "Some callers would sign one, some the other.",
        "keep only the field of this version",
    }
    NETWORK_NAME = "x402.network_name", Error, "x402 v1 §5.1; x402 v2 §5.1; CAIP-2" {
        "the network name has the form of the other version",
        "Version 1 uses names such as base, version 2 CAIP-2 identifiers such as eip155:8453. Clients support only the form of their version.",
        "write the network in the form of this version",
    }
    NETWORK_UNKNOWN = "x402.network_unknown", Error, "x402 v1 §5.1; x402 v2 §5.1; CAIP-2" {
        "the network is unknown",
        "A payer cannot know on which chain to sign. In version 1 a single unknown name makes reference clients refuse the whole list of offers.",
        "use a name that clients support in version 1, and a CAIP-2 identifier in version 2",
    }
    NETWORK_NOT_IN_V1 = "x402.network_not_in_v1", Warning, "x402 v1 §5.1" {
        "reference clients of version 1 do not know this network name",
        "They validate the list of offers as a whole, so this offer prevents them from using any of the others.",
        "offer this network in version 2 only",
    }
    ADDRESS = "x402.address", Error, "x402 exact scheme on EVM" {
        "the value is not an address",
        "On EVM networks an address is 0x and 40 hexadecimal digits. Placeholders and names cannot be used in a signature.",
        "write the address",
    }
    ADDRESS_CHECKSUM = "x402.address_checksum", Error, "ERC-55" {
        "the address is in mixed case with a wrong checksum",
        "Mixed case is a checksum. Common clients refuse an address with a wrong checksum, because it usually means a mistyped digit.",
        "copy the address again",
    }
    ADDRESS_CASE = "x402.address_case", Hint, "ERC-55" {
        "the address has no checksum",
        "Clients of version 1 compare addresses as strings with checksummed ones, and rank this offer below others.",
        "write the address with its checksum",
    }
    PAY_TO_UNSPENDABLE = "x402.pay_to_unspendable", Error, "x402 exact scheme on EVM" {
        "payTo is an address that cannot use the money",
        "payTo is the zero address, a burn address, or the token contract itself. Payments to it are lost.",
        "set payTo to an account that you control",
    }
    TIMEOUT = "x402.timeout", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "maxTimeoutSeconds is not a whole number above 0",
        "Clients add it to the current time to limit the validity of their signature.",
        "write the seconds as a plain number, such as 60",
    }
    TIMEOUT_LONG = "x402.timeout_long", Warning, "Toolcrib limits" {
        "the signature would be valid for more than an hour",
        "Anyone who has a signed authorization can use it until it expires, and a call takes only seconds.",
        "lower maxTimeoutSeconds; 60 to 600 suits most tools",
    }
    DOMAIN_MISSING = "x402.domain_missing", Warning, "x402 exact scheme on EVM" {
        "the token's EIP-712 name and version are missing",
        "extra.name and extra.version are part of the signed data. Clients that do not know the token guess them, and a wrong guess fails at settlement.",
        "add extra with the name and version of the token's EIP-712 domain",
    }
    DOMAIN_DIFFERS = "x402.domain_differs", Error, "x402 exact scheme on EVM; EIP-712" {
        "the token's EIP-712 name or version is wrong",
        "The EIP-712 domain of the token contract has another name or version, so signatures that follow the challenge fail at settlement. The name of USDC is `USD Coin` on some networks and `USDC` on others.",
        "use the name and version of the contract on this network",
    }
    ASSET_UNKNOWN = "x402.asset_unknown", Hint, "Toolcrib" {
        "the asset is not in the built-in table",
        "Its decimals and EIP-712 name cannot be checked, and careful clients pay only in known assets.",
        "check the contract's address; prefer USDC on this network",
    }
    TRANSFER_METHOD = "x402.transfer_method", Warning, "x402 exact scheme on EVM" {
        "uncommon transfer method",
        "Without extra.assetTransferMethod, or with eip3009, every client can pay. Few clients support permit2 or erc7710, and none an unknown value.",
        "offer eip3009 where the token supports it",
    }
    PAYMENT_FLOW = "x402.payment_flow", Warning, "x402 v2 §6" {
        "unknown payment flow",
        "Clients skip offers with an unknown extra.paymentFlow. All support the default, `authorization`.",
        "remove paymentFlow",
    }
    RESOURCE_URL = "x402.resource_url", Warning, "x402 v1 §5.1; x402 v2 §5.1" {
        "the resource is not a URL",
        "Reference clients of version 1 refuse the whole list of offers if `resource` is not an absolute URL.",
        "write the public URL of the endpoint",
    }
    RESOURCE_LIMIT = "x402.resource_limit", Warning, "x402 v2 §5.1" {
        "the resource description exceeds its limits",
        "serviceName has at most 32 printable ASCII characters, tags at most 5 entries, iconUrl at most 2,048 characters.",
        "shorten the field",
    }
}
