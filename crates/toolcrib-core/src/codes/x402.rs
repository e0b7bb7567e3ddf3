//! Codes of x402 messages: what is wrong with the challenge that an endpoint answers with.
//!
//! Amounts have codes of their own (`amount.*`), because manifests have them too.

super::codes! {
    HEADER_TOO_LONG = "x402.header_too_long", Error, "x402 v2 HTTP transport" {
        "the payment header is longer than 16 KiB",
        "Common servers and proxies refuse a request or an answer whose headers exceed 16 KiB together, and readers stop before they decode more.",
        "shorten descriptions, drop extensions or offer fewer networks",
    }
    HEADER_TWICE = "x402.header_twice", Error, "x402 v2 HTTP transport" {
        "the payment header is there more than once",
        "HTTP libraries join repeated headers with a comma, which is no base64, so clients cannot read either of them.",
        "send the header once; list every offer inside it",
    }
    HEADER_NAME = "x402.header_name", Warning, "x402 v2 HTTP transport" {
        "the challenge is in a header that few clients read",
        "The header of version 2 is called PAYMENT-REQUIRED. Some clients also look for X-PAYMENT-REQUIRED; most do not.",
        "send the challenge as PAYMENT-REQUIRED",
    }
    BASE64 = "x402.base64", Error, "x402 v2 HTTP transport; RFC 4648 §4" {
        "the payment header is not base64",
        "Headers carry JSON in base64 with the standard alphabet and padding. The URL-safe alphabet, missing padding, line breaks and plain JSON are refused by common clients.",
        "encode the JSON with standard base64, padded, in one line",
    }
    NOT_JSON = "x402.not_json", Error, "x402 v1 §5; x402 v2 §5; RFC 8259" {
        "the challenge is not well-formed JSON",
        "Clients parse the whole text as one JSON value and give up otherwise.",
        "send one JSON object",
    }
    DUPLICATE_KEY = "x402.duplicate_key", Error, "RFC 7493 §2.3 (I-JSON)" {
        "the challenge has the same key twice",
        "Readers disagree on which of two equal keys counts, so the one that checks the price and the one that signs could see different ones.",
        "keep one of the two",
    }
    TOO_LARGE = "x402.too_large", Error, "Toolcrib limits" {
        "the challenge is larger than the limit",
        "A stranger's endpoint decides how much it sends. Readers stop at a limit that is many times what honest challenges need.",
        "shorten descriptions and schemas, or offer fewer networks",
    }
    TOO_DEEP = "x402.too_deep", Error, "Toolcrib limits" {
        "the challenge nests too deeply",
        "Deep nesting exhausts the stack of recursive readers.",
        "flatten the schemas in it",
    }
    NOT_AN_OBJECT = "x402.not_an_object", Error, "x402 v1 §5; x402 v2 §5" {
        "the challenge is not a JSON object",
        "A challenge is an object with x402Version and accepts.",
        "send the object itself",
    }
    FIELD_MISSING = "x402.field_missing", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "a field of the challenge is missing",
        "Without it a payer does not know what to sign, or a stock client refuses the whole list of offers because of this one.",
        "send every field of the version's requirements; an empty description is better than none",
    }
    WRONG_TYPE = "x402.wrong_type", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "a field of the challenge has the wrong JSON type",
        "Fields are never converted: amounts and versions of tokens are strings, times are whole numbers.",
        "write the value in the type that is named",
    }
    NULL_FIELD = "x402.null_field", Warning, "x402 v1 §5.1" {
        "a field is null instead of absent",
        "Stock clients of version 1 refuse null where they expect a text or an object, and with it the whole list of offers. The example in the specification shows null and does not work with them.",
        "leave the field out, or send an empty text where one is required",
    }
    VERSION_MISSING = "x402.version_missing", Warning, "x402 v1 §5; x402 v2 §5" {
        "the challenge does not say its version",
        "Stock clients look at x402Version first and give up without it.",
        "add \"x402Version\": 1 to a body, \"x402Version\": 2 to a PAYMENT-REQUIRED header",
    }
    VERSION_UNKNOWN = "x402.version_unknown", Error, "x402 v1 §5; x402 v2 §5" {
        "the version of the challenge is unknown",
        "There are versions 1 and 2, written as numbers. The text \"2\" is not the number 2.",
        "write the number 1 in a body, the number 2 in a PAYMENT-REQUIRED header",
    }
    V2_IN_BODY = "x402.v2_in_body", Warning, "x402 v2 HTTP transport" {
        "a challenge of version 2 is in the body",
        "Clients of version 2 read the PAYMENT-REQUIRED header and nothing else; clients of version 1 read the body and refuse version 2.",
        "put version 2 into the header and version 1 into the body",
    }
    V1_IN_HEADER = "x402.v1_in_header", Error, "x402 v1 HTTP transport" {
        "a challenge of version 1 is in the header",
        "Clients take what is in PAYMENT-REQUIRED for version 2. Version 1 is a JSON body.",
        "put version 1 into the body and version 2 into the header",
    }
    V1_MISSING = "x402.v1_missing", Hint, "x402 v1 HTTP transport" {
        "the challenge is there in version 2 only",
        "Clients of version 1 read the body and fail when it holds no challenge. Both versions fit into one answer.",
        "repeat the offers in the body, in the shape of version 1",
    }
    V2_MISSING = "x402.v2_missing", Hint, "x402 v2 HTTP transport" {
        "the challenge is there in version 1 only",
        "Current clients understand both versions, but version 1 has no names for many networks and no extensions.",
        "add a PAYMENT-REQUIRED header with the same offers in the shape of version 2",
    }
    VERSIONS_DISAGREE = "x402.versions_disagree", Error, "x402 v2 HTTP transport" {
        "the two versions of the challenge ask for different things",
        "Which of them a caller sees depends on its library, so some callers pay another price or another account than the others.",
        "make both from the same settings",
    }
    STATUS = "x402.status", Error, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "a challenge came with a status other than 402",
        "Clients look for a challenge only behind status 402. With any other status they report a failure, or take the challenge for the tool's output.",
        "answer with 402",
    }
    NO_OFFERS = "x402.no_offers", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "the challenge has no offers",
        "accepts is a list with at least one way to pay. Nobody can meet an empty one.",
        "list at least one offer, or answer without 402 when nothing is to be paid or shown",
    }
    TOO_MANY_OFFERS = "x402.too_many_offers", Error, "Toolcrib limits" {
        "the challenge has more than 32 offers",
        "A manifest states at most 32 prices, so no honest challenge needs more. The ones past the limit are not looked at.",
        "offer fewer networks and assets",
    }
    SCHEME_UNKNOWN = "x402.scheme_unknown", Warning, "x402 v1 §6; x402 v2 §6" {
        "the payment scheme is not `exact`",
        "Few clients pay by another scheme, and those of version 1 refuse the whole list of offers because of one.",
        "offer the scheme `exact` too; keep other schemes out of version 1",
    }
    AMOUNT_NAME = "x402.amount_name", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "the amount has the name of the other version",
        "Version 1 calls it maxAmountRequired, version 2 amount. Clients look for the one of their version and find nothing.",
        "rename the field",
    }
    AMOUNT_TWICE = "x402.amount_twice", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "amount and maxAmountRequired are both there and differ",
        "One caller signs the one, another caller the other.",
        "keep the one of this version",
    }
    NETWORK_NAME = "x402.network_name", Error, "x402 v1 §5.1; x402 v2 §5.1; CAIP-2" {
        "the network is written as in the other version",
        "Version 1 uses names such as base, version 2 CAIP-2 identifiers such as eip155:8453. Clients know only those of their version.",
        "write the network as this version does",
    }
    NETWORK_UNKNOWN = "x402.network_unknown", Error, "x402 v1 §5.1; x402 v2 §5.1; CAIP-2" {
        "the network is unknown",
        "Nobody can tell on which chain to sign. In version 1 a single unknown name makes stock clients refuse the whole list of offers.",
        "in version 1 use a name that its clients know, in version 2 a CAIP-2 identifier",
    }
    NETWORK_NOT_STOCK = "x402.network_not_stock", Warning, "x402 v1 §5.1" {
        "stock clients of version 1 do not know this network's name",
        "They check the list of offers as a whole, so this one keeps them from paying with any of the others.",
        "offer this network in version 2 only",
    }
    ADDRESS = "x402.address", Error, "x402 exact scheme on EVM" {
        "this is not an address",
        "On EVM networks an address is 0x and 40 hexadecimal digits. Placeholders and names cannot be signed for.",
        "write the address",
    }
    ADDRESS_CHECKSUM = "x402.address_checksum", Error, "ERC-55" {
        "the address is in mixed case with a wrong checksum",
        "Mixed case is a checksum. Common clients refuse an address whose checksum is wrong, since that usually means a mistyped digit.",
        "copy the address again",
    }
    ADDRESS_CASE = "x402.address_case", Hint, "ERC-55" {
        "the address has no checksum",
        "Clients of version 1 compare addresses as text with the checksummed ones that they know, and rank this offer below others.",
        "write the address with its checksum",
    }
    PAY_TO_NOBODY = "x402.pay_to_nobody", Error, "x402 exact scheme on EVM" {
        "the money would go to nobody",
        "The payee is the zero address, a burn address, or the token contract itself. What is sent there is lost.",
        "set payTo to an account that you control",
    }
    TIMEOUT = "x402.timeout", Error, "x402 v1 §5.1; x402 v2 §5.1" {
        "maxTimeoutSeconds is not a whole number above 0",
        "Clients add it to the current time to limit how long their signature is good.",
        "write the seconds as a plain number, such as 60",
    }
    TIMEOUT_LONG = "x402.timeout_long", Warning, "Toolcrib limits" {
        "the signature would stay good for more than an hour",
        "Whoever holds a signed authorization can use it until it expires. A call takes seconds.",
        "lower maxTimeoutSeconds; 60 to 600 suits most tools",
    }
    DOMAIN_MISSING = "x402.domain_missing", Warning, "x402 exact scheme on EVM" {
        "the token's signing name and version are missing",
        "extra.name and extra.version are part of what is signed. Clients that do not know the token guess, and a wrong guess fails when the payment settles.",
        "add extra with the name and version of the token's EIP-712 domain",
    }
    DOMAIN_DIFFERS = "x402.domain_differs", Error, "x402 exact scheme on EVM; EIP-712" {
        "the token's signing name or version is wrong",
        "The contract of this token signs under another EIP-712 name or version. Signatures made as the challenge says are refused when the payment settles. USDC is called USD Coin on some networks and USDC on others.",
        "use the name and version that the contract has on this network",
    }
    ASSET_UNKNOWN = "x402.asset_unknown", Hint, "Toolcrib" {
        "the asset is not in the built-in table",
        "Its decimals and signing name cannot be checked, and careful clients pay only in assets that they know.",
        "check the contract's address; prefer USDC of the network",
    }
    TRANSFER_METHOD = "x402.transfer_method", Warning, "x402 exact scheme on EVM" {
        "the transfer method is not the usual one",
        "Without extra.assetTransferMethod, or with eip3009, every client can pay. Few support permit2 or erc7710, none an unknown word.",
        "offer eip3009 where the token supports it",
    }
    PAYMENT_FLOW = "x402.payment_flow", Warning, "x402 v2 §6" {
        "the payment flow is not the usual one",
        "Clients drop offers whose extra.paymentFlow they do not know; `authorization`, the default, is the one that all know.",
        "leave paymentFlow out",
    }
    RESOURCE_URL = "x402.resource_url", Warning, "x402 v1 §5.1; x402 v2 §5.1" {
        "the resource is not a URL",
        "Stock clients of version 1 refuse the whole list of offers when resource is no absolute URL.",
        "write the public URL of the endpoint",
    }
    RESOURCE_LIMIT = "x402.resource_limit", Warning, "x402 v2 §5.1" {
        "the description of the resource exceeds its limits",
        "serviceName has at most 32 printable ASCII characters, tags at most 5 entries, iconUrl at most 2,048 characters.",
        "shorten it",
    }
}
