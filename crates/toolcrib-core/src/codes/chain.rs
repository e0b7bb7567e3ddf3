//! Codes of talking to a chain: networks, nodes, the registry, transactions and signatures.

super::codes! {
    UNKNOWN_NETWORK = "chain.unknown_network", Error, "Toolcrib networks" {
        "no network has this name or number",
        "A network is named by its short name, its chain number, or its CAIP-2 id. Networks outside the built-in table need a registry address and an RPC URL of your own.",
        "use a name from the list in the message, or a number together with --rpc-url and --registry; [networks.NAME] in the settings adds a network",
    }
    AMBIGUOUS_NETWORK = "chain.ambiguous_network", Error, "Toolcrib networks" {
        "several networks of the settings are of this chain",
        "The user's settings file has more than one network with this chain id, and the number does not say which of them is meant.",
        "name the network with --network, or its registry with --registry",
    }
    NO_RPC = "chain.no_rpc", Error, "Toolcrib networks" {
        "no node is known for this network",
        "Reading a chain needs the URL of a JSON-RPC node, and the table has none for this network.",
        "pass --rpc-url or set RPC_URL",
    }
    PUBLIC_RPC = "chain.public_rpc", Warning, "Toolcrib networks" {
        "a shared public node is used",
        "The built-in node is free, limited in rate, and sees what you ask for. It can also answer wrongly, and a single node is taken at its word.",
        "pass --rpc-url or set RPC_URL to a node that you trust",
    }
    RPC_URL = "chain.rpc_url", Error, "Toolcrib networks" {
        "the URL of a node cannot be used",
        "A node is reached over https, or over http on this machine and on networks that you run yourself.",
        "write a complete URL such as https://node.example/key",
    }
    RPC_UNREACHABLE = "chain.rpc_unreachable", Error, "JSON-RPC" {
        "no node answered",
        "Every URL was tried, with pauses between the attempts. Nothing is concluded about the tool.",
        "check the network connection and the URL given with --rpc-url or RPC_URL",
    }
    RPC_TIMEOUT = "chain.rpc_timeout", Error, "JSON-RPC" {
        "the node did not answer in time",
        "The connection stood, but no complete answer came before the deadline.",
        "try again, or use another node",
    }
    RPC_RATE_LIMITED = "chain.rpc_rate_limited", Error, "JSON-RPC" {
        "the node refuses because of too many requests",
        "Public nodes allow few requests in a second. Waiting between attempts was not enough.",
        "wait, or use a node with a higher limit",
    }
    RPC_ANSWER = "chain.rpc_answer", Error, "JSON-RPC" {
        "the node's answer cannot be read",
        "The bytes are not the JSON-RPC answer to what was asked. A proxy, a captive portal or a wrong URL answers so.",
        "check that the URL is that of an Ethereum JSON-RPC node",
    }
    RPC_ANSWER_TOO_LARGE = "chain.rpc_answer_too_large", Error, "Toolcrib limits" {
        "the node's answer is larger than allowed",
        "Answers are counted while they are read, so that a hostile contract or node cannot fill the memory.",
        "ask for less at once, such as a shorter range of blocks",
    }
    RPC_REFUSED = "chain.rpc_refused", Error, "JSON-RPC" {
        "the node answered with an error",
        "The node understood the request and refused it. Its own words are in the message.",
        "read the node's message; another node may support what this one does not",
    }
    WRONG_CHAIN = "chain.wrong_chain", Error, "Toolcrib networks" {
        "the node is on another chain",
        "The node's chain number differs from the network that was asked for. Reading there would answer about another tool, and signing there would spend on another chain.",
        "give the URL of a node of the network that you named",
    }
    NO_QUORUM = "chain.no_quorum", Error, "Toolcrib networks" {
        "the nodes do not agree",
        "A quorum read needs the same answer from a given number of nodes. They differed, or too few answered; a node may lag behind or lie.",
        "try again after a block, and replace the node that keeps differing",
    }
    REORG = "chain.reorg", Error, "JSON-RPC" {
        "the block was replaced between reads",
        "Reads that belong together are made at one block, by its hash. The chain replaced that block before all of them were made (a reorg), or the node gives one block several hashes, and a second try met the same. Nothing is concluded from a mixture of two chains.",
        "try again after a few blocks, or read the finalized block",
    }
    NO_REGISTRY = "chain.no_registry", Error, "ERC-8257 Registry Deployment" {
        "no registry is known on this network",
        "The table lists no tool registry for this network.",
        "name the address of the registry",
    }
    OTHER_CODE = "chain.other_code", Error, "Toolcrib contracts" {
        "there is other code at the address of a contract",
        "Addresses of the contracts follow from their code, so no other code can be there on an honest chain. The node lies, or the chain is a local one whose code was replaced.",
        "ask another node; do not use the contracts of this chain",
    }
    NO_FACTORY = "chain.no_factory", Error, "Toolcrib contracts" {
        "the deployment factory is missing on this chain",
        "Contracts get the same address everywhere because one factory deploys them. On this chain nobody has put it in its place yet.",
        "deploy the factory first; contracts/deployments.json has the transaction that does it",
    }
    NOT_DEPLOYED = "chain.not_deployed", Error, "Toolcrib contracts" {
        "a contract did not come to be at its address",
        "The factory took the transaction, but there is no code afterwards. The chain may not run this version of the EVM.",
        "look at the transaction on a block explorer",
    }
    NOT_A_REGISTRY = "chain.not_a_registry", Error, "ERC-8257 §9" {
        "the address is not a tool registry",
        "There is no code at the address, or the contract does not answer as ERC-8257 registries do.",
        "check the address and the network",
    }
    REGISTRY_CODE = "chain.registry_code", Error, "ERC-8257 Registry Deployment" {
        "the registry's code is not the pinned one",
        "The hash of the bytecode differs from the one that was pinned. The contract was replaced, or the address or network is wrong.",
        "do not use this registry until the difference is explained",
    }
    REGISTRY_PROXY = "chain.registry_proxy", Warning, "ERC-8257 Registry Deployment" {
        "the registry is a proxy",
        "Whoever controls the proxy can replace the code, and with it every entry. Registries are meant to be deployed without one.",
        "prefer the registry of the built-in table",
    }
    REGISTRY_INTERFACE = "chain.registry_interface", Warning, "ERC-8257 §9" {
        "the registry does not claim the interface of ERC-8257",
        "It answers, but does not say by ERC-165 that it has interface 0xf1dc8075. A registry with other rules, such as one that checks predicates again and again, publishes an id of its own; what is known about tool registries may not hold there.",
        "check the address, or read the rules of that registry",
    }
    TOOL_NOT_FOUND = "chain.tool_not_found", Error, "ERC-8257 IToolRegistry" {
        "no tool was ever registered under this id",
        "Ids are given from 1 upwards and are never reused.",
        "check the id, the registry address and the network",
    }
    TOOL_DEREGISTERED = "chain.tool_deregistered", Error, "ERC-8257 IToolRegistry" {
        "the tool was removed by its creator",
        "Removal is final: the id is never used again.",
        "look for a new registration by the same creator",
    }
    NOT_CREATOR = "chain.not_creator", Error, "ERC-8257 IToolRegistry" {
        "only the tool's creator may do this",
        "The account that registered the tool is its creator for good. The transaction would fail and cost gas.",
        "use the wallet that registered the tool",
    }
    URI_REFUSED = "chain.uri_refused", Error, "ERC-8257 Metadata URI Length Cap" {
        "the registry refuses the metadata URI",
        "The URI is empty or longer than 2,048 bytes of UTF-8; a registry may have further rules.",
        "shorten the URI",
    }
    HASH_REFUSED = "chain.hash_refused", Error, "ERC-8257 IToolRegistry" {
        "the registry refuses the manifest hash",
        "A hash of zero would say that no manifest is committed to.",
        "register the hash that `toolcrib hash` prints",
    }
    PREDICATE_REFUSED = "chain.predicate_refused", Error, "ERC-8257 Predicate Validation at Registration" {
        "the registry refuses the access predicate",
        "The contract speaks ERC-165 but does not say that it is an access predicate.",
        "check the address; a predicate answers true for interface 0xbdf9dc18",
    }
    REVERTED = "chain.reverted", Error, "EVM" {
        "the contract refused the call",
        "The call reverted. What the contract said is in the message, as text or as raw bytes.",
        "read the reason; `--dry-run` repeats the call without spending",
    }
    EVENT_MALFORMED = "chain.event_malformed", Error, "ERC-8257 IToolRegistry" {
        "a log of the registry cannot be decoded",
        "The log carries the topic of a registry event but not its layout. The address is not that of a conforming registry.",
        "check the registry address",
    }
    NO_FUNDS = "chain.no_funds", Error, "JSON-RPC" {
        "the account cannot pay for the transaction",
        "Gas is paid in the chain's own currency; the balance does not cover the limit at the offered price and the value sent.",
        "send the account some of the chain's currency",
    }
    NONCE_TOO_LOW = "chain.nonce_too_low", Error, "JSON-RPC" {
        "the transaction's number was already used",
        "Another transaction of the same account was mined in the meantime, perhaps from another program. Nothing was sent.",
        "run the command again; it takes the next number",
    }
    UNDERPRICED = "chain.underpriced", Error, "JSON-RPC" {
        "the offered fee is too low",
        "The node keeps the transaction out of its pool, or a pending one with the same number offers more.",
        "wait until the pending transaction is mined, or raise the fee",
    }
    REPLACED = "chain.replaced", Error, "JSON-RPC" {
        "another transaction took this one's place",
        "The account's number was used up by a different transaction, so this one can never be mined.",
        "look at the account's last transaction, then run the command again",
    }
    NOT_MINED = "chain.not_mined", Error, "JSON-RPC" {
        "the transaction was not mined in time",
        "It was sent and may still be mined later. Sending it again as it is does no harm, because its number is the same.",
        "look the hash up on a block explorer, and resume the command afterwards",
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
        "Every signature has a twin with the other s. Tokens refuse the upper one, and taking both would let one payment pass as two.",
        "replace s by the order of the curve minus s, and flip v",
    }
    SIGNATURE_RANGE = "chain.signature_range", Error, "SEC 1 §4.1.4" {
        "the signature's r or s is out of range",
        "Both are at least 1 and below the order of the curve.",
        "sign again",
    }
    SIGNATURE_UNRECOVERABLE = "chain.signature_unrecoverable", Error, "SEC 1 §4.1.6" {
        "the signature belongs to no key",
        "There is no point on the curve with this r, so nobody made this signature.",
        "sign again",
    }
    SIGNATURE_WRONG_SIGNER = "chain.signature_wrong_signer", Error, "EIP-712" {
        "the signature was made by another account, or over other data",
        "Recovery yields another address than the one that is claimed. A different chain number, contract, token name or field gives this too.",
        "compare every signed field with what is checked",
    }
    SIGNATURE_UNDEPLOYED = "chain.signature_erc6492", Error, "ERC-6492" {
        "signatures of accounts that are not deployed are refused here",
        "Such a signature can only be checked by a node that simulates the deployment of the account. Here no node was named for that.",
        "deploy the account first, or sign with a key; operators: name a node with --contract-accounts",
    }
    SIGNATURE_WRAPPER = "chain.signature_wrapper", Error, "ERC-6492" {
        "the ERC-6492 wrapper of the signature cannot be read",
        "The bytes before the suffix must be the ABI encoding of a factory, its calldata and one signature, without a second wrapper inside. Other encodings of the same are refused, so that each signature has one spelling.",
        "wrap the signature once, with an ABI encoder",
    }
    NOT_DEPLOYABLE = "chain.account_not_deployable", Error, "ERC-6492" {
        "the factory call in the signature does not deploy the account",
        "The account has no code. The call that the signature brings with it was simulated: it fails, runs out of gas, or leaves no contract at the account's address.",
        "compare factory, calldata and chain with the account's address; deploy the account first if its factory needs more than a plain call",
    }
    CONTRACT_SIGNATURE = "chain.contract_signature", Error, "ERC-1271" {
        "the account's contract does not accept the signature",
        "An account with code decides by itself which signatures are valid; it did not answer with the agreed value.",
        "sign with a key that the account accepts",
    }
    DOMAIN_MISMATCH = "chain.domain_mismatch", Error, "EIP-712" {
        "the token's domain is not the pinned one",
        "The token's DOMAIN_SEPARATOR differs from the one computed from the built-in name and version, so signatures made here would not be accepted there.",
        "do not pay in this token until the table is corrected",
    }
}
