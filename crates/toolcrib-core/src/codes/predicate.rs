//! Codes of access predicates: what was found out about a predicate, or why nothing was.

super::codes! {
    DENIED = "predicate.denied", Error, "ERC-8257 IToolRegistry" {
        "access denied: the account does not meet the requirements",
        "The predicate returned false for the account.",
        "read the requirements, meet them, and check again",
    }
    MALFUNCTION = "predicate.malfunction", Error, "ERC-8257 IToolRegistry" {
        "the predicate failed",
        "It reverted, ran out of gas, or returned something other than a boolean. That is neither a yes nor a no. The tool is the cause, not the account.",
        "tell the tool's creator; access is denied until the predicate is replaced",
    }
    NO_CODE = "predicate.no_code", Warning, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate is not deployed yet",
        "There is no code at its address. Until it is deployed, access is denied to everyone, and its requirements are unknown.",
        "wait for the deployment; creators: deploy the predicate before registering",
    }
    NOT_ADVERTISED = "predicate.not_advertised", Warning, "ERC-8257 Predicate Validation at Registration" {
        "the contract does not declare that it is a predicate",
        "It does not support ERC-165. Registries and predicates share a function selector, so without ERC-165 a wrong address cannot be detected.",
        "choose a predicate that returns true for interface 0xbdf9dc18",
    }
    NOT_A_PREDICATE = "predicate.not_a_predicate", Error, "ERC-8257 Predicate Validation at Registration" {
        "the contract is not a predicate",
        "It supports ERC-165 and does not claim the access predicate interface. Registries refuse such an address.",
        "check the address",
    }
    OTHER_REGISTRY = "predicate.other_registry", Error, "Toolcrib networks" {
        "the predicate belongs to another registry",
        "Its REGISTRY() is not the registry of the tool. Tool ids start at 1 in every registry, so the predicate would apply the settings of an unrelated tool, or refuse to be configured. Nothing was signed.",
        "use the predicate that was deployed for this registry: the network's entry in the settings names it, or --predicate does",
    }
    UNBOUND_PROOF = "predicate.unbound_proof", Error, "ERC-8257 Concrete AccessProof Pattern" {
        "the predicate checks proofs and is not bound to a registry",
        "The signed struct contains a tool id but no registry, and ids start at 1 in every registry. A proof for a predicate without REGISTRY() can be replayed to the tool with the same id in another registry.",
        "use an AccessProofPredicate that is deployed for the registry of the tool",
    }
    PROXY = "predicate.is_proxy", Warning, "ERC-8257 Predicate Upgradeability" {
        "the predicate is a proxy",
        "Its admin can change the access rules at any time.",
        "assume that its requirements can change, and watch for upgrades",
    }
    CODE_CHANGED = "predicate.code_changed", Warning, "ERC-8257 Predicate Upgradeability; Zero-Code Access Predicates" {
        "the code of the predicate changed",
        "The address is the same, but other rules may apply. Code changes when a contract is deployed later, destroyed and deployed again, or when an account delegates to code (EIP-7702).",
        "review the requirements again, and discard what you know about the old code",
    }
    UPGRADED = "predicate.upgraded", Warning, "ERC-8257 Predicate Upgradeability" {
        "the predicate was upgraded",
        "It is a proxy, and its admin replaced the implementation.",
        "review the requirements again, and discard what you know about the old code",
    }
    COLLECTION_NO_CODE = "predicate.collection_no_code", Warning, "ERC-8257 Marker Interfaces" {
        "a required collection does not exist on this chain",
        "There is no contract at its address. A predicate reads only its own chain, so the requirement cannot be met. The collection is probably on another chain.",
        "creators: register the tool on the chain of the collection, or use a predicate that learns holdings in another way",
    }
    INTROSPECTION_FAILED = "predicate.introspection_failed", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the requirements of the predicate cannot be read",
        "getRequirements reverted, ran out of gas, or returned bytes that do not decode. Only tryHasAccess decides access, and may still grant it.",
        "ask the tool's creator what is required",
    }
    INTROSPECTION_OVER_LIMIT = "predicate.introspection_over_limit", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate's list of requirements is too large",
        "Readers accept at most 256 entries, each with 4,096 bytes of data and a label of 256 bytes. This does not deny access: only tryHasAccess decides.",
        "ask the tool's creator what is required",
    }
    INCOMPLETE = "predicate.incomplete", Warning, "ERC-8257 getRequirements Is Advisory" {
        "the list of requirements is incomplete",
        "A composite could not read one of its terms and reports an entry of kind 0x00000000 for it. Meeting the other requirements may not be enough.",
        "confirm with tryHasAccess before relying on the list",
    }
    UNDECODABLE = "predicate.undecodable", Warning, "ERC-8257 Marker Interfaces" {
        "a requirement's data does not have the layout of its kind",
        "The kind is known, but its data has another length or stray bits, so it is shown as raw bytes.",
        "ask the tool's creator what is required",
    }
    NAME_MISSING = "predicate.name_missing", Warning, "ERC-8257 IAccessPredicate" {
        "the predicate has no usable name",
        "name() is mandatory, not empty, and read up to 256 bytes. A longer name counts as none.",
        "prefer predicates with a name",
    }
    REVERTED = "predicate.reverted", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate reverts on the access check",
        "A direct call with the same parameters as the registry's call reverted; the message contains the revert reason, if any. The registry reports only a malfunction.",
        "read the reason; a proof in --data may be missing or malformed, otherwise tell the tool's creator",
    }
    OUT_OF_GAS = "predicate.out_of_gas", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate consumes all gas that it is given",
        "It did not return with the gas limit of registries, nor with fifty times as much.",
        "tell the tool's creator; access is denied until the predicate is replaced",
    }
    NEEDS_MORE_GAS = "predicate.needs_more_gas", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate answers only with more gas than the registry gives",
        "It works in a direct call with a large gas limit, but not within the registry's 200,000 gas. Usually too many collections or tokens are configured, or the chain charges more than Ethereum for the first access to accounts and storage slots. Accounts that qualify are denied.",
        "configure fewer collections or tokens, or use a predicate whose limits are measured against the gas limit",
    }
    TERM_NEEDS_MORE_GAS = "predicate.term_needs_more_gas", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "a term of the composite answers only with more gas than the composite gives",
        "A composite shares the registry's 200,000 gas among its terms. The term works in a direct call with more gas. Usually it reads too many tokens, or tokens behind proxies on a chain where the first access to accounts and storage slots is expensive.",
        "configure fewer tokens for the term, or use it without the composite, where it has the full 200,000 gas",
    }
    GAS_ON_CHAIN = "predicate.gas_on_chain", Warning, "ERC-8257 Predicate Gas Cost and Composition" {
        "the gate may need more gas than the registry gives on this chain",
        "A registry gives its predicate 200,000 gas. This chain charges more than Ethereum for the first access to accounts and storage slots. By the measured number of accesses, the gas may not suffice for the last entry of this gate. The check would then fail for accounts that qualify.",
        "configure fewer collections or tokens, or tokens that are not behind proxies; `toolcrib predicate check` shows whether a check runs out of gas",
    }
    HALTED = "predicate.halted", Error, "ERC-8257 Predicate Gas Cost and Composition" {
        "the predicate executes a forbidden EVM operation",
        "It hits an invalid opcode, an invalid jump destination, or a state change in a static call. The message contains the node's error.",
        "tell the tool's creator; access is denied until the predicate is replaced",
    }
    ANSWER_EMPTY = "predicate.answer_empty", Error, "ERC-8257 IToolRegistry" {
        "the predicate returns no data",
        "There is code at the address, but the call returned no bytes. A contract with a fallback function but without the called function does this.",
        "check that the address belongs to a predicate",
    }
    ANSWER_SHORT = "predicate.answer_short", Error, "ERC-8257 IToolRegistry" {
        "the predicate's return data is shorter than a boolean",
        "A boolean is exactly 32 bytes. Registries do not pad shorter data.",
        "tell the tool's creator; access is denied until the predicate is replaced",
    }
    ANSWER_LONG = "predicate.answer_long", Error, "ERC-8257 IToolRegistry" {
        "the predicate's return data is longer than a boolean",
        "A boolean is exactly 32 bytes. Registries check the size of the return data: with even one extra byte it is a malfunction, whatever the first word is.",
        "tell the tool's creator; access is denied until the predicate is replaced",
    }
    ANSWER_HUGE = "predicate.answer_huge", Error, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate's return data is excessively long",
        "The return data or revert reason exceeds 4,096 bytes where 32 are expected; it may even exhaust the registry's gas. Readers stop at the limit.",
        "treat the predicate as hostile",
    }
    ANSWER_NOT_BOOL = "predicate.answer_not_bool", Error, "ERC-8257 IToolRegistry" {
        "the predicate's return value is neither 0 nor 1",
        "It is one word, but not a boolean. Only exactly 1 grants access.",
        "tell the tool's creator; access is denied until the predicate is replaced",
    }
    REENTERED = "predicate.reentered", Warning, "ERC-8257 Predicate Reentrancy" {
        "the predicate calls the registry's access check again",
        "Its result depends on the registry's result, which depends on the predicate: the calls recurse until the gas runs out. The resulting denial proves nothing about the account.",
        "tell the tool's creator; a predicate must not call back into the registry's access check",
    }
    INCONSISTENT = "predicate.inconsistent", Warning, "ERC-8257 IToolRegistry" {
        "the predicate works in a direct call, but not through the registry",
        "A call from the registry's address with its usual gas limit returns a boolean, but the registry reports a malfunction. The registry may have another gas limit, or the state changed in between. The registry's result counts.",
        "check again; if it persists, tell the tool's creator",
    }
    LIES_ABOUT_ERC165 = "predicate.lies_about_erc165", Warning, "ERC-165; ERC-8257 Predicate Validation at Registration" {
        "the contract claims every interface",
        "ERC-165 forbids claiming 0xffffffff, and this contract claims it. Its claim to be a predicate is worthless.",
        "treat the contract as one that does not support ERC-165",
    }
    REQUIREMENTS_REVERTED = "predicate.requirements_reverted", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "getRequirements reverts",
        "The requirements of the predicate are unknown. Only tryHasAccess decides access, and may still grant it.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_OUT_OF_GAS = "predicate.requirements_out_of_gas", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "getRequirements runs out of gas",
        "Readers give 10,000,000 gas, which is enough for the largest honest composite. Only tryHasAccess decides access.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_HALTED = "predicate.requirements_halted", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "getRequirements executes a forbidden EVM operation",
        "It hits an invalid opcode, an invalid jump destination or a state change. Only tryHasAccess decides access.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_MALFORMED = "predicate.requirements_malformed", Warning, "ERC-8257 IAccessPredicate" {
        "the return data of getRequirements does not decode",
        "Offsets, lengths, the logic value or the encoding of a label are invalid for a list of requirements. It is not decoded partially.",
        "ask the tool's creator what is required",
    }
    REQUIREMENTS_HUGE = "predicate.requirements_huge", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the return data of getRequirements is too long",
        "It exceeds 1,163,360 bytes, the size of 256 entries of maximum size.",
        "treat the predicate as hostile; only tryHasAccess decides access",
    }
    TOO_MANY_REQUIREMENTS = "predicate.too_many_requirements", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate lists more than 256 requirements",
        "Readers accept at most 256 entries, and do not trust a declared count.",
        "ask the tool's creator what is required",
    }
    DATA_TOO_LONG = "predicate.data_too_long", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "a requirement's data is longer than 4,096 bytes",
        "Readers stop at this limit, and do not trust a declared length.",
        "ask the tool's creator what is required",
    }
    LABEL_TOO_LONG = "predicate.label_too_long", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "a requirement's label is longer than 256 bytes",
        "Readers stop at this limit, and do not trust a declared length.",
        "ask the tool's creator what is required",
    }
    KNOWN_FAULT = "predicate.known_fault", Warning, "Toolcrib measurements" {
        "the predicate has a known defect",
        "This deployment accepts configurations that cannot be evaluated within the gas limit. The numbers are in the message.",
        "stay within the sizes in the message, or use a predicate that refuses larger ones",
    }
    PIN_CODE = "predicate.pin_code", Error, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate's code differs from the pin",
        "The hash of the code at the address differs from the pinned hash, or there is no code.",
        "do not rely on this predicate until the difference is explained",
    }
    PIN_STORAGE = "predicate.pin_storage", Error, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate's storage differs from the pin",
        "The code matches the pin, but a storage slot that controls its behaviour has another value.",
        "review the change, then pin again",
    }
    PIN_INIT_CODE = "predicate.pin_init_code", Error, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate was not deployed from the pinned init code",
        "Deployer, salt and init-code hash give another CREATE2 address (EIP-1014), so this contract was deployed differently.",
        "check the address, the salt and the hash",
    }
    PIN_WEAK = "predicate.pin_weak", Warning, "ERC-8257 Zero-Code Access Predicates" {
        "a hash of the runtime code alone is not a sufficient pin",
        "Two contracts with the same code and different storage can grant access to different accounts, and a proxy delegates to code that was not checked.",
        "also pin the init code, or the relevant storage slots",
    }
    DATA_SECRET = "predicate.data_secret", Error, "ERC-8257 Sensitive Data in the data Parameter" {
        "the data for the access check looks like a secret",
        "RPC nodes, and everyone who reads a transaction, can see these bytes. Never send keys, passwords, tokens or cookies.",
        "send such credentials only to the tool's endpoint over HTTPS",
    }
}
