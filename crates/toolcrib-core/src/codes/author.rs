//! Codes of registering and changing tools.

super::codes! {
    CREATOR_NOT_SIGNER = "author.creator_not_signer", Error, check 4, "ERC-8257 §7 Registration-Time Enforcement" {
        "the manifest names another creator than the account that signs",
        "The registry records whoever registers. Readers compare that with creatorAddress, so this registration could never verify.",
        "sign with the account that the manifest names, or change creatorAddress",
    }
    JOURNAL = "author.journal", Error, "Toolcrib" {
        "the journal of unfinished work cannot be used",
        "Nothing is signed that could not be written down first: a crash would leave nobody knowing what was sent.",
        "make the folder writable, or name another with --state-dir",
    }
    DECLINED = "author.declined", Error, "Toolcrib" {
        "nothing was signed, because the answer was no",
        "Everything that spends gas asks first.",
        "answer yes, or give --yes",
    }
    OTHER_WORK = "author.other_work", Error, "Toolcrib" {
        "the unfinished work belongs to another chain, registry or signer",
        "Work is finished only where it was begun and by who began it; otherwise a tool could be registered twice.",
        "use the network and the wallet that the message names",
    }
    NOTHING_TO_RESUME = "author.nothing_to_resume", Error, "Toolcrib" {
        "there is no unfinished work of this kind",
        "--resume only goes on with what was begun with the same arguments, on the same chain and by the same signer. Finished work is not done again.",
        "leave --resume out to begin",
    }
    NOT_PAUSED = "author.not_paused", Error, "Toolcrib" {
        "the tool is not paused, or was not paused from here",
        "Resuming gives a tool back the predicate that it had when it was paused. Which one that was is kept where `pause` ran, and counts only while the tool still has the predicate that `pause` gave it.",
        "look at the tool with `toolcrib inspect`; `predicate use` names a predicate by its address",
    }
    NO_REGISTRATION = "author.no_registration", Error, "ERC-8257 §1 Tool Registry" {
        "the transaction registered no tool",
        "The transaction succeeded, but the contract did not announce a tool as a registry does.",
        "check the address of the registry",
    }
    NO_TOOL = "author.no_tool", Error, "Toolcrib" {
        "no tool was named",
        "Everything but a registration changes a tool that has an id.",
        "name the tool, such as eip155:8453/erc8257:0x…/42",
    }
    NOTHING_TO_CONFIGURE = "author.nothing_to_configure", Error, "Toolcrib" {
        "the gate has nothing to configure",
        "Open tools and predicates that are configured elsewhere take no configuration.",
        "leave the configuration out",
    }
    GATE_TOO_LARGE = "author.gate_too_large", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the gate is larger than its predicate takes",
        "The predicate refuses more collections, tokens, values or terms than can answer within the registry's gas. Its own limits are read from the chain where it offers them.",
        "leave some out, or spread them over several tools",
    }
    NEVER_GRANTS = "author.never_grants", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the gate could never grant access",
        "A composite hands the same data to all its terms. Two terms that must both grant and expect different proofs there, such as a signature and a token id, have no data that satisfies both.",
        "leave one of them out, or accept any of them (--any-of)",
    }
    NOT_SERVED = "author.not_served", Error, check 1, "ERC-8257 §7 Registration-Time Enforcement" {
        "the manifest cannot be had from its URL",
        "Readers fetch the manifest from the URL that is registered. What they cannot fetch they do not verify, so gas spent on it is lost.",
        "deploy the manifest first; without a way to it from here, --skip-fetch registers unseen",
    }
    SERVED_DIFFERS = "author.served_differs", Error, check 3, "ERC-8257 §7 Registration-Time Enforcement" {
        "the URL serves another manifest than the file",
        "The hash of the file would be committed, and readers would compare it with what is served. They differ, so this registration could not verify.",
        "serve the file as it is, or leave the file out to commit what is served",
    }
    SERVED_STALE = "author.served_stale", Error, check 3, "ERC-8257 §8 Manifest Hash Commitment" {
        "the URL still serves the manifest that is committed already",
        "The new file is not deployed yet, or a cache still holds the old one. Committed now, the tool would not verify until the new one is served.",
        "deploy the new file first, or let publish wait for it with --wait",
    }
    DUPLICATE = "author.duplicate", Error, "Toolcrib" {
        "this account registered the URL more than once",
        "Which of the tools is meant cannot be told from the URL, and another registration would make it worse.",
        "name the tool with --tool, and remove the others with `toolcrib deregister`",
    }
    GATE_DIFFERS = "author.gate_differs", Error, "Toolcrib" {
        "the tool is registered behind another gate than the one given",
        "Publishing commits a manifest. It does not change who may use a tool that is registered, and must not seem to.",
        "change the gate with `toolcrib predicate set`, or leave the gate out",
    }
    BUSY = "author.busy", Error, "Toolcrib" {
        "another process is doing the same work",
        "Two processes that register the same tool at once could register it twice.",
        "wait until the other one ends",
    }
}
