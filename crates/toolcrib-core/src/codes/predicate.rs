//! Codes of access predicates: what was learnt about one, or why nothing was.

super::codes! {
    DENIED = "predicate.denied", Error, "ERC-8257 IToolRegistry" {
        "the account does not qualify",
        "The predicate answered, and the answer is no.",
        "read the requirements, meet them, and ask again",
    }
    MALFUNCTION = "predicate.malfunction", Error, "ERC-8257 IToolRegistry" {
        "the predicate does not work",
        "It reverted, ran out of gas, or gave an answer that is not a boolean. That is neither a yes nor a no; the fault lies with the tool, not with the account.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    NO_CODE = "predicate.no_code", Warning, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate is not deployed yet",
        "There is no code at its address. Nobody has access until there is, and nobody can tell what the code will ask for.",
        "wait for the deployment; creators deploy first and register afterwards",
    }
    NOT_ADVERTISED = "predicate.not_advertised", Warning, "ERC-8257 Predicate Validation at Registration" {
        "the contract does not say that it is a predicate",
        "It does not speak ERC-165. Registries share a function selector with predicates, so a wrong address cannot be told from a right one.",
        "choose a predicate that answers true for interface 0xbdf9dc18",
    }
    NOT_A_PREDICATE = "predicate.not_a_predicate", Error, "ERC-8257 Predicate Validation at Registration" {
        "the contract says that it is something else",
        "It speaks ERC-165 and denies being an access predicate. Registries refuse such an address.",
        "check the address",
    }
    OTHER_REGISTRY = "predicate.other_registry", Error, "Toolcrib networks" {
        "the predicate serves another registry",
        "Its REGISTRY() is not the registry of the tool. Tool ids start at 1 in every registry, so the predicate would apply the settings of an unrelated tool, or refuse to be configured. Nothing was signed.",
        "use the predicate that was deployed for this registry: the network's entry in the settings names it, or --predicate does",
    }
    UNBOUND_PROOF = "predicate.unbound_proof", Error, "ERC-8257 Concrete AccessProof Pattern" {
        "the predicate checks proofs and is not bound to a registry",
        "The signed struct names a tool id and no registry, and ids start at 1 in every registry. A proof for a predicate without REGISTRY() can be replayed to the tool with the same id in another registry.",
        "use an AccessProofPredicate that is deployed for the registry of the tool",
    }
    PROXY = "predicate.is_proxy", Warning, "ERC-8257 Predicate Upgradeability" {
        "the predicate is a proxy",
        "Whoever controls it can change the rules of access at any time.",
        "treat its requirements as those of today, and watch for upgrades",
    }
    CODE_CHANGED = "predicate.code_changed", Warning, "ERC-8257 Predicate Upgradeability; Zero-Code Access Predicates" {
        "the code of the predicate is not the one of before",
        "The address is the same and other rules may apply. Code changes when it is deployed late, destroyed and deployed again, or delegated.",
        "look at the requirements again, and trust nothing that was known about the old code",
    }
    UPGRADED = "predicate.upgraded", Warning, "ERC-8257 Predicate Upgradeability" {
        "the predicate was upgraded",
        "It is a proxy, and whoever controls it put another implementation behind it.",
        "look at the requirements again, and trust nothing that was known about the old code",
    }
    COLLECTION_NO_CODE = "predicate.collection_no_code", Warning, "ERC-8257 Marker Interfaces" {
        "a collection that the predicate asks for is not on this chain",
        "There is no contract at its address here. A predicate reads only its own chain, so nobody can meet the requirement; the collection is probably on another one.",
        "creators register the tool on the chain of the collection, or use a predicate that knows about it in another way",
    }
    INTROSPECTION_FAILED = "predicate.introspection_failed", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate does not tell its requirements",
        "getRequirements reverted, ran out of gas, or returned bytes that do not decode. Access is decided by tryHasAccess alone and may still be granted.",
        "ask the tool's creator what is required",
    }
    INTROSPECTION_OVER_LIMIT = "predicate.introspection_over_limit", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate's list of requirements is too large",
        "Readers stop at 256 entries, 4,096 bytes of data and 256 bytes of label for each. This is no denial; access is decided by tryHasAccess alone.",
        "ask the tool's creator what is required",
    }
    INCOMPLETE = "predicate.incomplete", Warning, "ERC-8257 getRequirements Is Advisory" {
        "the list of requirements is incomplete",
        "A composite could not read one of its parts and says so with an entry of kind 0x00000000. Meeting the others may not be enough.",
        "confirm with tryHasAccess before relying on the list",
    }
    UNDECODABLE = "predicate.undecodable", Warning, "ERC-8257 Marker Interfaces" {
        "a requirement's data does not have the layout of its kind",
        "The kind is known but its bytes are of another length or have stray bits, so they are shown raw.",
        "ask the tool's creator what is required",
    }
    NAME_MISSING = "predicate.name_missing", Warning, "ERC-8257 IAccessPredicate" {
        "the predicate has no usable name",
        "name() is mandatory, not empty, and read up to 256 bytes. A longer name counts as none.",
        "prefer predicates that name themselves",
    }
    REVERTED = "predicate.reverted", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate reverts when it is asked for access",
        "Asked directly, as the registry asks it, the predicate refused to answer; its reason, if it gave one, is in the message. The registry can only say that something went wrong.",
        "read the reason; a proof in --data may be missing or malformed, otherwise tell the tool's creator",
    }
    OUT_OF_GAS = "predicate.out_of_gas", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate burns all gas that it gets",
        "It did not answer with the gas that registries give, nor with fifty times as much.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    NEEDS_MORE_GAS = "predicate.needs_more_gas", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate answers only with more gas than the registry gives",
        "It works when it is asked directly with a large budget, but not within the 200,000 gas of the registry. Usually too many collections or tokens are configured, or the chain charges more than Ethereum for first access to accounts and slots. Accounts that qualify get no access.",
        "configure fewer collections or tokens, or use a predicate whose limits are measured against the cap",
    }
    TERM_NEEDS_MORE_GAS = "predicate.term_needs_more_gas", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "a term of the composite answers only with more gas than the composite gives",
        "A composite shares the 200,000 gas of the registry among its terms. The term works when it is asked directly with more; usually it reads too many tokens, or tokens behind proxies on a chain where first access to accounts and slots is expensive.",
        "configure fewer tokens for the term, or use it without the composite, where it has the whole 200,000 gas",
    }
    GAS_ON_CHAIN = "predicate.gas_on_chain", Warning, "ERC-8257 Predicate Gas Cost and Composition" {
        "the gate may need more gas than the registry gives on this chain",
        "A registry gives its predicate 200,000 gas. This chain charges more than Ethereum for first access to accounts and storage slots, and by the measured number of accesses the last entry of this gate may not be reached. Accounts that qualify would get a malfunction.",
        "configure fewer collections or tokens, or tokens that are not behind proxies; `toolcrib predicate check` shows whether a check runs out of gas",
    }
    HALTED = "predicate.halted", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate does something that the machine forbids",
        "An invalid instruction, a jump to nowhere, or a write during a question that may not change anything. The node's words are in the message.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    ANSWER_EMPTY = "predicate.answer_empty", Error, "ERC-8257 IToolRegistry" {
        "the predicate answers with nothing",
        "There is code, and it returned no bytes. A contract without a function for this question, but with one for all others, does so.",
        "check that the address is that of a predicate",
    }
    ANSWER_SHORT = "predicate.answer_short", Error, "ERC-8257 IToolRegistry" {
        "the predicate's answer is shorter than a boolean",
        "A boolean is exactly 32 bytes. Registries do not guess at the rest.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    ANSWER_LONG = "predicate.answer_long", Error, "ERC-8257 IToolRegistry" {
        "the predicate's answer is longer than a boolean",
        "A boolean is exactly 32 bytes. Registries copy one word and look at the size of the whole: even a single byte more makes it no answer, whatever the first word says.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    ANSWER_HUGE = "predicate.answer_huge", Error, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate answers with a flood of bytes",
        "The answer, or the reason of a revert, is over 4,096 bytes where 32 are due, perhaps so long that it does not fit the gas of a registry. Readers stop at the limit.",
        "treat the predicate as hostile",
    }
    ANSWER_NOT_BOOL = "predicate.answer_not_bool", Error, "ERC-8257 IToolRegistry" {
        "the predicate's answer is neither 0 nor 1",
        "It is one word, but not a boolean. A yes that is not exactly 1 is no yes.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    REENTERED = "predicate.reentered", Warning, "ERC-8257 Predicate Reentrancy" {
        "the predicate asks the registry about access again",
        "Its answer turns when the registry's answer turns. Asked about the tool that it guards, it goes round in circles until the gas is gone, and the no that comes out says nothing about the account.",
        "tell the tool's creator; a predicate must decide by itself",
    }
    INCONSISTENT = "predicate.inconsistent", Warning, "ERC-8257 IToolRegistry" {
        "the predicate answers directly, but not through the registry",
        "Asked in the registry's name and with its usual gas it gives a proper answer, while the registry reports a malfunction. The registry may have another cap on gas, or the state changed in between. The registry decides.",
        "ask again; if it stays so, tell the tool's creator",
    }
    LIES_ABOUT_ERC165 = "predicate.lies_about_erc165", Warning, "ERC-165; ERC-8257 Predicate Validation at Registration" {
        "the contract claims every interface",
        "ERC-165 lets nobody claim 0xffffffff, and this contract does. Its claim to be a predicate is worth nothing.",
        "treat the predicate as one that does not say what it is",
    }
    REQUIREMENTS_REVERTED = "predicate.requirements_reverted", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "getRequirements reverts",
        "The predicate refuses to tell what it asks for. Access is decided by tryHasAccess alone and may still be granted.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_OUT_OF_GAS = "predicate.requirements_out_of_gas", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "getRequirements runs out of gas",
        "Readers give 10,000,000 gas, which is enough for the largest honest composite. Access is decided by tryHasAccess alone.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_HALTED = "predicate.requirements_halted", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "getRequirements does something that the machine forbids",
        "An invalid instruction, a jump to nowhere or a write. Access is decided by tryHasAccess alone.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_MALFORMED = "predicate.requirements_malformed", Warning, "ERC-8257 IAccessPredicate" {
        "the answer of getRequirements does not decode",
        "Offsets, lengths, the logic or the encoding of a label are not those of a list of requirements. Nothing is guessed.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_HUGE = "predicate.requirements_huge", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the answer of getRequirements is longer than any list may be",
        "It is over 1,163,360 bytes, the size of 256 entries that each are as large as allowed.",
        "treat the predicate as hostile; access is decided by tryHasAccess alone",
    }
    TOO_MANY_REQUIREMENTS = "predicate.too_many_requirements", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate lists more than 256 requirements",
        "Readers stop at 256 entries, and believe no count before they see the bytes.",
        "ask the tool's creator what is required",
    }
    DATA_TOO_LONG = "predicate.data_too_long", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "a requirement's data is longer than 4,096 bytes",
        "Readers stop there, and believe no length before they see the bytes.",
        "ask the tool's creator what is required",
    }
    LABEL_TOO_LONG = "predicate.label_too_long", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "a requirement's label is longer than 256 bytes",
        "Readers stop there, and believe no length before they see the bytes.",
        "ask the tool's creator what is required",
    }
    KNOWN_FAULT = "predicate.known_fault", Warning, "Toolcrib measurements" {
        "the predicate has a known fault",
        "This deployment accepts configurations that cannot answer within the gas that it gets. The numbers are in the message.",
        "keep to the sizes that the message names, or use a predicate that refuses larger ones",
    }
    PIN_CODE = "predicate.pin_code", Error, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate's code is not the pinned one",
        "The hash of the code at the address differs from the pin, or there is no code.",
        "do not rely on this predicate until the difference is explained",
    }
    PIN_STORAGE = "predicate.pin_storage", Error, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate's storage is not the pinned one",
        "The code is the pinned one, but a word of storage that decides how it behaves is another.",
        "look at what was changed, then pin again",
    }
    PIN_INIT_CODE = "predicate.pin_init_code", Error, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate was not made by the pinned init code",
        "Deployer, salt and init-code hash lead to another address (EIP-1014), so this contract was made by something else.",
        "check the address, the salt and the hash",
    }
    PIN_WEAK = "predicate.pin_weak", Warning, "ERC-8257 Zero-Code Access Predicates" {
        "a hash of the running code alone pins nothing",
        "Two contracts with the same code and different storage let in different people, and a proxy hands on to code that was not looked at.",
        "pin the init code too, or the words of storage that matter",
    }
    DATA_SECRET = "predicate.data_secret", Error, "ERC-8257 Sensitive Data in the data Parameter" {
        "the data for the access check looks like a secret",
        "Nodes, and everybody who reads a transaction, see these bytes. Keys, passwords, tokens and cookies never go there.",
        "show such things to the tool's own endpoint over HTTPS",
    }
}
