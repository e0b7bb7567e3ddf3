//! Codes of chain-agnostic identifiers: chains, accounts, assets and references to tools.

super::codes! {
    EMPTY = "caip.empty", Error, "CAIP-2; CAIP-10; CAIP-19" {
        "the identifier is empty",
        "An empty text does not name a chain, account or asset.",
        "write the identifier, such as eip155:8453:0x... for an account on Base",
    }
    CHAIN_SHAPE = "caip.chain_shape", Error, "CAIP-2" {
        "the chain is not `<namespace>:<reference>`",
        "A chain is named by a namespace, a colon and a reference, such as eip155:8453. Plain names such as `base` are not identifiers.",
        "write eip155: and the chain id",
    }
    NAMESPACE = "caip.namespace", Error, "CAIP-2" {
        "the namespace is not 3 to 8 lowercase letters, digits or hyphens",
        "Namespaces are registered names such as eip155, solana or bip122.",
        "use the registered namespace",
    }
    REFERENCE = "caip.reference", Error, "CAIP-2" {
        "the chain reference is not 1 to 32 letters, digits, hyphens or underscores",
        "The reference names the chain within its namespace; for eip155 it is the chain id.",
        "write the chain id",
    }
    EVM_CHAIN = "caip.evm_chain", Error, "CAIP-2 eip155 namespace" {
        "the chain id is not a plain positive decimal number",
        "On eip155 the reference is the decimal chain id without leading zeros. Other spellings would make one chain look like two.",
        "write the chain id in decimal, such as 8453 for Base",
    }
    ACCOUNT_SHAPE = "caip.account_shape", Error, "CAIP-10" {
        "the account is not `<namespace>:<reference>:<address>`",
        "An account names its chain and its address, such as eip155:8453:0x... .",
        "put eip155:<chain id>: before the address",
    }
    ACCOUNT_ADDRESS = "caip.account_address", Error, "CAIP-10" {
        "the account address has a wrong length or wrong characters",
        "An address has 1 to 128 letters, digits, hyphens, dots and percent signs.",
        "correct the address",
    }
    ASSET_SHAPE = "caip.asset_shape", Error, "CAIP-19" {
        "the asset is not `<chain>/<namespace>:<reference>`",
        "An asset names its chain and itself, such as eip155:8453/erc20:0x... or eip155:1/slip44:60.",
        "write the chain, a slash, erc20: and the token address",
    }
    ASSET_NAMESPACE = "caip.asset_namespace", Error, "CAIP-19" {
        "the asset namespace is not 3 to 8 lowercase letters, digits or hyphens",
        "Asset namespaces are names such as erc20, erc721 or slip44.",
        "use erc20 for tokens and slip44 for native coins",
    }
    ASSET_REFERENCE = "caip.asset_reference", Error, "CAIP-19" {
        "the asset reference has a wrong length or wrong characters",
        "A reference has 1 to 128 letters, digits, hyphens, dots and percent signs.",
        "correct the reference",
    }
    TOKEN_ID = "caip.token_id", Error, "CAIP-19" {
        "the token id has a wrong length or wrong characters",
        "A token id has 1 to 78 letters, digits, hyphens, dots and percent signs.",
        "correct the token id",
    }
    EVM_ADDRESS = "caip.evm_address", Error, "ERC-8257 §3 CAIP encoding" {
        "the address is not 0x and 40 hexadecimal digits",
        "On eip155 chains, accounts and token contracts are 20-byte addresses in hexadecimal. ENS names are not addresses.",
        "write the full address",
    }
    UPPERCASE_HEX = "caip.uppercase_hex", Error, check 3, "ERC-8257 §3 CAIP encoding; §2 Canonical Manifest Bytes" {
        "the address has upper-case hexadecimal digits",
        "Addresses in a manifest are lowercase, not checksummed, because the hash is computed over the bytes. Readers must refuse a tool whose manifest has upper-case digits.",
        "lowercase the address (toolcrib lint --fix does it)",
    }
    ZERO_ACCOUNT = "caip.zero_account", Error, "ERC-8257 §3 Pricing Entry Fields" {
        "the account is the zero address",
        "The zero address has no private key: payments to it are lost. Often an environment variable was not set.",
        "write the address that receives the payments",
    }
    SLIP44 = "caip.slip44", Error, "CAIP-20; SLIP-44" {
        "the slip44 reference is not a plain decimal number",
        "slip44 names a native coin by its registered number, such as 60 for ether.",
        "write the coin type in decimal",
    }
    NAMESPACE_UNVERIFIED = "caip.namespace_unverified", Hint, "ERC-8257 §3 Non-EVM namespaces" {
        "only the syntax of this identifier was checked",
        "Addresses outside eip155 follow the rules of their namespace, which Toolcrib does not implement.",
        "check it against the specification of that namespace",
    }
    TOOL_SHAPE = "caip.tool_shape", Error, "ERC-8257 Tool ID Scope" {
        "the reference is not `eip155:<chain>/erc8257:<registry>/<id>`",
        "Each registry on each chain counts its own tool ids, so a bare number does not identify a tool.",
        "write the chain id, the registry's address and the tool id",
    }
    TOOL_CHECKSUM = "caip.tool_checksum", Error, "ERC-55" {
        "the registry address is in mixed case with a wrong checksum",
        "Mixed case is a checksum. A wrong one usually means a mistyped digit.",
        "copy the address again, or write it in lower case",
    }
    TOOL_ID = "caip.tool_id", Error, "ERC-8257 Tool ID Scope" {
        "the tool id is not a plain decimal number",
        "A tool id is a decimal number up to 2^256 - 1, without leading zeros and not in hexadecimal.",
        "write the id in decimal",
    }
    TOOL_ID_ZERO = "caip.tool_id_zero", Error, "ERC-8257 §1 Tool Registry" {
        "the tool id is 0",
        "Registries count tool ids from 1.",
        "use the id that the registration returned",
    }
}
