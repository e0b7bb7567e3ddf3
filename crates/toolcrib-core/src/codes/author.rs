//! Codes of registering and changing tools.

super::codes! {
    CREATOR_NOT_SIGNER = "author.creator_not_signer", Error, check 4, "ERC-8257 §7 Registration-Time Enforcement" {
        "the creator in the manifest is not the signing account",
        "The registry records the sender of the registration as creator. Readers compare it with creatorAddress, so this registration could never verify.",
        "sign with the account that the manifest names, or change creatorAddress",
    }
    JOURNAL = "author.journal", Error, "Toolcrib" {
        "the journal of unfinished operations cannot be used",
        "Every transaction is recorded in the journal before it is signed. Otherwise it would be unknown after a crash what was sent.",
        "make the folder writable, or choose another one with --state-dir",
    }
    DECLINED = "author.declined", Error, "Toolcrib" {
        "nothing was signed: the confirmation was declined",
        "Every command that spends gas asks for confirmation first.",
        "confirm the prompt, or pass --yes",
    }
    OTHER_WORK = "author.other_work", Error, "Toolcrib" {
        "the unfinished operation belongs to another chain, registry or signer",
        "An operation is resumed only on the same chain and registry and with the same signer; otherwise a tool could be registered twice.",
        "use the network and the wallet that the message names",
    }
    NOTHING_TO_RESUME = "author.nothing_to_resume", Error, "Toolcrib" {
        "there is no unfinished operation to resume",
        "--resume continues an operation that was started with the same arguments, on the same chain and by the same signer. Finished operations are not repeated.",
        "leave --resume out to start a new operation",
    }
    NOT_PAUSED = "author.not_paused", Error, "Toolcrib" {
        "the tool is not paused, or was paused elsewhere",
        "Resuming restores the predicate that the tool had before it was paused. That predicate is recorded on the machine where `pause` ran, and is valid only while the tool still has the predicate that `pause` set.",
        "inspect the tool with `toolcrib inspect`, and set a predicate by its address with `toolcrib predicate use`",
    }
    NO_REGISTRATION = "author.no_registration", Error, "ERC-8257 §1 Tool Registry" {
        "the transaction registered no tool",
        "The transaction succeeded, but its receipt has no ToolRegistered log.",
        "check the address of the registry",
    }
    NO_TOOL = "author.no_tool", Error, "Toolcrib" {
        "no tool was named",
        "Every operation except a registration needs the id of a tool.",
        "name the tool, such as eip155:8453/erc8257:0x…/42",
    }
    NOTHING_TO_CONFIGURE = "author.nothing_to_configure", Error, "Toolcrib" {
        "the gate has nothing to configure",
        "Open tools and predicates that are configured elsewhere take no configuration.",
        "leave the configuration out",
    }
    GATE_TOO_LARGE = "author.gate_too_large", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the gate exceeds the limits of its predicate",
        "The predicate limits collections, tokens, values and terms, so that it can answer within the registry's gas. Its limits are read from the chain where it offers them.",
        "remove some, or split them over several tools",
    }
    NEVER_GRANTS = "author.never_grants", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the gate could never grant access",
        "A composite passes the same data to all its terms. Two terms that must both grant access but expect different data, such as a signature and a token id, cannot both be satisfied.",
        "remove one of them, or require only one of them (--any-of)",
    }
    NOT_SERVED = "author.not_served", Error, check 1, "ERC-8257 §7 Registration-Time Enforcement" {
        "the manifest cannot be fetched from its URL",
        "Readers fetch the manifest from the registered URL. If they cannot fetch it, the tool does not verify, and the gas is wasted.",
        "deploy the manifest first; if the URL is not reachable from this machine, register without this check with --skip-fetch",
    }
    SERVED_DIFFERS = "author.served_differs", Error, check 3, "ERC-8257 §7 Registration-Time Enforcement" {
        "the manifest at the URL differs from the file",
        "The hash of the file would be committed, and readers would compare it with the served manifest. They differ, so this registration could not verify.",
        "deploy this file, or leave the file argument out to commit the served manifest",
    }
    SERVED_STALE = "author.served_stale", Error, check 3, "ERC-8257 §8 Manifest Hash Commitment" {
        "the URL still serves the committed manifest",
        "The new file is not deployed yet, or a cache still holds the old one. If its hash were committed now, the tool would not verify until the new file is served.",
        "deploy the new file first, or pass --wait to wait for it",
    }
    DUPLICATE = "author.duplicate", Error, "Toolcrib" {
        "this account registered the URL more than once",
        "The URL does not identify one tool, and another registration would add to the ambiguity.",
        "name the tool with --tool, and remove the others with `toolcrib deregister`",
    }
    GATE_DIFFERS = "author.gate_differs", Error, "Toolcrib" {
        "the tool is registered with another gate",
        "Publishing commits a manifest. It does not change the access rules of a registered tool.",
        "change the gate with `toolcrib predicate set`, or leave the gate out",
    }
    BUSY = "author.busy", Error, "Toolcrib" {
        "another process is running the same operation",
        "Two processes that register the same tool at once could register it twice.",
        "wait until the other process ends",
    }
}
