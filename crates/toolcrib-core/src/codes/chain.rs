//! Codes of chain access: networks, nodes, the registry, transactions and signatures.

super::codes! {
    UNKNOWN_NETWORK = "chain.unknown_network", Error, "Toolcrib networks" {
        "unknown network",
        "A network is selected by its short name, its chain id, or its CAIP-2 id. For networks outside the built-in table, configure a registry address and an RPC URL.",
        "use a name from the list in the message, or a chain id together with --rpc-url and --registry; [networks.NAME] in the settings adds a network",
    }
    AMBIGUOUS_NETWORK = "chain.ambiguous_network", Error, "Toolcrib networks" {
        "several networks in the settings have this chain id",
        "The user's settings file has more than one network with this chain id, so the id alone is ambiguous.",
        "name the network with --network, or its registry with --registry",
    }
    NO_RPC = "chain.no_rpc", Error, "Toolcrib networks" {
        "no RPC node is configured for this network",
        "Reading a chain needs the URL of a JSON-RPC node, and the built-in table has none for this network.",
        "pass --rpc-url or set RPC_URL",
    }
    PUBLIC_RPC = "chain.public_rpc", Warning, "Toolcrib networks" {
        "using a shared public RPC node",
        "The built-in node is free, rate-limited, and sees your requests. It can also return false data, which a single node does not reveal.",
        "pass --rpc-url or set RPC_URL to an RPC node that you trust",
    }
    RPC_URL = "chain.rpc_url", Error, "Toolcrib networks" {
        "the URL of an RPC node is not allowed",
        "A node is reached over https, or over http on this machine and on networks that you run yourself.",
        "write a complete URL such as https://node.example/key",
    }
    RPC_UNREACHABLE = "chain.rpc_unreachable", Error, "JSON-RPC" {
        "no RPC node answered",
        "Every URL was tried repeatedly, with pauses between attempts. This proves nothing about the tool.",
        "check the network connection and the URL given with --rpc-url or RPC_URL",
    }
    RPC_TIMEOUT = "chain.rpc_timeout", Error, "JSON-RPC" {
        "the RPC node did not answer in time",
        "The connection was established, but no complete response arrived before the deadline.",
        "try again, or use another RPC node",
    }
    RPC_RATE_LIMITED = "chain.rpc_rate_limited", Error, "JSON-RPC" {
        "rate limit of the RPC node exceeded",
        "Public nodes allow few requests per second. Waiting between attempts was not enough.",
        "wait, or use a node with a higher limit",
    }
    RPC_ANSWER = "chain.rpc_answer", Error, "JSON-RPC" {
        "the RPC node's response is not valid",
        "The body is not a JSON-RPC response to the request. Typical causes are a proxy, a captive portal or a wrong URL.",
        "check that the URL is that of an Ethereum JSON-RPC node",
    }
    RPC_ANSWER_TOO_LARGE = "chain.rpc_answer_too_large", Error, "Toolcrib limits" {
        "the RPC node's response is too large",
        "Response bytes are counted while they are read, so that a hostile contract or node cannot exhaust memory.",
        "request less at once, such as a shorter block range",
    }
    RPC_REFUSED = "chain.rpc_refused", Error, "JSON-RPC" {
        "the RPC node returned an error",
        "The node understood the request and refused it. The message contains the node's error.",
        "read the node's error; another node may support the request",
    }
    WRONG_CHAIN = "chain.wrong_chain", Error, "Toolcrib networks" {
        "the RPC node is on another chain",
        "The chain id of the node differs from that of the requested network. Reads would be about another tool, and signatures would spend on another chain.",
        "use the URL of an RPC node for the requested network",
    }
    NO_QUORUM = "chain.no_quorum", Error, "Toolcrib networks" {
        "the RPC nodes disagree",
        "A quorum read needs the same result from a given number of nodes. Their results differed, or too few answered; a node may lag behind or return false data.",
        "try again after the next block, and replace a node that keeps differing",
    }
    REORG = "chain.reorg", Error, "JSON-RPC" {
        "the block was replaced between reads",
        "Related reads are made at one block, identified by its hash. That block was replaced before all of them were done (a reorg), or the node returns several hashes for one block, and a retry failed in the same way. Results from two chains are not combined.",
        "try again after a few blocks, or read the finalized block",
    }
    NO_REGISTRY = "chain.no_registry", Error, "ERC-8257 Registry Deployment" {
        "no registry is known on this network",
        "The built-in table has no tool registry for this network.",
        "set the address of the registry with --registry",
    }
    OTHER_CODE = "chain.other_code", Error, "Toolcrib contracts" {
        "unexpected code at the address of a contract",
        "The addresses of these contracts are derived from their code (CREATE2), so other code cannot exist there. The RPC node returns false data, or a local chain's code was replaced.",
        "compare with another RPC node; do not use the contracts on this chain",
    }
    NO_FACTORY = "chain.no_factory", Error, "Toolcrib contracts" {
        "the deployment factory is missing on this chain",
        "Contracts have the same address on every chain because one factory deploys them. The factory is not deployed on this chain yet.",
        "deploy the factory first, with the transaction in contracts/deployments.json",
    }
    NOT_DEPLOYED = "chain.not_deployed", Error, "Toolcrib contracts" {
        "the deployed contract has no code",
        "The factory transaction succeeded, but there is no code at the expected address. The chain may not support this EVM version.",
        "inspect the transaction on a block explorer",
    }
    NOT_A_REGISTRY = "chain.not_a_registry", Error, "ERC-8257 §9" {
        "the address is not a tool registry",
        "There is no code at the address, or the contract does not respond like an ERC-8257 registry.",
        "check the address and the network",
    }
    REGISTRY_CODE = "chain.registry_code", Error, "ERC-8257 Registry Deployment" {
        "the registry's code differs from the pinned hash",
        "The hash of the runtime bytecode differs from the pinned one. The contract was replaced, or the address or network is wrong.",
        "do not use this registry until the difference is explained",
    }
    REGISTRY_PROXY = "chain.registry_proxy", Warning, "ERC-8257 Registry Deployment" {
        "the registry is a proxy",
        "The admin of the proxy can replace the code, and with it every entry. Registries are meant to be deployed without a proxy.",
        "prefer the registry of the built-in table",
    }
    REGISTRY_INTERFACE = "chain.registry_interface", Warning, "ERC-8257 §9" {
        "the registry does not claim the interface of ERC-8257",
        "It responds, but does not claim interface 0xf1dc8075 by ERC-165. A registry with other rules publishes another interface id, and assumptions about tool registries may not hold for it.",
        "check the address, or read the rules of that registry",
    }
    TOOL_NOT_FOUND = "chain.tool_not_found", Error, "ERC-8257 IToolRegistry" {
        "no tool has this id",
        "No tool was ever registered under this id. Ids are assigned from 1 upwards and are never reused.",
        "check the id, the registry address and the network",
    }
    TOOL_DEREGISTERED = "chain.tool_deregistered", Error, "ERC-8257 IToolRegistry" {
        "the creator deregistered the tool",
        "Deregistration is final: the id is never used again.",
        "look for a new registration by the same creator",
    }
    NOT_CREATOR = "chain.not_creator", Error, "ERC-8257 IToolRegistry" {
        "only the tool's creator may do this",
        "The account that registered the tool remains its creator. The transaction would revert and cost gas.",
        "use the wallet that registered the tool",
    }
    URI_REFUSED = "chain.uri_refused", Error, "ERC-8257 Metadata URI Length Cap" {
        "the registry refuses the metadata URI",
        "The URI is empty or longer than 2,048 bytes of UTF-8; a registry may have further rules.",
        "shorten the URI",
    }
    HASH_REFUSED = "chain.hash_refused", Error, "ERC-8257 IToolRegistry" {
        "the registry refuses the manifest hash",
        "A hash of zero would mean that no manifest is committed.",
        "register the hash that `toolcrib hash` prints",
    }
    PREDICATE_REFUSED = "chain.predicate_refused", Error, "ERC-8257 Predicate Validation at Registration" {
        "the registry refuses the access predicate",
        "The contract supports ERC-165 but does not claim the access predicate interface.",
        "check the address; a predicate returns true for interface 0xbdf9dc18",
    }
    REVERTED = "chain.reverted", Error, "EVM" {
        "the contract reverted",
        "The message contains the revert reason, as text or as raw bytes.",
        "read the reason; `--dry-run` repeats the call without spending",
    }
    EVENT_MALFORMED = "chain.event_malformed", Error, "ERC-8257 IToolRegistry" {
        "a log of the registry cannot be decoded",
        "The log has the topic of a registry event but not its layout, so the address is not a conforming registry.",
        "check the registry address",
    }
    NO_FUNDS = "chain.no_funds", Error, "JSON-RPC" {
        "the account cannot pay for the transaction",
        "The balance in the chain's native currency does not cover the gas limit at the offered price plus the value.",
        "fund the account with the chain's native currency",
    }
    NONCE_TOO_LOW = "chain.nonce_too_low", Error, "JSON-RPC" {
        "the nonce was already used",
        "Another transaction of the same account, possibly from another program, was mined with this nonce. Nothing was sent.",
        "run the command again; it uses the next nonce",
    }
    UNDERPRICED = "chain.underpriced", Error, "JSON-RPC" {
        "the offered fee is too low",
        "The RPC node does not accept the transaction into its mempool, or a pending transaction with the same nonce offers more.",
        "wait until the pending transaction is mined, or raise the fee",
    }
    REPLACED = "chain.replaced", Error, "JSON-RPC" {
        "the transaction was replaced",
        "A different transaction with the same nonce was mined, so this one can never be mined.",
        "check the account's last transaction, then run the command again",
    }
    NOT_MINED = "chain.not_mined", Error, "JSON-RPC" {
        "the transaction was not mined in time",
        "It was sent and may still be mined later. Sending it again unchanged is safe, because its nonce is the same.",
        "check the hash on a block explorer, then resume the command",
    }
    SIGNATURE_LENGTH = "chain.signature_length", Error, "EIP-3009; ERC-8257 AccessProof" {
        "the signature is not 65 bytes long",
        "Signatures are r, s and v. Compact ones are refused, because two encodings of one signature look like two signatures.",
        "send r, s and v",
    }
    SIGNATURE_V = "chain.signature_v", Error, "EIP-3009; ERC-8257 AccessProof" {
        "the signature's last byte is not 0, 1, 27 or 28",
        "Any other value belongs to another scheme, such as transaction signatures of EIP-155.",
        "sign the digest, not a transaction",
    }
    SIGNATURE_HIGH_S = "chain.signature_high_s", Error, "EIP-2 §2" {
        "the signature's s is in the upper half",
        "For each signature (r, s) a second valid one with n - s exists. Tokens refuse the upper one, and accepting both would let one payment count twice.",
        "replace s by the order of the curve minus s, and flip v",
    }
    SIGNATURE_RANGE = "chain.signature_range", Error, "SEC 1 §4.1.4" {
        "the signature's r or s is out of range",
        "Both are at least 1 and below the order of the curve.",
        "sign again",
    }
    SIGNATURE_UNRECOVERABLE = "chain.signature_unrecoverable", Error, "SEC 1 §4.1.6" {
        "no public key can be recovered from the signature",
        "There is no point on the curve with this r, so the signature is not genuine.",
        "sign again",
    }
    SIGNATURE_WRONG_SIGNER = "chain.signature_wrong_signer", Error, "EIP-712" {
        "the signature was made by another account, or over other data",
        "The recovered address differs from the claimed one. A different chain id, contract, token name or field also causes this.",
        "compare every signed field with the expected value",
    }
    SIGNATURE_UNDEPLOYED = "chain.signature_erc6492", Error, "ERC-6492" {
        "signatures by ERC-6492 are not enabled",
        "The signature of an account that is not deployed can be checked only by an RPC node that simulates the deployment. No node is configured for that.",
        "deploy the account first, or sign with a key; operators: configure an RPC node with --contract-accounts",
    }
    SIGNATURE_WRAPPER = "chain.signature_wrapper", Error, "ERC-6492" {
        "the ERC-6492 wrapper of the signature is malformed",
        "The bytes before the suffix must be the ABI encoding of a factory, its calldata and one signature, without a nested wrapper. Other encodings are refused, so that each signature has exactly one encoding.",
        "wrap the signature once, with an ABI encoder",
    }
    NOT_DEPLOYABLE = "chain.account_not_deployable", Error, "ERC-6492" {
        "the factory call in the signature does not deploy the account",
        "The account has no code. The factory call in the signature was simulated: it reverts, runs out of gas, or does not deploy a contract at the account's address.",
        "check factory, calldata and chain against the account's address; deploy the account first if its factory needs more than a plain call",
    }
    CONTRACT_SIGNATURE = "chain.contract_signature", Error, "ERC-1271" {
        "the account's contract rejected the signature",
        "A contract account validates its signatures itself (ERC-1271); it did not return the magic value.",
        "sign with a key that the account accepts",
    }
    DOMAIN_MISMATCH = "chain.domain_mismatch", Error, "EIP-712" {
        "the token's EIP-712 domain differs from the built-in table",
        "The token's DOMAIN_SEPARATOR differs from the one computed from the built-in name and version, so the token would reject signatures made by Toolcrib.",
        "do not pay in this token until the table is corrected",
    }
}
