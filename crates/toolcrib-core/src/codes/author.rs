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
}
